//! Annotations and settings that upstream does not have.

use karpenter_api::options::FeatureGate;
use karpenter_controllers::{DisruptionSettings, Karpenter};
use serde_json::{Value, json};

use crate::disruption::{any_number, node_with_pod, remove_pod};
use crate::static_capacity::{live, with_gates};
use crate::world::{World, pass, reason};

const STATIC: &[FeatureGate] = &[FeatureGate::StaticCapacity];

#[tokio::test(start_paused = true)]
async fn an_old_node_is_replaced_when_budgets_allow_it() {
    let world = World::new().await;
    world.set_disruption("general", any_number("Never")).await;
    let rotation = json!({"disruption.karpenter.sh/rotate-after": "30m", "disruption.karpenter.sh/rotation-jitter": "0s"});
    world.annotate_pool("general", rotation).await;
    let _running = world.start();
    node_with_pod(&world, "a", "500m").await;
    let old = world.list_claims().await[0].metadata.name.clone().unwrap();
    pass(25 * 60).await;
    assert_eq!(world.list_claims().await.len(), 1, "it is not old yet");
    world.set_disruption("general", json!({"consolidateAfter": "Never", "budgets": [{"nodes": "0"}]})).await;
    pass(20 * 60).await;
    assert_eq!(world.list_claims().await.len(), 1, "its time has come, but the budget says no");
    world.set_disruption("general", any_number("Never")).await;
    pass(60).await;
    assert_eq!(world.list_claims().await.len(), 2, "its replacement comes first");
    assert_eq!(reason(&world.claims().get(&old).await.unwrap(), "DisruptionReason"), "Drifted");
}

/// A static pool of empty nodes with these annotations, whose template then changes.
async fn drifting(replicas: u32, annotations: Value) -> (World, tokio::task::JoinHandle<()>) {
    let world = World::new().await;
    let spec = json!({"replicas": replicas, "disruption": {"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]}});
    world.create_pool_with("fixed", spec).await;
    world.annotate_pool("fixed", annotations).await;
    let running = world.start_with(with_gates(STATIC));
    live(&world, 60).await;
    assert_eq!(replaced(&world).await, 0);
    world.change_pool("fixed", json!({"spec": {"template": {"metadata": {"labels": {"team": "a"}}}}})).await;
    (world, running)
}

/// How many claims are made from the new template.
async fn replaced(world: &World) -> usize {
    let of_team = |labels: std::collections::BTreeMap<String, String>| labels.contains_key("team");
    world
        .list_claims()
        .await
        .into_iter()
        .filter(|claim| claim.metadata.labels.clone().is_some_and(of_team))
        .count()
}

#[tokio::test(start_paused = true)]
async fn drift_is_rolled_out_to_a_few_nodes_first_and_then_in_waves() {
    let stages = json!({
        "disruption.karpenter.sh/drift-canary": "1",
        "disruption.karpenter.sh/drift-wave": "2",
        "disruption.karpenter.sh/drift-wave-pause": "10m",
    });
    let (world, _running) = drifting(5, stages).await;
    live(&world, 5 * 60).await;
    assert_eq!(replaced(&world).await, 1, "one node shows whether the template works");
    let told = world.told("DisruptionBlocked").await;
    assert!(told.iter().any(|text| text.contains("the next wave")), "{told:?}");
    live(&world, 8 * 60).await;
    assert_eq!(replaced(&world).await, 3);
    live(&world, 12 * 60).await;
    assert_eq!(replaced(&world).await, 5);
}

#[tokio::test(start_paused = true)]
async fn a_roll_out_that_fails_is_halted() {
    let halt =
        json!({"disruption.karpenter.sh/drift-wave": "1", "disruption.karpenter.sh/drift-halt-after": "1"});
    let (world, _running) = drifting(2, halt).await;
    // Nobody makes the replacement ready.
    pass(15 * 60).await;
    let told = world.told("DisruptionBlocked").await;
    assert!(told.iter().any(|text| text.contains("replacements in its NodePool failed")), "{told:?}");
    let decided = world.scraped("karpenter_voluntary_disruption_decisions_total", &["drifted"]);
    pass(3 * 3600).await;
    assert_eq!(world.scraped("karpenter_voluntary_disruption_decisions_total", &["drifted"]), decided);
    assert_eq!(world.scraped("karpenter_voluntary_disruption_queue_failures_total", &["drifted"]), 1);
}

#[tokio::test(start_paused = true)]
async fn a_pool_launches_as_many_nodes_a_minute_as_it_says() {
    let world = World::new().await;
    world.set_disruption("general", any_number("Never")).await;
    world.annotate_pool("general", json!({"provisioning.karpenter.sh/launches-per-minute": "2"})).await;
    let _running = world.start();
    for pod in ["a", "b", "c", "d", "e"] {
        world.create_pending_pod(pod, "200").await;
    }
    pass(30).await;
    assert_eq!(world.list_claims().await.len(), 2);
    assert!(!world.told("LaunchesDelayed").await.is_empty());
    pass(60).await;
    assert_eq!(world.list_claims().await.len(), 4);
    pass(60).await;
    assert_eq!(world.list_claims().await.len(), 5);
    assert_eq!(world.scraped("karpenter_nodeclaims_created_total", &["general"]), 5);
}

#[tokio::test(start_paused = true)]
async fn one_switch_stops_all_voluntary_disruption() {
    let off = |karpenter: Karpenter| {
        let disruption = DisruptionSettings { switched_off: true, ..karpenter.disruption };
        Karpenter { disruption, ..karpenter }
    };
    let world = World::new().await;
    world.set_disruption("general", any_number("0s")).await;
    let running = world.start_with(off);
    node_with_pod(&world, "a", "500m").await;
    remove_pod(&world, "a").await;
    pass(3600).await;
    assert_eq!(world.list_nodes().await.len(), 1);
    running.abort();
    let _running = world.start();
    pass(120).await;
    assert!(world.list_nodes().await.is_empty(), "without the switch it goes");
}

#[tokio::test(start_paused = true)]
async fn an_annotation_that_cannot_be_read_is_told_on_the_pool() {
    let world = World::new().await;
    world.annotate_pool("general", json!({"disruption.karpenter.sh/drift-wave": "many"})).await;
    let _running = world.start();
    pass(10).await;
    let told = world.told("InvalidAnnotation").await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("drift-wave") && told[0].contains("10%"));
}
