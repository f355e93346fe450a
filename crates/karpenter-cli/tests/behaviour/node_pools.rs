//! Which NodePool a pod's node belongs to, and what labels it can have.

use serde_json::{Value, json};

use super::{CAPACITY_TYPE, INSTANCE_TYPE, ZONE, expressions, machine, plan, pods, pool, pool_with};

fn selecting(key: &str, value: &str) -> Value {
    json!({ "nodeSelector": { key: value } })
}

fn affine(requirements: &[(&str, &str, &[&str])]) -> Value {
    json!({ "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{ "matchExpressions": expressions(requirements) }] } } } })
}

fn weighted(name: &str, weight: u32, capacity_type: &str) -> Value {
    let mut pool = pool_with(name, &[(CAPACITY_TYPE, "In", &[capacity_type])]);
    pool["spec"]["weight"] = json!(weight);
    pool
}

#[test]
fn the_heavier_pool_is_used_even_if_it_is_dearer() {
    let pools = json!([weighted("cheap", 1, "spot"), weighted("dear", 10, "on-demand")]);
    let plan = plan(json!({ "nodePools": pools, "podGroups": [pods("web", 1, "1", json!({}))] }));
    assert_eq!(plan.only_claim().node_pool, "dear");
}

#[test]
fn a_pod_the_heavier_pool_cannot_take_goes_to_the_lighter_one() {
    let pools = json!([weighted("spot", 1, "spot"), weighted("on-demand", 10, "on-demand")]);
    let spot = pods("spot", 1, "7", selecting(CAPACITY_TYPE, "spot"));
    let plan = plan(json!({ "nodePools": pools, "podGroups": [pods("any", 1, "7", json!({})), spot] }));
    plan.assert_all_placed();
    assert_eq!(plan.claim_of("any-0").node_pool, "on-demand");
    assert_eq!(plan.claim_of("spot-0").node_pool, "spot");
}

#[test]
fn fewer_nodes_are_dearer_and_only_taken_where_they_are_asked_for() {
    let plan_by = |policy: &str| {
        let web = pods("web", 5, "1", json!({}));
        plan(json!({ "options": { "packingPolicy": policy }, "podGroups": [web] }))
    };
    assert_eq!(plan_by("Cheapest").claims().len(), 2, "a medium and a small one");
    assert_eq!(plan_by("FewestNodes").claims().len(), 1);
}

#[test]
fn of_pools_with_equal_weight_the_last_by_name_is_used() {
    let pools = json!([pool("b", json!({})), pool("c", json!({})), pool("a", json!({}))]);
    let plan = plan(json!({ "nodePools": pools, "podGroups": [pods("web", 1, "1", json!({}))] }));
    assert_eq!(plan.only_claim().node_pool, "c");
}

#[test]
fn a_pool_of_fixed_size_gets_no_nodes_for_pods() {
    let fixed = pool("fixed", json!({ "replicas": 3, "weight": 50 }));
    let web = pods("web", 1, "1", json!({}));
    let alone = plan(json!({ "nodePools": [fixed], "podGroups": [web] }));
    assert_eq!(alone.unplaced(), ["web-0"]);
    let both = plan(json!({ "nodePools": [fixed, pool("general", json!({}))], "podGroups": [web] }));
    assert_eq!(both.only_claim().node_pool, "general");
}

#[test]
fn a_label_of_ones_own_must_be_defined_by_the_pool() {
    let unlabelled = pool("unlabelled", json!({ "weight": 10 }));
    let labelled = pool("labelled", json!({ "template": { "metadata": { "labels": { "team": "shop" } } } }));
    let listed = pool_with("listed", &[("tier", "In", &["front", "back"])]);
    let groups = json!([
        pods("team", 1, "1", selecting("team", "shop")),
        pods("tier", 1, "1", selecting("tier", "back")),
        pods("other-team", 1, "1", selecting("team", "bank")),
        pods("unknown", 1, "1", selecting("example.com/unknown", "x")),
        pods("exists", 1, "1", affine(&[("example.com/unknown", "Exists", &[])])),
        pods("not-in", 1, "7", affine(&[("example.com/unknown", "NotIn", &["x"])])),
        pods("absent", 1, "7", affine(&[("team", "DoesNotExist", &[])])),
    ]);
    let plan = plan(json!({ "nodePools": [unlabelled, labelled, listed], "podGroups": groups }));
    assert_eq!(plan.unplaced(), ["exists-0", "other-team-0", "unknown-0"]);
    assert_eq!(plan.claim_of("team-0").node_pool, "labelled");
    assert_eq!(plan.claim_of("tier-0").node_pool, "listed");
    assert_eq!(plan.claim_of("not-in-0").node_pool, "unlabelled");
    assert_eq!(plan.claim_of("absent-0").node_pool, "unlabelled");
}

#[test]
fn contradictory_requirements_have_no_place_instead_of_a_node_without_the_label() {
    let contradiction = affine(&[(ZONE, "In", &["zone-a"]), (ZONE, "In", &["zone-b"])]);
    let custom = affine(&[("team", "In", &["a"]), ("team", "In", &["b"])]);
    let groups = json!([pods("zone", 1, "1", contradiction), pods("team", 1, "1", custom)]);
    let general = pool_with("general", &[("team", "In", &["a", "b"])]);
    let plan = plan(json!({ "nodePools": [general], "podGroups": groups }));
    assert_eq!(plan.unplaced(), ["team-0", "zone-0"]);
    assert!(plan.claims().is_empty());
}

#[test]
fn comparisons_pick_machines_by_number() {
    let sized = |name: &str, cpu: u32| {
        let mut machine = machine(name, cpu);
        machine["requirements"] =
            json!([{ "key": "example.com/cpu", "operator": "In", "values": [cpu.to_string()] }]);
        machine
    };
    let machines = json!([sized("small", 2), sized("medium", 4), sized("large", 8)]);
    let check = |requirements: &[(&str, &str, &[&str])], expected: &[&str]| {
        let plan = plan(json!({
            "wellKnownLabels": ["example.com/cpu"],
            "instanceTypes": machines,
            "podGroups": [pods("web", 1, "1", affine(requirements))],
        }));
        let listed: Vec<&str> =
            plan.claims().iter().flat_map(|claim| &claim.instance_types).map(String::as_str).collect();
        assert_eq!(listed, expected, "{requirements:?}");
    };
    check(&[("example.com/cpu", "Gt", &["2"])], &["medium", "large"]);
    check(&[("example.com/cpu", "Lt", &["8"])], &["small", "medium"]);
    check(&[("example.com/cpu", "Gt", &["2"]), ("example.com/cpu", "Lt", &["8"])], &["medium"]);
    check(&[("example.com/cpu", "Gt", &["8"])], &[]);
    check(&[("example.com/cpu", "NotIn", &["2"])], &["medium", "large"]);
    check(&[("example.com/cpu", "DoesNotExist", &[])], &[]);
}

#[test]
fn machines_out_of_stock_are_not_counted_on() {
    let mut small = machine("small", 2);
    for offering in small["offerings"].as_array_mut().unwrap() {
        offering[3] = json!(offering[0] == "zone-c" && offering[1] == "on-demand");
    }
    let mut gone = machine("gone", 2);
    for offering in gone["offerings"].as_array_mut().unwrap() {
        offering[3] = json!(false);
    }
    let plan = plan(json!({ "instanceTypes": [small, gone], "podGroups": [pods("web", 1, "1", json!({}))] }));
    assert_eq!(plan.only_claim().instance_types, ["small"]);
    plan.assert_price(0.3);
}

#[test]
fn a_pod_that_names_a_machine_gets_it_at_the_cheapest_offering_it_allows() {
    let spec = affine(&[
        (INSTANCE_TYPE, "In", &["medium"]),
        (ZONE, "NotIn", &["zone-a"]),
        (CAPACITY_TYPE, "NotIn", &["spot"]),
    ]);
    let plan = plan(json!({ "podGroups": [pods("web", 1, "1", spec)] }));
    assert_eq!(plan.only_claim().instance_types, ["medium"]);
    plan.assert_price(0.5);
}

#[test]
fn one_pod_that_needs_on_demand_does_not_make_spot_pods_dear() {
    let strict = pods("strict", 1, "1", selecting(CAPACITY_TYPE, "on-demand"));
    let plan = plan(json!({ "podGroups": [strict, pods("web", 7, "1", json!({}))] }));
    plan.assert_all_placed();
    // A small on-demand machine that the strict pod shares with another, and spot for the other six.
    plan.assert_price(0.2 + 6.0 * 0.04);
}

#[test]
fn a_range_of_which_every_integer_is_excluded_is_empty() {
    let pools = json!([pool_with("general", &[("tier", "Gt", &["3"]), ("tier", "Lt", &["7"])])]);
    let planned = |excluded: &[&str]| {
        let web = pods("web", 1, "1", affine(&[("tier", "NotIn", excluded)]));
        plan(json!({ "nodePools": pools, "podGroups": [web] }))
    };
    planned(&["4", "5"]).assert_all_placed();
    assert_eq!(planned(&["4", "5", "6"]).unplaced(), ["web-0"]);
}
