//! Spread and affinity: what an order of arrival can excuse, and what none can.

use std::collections::BTreeSet;

use karpenter_checker::{PlanResult, Scenario, ViolationKind, check};
use serde_json::{Value, json};

/// Three zones, one pool, one big machine type, and these pod groups.
fn scenario(groups: &Value, nodes: &Value) -> Scenario {
    let offerings: Vec<Value> = ["a", "b", "c"].iter().map(|zone| json!([zone, "spot", 1.0, true])).collect();
    let scenario = json!({
        "instanceTypes": [{"name": "big", "capacity": {"cpu": "64", "pods": "100"}, "offerings": offerings}],
        "nodePools": [{"metadata": {"name": "pool"}, "spec": {"template": {"spec": {}}}}],
        "podGroups": groups,
        "nodes": nodes,
    });
    serde_json::from_value(scenario).expect("the test writes a scenario")
}

fn group(name: &str, count: usize, spec: Value) -> Value {
    let mut pod = json!({"metadata": {"name": name, "labels": {"app": name}}, "spec": spec});
    pod["spec"]["containers"] = json!([{}]);
    json!({"count": count, "pod": pod})
}

/// A claim in these zones with these pods, each given as group and numbers.
fn claim(zones: &[&str], pods: &[(&str, std::ops::Range<usize>)]) -> Value {
    let names: Vec<String> = pods
        .iter()
        .flat_map(|(group, range)| range.clone().map(move |i| format!("default/{group}-{i}")))
        .collect();
    json!({
        "nodePool": "pool",
        "requirements": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": zones}],
        "requests": {"pods": names.len().to_string()},
        "instanceTypes": ["big"],
        "cheapest": {"instanceType": "big", "zone": zones[0], "capacityType": "spot", "price": 1.0},
        "pods": names,
    })
}

fn kinds(scenario: &Scenario, claims: Vec<Value>) -> BTreeSet<&'static str> {
    let plan: PlanResult =
        serde_json::from_value(json!({"newNodeClaims": claims})).expect("the test writes a plan");
    check(scenario, &plan).into_iter().map(|v| v.kind.name()).collect()
}

fn found(kind: ViolationKind) -> BTreeSet<&'static str> {
    BTreeSet::from([kind.name()])
}

fn spread(app: &str, extra: Value) -> Value {
    let mut constraint = json!({
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
    });
    for (key, value) in extra.as_object().into_iter().flatten() {
        constraint[key] = value.clone();
    }
    json!({"topologySpreadConstraints": [constraint]})
}

