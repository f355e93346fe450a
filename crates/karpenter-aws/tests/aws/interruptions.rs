//! Recommendations to rebalance: people are told, and with an option the machine is replaced.

use std::sync::Arc;

use karpenter_simcloud::Plenty;
use karpenter_simcloud_aws::{Happening, Instance};
use serde_json::json;

use crate::world::{World, capacity_type, pass};

/// A world with a spot machine that has just been recommended to be rebalanced.
async fn recommended(flags: &[&str]) -> (World, Instance) {
    let world = World::new(Arc::new(Plenty)).await;
    world.run_machinery();
    let _running = world.start(flags).await;
    world.create_pool(&json!({}), &capacity_type(&["spot"])).await;
    pass(60).await;
    world.deploy("app", 1, &json!({"cpu": "500m"}), &json!({})).await;
    pass(60).await;
    let [instance] = world.cloud.living().try_into().unwrap();
    world.cloud.happen(Happening::Rebalance { instance: instance.id.clone() }).unwrap();
    pass(180).await;
    assert!(world.cloud.messages().is_empty(), "what was heeded is deleted");
    let told = world.told().await;
    assert!(told.iter().any(|reason| reason == "SpotRebalanceRecommendation"), "{told:?}");
    (world, instance)
}

#[tokio::test(start_paused = true)]
async fn a_recommendation_to_rebalance_is_told_and_nothing_else() {
    let (world, instance) = recommended(&["--interruption-queue=local"]).await;
    let [alive] = world.cloud.living().try_into().unwrap();
    assert_eq!(alive.id, instance.id);
}

#[tokio::test(start_paused = true)]
async fn a_recommendation_to_rebalance_replaces_the_machine_where_that_is_asked_for() {
    let (world, instance) = recommended(&["--interruption-queue=local", "--replace-on-rebalance=true"]).await;
    let [alive] = world.cloud.living().try_into().expect("one took the place of the other");
    assert_ne!(alive.id, instance.id);
    assert_eq!(world.nodes_of("app").await.len(), 1, "the pod runs on the new one");
    let told = world.told().await;
    assert!(told.iter().any(|reason| reason == "TerminatingOnInterruption"), "{told:?}");
}
