//! Voluntary disruption, from the look at a quiet node to the end of its machine.

use karpenter_api::NodeClaim;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::world::{World, condition, pass};

/// A cluster with one ready node for a pod of this size, which is bound to it; returns the node's name.
pub(crate) async fn node_with_pod(world: &World, pod: &str, cpu: &str) -> String {
    let before: Vec<String> = names(world).await;
    world.create_pending_pod(pod, cpu).await;
    pass(30).await;
    let node = names(world).await.into_iter().find(|name| !before.contains(name)).expect("a node has joined");
    world.make_ready(&node).await;
    world.bind(pod, &node).await;
    pass(5).await;
    node
}

pub(crate) async fn names(world: &World) -> Vec<String> {
    world.list_nodes().await.into_iter().filter_map(|node| node.metadata.name).collect()
}

pub(crate) async fn remove_pod(world: &World, name: &str) {
    let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    world.pods().delete(name, &now).await.unwrap();
}

pub(crate) async fn is_fenced(world: &World, node: &str) -> bool {
    let taints = world.nodes().get(node).await.unwrap().spec.and_then(|spec| spec.taints).unwrap_or_default();
    taints.iter().any(|taint| taint.key == "karpenter.sh/disrupted")
}

pub(crate) fn any_number(after: &str) -> serde_json::Value {
    json!({"consolidateAfter": after, "budgets": [{"nodes": "100%"}]})
}

