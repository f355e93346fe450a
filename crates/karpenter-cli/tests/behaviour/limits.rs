//! Limits of NodePools are never exceeded, whichever of the listed types is launched.

use serde_json::{Value, json};

use super::{machine, node, plan, pods, pool};

fn limited(name: &str, limits: Value) -> Value {
    pool(name, json!({ "limits": limits }))
}

#[test]
fn pods_beyond_the_limit_have_no_place() {
    let web = pods("web", 5, "2", json!({}));
    let plan = plan(json!({ "nodePools": [limited("general", json!({ "cpu": "8" }))], "podGroups": [web] }));
    assert_eq!(plan.unplaced().len(), 1);
    plan.assert_price(8.0 * 0.04);
}

#[test]
fn the_number_of_nodes_is_limited_within_one_batch() {
    // Each pod fills a large node.
    let web = pods("web", 5, "7", json!({}));
    let plan =
        plan(json!({ "nodePools": [limited("general", json!({ "nodes": "3" }))], "podGroups": [web] }));
    assert_eq!(plan.claims().len(), 3);
    assert_eq!(plan.unplaced().len(), 2);
}

#[test]
fn few_large_nodes_are_bought_when_the_number_of_nodes_is_scarce() {
    let web = pods("web", 8, "1", json!({}));
    let plan =
        plan(json!({ "nodePools": [limited("general", json!({ "nodes": "1" }))], "podGroups": [web] }));
    plan.assert_all_placed();
    assert_eq!(plan.only_claim().instance_types, ["large"]);
}

#[test]
fn nodes_that_are_there_count_and_leaving_ones_do_not() {
    let problem = |leaving: bool| {
        json!({
            "nodePools": [limited("general", json!({ "cpu": "4", "nodes": "2" }))],
            "nodes": [node("n", "small", "zone-a", json!({
                "deleting": leaving, "podGroups": [pods("old", 1, "2", json!({}))] }))],
            "podGroups": [pods("web", 2, "2", json!({}))],
        })
    };
    let full = plan(problem(false));
    assert_eq!((full.claims().len(), full.unplaced().len()), (1, 1));
    // The leaving node's own pod needs a place as well: three pods, two nodes.
    let leaving = plan(problem(true));
    assert_eq!(leaving.unplaced().len(), 1);
}

#[test]
fn a_limit_of_zero_nodes_closes_the_pool() {
    let closed = limited("general", json!({ "nodes": "0" }));
    let web = pods("web", 1, "1", json!({}));
    assert_eq!(plan(json!({ "nodePools": [closed], "podGroups": [web] })).unplaced(), ["web-0"]);
}

#[test]
fn what_exceeds_one_pool_goes_to_the_next() {
    let mut first = limited("first", json!({ "cpu": "2" }));
    first["spec"]["weight"] = json!(10);
    let pools = json!([first, limited("second", json!({ "memory": "8Gi" }))]);
    let plan = plan(json!({ "nodePools": pools, "podGroups": [pods("web", 3, "2", json!({}))] }));
    assert_eq!(plan.unplaced().len(), 1);
    let mut used: Vec<&str> = plan.claims().iter().map(|claim| claim.node_pool.as_str()).collect();
    used.sort_unstable();
    assert_eq!(used, ["first", "second"]);
}

#[test]
fn types_that_could_exceed_the_limit_are_not_listed() {
    let general = limited("general", json!({ "cpu": "5" }));
    let plan = plan(json!({ "nodePools": [general], "podGroups": [pods("web", 1, "1", json!({}))] }));
    assert_eq!(plan.only_claim().instance_types, ["small", "medium"]);
}

#[test]
fn a_limit_on_something_no_machine_has_does_not_matter() {
    let general = limited("general", json!({ "example.com/gpu": "0" }));
    let mut gpu = machine("gpu", 2);
    gpu["capacity"]["example.com/gpu"] = json!("1");
    let machines = json!([gpu, machine("medium", 4)]);
    let web = pods("web", 1, "1", json!({}));
    let plan = plan(json!({ "instanceTypes": machines, "nodePools": [general], "podGroups": [web] }));
    assert_eq!(plan.only_claim().instance_types, ["medium"]);
}
