//! NodeOverlays: what they change about plans and launches, and what is said of them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use karpenter_api::options::FeatureGate;
use karpenter_api::{NodeClaim, NodeOverlay};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::disruption::any_number;
use crate::static_capacity::{live, with_gates};
use crate::world::{World, pass};

const OVERLAYS: &[FeatureGate] = &[FeatureGate::NodeOverlay];
const TYPE: &str = "node.kubernetes.io/instance-type";
/// Far from the cheapest that holds a pod of one core.
const DEAR: &str = "m-64x-amd64-linux";

fn overlays(world: &World) -> Api<NodeOverlay> {
    Api::all(world.client.clone())
}

async fn create(world: &World, name: &str, spec: Value) {
    let overlay: NodeOverlay =
        serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap();
    overlays(world).create(&PostParams::default(), &overlay).await.unwrap();
}

fn of_type(name: &str) -> Value {
    json!([{"key": TYPE, "operator": "In", "values": [name]}])
}

/// Status and reason of a condition.
async fn said(world: &World, overlay: &str, condition: &str) -> (String, String, String) {
    let status = overlays(world).get(overlay).await.unwrap().status.unwrap_or_default();
    let found = status.conditions.into_iter().flatten().find(|found| found.type_ == condition);
    found.map_or_else(Default::default, |found| (found.status, found.reason, found.message))
}

async fn is_ready(world: &World, overlay: &str) -> bool {
    said(world, overlay, "Ready").await.0 == "True"
}

async fn only_claim(world: &World) -> NodeClaim {
    let claims = world.list_claims().await;
    assert_eq!(claims.len(), 1);
    claims.into_iter().next().unwrap()
}

async fn create_pod_with_a_dongle(world: &World) {
    let resources = json!({"limits": {"example.com/dongle": "1"}});
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "burner"},
        "spec": {"containers": [{"name": "main", "image": "app", "resources": resources}]},
    }))
    .unwrap();
    world.pods().create(&PostParams::default(), &pod).await.unwrap();
    world.give_up_on("burner").await;
}

fn instance_type(claim: &NodeClaim) -> String {
    claim.metadata.labels.as_ref().and_then(|labels| labels.get(TYPE)).cloned().unwrap_or_default()
}

fn annotations(claim: &NodeClaim) -> BTreeMap<String, String> {
    let mut annotations = claim.metadata.annotations.clone().unwrap_or_default();
    annotations.retain(|key, _| key.ends_with("-overlay-applied"));
    annotations
}

#[tokio::test(start_paused = true)]
async fn a_type_that_an_overlay_makes_cheapest_is_planned_and_launched() {
    let world = World::new().await;
    create(&world, "gift", json!({"requirements": of_type(DEAR), "price": "0"})).await;
    let _running = world.start_with(with_gates(OVERLAYS));
    pass(5).await;
    assert!(is_ready(&world, "gift").await);
    world.create_pending_pod("web", "1").await;
    pass(10).await;
    let claim = only_claim(&world).await;
    assert_eq!(instance_type(&claim), DEAR);
    assert_eq!(
        annotations(&claim),
        BTreeMap::from([("karpenter.sh/price-overlay-applied".to_owned(), "true".to_owned())])
    );
}

