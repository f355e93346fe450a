//! CapacityBuffers: room that is kept free, and what is said about it.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::PodTemplate;
use karpenter_api::CapacityBuffer;
use karpenter_api::options::FeatureGate;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::disruption::any_number;
use crate::static_capacity::{live, with_gates};
use crate::world::{World, pass};

const BUFFERS: &[FeatureGate] = &[FeatureGate::CapacityBuffer];

fn buffers(world: &World) -> Api<CapacityBuffer> {
    Api::namespaced(world.client.clone(), "default")
}

/// A pod of which every node can hold one.
fn large_pod() -> Value {
    let resources = json!({"requests": {"cpu": "200"}});
    json!({"containers": [{"name": "main", "image": "app", "resources": resources}]})
}

async fn create_template(world: &World) {
    let template: PodTemplate =
        serde_json::from_value(json!({"metadata": {"name": "shape"}, "template": {"spec": large_pod()}}))
            .unwrap();
    let templates: Api<PodTemplate> = Api::namespaced(world.client.clone(), "default");
    templates.create(&PostParams::default(), &template).await.unwrap();
}

async fn create_buffer(world: &World, spec: Value) {
    let buffer: CapacityBuffer =
        serde_json::from_value(json!({"metadata": {"name": "spare"}, "spec": spec})).unwrap();
    buffers(world).create(&PostParams::default(), &buffer).await.unwrap();
}

fn of_template(replicas: u32) -> Value {
    json!({"podTemplateRef": {"name": "shape"}, "replicas": replicas})
}

/// The number of chunks the buffer says it has, and the reason of a condition.
async fn said(world: &World, condition: &str) -> (Option<i32>, String) {
    let status = buffers(world).get("spare").await.unwrap().status.unwrap_or_default();
    let found = status.conditions.into_iter().flatten().find(|found| found.type_ == condition);
    (status.replicas, found.map_or("absent".to_owned(), |found| found.reason))
}

async fn with_buffer_of(replicas: u32) -> (World, tokio::task::JoinHandle<()>) {
    let world = World::new().await;
    world.set_disruption("general", any_number("0s")).await;
    create_template(&world).await;
    let running = world.start_with(with_gates(BUFFERS));
    pass(5).await;
    create_buffer(&world, of_template(replicas)).await;
    live(&world, 60).await;
    (world, running)
}

#[tokio::test(start_paused = true)]
async fn room_is_kept_for_a_buffer_until_it_goes() {
    let (world, _running) = with_buffer_of(2).await;
    assert_eq!(world.list_nodes().await.len(), 2);
    assert_eq!(said(&world, "ReadyForProvisioning").await, (Some(2), "Resolved".to_owned()));
    assert_eq!(said(&world, "Provisioning").await.1, "FitsExistingCapacity");
    live(&world, 600).await;
    assert_eq!(world.list_claims().await.len(), 2, "empty nodes that a buffer needs stay, and no more come");
    buffers(&world).delete("spare", &DeleteParams::default()).await.unwrap();
    pass(120).await;
    assert!(world.list_nodes().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_takes_the_room_of_a_buffer_makes_it_get_more() {
    let (world, _running) = with_buffer_of(1).await;
    let node = world.list_nodes().await[0].metadata.name.clone().unwrap();
    world.create_bound_pod("taker", "200", &node).await;
    live(&world, 60).await;
    assert_eq!(world.list_nodes().await.len(), 2);
    assert_eq!(said(&world, "Provisioning").await.1, "FitsExistingCapacity");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_said_of_a_buffer_where_the_gate_is_off() {
    let world = World::new().await;
    create_template(&world).await;
    let _running = world.start();
    create_buffer(&world, of_template(1)).await;
    live(&world, 60).await;
    assert!(world.list_claims().await.is_empty());
    assert_eq!(said(&world, "ReadyForProvisioning").await.1, "absent");
}

#[tokio::test(start_paused = true)]
async fn a_buffer_follows_the_size_of_its_workload() {
    let world = World::new().await;
    let _running = world.start_with(with_gates(BUFFERS));
    let reference = json!({"apiGroup": "apps", "kind": "Deployment", "name": "web"});
    create_buffer(&world, json!({"scalableRef": reference, "percentage": 20})).await;
    pass(10).await;
    assert_eq!(said(&world, "ReadyForProvisioning").await.1, "ScalableRefNotFound");
    assert_eq!(said(&world, "Provisioning").await.1, "NotReadyForProvisioning");
    let labels = json!({"app": "web"});
    let template = json!({"metadata": {"labels": labels}, "spec": large_pod()});
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {"replicas": 10, "selector": {"matchLabels": labels}, "template": template},
    }))
    .unwrap();
    let deployments: Api<Deployment> = Api::namespaced(world.client.clone(), "default");
    deployments.create(&PostParams::default(), &deployment).await.unwrap();
    live(&world, 60).await;
    assert_eq!(said(&world, "Provisioning").await, (Some(2), "FitsExistingCapacity".to_owned()));
    let scaled = Patch::Merge(json!({"spec": {"replicas": 15}}));
    deployments.patch("web", &PatchParams::default(), &scaled).await.unwrap();
    live(&world, 60).await;
    assert_eq!(said(&world, "Provisioning").await, (Some(3), "FitsExistingCapacity".to_owned()));
    assert_eq!(world.list_nodes().await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_buffer_that_asks_for_nothing_is_empty() {
    let (world, _running) = with_buffer_of(0).await;
    assert!(world.list_claims().await.is_empty());
    assert_eq!(said(&world, "Provisioning").await, (Some(0), "BufferEmpty".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn what_limits_do_not_allow_is_not_launched_for_a_buffer() {
    let world = World::new().await;
    world.change_pool("general", json!({"spec": {"limits": {"cpu": "300"}}})).await;
    create_template(&world).await;
    let _running = world.start_with(with_gates(BUFFERS));
    create_buffer(&world, of_template(2)).await;
    live(&world, 120).await;
    assert_eq!(world.list_claims().await.len(), 1);
    assert_eq!(said(&world, "Provisioning").await, (Some(2), "RequiresNewCapacity".to_owned()));
}
