//! Taints of NodePools and nodes, and the pods that tolerate them.

use serde_json::{Value, json};

use super::{machine, node, plan, pods, pool};

fn tainted(name: &str, effect: &str) -> Value {
    let taints = json!([{ "key": "dedicated", "value": "db", "effect": effect }]);
    pool(name, json!({ "template": { "spec": { "taints": taints } } }))
}

fn tolerating(toleration: &Value) -> Value {
    json!({ "tolerations": [toleration] })
}

#[test]
fn a_tainted_pool_takes_only_pods_that_tolerate_it() {
    for effect in ["NoSchedule", "NoExecute"] {
        let check = |toleration: Value, fits: bool| {
            let group = pods("web", 1, "1", tolerating(&toleration));
            let plan = plan(json!({ "nodePools": [tainted("db", effect)], "podGroups": [group] }));
            assert_eq!(plan.unplaced().is_empty(), fits, "{effect} {toleration}");
        };
        check(json!({ "key": "dedicated", "operator": "Equal", "value": "db", "effect": effect }), true);
        check(json!({ "key": "dedicated", "value": "db" }), true);
        check(json!({ "key": "dedicated", "operator": "Exists" }), true);
        check(json!({ "operator": "Exists" }), true);
        check(json!({ "key": "dedicated", "value": "web" }), false);
        check(json!({ "key": "other", "operator": "Exists" }), false);
        check(json!({ "key": "dedicated", "operator": "Exists", "effect": "PreferNoSchedule" }), false);
    }
}

#[test]
fn a_pod_that_does_not_tolerate_a_heavy_pool_uses_another() {
    let mut heavy = tainted("db", "NoSchedule");
    heavy["spec"]["weight"] = json!(10);
    let pools = json!([heavy, pool("general", json!({}))]);
    let tolerant = pods("db", 1, "7", tolerating(&json!({ "operator": "Exists" })));
    let plan = plan(json!({ "nodePools": pools, "podGroups": [tolerant, pods("web", 1, "7", json!({}))] }));
    plan.assert_all_placed();
    assert_eq!(plan.claim_of("db-0").node_pool, "db");
    assert_eq!(plan.claim_of("web-0").node_pool, "general");
}

#[test]
fn a_pool_that_would_rather_not_is_used_only_when_nothing_else_works() {
    let mut reluctant = tainted("reluctant", "PreferNoSchedule");
    reluctant["spec"]["weight"] = json!(10);
    let web = pods("web", 1, "1", json!({}));
    let both = plan(json!({ "nodePools": [reluctant, pool("general", json!({}))], "podGroups": [web] }));
    assert_eq!(both.only_claim().node_pool, "general");
    let alone = plan(json!({ "nodePools": [reluctant], "podGroups": [web] }));
    assert_eq!(alone.only_claim().node_pool, "reluctant");
    let tolerant = pods("web", 1, "1", tolerating(&json!({ "operator": "Exists" })));
    let welcome =
        plan(json!({ "nodePools": [reluctant, pool("general", json!({}))], "podGroups": [tolerant] }));
    assert_eq!(welcome.only_claim().node_pool, "reluctant");
}

#[test]
fn startup_taints_of_a_pool_need_no_toleration() {
    let startup = json!([{ "key": "example.com/agent", "effect": "NoExecute" }]);
    let starting = pool("general", json!({ "template": { "spec": { "startupTaints": startup } } }));
    let plan = plan(json!({ "nodePools": [starting], "podGroups": [pods("web", 1, "1", json!({}))] }));
    plan.assert_all_placed();
}

/// Whether a pod without tolerations goes to a node with these fields; if not, a new one is bought.
#[track_caller]
fn check_node(fields: Value, used: bool) {
    let nodes = json!([node("n", "small", "zone-a", fields)]);
    let plan = plan(json!({ "nodes": nodes, "podGroups": [pods("web", 1, "1", json!({}))] }));
    plan.assert_all_placed();
    assert_eq!(plan.claims().is_empty(), used, "{nodes}");
}

#[test]
fn a_tainted_node_is_not_used() {
    check_node(json!({ "taints": [{ "key": "dedicated", "effect": "NoSchedule" }] }), false);
    check_node(json!({ "taints": [{ "key": "karpenter.sh/disrupted", "effect": "NoSchedule" }] }), false);
}

#[test]
fn taints_that_go_away_while_a_node_starts_do_not_matter() {
    let agent = json!([{ "key": "example.com/agent", "effect": "NoExecute" }]);
    let not_ready = json!([{ "key": "node.kubernetes.io/not-ready", "effect": "NoSchedule" }]);
    check_node(json!({ "state": "registered", "startupTaints": agent, "taints": agent }), true);
    check_node(json!({ "state": "registered", "taints": not_ready }), true);
    check_node(json!({ "state": "registered", "taints": agent }), false);
    check_node(json!({ "startupTaints": agent, "taints": agent }), false);
    check_node(json!({ "taints": not_ready }), false);
}

#[test]
fn a_dearer_machine_is_bought_rather_than_a_taint_ignored() {
    let mut cheap = tainted("cheap", "NoSchedule");
    cheap["spec"]["weight"] = json!(1);
    let mut large = pool("general", json!({}));
    large["spec"]["template"] = json!({ "spec": { "requirements": [
        { "key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["large"] }] } });
    let machines = json!([machine("small", 2), machine("large", 8)]);
    let web = pods("web", 1, "1", json!({}));
    let plan = plan(json!({ "instanceTypes": machines, "nodePools": [cheap, large], "podGroups": [web] }));
    plan.assert_price(8.0 * 0.04);
}