#[tokio::test(start_paused = true)]
async fn overlays_change_nothing_where_the_gate_is_off() {
    let world = World::new().await;
    create(&world, "gift", json!({"requirements": of_type(DEAR), "price": "0"})).await;
    let _running = world.start();
    world.create_pending_pod("web", "1").await;
    pass(10).await;
    let claim = only_claim(&world).await;
    assert_ne!(instance_type(&claim), DEAR);
    assert!(annotations(&claim).is_empty());
    assert_eq!(said(&world, "gift", "Ready").await.0, "");
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_an_overlay_adds_is_there_for_pods() {
    let world = World::new().await;
    let _running = world.start_with(with_gates(OVERLAYS));
    create_pod_with_a_dongle(&world).await;
    pass(30).await;
    assert!(world.list_claims().await.is_empty(), "no machine has a dongle yet");
    create(
        &world,
        "dongles",
        json!({"requirements": of_type(DEAR), "capacity": {"example.com/dongle": "2"}}),
    )
    .await;
    pass(30).await;
    let claim = only_claim(&world).await;
    assert_eq!(instance_type(&claim), DEAR);
    assert_eq!(
        annotations(&claim),
        BTreeMap::from([("karpenter.sh/capacity-overlay-applied".to_owned(), "true".to_owned())])
    );
    let capacity = claim.status.unwrap().capacity.unwrap();
    assert_eq!(capacity["example.com/dongle"].0, "2");
}

#[tokio::test(start_paused = true)]
async fn of_overlays_with_one_weight_about_one_price_the_second_is_refused_whole() {
    let world = World::new().await;
    create(&world, "b-cheap", json!({"requirements": of_type(DEAR), "price": "0"})).await;
    let second =
        json!({"requirements": of_type(DEAR), "priceAdjustment": "+10%", "capacity": {"example.com/x": "1"}});
    create(&world, "a-dear", second).await;
    let _running = world.start_with(with_gates(OVERLAYS));
    pass(5).await;
    assert!(is_ready(&world, "b-cheap").await);
    let (status, reason, message) = said(&world, "a-dear", "ValidationSucceeded").await;
    assert_eq!((status.as_str(), reason.as_str()), ("False", "Conflict"));
    assert!(
        message.starts_with("NodeOverlay b-cheap has the same weight and decides the price of"),
        "{message}"
    );
    assert_eq!(said(&world, "a-dear", "Ready").await.0, "False");
    world.create_pending_pod("web", "1").await;
    pass(10).await;
    assert_eq!(annotations(&only_claim(&world).await).len(), 1, "the second adds no capacity either");
    let heavier = Patch::Merge(json!({"spec": {"weight": 5}}));
    overlays(&world).patch("a-dear", &PatchParams::default(), &heavier).await.unwrap();
    pass(5).await;
    assert!(is_ready(&world, "a-dear").await, "another weight settles it");
}

#[tokio::test(start_paused = true)]
async fn an_overlay_that_cannot_be_is_said_to_be_invalid_and_spoils_no_other() {
    let world = World::new().await;
    let _running = world.start_with(with_gates(OVERLAYS));
    let odd = json!([{"key": TYPE, "operator": "In", "values": ["no value of a label!"]}]);
    create(&world, "odd", json!({"requirements": odd, "price": "1"})).await;
    create(&world, "gift", json!({"requirements": of_type(DEAR), "price": "0"})).await;
    pass(5).await;
    let (status, reason, _) = said(&world, "odd", "ValidationSucceeded").await;
    assert_eq!((status.as_str(), reason.as_str()), ("False", "RuntimeValidation"));
    assert!(is_ready(&world, "gift").await);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_an_overlay_makes_dear_is_replaced_by_a_cheaper_one() {
    let world = World::new().await;
    world.buy_on_demand("general").await;
    world.set_disruption("general", any_number("0s")).await;
    create(&world, "gift", json!({"requirements": of_type(DEAR), "price": "0"})).await;
    let _running = world.start_with(with_gates(OVERLAYS));
    pass(5).await;
    world.create_pending_pod("web", "1").await;
    live(&world, 60).await;
    let node = world.list_nodes().await[0].metadata.name.clone().unwrap();
    world.bind("web", &node).await;
    live(&world, 300).await;
    assert_eq!(instance_type(&only_claim(&world).await), DEAR, "nothing is cheaper than nothing");
    overlays(&world).delete("gift", &DeleteParams::default()).await.unwrap();
    pass(60).await;
    let types: Vec<String> = world.list_claims().await.iter().map(instance_type).collect();
    assert!(types.iter().any(|name| name != DEAR), "{types:?}");
}

#[tokio::test(start_paused = true)]
async fn an_overlay_for_one_pool_leaves_the_others_alone() {
    let world = World::new().await;
    world.create_pool_with("second", json!({"weight": 10})).await;
    let pool = json!([{"key": "karpenter.sh/nodepool", "operator": "In", "values": ["general"]},
        {"key": TYPE, "operator": "In", "values": [DEAR]}]);
    create(&world, "gift", json!({"requirements": pool, "price": "0"})).await;
    let _running = world.start_with(with_gates(OVERLAYS));
    pass(5).await;
    world.create_pending_pod("web", "1").await;
    pass(10).await;
    let claim = only_claim(&world).await;
    assert_ne!(instance_type(&claim), DEAR, "the heavier pool has its own prices");
    assert!(annotations(&claim).is_empty());
}
