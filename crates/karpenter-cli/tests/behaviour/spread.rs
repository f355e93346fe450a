//! Topology spread constraints.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{CAPACITY_TYPE, HOSTNAME, Plan, ZONE, app, launch, node, overwrite, plan, pods, pool, pool_with};

/// Pods of the group `web` that spread over `key`, with more fields of the constraint.
fn spreading(count: u32, cpu: &str, key: &str, fields: Value) -> Value {
    pods("web", count, cpu, json!({ "topologySpreadConstraints": [constraint(key, fields)] }))
}

fn constraint(key: &str, fields: Value) -> Value {
    let mut constraint = json!({
        "topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": app("web"),
    });
    overwrite(&mut constraint, fields);
    constraint
}

/// A pool for some of the zones.
fn zonal(name: &str, zones: &[&str]) -> Value {
    pool_with(name, &[(ZONE, "In", zones)])
}

fn in_zones(counts: &[(&'static str, usize)]) -> BTreeMap<&'static str, usize> {
    counts.iter().copied().collect()
}

const EVEN: &[(&str, usize)] = &[("zone-a", 2), ("zone-b", 2), ("zone-c", 2)];

#[test]
fn pods_spread_evenly_over_zones_although_some_are_dearer() {
    let plan = plan(json!({ "podGroups": [spreading(6, "1", ZONE, json!({}))] }));
    assert_eq!(plan.zones("web"), in_zones(EVEN));
}

#[test]
fn a_larger_skew_leaves_more_freedom() {
    let plan = plan(json!({ "podGroups": [spreading(6, "2", ZONE, json!({ "maxSkew": 3 }))] }));
    plan.assert_all_placed();
    let zones = plan.zones("web");
    let count = |zone: &str| zones.get(zone).copied().unwrap_or(0);
    assert!(count("zone-a") <= count("zone-c") + 3 && count("zone-a") >= 2, "{zones:?}");
}

#[test]
fn a_skew_over_hosts_is_the_number_of_pods_per_host() {
    let alone = plan(json!({ "podGroups": [spreading(4, "100m", HOSTNAME, json!({}))] }));
    assert_eq!(alone.pods_per_claim("web"), [1, 1, 1, 1]);
    let pairs = plan(json!({ "podGroups": [spreading(4, "100m", HOSTNAME, json!({ "maxSkew": 2 }))] }));
    assert_eq!(pairs.pods_per_claim("web"), [2, 2]);
}

#[test]
fn pods_spread_over_capacity_types() {
    let plan = plan(json!({ "podGroups": [spreading(4, "1", CAPACITY_TYPE, json!({}))] }));
    let counts = plan.pods_by("web", |claim| &launch(claim).capacity_type);
    assert_eq!(counts, in_zones(&[("on-demand", 2), ("spot", 2)]));
}

#[test]
fn pods_spread_over_a_label_of_the_pools() {
    let team = |name: &str| pool(name, json!({ "template": { "metadata": { "labels": { "team": name } } } }));
    let pools = json!([team("red"), team("green"), team("blue")]);
    let plan = plan(json!({ "nodePools": pools, "podGroups": [spreading(3, "1", "team", json!({}))] }));
    let counts = plan.pods_by("web", |claim| &claim.node_pool);
    assert_eq!(counts, in_zones(&[("blue", 1), ("green", 1), ("red", 1)]));
}

#[test]
fn a_label_nobody_has_cannot_be_spread_over() {
    let plan = plan(json!({ "podGroups": [spreading(1, "1", "example.com/rack", json!({}))] }));
    assert_eq!(plan.unplaced(), ["web-0"]);
}

#[test]
fn pods_that_run_already_count() {
    let old = |count: u32| json!({ "podGroups": [running("web", count, json!({}))] });
    let nodes = json!([node("a", "small", "zone-a", old(2)), node("b", "small", "zone-b", old(1))]);
    let plan = plan(json!({ "nodes": nodes, "podGroups": [spreading(3, "2", ZONE, json!({}))] }));
    assert_eq!(plan.zones("web"), in_zones(&[("zone-b", 1), ("zone-c", 2)]));
}

/// Small pods that run on a node and carry the labels that the constraints count.
fn running(name: &str, count: u32, labels: Value) -> Value {
    let mut group = pods(name, count, "100m", json!({}));
    group["pod"]["metadata"]["name"] = json!("old");
    overwrite(&mut group["pod"]["metadata"]["labels"], labels);
    group
}

#[test]
fn pods_of_other_namespaces_do_not_count() {
    let mut elsewhere = running("web", 3, json!({}));
    elsewhere["pod"]["metadata"]["namespace"] = json!("elsewhere");
    let nodes = json!([node("a", "small", "zone-a", json!({ "podGroups": [elsewhere] }))]);
    let plan = plan(json!({ "nodes": nodes, "podGroups": [spreading(3, "2", ZONE, json!({}))] }));
    assert_eq!(plan.zones("web"), in_zones(&[("zone-a", 1), ("zone-b", 1), ("zone-c", 1)]));
}

#[test]
fn pods_may_keep_clear_of_others_without_counting_themselves() {
    let old = json!({ "podGroups": [running("db", 2, json!({}))] });
    let fields = json!({ "labelSelector": app("db") });
    let plan = plan(json!({
        "nodes": [node("a", "small", "zone-a", old)], "podGroups": [spreading(4, "1", ZONE, fields)] }));
    plan.assert_all_placed();
    assert!(!plan.zones("web").contains_key("zone-a") && plan.on_nodes().is_empty(), "{:?}", plan.result);
}

#[test]
fn several_constraints_hold_together() {
    let constraints = json!([constraint(ZONE, json!({})), constraint(HOSTNAME, json!({}))]);
    let web = pods("web", 6, "100m", json!({ "topologySpreadConstraints": constraints }));
    let plan = plan(json!({ "podGroups": [web] }));
    assert_eq!(plan.zones("web"), in_zones(EVEN));
    assert_eq!(plan.claims().len(), 6);
}

#[test]
fn fewer_zones_than_min_domains_take_one_skew_of_pods_each() {
    let planned = |min_domains: u32| {
        let web = spreading(4, "1", ZONE, json!({ "minDomains": min_domains }));
        plan(json!({ "nodePools": [zonal("general", &["zone-a", "zone-b"])], "podGroups": [web] }))
    };
    assert_eq!(planned(2).zones("web"), in_zones(&[("zone-a", 2), ("zone-b", 2)]));
    let scarce = planned(3);
    assert_eq!(scarce.zones("web"), in_zones(&[("zone-a", 1), ("zone-b", 1)]));
    assert_eq!(scarce.unplaced().len(), 2);
}

/// Pods for nodes with `team: shop`, while five pods like them run in `zone-a` on a node without it.
#[track_caller]
fn beside_other_teams(policy: Value) -> Plan {
    let shop = pool("general", json!({ "template": { "metadata": { "labels": { "team": "shop" } } } }));
    let foreign = json!({ "name": "foreign", "labels": { ZONE: "zone-a" }, "capacity": { "cpu": "1", "pods": "9" },
        "podGroups": [running("web", 5, json!({}))] });
    let mut web = spreading(4, "2", ZONE, policy);
    web["pod"]["spec"]["nodeSelector"] = json!({ "team": "shop" });
    let plan = plan(json!({ "nodePools": [shop], "nodes": [foreign], "podGroups": [web] }));
    plan.assert_all_placed();
    plan
}

#[test]
fn nodes_the_pods_do_not_select_count_only_if_the_policy_says_so() {
    for honoring in [json!({}), json!({ "nodeAffinityPolicy": "Honor" })] {
        let zones = beside_other_teams(honoring);
        assert_eq!(zones.zones("web").len(), 3);
    }
    let ignoring = beside_other_teams(json!({ "nodeAffinityPolicy": "Ignore" }));
    assert_eq!(ignoring.zones("web"), in_zones(&[("zone-b", 2), ("zone-c", 2)]));
}

#[test]
fn zones_behind_a_taint_count_unless_the_policy_says_otherwise() {
    let mut tainted = zonal("tainted", &["zone-c"]);
    tainted["spec"]["template"]["spec"]["taints"] = json!([{ "key": "dedicated", "effect": "NoSchedule" }]);
    let pools = json!([zonal("general", &["zone-a", "zone-b"]), tainted]);
    let planned =
        |policy: Value| plan(json!({ "nodePools": pools, "podGroups": [spreading(4, "1", ZONE, policy)] }));
    for ignoring in [json!({}), json!({ "nodeTaintsPolicy": "Ignore" })] {
        let plan = planned(ignoring);
        assert_eq!(plan.zones("web"), in_zones(&[("zone-a", 1), ("zone-b", 1)]));
        assert_eq!(plan.unplaced().len(), 2);
    }
    let honoring = planned(json!({ "nodeTaintsPolicy": "Honor" }));
    assert_eq!(honoring.zones("web"), in_zones(&[("zone-a", 2), ("zone-b", 2)]));
}

#[test]
fn pods_on_tainted_nodes_count_unless_the_policy_says_otherwise() {
    let planned = |policy: Value| {
        let busy = json!({ "taints": [{ "key": "dedicated", "effect": "NoSchedule" }],
            "podGroups": [running("web", 5, json!({}))] });
        let nodes = json!([node("a", "small", "zone-a", busy)]);
        plan(json!({ "nodes": nodes, "podGroups": [spreading(4, "2", ZONE, policy)] }))
    };
    assert_eq!(planned(json!({})).zones("web"), in_zones(&[("zone-b", 2), ("zone-c", 2)]));
    assert_eq!(planned(json!({ "nodeTaintsPolicy": "Honor" })).zones("web").len(), 3);
}

#[test]
fn match_label_keys_keep_revisions_apart() {
    let planned = |fields: Value| {
        let old = json!({ "podGroups": [running("web", 3, json!({ "revision": "1" }))] });
        let mut web = spreading(4, "2", ZONE, fields);
        web["pod"]["metadata"]["labels"]["revision"] = json!("2");
        plan(json!({ "nodes": [node("a", "small", "zone-a", old)], "podGroups": [web] }))
    };
    assert_eq!(planned(json!({})).zones("web"), in_zones(&[("zone-b", 2), ("zone-c", 2)]));
    assert_eq!(planned(json!({ "matchLabelKeys": ["revision"] })).zones("web").len(), 3);
}

#[test]
fn a_soft_constraint_is_kept_while_it_can_be() {
    let soft = json!({ "whenUnsatisfiable": "ScheduleAnyway" });
    let plan = plan(json!({ "podGroups": [spreading(6, "1", ZONE, soft)] }));
    assert_eq!(plan.zones("web"), in_zones(EVEN));
}

#[test]
fn a_soft_constraint_gives_way_where_a_hard_one_does_not() {
    let nodes =
        json!([node("b", "small", "zone-b", json!({ "podGroups": [pods("full", 1, "2", json!({}))] }))]);
    let planned = |word: &str| {
        let web = spreading(3, "2", ZONE, json!({ "whenUnsatisfiable": word }));
        plan(json!({ "nodePools": [zonal("general", &["zone-a"])], "nodes": nodes, "podGroups": [web] }))
    };
    assert_eq!(planned("DoNotSchedule").unplaced().len(), 2);
    assert_eq!(planned("ScheduleAnyway").zones("web"), in_zones(&[("zone-a", 3)]));
}

/// A machine type in one zone.
fn sold_in(name: &str, zone: &str, capacity_type: &str, arch: &str, price: f64) -> Value {
    json!({
        "name": name,
        "capacity": { "cpu": "16", "memory": "64Gi", "pods": "30" },
        "requirements": [{ "key": ARCH, "operator": "In", "values": [arch] }],
        "offerings": [[zone, capacity_type, price, true]],
    })
}

const ARCH: &str = "kubernetes.io/arch";

#[test]
fn pods_that_are_counted_stay_where_they_were_counted() {
    // The plain pods are counted on the pool for arm64; moving them elsewhere afterwards would break the skew.
    let types = json!([
        sold_in("x86", "zone-b", "on-demand", "amd64", 2.7),
        sold_in("arm", "zone-c", "spot", "arm64", 0.5)
    ]);
    let pools = json!([pool("both", json!({})), pool_with("only-arm", &[(ARCH, "In", &["arm64"])])]);
    let web = spreading(2, "100m", ARCH, json!({ "labelSelector": {} }));
    let others = pods("plain", 2, "100m", json!({}));
    let plan = plan(json!({ "instanceTypes": types, "nodePools": pools, "podGroups": [web, others] }));
    plan.assert_all_placed();
}

#[test]
fn a_node_counts_only_if_the_pods_surely_select_it() {
    // The plain pod fits spot machines only, so no on-demand pod of zone-a is there to be counted.
    let mut spot = sold_in("spot", "zone-a", "spot", "amd64", 0.14);
    spot["capacity"]["memory"] = json!("96Gi");
    let types = json!([
        sold_in("a", "zone-a", "on-demand", "amd64", 0.2),
        sold_in("b", "zone-b", "on-demand", "amd64", 3.0),
        sold_in("c", "zone-c", "on-demand", "amd64", 4.5),
        spot,
    ]);
    let mut web = spreading(3, "0", ZONE, json!({ "labelSelector": {} }));
    web["pod"]["spec"]["nodeSelector"] = json!({ CAPACITY_TYPE: "on-demand" });
    let containers = json!([{ "resources": { "requests": { "memory": "80Gi" } } }]);
    let others =
        pods("plain", 1, "0", json!({ "nodeSelector": { ZONE: "zone-a" }, "containers": containers }));
    let plan = plan(json!({ "instanceTypes": types, "podGroups": [web, others] }));
    plan.assert_all_placed();
    assert_eq!(plan.zones("web"), in_zones(&[("zone-a", 1), ("zone-b", 1), ("zone-c", 1)]));
}
