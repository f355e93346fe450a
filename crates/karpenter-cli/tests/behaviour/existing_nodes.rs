//! Nodes that are there, on their way or leaving.

use serde_json::{Value, json};

use super::{ZONE, node, plan, pods, pool};

fn web(count: u32, cpu: &str) -> Value {
    json!([pods("web", count, cpu, json!({}))])
}

#[test]
fn room_that_is_there_is_used_before_anything_is_bought() {
    let nodes =
        json!([node("n", "medium", "zone-a", json!({ "podGroups": [pods("old", 1, "1", json!({}))] }))]);
    let plan = plan(json!({ "nodes": nodes, "podGroups": web(4, "1") }));
    plan.assert_all_placed();
    assert_eq!(plan.on_nodes()["n"].len(), 3);
    plan.assert_price(0.08);
}

#[test]
fn nodes_on_their_way_are_used_under_the_name_of_their_claim() {
    for (state, name) in [("launched", "nc-n"), ("registered", "n"), ("initialized", "n")] {
        let nodes = json!([node("n", "small", "zone-a", json!({ "state": state }))]);
        let plan = plan(json!({ "nodes": nodes, "podGroups": web(2, "1") }));
        assert_eq!(plan.on_nodes()[name].len(), 2, "{state}");
        assert!(plan.claims().is_empty());
    }
}

#[test]
fn ready_nodes_come_before_nodes_on_their_way() {
    let nodes = json!([
        node("a", "small", "zone-a", json!({ "state": "launched" })),
        node("b", "small", "zone-a", json!({ "state": "registered" })),
        node("c", "small", "zone-a", json!({})),
    ]);
    let plan = plan(json!({ "nodes": nodes, "podGroups": web(1, "1") }));
    assert_eq!(plan.on_nodes().into_keys().collect::<Vec<_>>(), ["c"]);
}

#[test]
fn a_leaving_node_is_not_used_and_its_pods_move() {
    let nodes = json!([node(
        "n",
        "large",
        "zone-a",
        json!({
        "deleting": true, "podGroups": [pods("old", 1, "1", json!({}))] })
    )]);
    let plan = plan(json!({ "nodes": nodes, "podGroups": web(1, "1") }));
    plan.assert_all_placed();
    let mut moved = plan.only_claim().pods.clone();
    moved.sort();
    assert_eq!(moved, ["default/old-0-n", "default/web-0"]);
}

#[test]
fn a_pod_that_may_not_be_evicted_stays_on_its_leaving_node() {
    let budget = json!({ "metadata": { "name": "b" }, "spec": { "maxUnavailable": 0, "selector": super::app("old") } });
    let nodes = json!([node(
        "n",
        "small",
        "zone-a",
        json!({
        "deleting": true, "podGroups": [pods("old", 1, "1", json!({}))] })
    )]);
    let plan = plan(json!({ "nodes": nodes, "podDisruptionBudgets": [budget] }));
    assert!(plan.claims().is_empty());
}

#[test]
fn a_node_karpenter_does_not_manage_is_used_as_it_is() {
    let foreign = json!({
        "name": "foreign", "labels": { ZONE: "zone-z" }, "capacity": { "cpu": "2", "pods": "9" },
        "taints": [{ "key": "node.kubernetes.io/not-ready", "effect": "NoSchedule" }],
    });
    let problem = json!({ "nodes": [foreign], "podGroups": web(1, "1") });
    assert_eq!(plan(problem).claims().len(), 1, "a foreign node that is not ready may never become so");
    let mut ready = foreign.clone();
    ready["taints"] = json!([]);
    let plan = plan(json!({ "nodes": [ready], "podGroups": web(1, "1") }));
    assert_eq!(plan.on_nodes()["foreign"], ["web-0"]);
}

#[test]
fn a_label_the_node_lacks_keeps_a_pod_off_it() {
    let general = pool("general", json!({ "template": { "metadata": { "labels": { "team": "shop" } } } }));
    let foreign = json!({ "name": "foreign", "capacity": { "cpu": "8", "pods": "9" } });
    let shop = pods("shop", 1, "1", json!({ "nodeSelector": { "team": "shop" } }));
    let nodes = json!([foreign, node("n", "small", "zone-a", json!({}))]);
    let plan = plan(json!({ "nodePools": [general], "nodes": nodes, "podGroups": [shop] }));
    assert_eq!(plan.on_nodes()["n"], ["shop-0"]);
}

#[test]
fn allocatable_decides_not_capacity() {
    let nodes =
        json!([node("n", "small", "zone-a", json!({ "allocatable": { "cpu": "900m", "pods": "9" } }))]);
    let plan = plan(json!({ "nodes": nodes, "podGroups": web(1, "1") }));
    assert_eq!(plan.claims().len(), 1);
}

#[test]
fn nodes_of_a_fixed_pool_are_used() {
    let fixed = pool("general", json!({ "replicas": 1 }));
    let nodes = json!([node("n", "small", "zone-a", json!({}))]);
    let plan = plan(json!({ "nodePools": [fixed], "nodes": nodes, "podGroups": web(1, "1") }));
    assert_eq!(plan.on_nodes()["n"], ["web-0"]);
}
