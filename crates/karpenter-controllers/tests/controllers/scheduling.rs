//! What other parts of the cluster do to pods, and what that means for the nodes they get.

use std::time::Duration;

use k8s_openapi::api::apps::v1::{DaemonSet, ReplicaSet};
use k8s_openapi::api::core::v1::{Pod, Service, TopologySpreadConstraint};
use karpenter_controllers::Karpenter;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::static_capacity::live;
use crate::world::{World, condition, pass};

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

#[tokio::test(start_paused = true)]
async fn what_admission_adds_to_the_pods_of_a_daemon_set_is_reckoned_with() {
    let world = World::new().await;
    let labels = json!({"app": "agent"});
    let template =
        json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "app"}]}});
    let spec = json!({"selector": {"matchLabels": labels}, "template": template});
    let set: DaemonSet = create(&world, json!({"metadata": {"name": "agent"}, "spec": spec})).await;
    let owner = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": set.metadata.uid, "controller": true});
    // As with a LimitRange whose default is 30 processors.
    let metadata = json!({"name": "agent-1", "labels": labels, "ownerReferences": [owner]});
    let spec = json!({"containers": containers("30"), "nodeName": "elsewhere"});
    let _: Pod = create(&world, json!({"metadata": metadata, "spec": spec})).await;
    let _running = world.start();
    world.create_pending_pod("web", "10").await;
    live(&world, 30).await;
    let nodes = world.list_nodes().await;
    let status = nodes[0].status.clone().unwrap();
    let cpu: u32 = status.capacity.unwrap()["cpu"].0.parse().unwrap();
    assert!(cpu > 40, "{cpu} processors are not enough for both");
}

/// Which pod each claim was made for, as the nominations tell it.
async fn nominated_for(world: &World, claim: &str) -> String {
    let nominations = world.events("Nominated").await;
    let about = |message: &str| message.contains(claim);
    let event = nominations.into_iter().find(|event| event.message.as_deref().is_some_and(about)).unwrap();
    event.involved_object.name.unwrap()
}

#[tokio::test(start_paused = true)]
async fn who_loses_its_node_to_another_gets_the_machine_of_the_other() {
    let world = World::new().await;
    world.cloud.launches_take.lock().unwrap().push_back(Duration::from_secs(200));
    let _running = world.start();
    for pod in ["a", "b"] {
        world.create_pending_pod(pod, "200").await;
    }
    pass(60).await;
    world.make_new_nodes_ready().await;
    pass(10).await;
    let claims = world.list_claims().await;
    let slow = claims.iter().find(|claim| condition(claim, "Launched") != "True").unwrap();
    let early = nominated_for(&world, slow.metadata.name.as_deref().unwrap()).await;
    let [node] = &world.list_nodes().await[..] else { panic!("one machine is there") };
    world.bind(&early, node.metadata.name.as_deref().unwrap()).await;

    pass(90).await;
    assert_eq!(world.list_claims().await.len(), 2, "the machine under way is for the pod that waits");
    pass(120).await;
    assert_eq!(world.list_nodes().await.len(), 2);
}
