//! What other parts of the cluster do to pods, and what that means for the nodes they get.

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Pod, Service, TopologySpreadConstraint};
use karpenter_controllers::Karpenter;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::world::{World, pass};

async fn create<K>(world: &World, object: Value) -> K
where
    K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + serde::Serialize
        + serde::de::DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(world.client.clone(), "default");
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap()
}

fn one_per_node(karpenter: Karpenter) -> Karpenter {
    let constraint = TopologySpreadConstraint {
        max_skew: 1,
        topology_key: "kubernetes.io/hostname".to_owned(),
        when_unsatisfiable: "DoNotSchedule".to_owned(),
        ..TopologySpreadConstraint::default()
    };
    Karpenter { spread_defaults: vec![constraint], ..karpenter }
}

fn containers(cpu: &str) -> Value {
    json!([{"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu}}}])
}

/// Three small pods with a label that the scheduler has given up on; `owners` made them.
async fn three_waiting_pods(world: &World, owners: Value) {
    for name in ["a", "b", "c"] {
        let metadata = json!({"name": name, "labels": {"app": "web"}, "ownerReferences": owners});
        let _: Pod =
            create(world, json!({"metadata": metadata, "spec": {"containers": containers("100m")}})).await;
        world.give_up_on(name).await;
    }
    pass(30).await;
}

#[tokio::test(start_paused = true)]
async fn default_constraints_spread_the_pods_of_a_service() {
    let world = World::new().await;
    let _running = world.start_with(one_per_node);
    let port = json!([{"port": 80}]);
    let _: Service = create(
        &world,
        json!({"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": port}}),
    )
    .await;
    three_waiting_pods(&world, json!([])).await;
    assert_eq!(world.list_claims().await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn default_constraints_spread_the_pods_of_a_replica_set() {
    let world = World::new().await;
    let _running = world.start_with(one_per_node);
    let labels = json!({"app": "web"});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": containers("100m")}});
    let spec = json!({"replicas": 3, "selector": {"matchLabels": labels}, "template": template});
    let set: ReplicaSet = create(&world, json!({"metadata": {"name": "web"}, "spec": spec})).await;
    let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": set.metadata.uid, "controller": true});
    three_waiting_pods(&world, json!([owner])).await;
    assert_eq!(world.list_claims().await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn default_constraints_leave_pods_alone_that_nothing_selects() {
    let world = World::new().await;
    let _running = world.start_with(one_per_node);
    three_waiting_pods(&world, json!([])).await;
    assert_eq!(world.list_claims().await.len(), 1);
}
