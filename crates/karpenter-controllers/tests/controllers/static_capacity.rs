//! NodePools with a fixed number of nodes.

use karpenter_api::options::{FeatureGate, FeatureGates};
use karpenter_controllers::Karpenter;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::disruption::claim_of;
use crate::world::{World, condition, pass};

pub(crate) fn with_gates(gates: &'static [FeatureGate]) -> impl FnOnce(Karpenter) -> Karpenter {
    move |karpenter| {
        let mut on = FeatureGates::default();
        gates.iter().for_each(|gate| on.set(*gate, true));
        Karpenter { gates: on, ..karpenter }
    }
}

const STATIC: &[FeatureGate] = &[FeatureGate::StaticCapacity];

/// A world with a static pool whose nodes are up.
async fn fixed(spec: Value, gates: &'static [FeatureGate]) -> (World, tokio::task::JoinHandle<()>) {
    let world = World::new().await;
    world.create_pool_with("fixed", spec).await;
    let running = world.start_with(with_gates(gates));
    pass(30).await;
    world.make_new_nodes_ready().await;
    pass(10).await;
    (world, running)
}

pub(crate) async fn claims(world: &World) -> Vec<String> {
    world.list_claims().await.into_iter().filter_map(|claim| claim.metadata.name).collect()
}

/// Kubelets do their work while time passes.
pub(crate) async fn live(world: &World, seconds: u64) {
    for _ in 0..seconds / 5 {
        world.make_new_nodes_ready().await;
        pass(5).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_static_pool_has_as_many_nodes_as_it_asks_for() {
    let (world, _running) = fixed(json!({"replicas": 3}), STATIC).await;
    let before = claims(&world).await;
    assert_eq!(before.len(), 3);
    assert!(world.list_claims().await.iter().all(|claim| condition(claim, "Initialized") == "True"));
    assert_eq!(world.pools().get("fixed").await.unwrap().status.unwrap().nodes, Some(3));
    world.claims().delete(&before[0], &DeleteParams::default()).await.unwrap();
    live(&world, 60).await;
    let after = claims(&world).await;
    assert_eq!(after.len(), 3, "one that was deleted is made anew");
    assert!(!after.contains(&before[0]));
    world.change_pool("fixed", json!({"spec": {"replicas": 5}})).await;
    live(&world, 60).await;
    assert_eq!(claims(&world).await.len(), 5);
    live(&world, 3600).await;
    assert_eq!(claims(&world).await.len(), 5, "nobody takes empty nodes of a static pool away");
}

#[tokio::test(start_paused = true)]
async fn without_the_gate_nothing_is_made() {
    let (world, _running) = fixed(json!({"replicas": 3}), &[]).await;
    assert!(claims(&world).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_static_pool_gives_up_empty_nodes_first_and_those_that_refuse_last() {
    let (world, _running) = fixed(json!({"replicas": 4}), STATIC).await;
    let nodes: Vec<String> =
        world.list_nodes().await.into_iter().filter_map(|node| node.metadata.name).collect();
    world.create_bound_pod("refusing", "1m", &nodes[0]).await;
    let refusal = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}});
    let patch = kube::api::Patch::Merge(refusal);
    world.pods().patch("refusing", &kube::api::PatchParams::default(), &patch).await.unwrap();
    for (pod, node) in [("a", &nodes[1]), ("b", &nodes[1]), ("c", &nodes[2])] {
        world.create_bound_pod(pod, "1m", node).await;
    }
    let mut expected = Vec::new();
    for node in [&nodes[3], &nodes[2], &nodes[1]] {
        expected.push(claim_of(&world, node).await);
    }
    for (replicas, goes) in [(3, &expected[0]), (2, &expected[1]), (1, &expected[2])] {
        world.change_pool("fixed", json!({"spec": {"replicas": replicas}})).await;
        pass(5).await;
        let leaving = world.claims().get_opt(goes).await.unwrap();
        assert!(leaving.is_none_or(|claim| claim.metadata.deletion_timestamp.is_some()), "at {replicas}");
        let staying = world.list_claims().await;
        let staying = staying.iter().filter(|claim| claim.metadata.deletion_timestamp.is_none()).count();
        assert_eq!(staying, replicas, "no more go than must");
    }
}

#[tokio::test(start_paused = true)]
async fn a_static_pool_stays_within_its_limit_while_nodes_leave() {
    let spec = json!({"replicas": 4, "limits": {"nodes": "3"}});
    let (world, _running) = fixed(spec, STATIC).await;
    let before = claims(&world).await;
    assert_eq!(before.len(), 3);
    let stuck = world.list_nodes().await[0].metadata.name.clone().unwrap();
    world.create_bound_pod("stuck", "1m", &stuck).await;
    let claim = claim_of(&world, &stuck).await;
    world.claims().delete(&claim, &DeleteParams::default()).await.unwrap();
    live(&world, 120).await;
    assert_eq!(claims(&world).await.len(), 3, "what leaves is counted until it is gone");
    crate::disruption::remove_pod(&world, "stuck").await;
    live(&world, 120).await;
    let after = claims(&world).await;
    assert_eq!(after.len(), 3);
    assert!(!after.contains(&claim));
}

#[tokio::test(start_paused = true)]
async fn drifted_nodes_of_a_static_pool_are_replaced_within_the_budget() {
    let spec = json!({"replicas": 3, "disruption": {"consolidateAfter": "0s", "budgets": [{"nodes": "2"}]}});
    let (world, _running) = fixed(spec, STATIC).await;
    let before = claims(&world).await;
    world.change_pool("fixed", json!({"spec": {"template": {"metadata": {"labels": {"team": "a"}}}}})).await;
    pass(15).await;
    let during = world.list_claims().await;
    assert_eq!(during.len(), 5, "two replacements come before the old nodes go");
    let going = during.iter().filter(|claim| condition(claim, "DisruptionReason") == "True").count();
    assert_eq!(going, 2);
    live(&world, 300).await;
    let after = claims(&world).await;
    assert_eq!(after.len(), 3);
    assert!(after.iter().all(|claim| !before.contains(claim)), "all were replaced");
}

#[tokio::test(start_paused = true)]
async fn at_the_limit_a_drifted_node_stays_and_people_are_told() {
    let spec = json!({"replicas": 2, "limits": {"nodes": "2"}});
    let (world, _running) = fixed(spec, STATIC).await;
    let before = claims(&world).await;
    world.change_pool("fixed", json!({"spec": {"template": {"metadata": {"labels": {"team": "a"}}}}})).await;
    live(&world, 300).await;
    assert_eq!(claims(&world).await, before);
    let told = world.told("DisruptionBlocked").await;
    assert!(told.iter().any(|text| text.contains("limits.nodes")), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn at_the_limit_a_drifted_node_goes_first_where_that_is_allowed() {
    let spec = json!({"replicas": 2, "limits": {"nodes": "2"}});
    let (world, _running) =
        fixed(spec, &[FeatureGate::StaticCapacity, FeatureGate::TerminateFirstDrift]).await;
    let before = claims(&world).await;
    world.change_pool("fixed", json!({"spec": {"template": {"metadata": {"labels": {"team": "a"}}}}})).await;
    for _ in 0..60 {
        live(&world, 5).await;
        assert!(claims(&world).await.len() <= 2, "never above the limit");
    }
    let after = claims(&world).await;
    assert_eq!(after.len(), 2);
    assert!(after.iter().all(|claim| !before.contains(claim)));
}
