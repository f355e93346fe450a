//! Scarce room goes to the pods with the highest priority; among equals to the largest.

use serde_json::{Value, json};

use super::{Plan, node, plan, pods, pool};

fn pod(name: &str, cpu: &str, priority: i32) -> Value {
    pods(name, 1, cpu, json!({ "priority": priority }))
}

/// One small machine may be bought, no more.
#[track_caller]
fn with_room_for_one(groups: Value) -> Plan {
    let scarce = pool("general", json!({ "limits": { "cpu": "2" } }));
    plan(json!({ "nodePools": [scarce], "podGroups": groups }))
}

#[test]
fn the_last_place_under_a_limit_goes_to_the_higher_priority() {
    let plan = with_room_for_one(json!([pod("large", "2", 0), pod("important", "1", 100)]));
    assert_eq!(plan.unplaced(), ["large-0"]);
}

#[test]
fn a_pod_below_the_usual_priority_gives_way() {
    let plan = with_room_for_one(json!([pod("batch", "2", -1), pods("web", 1, "500m", json!({}))]));
    assert_eq!(plan.unplaced(), ["batch-0"]);
}

#[test]
fn among_equals_the_largest_goes_first() {
    let plan = with_room_for_one(json!([pod("small", "1", 7), pod("large", "1500m", 7)]));
    assert_eq!(plan.unplaced(), ["small-0"]);
}

#[test]
fn what_the_important_pods_leave_is_still_used() {
    let plan =
        with_room_for_one(json!([pod("large", "2", 0), pod("tiny", "1", 0), pod("important", "1", 9)]));
    assert_eq!(plan.unplaced(), ["large-0"]);
}

#[test]
fn room_on_existing_nodes_goes_to_the_higher_priority() {
    let plan = plan(json!({
        "nodePools": [pool("general", json!({ "limits": { "cpu": "2" } }))],
        "nodes": [node("n", "small", "zone-a", json!({}))],
        "podGroups": [pod("large", "2", 0), pod("important", "1", 100)],
    }));
    assert_eq!(plan.on_nodes()["n"], ["important-0"]);
    assert_eq!(plan.unplaced(), ["large-0"]);
}