fn affinity(kind: &str, app: &str, key: &str) -> Value {
    let term = json!({"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key});
    json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
}

const ZONE: &str = "topology.kubernetes.io/zone";
const HOSTNAME: &str = "kubernetes.io/hostname";

#[test]
fn equal_spread_pods_must_end_within_the_skew() {
    let scenario = scenario(&json!([group("web", 5, spread("web", json!({})))]), &json!([]));
    let even = vec![
        claim(&["a"], &[("web", 0..2)]),
        claim(&["b"], &[("web", 2..4)]),
        claim(&["c"], &[("web", 4..5)]),
    ];
    assert!(kinds(&scenario, even).is_empty());
    let skewed = vec![
        claim(&["a"], &[("web", 0..3)]),
        claim(&["b"], &[("web", 3..4)]),
        claim(&["c"], &[("web", 4..5)]),
    ];
    assert_eq!(kinds(&scenario, skewed), found(ViolationKind::Spread));
}

#[test]
fn an_empty_zone_counts_even_without_a_node() {
    let scenario = scenario(&json!([group("web", 4, spread("web", json!({})))]), &json!([]));
    let two_zones = vec![claim(&["a"], &[("web", 0..2)]), claim(&["b"], &[("web", 2..4)])];
    assert_eq!(kinds(&scenario, two_zones), found(ViolationKind::Spread));
}

#[test]
fn pods_that_match_without_the_constraint_may_come_later() {
    let mut plain = group("web", 9, json!({}));
    plain["pod"]["metadata"]["name"] = json!("plain");
    let scenario = scenario(&json!([group("web", 3, spread("web", json!({}))), plain]), &json!([]));
    let crowded = vec![
        claim(&["a"], &[("web", 0..1), ("plain", 0..9)]),
        claim(&["b"], &[("web", 1..2)]),
        claim(&["c"], &[("web", 2..3)]),
    ];
    assert!(kinds(&scenario, crowded).is_empty());
}

#[test]
fn min_domains_makes_the_smallest_count_zero() {
    let constraint = spread("web", json!({"minDomains": 4}));
    let scenario = scenario(&json!([group("web", 6, constraint)]), &json!([]));
    let twice =
        ["a", "b", "c"].iter().enumerate().map(|(i, z)| claim(&[z], &[("web", 2 * i..2 * i + 2)])).collect();
    assert_eq!(kinds(&scenario, twice), found(ViolationKind::Spread));
}

#[test]
fn workloads_with_one_selector_keep_their_own_min_domains() {
    let mut strict = group("web", 2, spread("web", json!({"minDomains": 4})));
    strict["pod"]["metadata"]["name"] = json!("strict");
    let scenario = scenario(&json!([group("web", 1, spread("web", json!({}))), strict]), &json!([]));
    // The strict pods came first, one per zone; the third zone's pod keeps the others' skew in bounds.
    let right = vec![
        claim(&["a"], &[("strict", 0..1)]),
        claim(&["b"], &[("strict", 1..2)]),
        claim(&["c"], &[("web", 0..1)]),
    ];
    assert!(kinds(&scenario, right).is_empty());
    let wrong = vec![claim(&["a"], &[("strict", 0..2)]), claim(&["b"], &[("web", 0..1)])];
    assert_eq!(kinds(&scenario, wrong), found(ViolationKind::Spread));
}

#[test]
fn bound_pods_count_where_the_constraint_looks() {
    let node = |name: &str, zone: &str, pods: usize| {
        json!({"name": name, "nodePool": "pool", "instanceType": "big", "zone": zone, "capacityType": "spot",
               "podGroups": [group("web", pods, json!({}))]})
    };
    let nodes = json!([node("n0", "a", 3), node("n1", "b", 1), node("n2", "c", 1)]);
    let scenario = scenario(&json!([group("web", 2, spread("web", json!({})))]), &nodes);
    let fair = vec![claim(&["b"], &[("web", 0..1)]), claim(&["c"], &[("web", 1..2)])];
    assert!(kinds(&scenario, fair).is_empty());
    let unfair = vec![claim(&["a"], &[("web", 0..1)]), claim(&["c"], &[("web", 1..2)])];
    assert_eq!(kinds(&scenario, unfair), found(ViolationKind::Spread));
}

#[test]
fn match_label_keys_tell_revisions_apart() {
    let revision = |name: &str| {
        let mut group = group("web", 2, spread("web", json!({"matchLabelKeys": ["revision"]})));
        group["pod"]["metadata"]["name"] = json!(name);
        group["pod"]["metadata"]["labels"]["revision"] = json!(name);
        group
    };
    let scenario = scenario(&json!([revision("old"), revision("new")]), &json!([]));
    let together =
        vec![claim(&["a"], &[("old", 0..1), ("new", 0..1)]), claim(&["b"], &[("old", 1..2), ("new", 1..2)])];
    assert!(kinds(&scenario, together).is_empty());
}

#[test]
fn an_open_zone_is_harmless_when_any_zone_would_do() {
    let scenario = scenario(&json!([group("web", 1, spread("web", json!({})))]), &json!([]));
    assert!(kinds(&scenario, vec![claim(&["a", "b"], &[("web", 0..1)])]).is_empty());
}

#[test]
fn friends_share_a_zone_even_if_it_is_not_settled_as_long_as_they_share_the_node() {
    let scenario = scenario(&json!([group("web", 4, affinity("podAffinity", "web", ZONE))]), &json!([]));
    assert!(kinds(&scenario, vec![claim(&["a", "b"], &[("web", 0..4)])]).is_empty());
    let same_zone = vec![claim(&["a"], &[("web", 0..2)]), claim(&["a"], &[("web", 2..4)])];
    assert!(kinds(&scenario, same_zone).is_empty());
    let maybe = vec![claim(&["a", "b"], &[("web", 0..2)]), claim(&["a", "b"], &[("web", 2..4)])];
    assert_eq!(kinds(&scenario, maybe), found(ViolationKind::Affinity));
    let apart = vec![claim(&["a"], &[("web", 0..2)]), claim(&["b"], &[("web", 2..4)])];
    assert_eq!(kinds(&scenario, apart), found(ViolationKind::Affinity));
}

#[test]
fn a_follower_needs_its_leader_but_not_the_other_way_round() {
    let groups = json!([group("db", 1, json!({})), group("web", 2, affinity("podAffinity", "db", ZONE))]);
    let scenario = scenario(&groups, &json!([]));
    let beside = vec![claim(&["a"], &[("db", 0..1)]), claim(&["a"], &[("web", 0..2)])];
    assert!(kinds(&scenario, beside).is_empty());
    let away = vec![claim(&["a"], &[("db", 0..1)]), claim(&["b"], &[("web", 0..2)])];
    assert_eq!(kinds(&scenario, away), found(ViolationKind::Affinity));
}

#[test]
fn two_that_wait_for_each_other_never_start() {
    let groups = json!([
        group("hen", 1, affinity("podAffinity", "egg", HOSTNAME)),
        group("egg", 1, affinity("podAffinity", "hen", HOSTNAME)),
    ]);
    let scenario = scenario(&groups, &json!([]));
    let together = vec![claim(&["a"], &[("hen", 0..1), ("egg", 0..1)])];
    assert_eq!(kinds(&scenario, together), found(ViolationKind::Affinity));
}

#[test]
fn a_pod_may_start_a_domain_before_a_match_appears_elsewhere() {
    let mut plain = group("web", 1, json!({}));
    plain["pod"]["metadata"]["name"] = json!("plain");
    let groups = json!([group("web", 2, affinity("podAffinity", "web", ZONE)), plain]);
    let claims = vec![claim(&["a"], &[("web", 0..2)]), claim(&["b"], &[("plain", 0..1)])];
    assert!(kinds(&scenario(&groups, &json!([])), claims.clone()).is_empty());
    let bound = json!([{"name": "n0", "nodePool": "pool", "instanceType": "big", "zone": "c",
        "capacityType": "spot", "podGroups": [group("web", 1, json!({}))]}]);
    assert_eq!(kinds(&scenario(&groups, &bound), claims), found(ViolationKind::Affinity));
}

#[test]
fn enemies_keep_apart_wherever_they_might_land() {
    let scenario = scenario(&json!([group("web", 2, affinity("podAntiAffinity", "web", ZONE))]), &json!([]));
    let apart = vec![claim(&["a", "b"], &[("web", 0..1)]), claim(&["c"], &[("web", 1..2)])];
    assert!(kinds(&scenario, apart).is_empty());
    let maybe = vec![claim(&["a", "b"], &[("web", 0..1)]), claim(&["b", "c"], &[("web", 1..2)])];
    assert_eq!(kinds(&scenario, maybe), found(ViolationKind::AntiAffinity));
}

#[test]
fn anti_affinity_works_against_pods_that_do_not_know_of_it() {
    let groups =
        json!([group("shy", 1, affinity("podAntiAffinity", "loud", ZONE)), group("loud", 1, json!({}))]);
    let scenario = scenario(&groups, &json!([]));
    let near = vec![claim(&["a"], &[("shy", 0..1)]), claim(&["a"], &[("loud", 0..1)])];
    assert_eq!(kinds(&scenario, near), found(ViolationKind::AntiAffinity));
    let far = vec![claim(&["a"], &[("shy", 0..1)]), claim(&["b"], &[("loud", 0..1)])];
    assert!(kinds(&scenario, far).is_empty());
}
