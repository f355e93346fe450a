//! Kubernetes' `pod-deletion-cost`, written for ReplicaSets so that they give up pods on nodes that go.

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use karpenter_api::options::FeatureGate;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::disruption::{any_number, claim_of, node_with_pod};
use crate::static_capacity::with_gates;
use crate::world::{World, pass};

const COST: &str = "controller.kubernetes.io/pod-deletion-cost";

async fn cost(world: &World, pod: &str) -> Option<String> {
    let pod: Pod = world.pods().get(pod).await.unwrap();
    pod.metadata.annotations.and_then(|annotations| annotations.get(COST).cloned())
}

/// Makes a ReplicaSet the owner of a pod, with a cost somebody else wrote.
async fn adopt(world: &World, pod: &str) {
    let labels = json!({"app": pod});
    let set: ReplicaSet = serde_json::from_value(json!({
        "metadata": {"name": pod},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "app"}]}},
        },
    }))
    .unwrap();
    let sets: Api<ReplicaSet> = Api::namespaced(world.client.clone(), "default");
    // It must exist: the pods of one that does not are garbage.
    let uid = sets.create(&PostParams::default(), &set).await.unwrap().metadata.uid;
    let owner =
        json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": pod, "uid": uid, "controller": true}]);
    let change = json!({"metadata": {"ownerReferences": owner, "annotations": {COST: "7"}}});
    world.pods().patch(pod, &PatchParams::default(), &Patch::Merge(change)).await.unwrap();
}

/// Three nodes with a replica each; the first two could be consolidated, the last never.
async fn three_nodes(world: &World) -> Vec<String> {
    world.set_disruption("general", any_number("Never")).await;
    let mut nodes = Vec::new();
    for pod in ["a", "b", "c"] {
        nodes.push(node_with_pod(world, pod, "200").await);
        adopt(world, pod).await;
    }
    nodes
}

#[tokio::test(start_paused = true)]
async fn replicas_on_nodes_that_go_are_cheapest_and_then_those_on_nodes_likely_to_go() {
    let world = World::new().await;
    let _running = world.start_with(with_gates(&[FeatureGate::PodDeletionCostManagement]));
    let nodes = three_nodes(&world).await;
    pass(180).await;
    for pod in ["a", "b", "c"] {
        assert_eq!(cost(&world, pod).await, None, "a node that stays has no say, and users neither");
    }
    world.annotate_node(&nodes[2], "karpenter.sh/do-not-disrupt", "true").await;
    world.set_disruption("general", any_number("0s")).await;
    pass(180).await;
    let mut costs = [cost(&world, "a").await, cost(&world, "b").await];
    costs.sort();
    assert_eq!(costs, [Some("-1".to_owned()), Some("-2".to_owned())]);
    assert_eq!(cost(&world, "c").await, None);
    // A pod that refuses to leave can be looked at.
    let refusal = Patch::Merge(json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}}));
    world.pods().patch("c", &PatchParams::default(), &refusal).await.unwrap();
    world.claims().delete(&claim_of(&world, &nodes[2]).await, &DeleteParams::default()).await.unwrap();
    pass(120).await;
    assert_eq!(cost(&world, "c").await, Some(i32::MIN.to_string()));
    assert_eq!(world.scraped("karpenter_pod_deletion_cost_nodes_with_pending_annotation_writes", &[]), 0);
    assert!(
        world.scraped("karpenter_pod_deletion_cost_pod_annotation_writes_total", &["result=\"updated\""])
            >= 5
    );
}

#[tokio::test(start_paused = true)]
async fn without_the_gate_costs_are_the_users() {
    let world = World::new().await;
    let _running = world.start();
    three_nodes(&world).await;
    pass(180).await;
    assert_eq!(cost(&world, "a").await.as_deref(), Some("7"));
}
