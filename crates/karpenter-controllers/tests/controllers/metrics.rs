//! What is counted while nodes and pods come and go.

use karpenter_api::options::FeatureGate;
use kube::api::DeleteParams;
use serde_json::json;

use crate::disruption::{any_number, claim_of, node_with_pod, remove_pod};
use crate::static_capacity::{live, with_gates};
use crate::world::{World, pass};

#[tokio::test(start_paused = true)]
async fn the_life_of_a_pod_and_its_node_is_counted() {
    let world = World::new().await;
    world.set_disruption("general", any_number("Never")).await;
    let _running = world.start();
    world.create_pending_pod("a", "500m").await;
    pass(5).await;
    assert!(world.scraped("karpenter_pods_provisioning_unbound_time_seconds", &["name=\"a\""]) > 0);
    let node = node_with_pod(&world, "b", "200").await;
    pass(20).await;
    let general = "nodepool=\"general\"";
    assert_eq!(world.scraped("karpenter_nodeclaims_created_total", &[general, "provisioned"]), 2);
    assert_eq!(world.scraped("karpenter_pods_scheduling_decision_duration_seconds_count", &[]), 2);
    assert_eq!(world.scraped("karpenter_pods_provisioning_bound_duration_seconds_count", &[]), 1);
    // Pod a was planned before, and waits for its node.
    assert_eq!(world.scraped("karpenter_scheduler_pending_pods_by_effective_zone_count", &["flexible"]), 1);
    assert_eq!(world.scraped("karpenter_cluster_state_synced", &[]), 1);
    assert_eq!(world.scraped("karpenter_cluster_state_node_count", &[]), 2);
    assert!(world.scraped("karpenter_nodepools_cost_total", &[general]) > 0);
    let ready = ["type=\"Initialized\"", "status=\"True\"", "karpenter_sh_nodepool=\"general\""];
    assert_eq!(world.scraped("operator_nodeclaim_status_condition_transitions_total", &ready), 1);

    let claim = claim_of(&world, &node).await;
    world.claims().delete(&claim, &DeleteParams::default()).await.unwrap();
    pass(10).await;
    assert_eq!(world.scraped("karpenter_pods_eviction_requests_total", &["code=\"200\""]), 1);
    assert_eq!(world.scraped("karpenter_pods_drained_total", &["reason=\"Forceful Termination\""]), 1);
    assert!(world.scraped("operator_nodeclaim_termination_current_time_seconds", &[&claim]) > 0);
    remove_pod(&world, "b").await;
    pass(30).await;
    assert_eq!(world.scraped("karpenter_nodes_drained_total", &[general]), 1);
    assert_eq!(world.scraped("karpenter_nodes_termination_duration_seconds_count", &[general]), 1);
    assert_eq!(world.scraped("karpenter_nodeclaims_terminated_total", &[general]), 1);
    assert_eq!(world.scraped("operator_nodeclaim_termination_duration_seconds_count", &[]), 1);
    assert_eq!(world.scraped("operator_nodeclaim_termination_current_time_seconds", &[]), 0);
}

#[tokio::test(start_paused = true)]
async fn looks_at_keys_are_counted_by_controller_and_ending() {
    let world = World::new().await;
    let _running = world.start();
    node_with_pod(&world, "a", "500m").await;
    let lifecycle = "controller=\"nodeclaim.lifecycle\"";
    assert!(world.scraped("controller_runtime_reconcile_total", &[lifecycle, "success"]) > 0);
    assert_eq!(world.scraped("controller_runtime_reconcile_errors_total", &[lifecycle]), 0);
    let looks = world.scraped("controller_runtime_reconcile_total", &[lifecycle]);
    assert_eq!(world.scraped("controller_runtime_reconcile_time_seconds_count", &[lifecycle]), looks);
    assert!(world.scraped("workqueue_adds_total", &[lifecycle]) > 0);
}

#[tokio::test(start_paused = true)]
async fn an_eviction_that_a_budget_refuses_is_counted_as_such() {
    let world = World::new().await;
    world.set_disruption("general", any_number("Never")).await;
    let _running = world.start();
    let node = node_with_pod(&world, "a", "500m").await;
    world.create_bound_pod("running", "1m", &node).await;
    world.protect_everything().await;
    let claim = claim_of(&world, &node).await;
    world.claims().delete(&claim, &DeleteParams::default()).await.unwrap();
    pass(10).await;
    assert!(world.scraped("karpenter_pods_eviction_requests_total", &["code=\"429\""]) >= 1);
    assert_eq!(world.scraped("karpenter_pods_drained_total", &[]), 1, "only the pod that never ran leaves");
}

#[tokio::test(start_paused = true)]
async fn moves_are_counted_by_pool_and_budgets_say_what_they_allow() {
    let world = World::new().await;
    world.set_disruption("general", any_number("Never")).await;
    let _running = world.start();
    node_with_pod(&world, "a", "500m").await;
    let of_drift = ["nodepool=\"general\"", "reason=\"drifted\""];
    assert_eq!(world.scraped("karpenter_nodepools_allowed_disruptions", &of_drift), 1);
    world.set_disruption("general", json!({"consolidateAfter": "1m", "budgets": [{"nodes": "0"}]})).await;
    pass(1).await;
    assert_eq!(world.scraped("karpenter_nodepools_allowed_disruptions", &of_drift), 0);
    remove_pod(&world, "a").await;
    pass(90).await;
    assert_eq!(world.scraped("karpenter_voluntary_disruption_eligible_nodes", &["reason=\"empty\""]), 1);
    world.set_disruption("general", any_number("0s")).await;
    pass(60).await;
    let move_ =
        ["nodepool=\"general\"", "decision=\"delete\"", "reason=\"empty\"", "consolidation_type=\"empty\""];
    assert_eq!(world.scraped("karpenter_voluntary_disruption_decisions_by_nodepool_total", &move_), 1);
    assert_eq!(world.scraped("karpenter_voluntary_disruption_decisions_total", &move_[1..]), 1);
    let took = "karpenter_voluntary_disruption_decision_evaluation_duration_seconds_count";
    assert!(world.scraped(took, &["consolidation_type=\"multi\""]) > 0, "methods are timed one by one");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_goes_before_its_replacement_is_counted_with_the_cause() {
    let world = World::new().await;
    let spec = json!({"replicas": 1, "limits": {"nodes": "1"}});
    world.create_pool_with("fixed", spec).await;
    let gates = &[FeatureGate::StaticCapacity, FeatureGate::TerminateFirstDrift];
    let _running = world.start_with(with_gates(gates));
    live(&world, 60).await;
    world.change_pool("fixed", json!({"spec": {"template": {"metadata": {"labels": {"team": "a"}}}}})).await;
    live(&world, 60).await;
    let labels = ["nodepool=\"fixed\"", "reason=\"drifted\"", "terminate_first_reason=\"static-at-limit\""];
    assert_eq!(world.scraped("karpenter_voluntary_disruption_terminate_first_decisions_total", &labels), 1);
    let decision = ["decision=\"terminate-first\""];
    assert_eq!(world.scraped("karpenter_voluntary_disruption_decisions_total", &decision), 1);
}