#[tokio::test(start_paused = true)]
async fn an_empty_node_goes_when_it_has_been_quiet() {
    let world = World::new().await;
    world.set_disruption("general", any_number("2m")).await;
    let _running = world.start();
    node_with_pod(&world, "a", "500m").await;
    pass(10 * 60).await;
    assert_eq!(world.list_nodes().await.len(), 1, "a node with a pod that fits nothing cheaper stays");
    remove_pod(&world, "a").await;
    pass(100).await;
    assert_eq!(world.list_nodes().await.len(), 1, "it has not been quiet for long enough");
    pass(80).await;
    assert!(world.list_nodes().await.is_empty());
    assert!(world.list_claims().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_budget_of_zero_keeps_an_empty_node() {
    let world = World::new().await;
    let budget = json!({"consolidateAfter": "0s", "budgets": [{"nodes": "0"}]});
    world.set_disruption("general", budget).await;
    let _running = world.start();
    node_with_pod(&world, "a", "500m").await;
    remove_pod(&world, "a").await;
    pass(30 * 60).await;
    assert_eq!(world.list_nodes().await.len(), 1);
    world.set_disruption("general", any_number("0s")).await;
    pass(60).await;
    assert!(world.list_nodes().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_node_too_large_is_replaced_before_it_goes() {
    let world = World::new().await;
    world.set_disruption("general", any_number("Never")).await;
    world.buy_on_demand("general").await;
    let _running = world.start();
    let large = node_with_pod(&world, "large", "12").await;
    let old = world.list_claims().await[0].metadata.name.clone().unwrap();
    world.create_bound_pod("small", "500m", &large).await;
    remove_pod(&world, "large").await;
    world.set_disruption("general", any_number("0s")).await;
    pass(60).await;
    let claims = world.list_claims().await;
    assert_eq!(claims.len(), 2, "the replacement is there, the old node as well");
    assert!(is_fenced(&world, &large).await, "nobody moves to a node that will go");
    assert_eq!(condition(&world.claims().get(&old).await.unwrap(), "DisruptionReason"), "True");
    let old_claim: NodeClaim = world.claims().get(&old).await.unwrap();
    assert!(old_claim.metadata.deletion_timestamp.is_none(), "it goes when the new one is ready, not before");
    let new =
        names(&world).await.into_iter().find(|name| *name != large).expect("the replacement has joined");
    world.make_ready(&new).await;
    pass(10).await;
    let pod = world.pods().get("small").await.unwrap();
    assert!(pod.metadata.deletion_timestamp.is_some(), "the pod was asked to leave");
    remove_pod(&world, "small").await;
    pass(15).await;
    assert_eq!(names(&world).await, [new], "the old node is gone");
}

#[tokio::test(start_paused = true)]
async fn a_replacement_that_cannot_be_had_takes_the_fence_down_again() {
    let world = World::new().await;
    world.set_disruption("general", any_number("Never")).await;
    world.buy_on_demand("general").await;
    let _running = world.start();
    let large = node_with_pod(&world, "large", "12").await;
    world.create_bound_pod("small", "500m", &large).await;
    remove_pod(&world, "large").await;
    world.set_boot_time("24h").await;
    world.set_disruption("general", any_number("0s")).await;
    pass(60).await;
    assert!(is_fenced(&world, &large).await);
    world.set_disruption("general", any_number("Never")).await;
    pass(11 * 60).await;
    assert!(!is_fenced(&world, &large).await, "after ten minutes it is given up");
    assert_eq!(
        condition(&world.claims().get(&claim_of(&world, &large).await).await.unwrap(), "DisruptionReason"),
        "absent"
    );
}

pub(crate) async fn claim_of(world: &World, node: &str) -> String {
    let claims = world.list_claims().await;
    let has = |claim: &&NodeClaim| {
        claim.status.as_ref().and_then(|status| status.node_name.as_deref()) == Some(node)
    };
    claims.iter().find(has).and_then(|claim| claim.metadata.name.clone()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_restart_takes_fences_down_that_nobody_knows_of() {
    let world = World::new().await;
    world.set_disruption("general", any_number("Never")).await;
    let running = world.start();
    let node = node_with_pod(&world, "a", "500m").await;
    running.abort();
    let fence = json!([{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]);
    let patch = Patch::Merge(json!({"spec": {"taints": fence}}));
    world.nodes().patch(&node, &PatchParams::default(), &patch).await.unwrap();
    let _running = world.start();
    pass(5).await;
    assert!(!is_fenced(&world, &node).await);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_must_not_be_disturbed_keeps_its_node_for_as_long_as_it_says() {
    let world = World::new().await;
    world.set_disruption("general", any_number("Never")).await;
    world.buy_on_demand("general").await;
    let _running = world.start();
    let large = node_with_pod(&world, "large", "12").await;
    world.create_bound_pod("small", "500m", &large).await;
    let annotation =
        Patch::Merge(json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "1h"}}}));
    world.pods().patch("small", &PatchParams::default(), &annotation).await.unwrap();
    remove_pod(&world, "large").await;
    world.set_disruption("general", any_number("0s")).await;
    pass(50 * 60).await;
    assert_eq!(world.list_claims().await.len(), 1, "the hour is not over");
    let events: kube::Api<k8s_openapi::api::core::v1::Event> = kube::Api::all(world.client.clone());
    let events = events.list(&kube::api::ListParams::default()).await.unwrap().items;
    assert!(
        events.iter().any(|event| event.reason.as_deref() == Some("DisruptionBlocked")),
        "people are told why"
    );
    pass(20 * 60).await;
    assert_eq!(world.list_claims().await.len(), 2, "now a smaller node is on its way");
}

#[tokio::test(start_paused = true)]
async fn a_quiet_cluster_is_left_alone() {
    let world = World::new().await;
    world.set_disruption("general", any_number("0s")).await;
    let _running = world.start();
    node_with_pod(&world, "a", "500m").await;
    node_with_pod(&world, "b", "7").await;
    pass(600).await;
    let versions = async || -> Vec<Option<String>> {
        let claims = world.list_claims().await.into_iter().map(|claim| claim.metadata.resource_version);
        let nodes = world.list_nodes().await.into_iter().map(|node| node.metadata.resource_version);
        claims.chain(nodes).collect()
    };
    let before = versions().await;
    pass(6 * 3600).await;
    assert_eq!(versions().await, before, "nothing was written about claims and nodes");
}
