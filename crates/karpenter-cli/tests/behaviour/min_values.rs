//! `minValues`: how much choice a NodePool insists on.

use serde_json::{Value, json};

use super::{INSTANCE_TYPE, Plan, ZONE, plan, pods, pool};

fn wanting(min_values: u32) -> Value {
    let requirement = json!({ "key": INSTANCE_TYPE, "operator": "Exists", "minValues": min_values });
    pool("general", json!({ "template": { "spec": { "requirements": [requirement] } } }))
}

#[track_caller]
fn planned(policy: &str, min_values: u32, groups: Value) -> Plan {
    plan(json!({
        "options": { "minValuesPolicy": policy }, "nodePools": [wanting(min_values)], "podGroups": groups,
    }))
}

#[test]
fn a_claim_keeps_as_many_values_as_the_pool_wants() {
    let plan = planned("Strict", 3, json!([pods("web", 1, "1", json!({}))]));
    assert_eq!(plan.only_claim().instance_types, ["small", "medium", "large"]);
    let kept = plan.only_claim().requirements.iter().find(|requirement| requirement.key == INSTANCE_TYPE);
    assert_eq!(kept.and_then(|requirement| requirement.min_values), Some(3));
}

#[test]
fn pods_are_not_packed_onto_a_node_with_too_little_choice_left() {
    // Three pods fit on a large node, but only a node with at most two pods leaves two types to choose from.
    let plan = planned("Strict", 2, json!([pods("web", 3, "2", json!({}))]));
    plan.assert_all_placed();
    assert!(plan.claims().iter().all(|claim| claim.instance_types.len() >= 2), "{:?}", plan.result);
    assert!(plan.claims().len() >= 2);
}

#[test]
fn a_pod_that_leaves_too_little_choice_has_no_place_when_the_policy_is_strict() {
    let plan = planned("Strict", 2, json!([pods("web", 1, "5", json!({}))]));
    assert_eq!(plan.unplaced(), ["web-0"]);
}

#[test]
fn a_pod_that_leaves_too_little_choice_is_placed_when_the_policy_is_best_effort() {
    let plan = planned("BestEffort", 2, json!([pods("web", 1, "5", json!({}))]));
    plan.assert_all_placed();
    assert_eq!(plan.only_claim().instance_types, ["large"]);
}

#[test]
fn a_pool_that_wants_more_than_there_is_is_no_use_when_the_policy_is_strict() {
    let groups = json!([pods("web", 1, "1", json!({}))]);
    assert_eq!(planned("Strict", 4, groups.clone()).unplaced(), ["web-0"]);
    let lowered = planned("BestEffort", 4, groups);
    assert_eq!(lowered.only_claim().instance_types, ["small", "medium", "large"]);
}

#[test]
fn a_pod_that_narrows_a_choice_too_much_uses_a_pool_that_does_not_care() {
    let requirement = json!({ "key": ZONE, "operator": "Exists", "minValues": 2 });
    let wide =
        pool("wide", json!({ "weight": 9, "template": { "spec": { "requirements": [requirement] } } }));
    let groups = json!([
        pods("any", 1, "7", json!({})),
        pods("zonal", 1, "7", json!({ "nodeSelector": { ZONE: "zone-b" } })),
    ]);
    let plan = plan(json!({ "nodePools": [wide, pool("general", json!({}))], "podGroups": groups }));
    plan.assert_all_placed();
    assert_eq!(plan.claim_of("any-0").node_pool, "wide");
    assert_eq!(plan.claim_of("zonal-0").node_pool, "general");
}
