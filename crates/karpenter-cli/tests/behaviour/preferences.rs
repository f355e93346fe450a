//! Preferences: kept while they can be, given up one by one, in this order: required node affinity terms (one of them is
//! enough), preferred pod affinity, preferred pod anti-affinity, preferred node affinity, soft spread, taints that would
//! rather not.

use serde_json::{Value, json};

use super::{HOSTNAME, Plan, ZONE, app, expressions, launch, machine, node, overwrite, plan, pods, pool};

fn zones(names: &[&str]) -> Value {
    json!({ "matchExpressions": expressions(&[(ZONE, "In", names)]) })
}

fn weighed(weight: u32, zone: &str) -> Value {
    json!({ "weight": weight, "preference": zones(&[zone]) })
}

fn prefers_zones(terms: &[Value]) -> Value {
    json!({ "nodeAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": terms } })
}

/// Preferred pod affinity or anti-affinity.
fn prefers_pods(kind: &str, key: &str, name: &str) -> Value {
    let term = json!({ "topologyKey": key, "labelSelector": app(name) });
    json!({ kind: { "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 50, "podAffinityTerm": term }] } })
}

fn soft_spread(name: &str) -> Value {
    json!([{ "topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": app(name) }])
}

/// The zone a lone pod with this affinity goes to.
#[track_caller]
fn zone_with(affinity: Value, fields: Value) -> String {
    let mut scenario = json!({ "podGroups": [pods("web", 1, "2", json!({ "affinity": affinity }))] });
    overwrite(&mut scenario, fields);
    zone_of_web(&plan(scenario))
}

#[track_caller]
fn zone_of_web(plan: &Plan) -> String {
    plan.assert_all_placed();
    launch(plan.claim_of("web-0")).zone.clone()
}

/// A full node in a zone, with a pod of this name.
fn running(name: &str, zone: &str) -> Value {
    node(&format!("{name}-{zone}"), "small", zone, json!({ "podGroups": [pods(name, 1, "2", json!({}))] }))
}

#[test]
fn one_term_of_several_is_enough() {
    let terms = json!([zones(&["zone-x"]), zones(&["zone-b"])]);
    let required = json!({ "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms } } });
    assert_eq!(zone_with(required, json!({})), "zone-b");
}

#[test]
fn a_preferred_zone_is_worth_its_price() {
    assert_eq!(zone_with(prefers_zones(&[weighed(1, "zone-c")]), json!({})), "zone-c");
}

#[test]
fn of_several_preferences_the_heaviest_possible_one_wins() {
    assert_eq!(zone_with(prefers_zones(&[weighed(1, "zone-b"), weighed(9, "zone-c")]), json!({})), "zone-c");
    assert_eq!(zone_with(prefers_zones(&[weighed(1, "zone-b"), weighed(9, "zone-x")]), json!({})), "zone-b");
    assert_eq!(zone_with(prefers_zones(&[weighed(1, "zone-x"), weighed(9, "zone-y")]), json!({})), "zone-a");
}

#[test]
fn a_preference_against_a_requirement_is_given_up() {
    let spec =
        json!({ "nodeSelector": { ZONE: "zone-a" }, "affinity": prefers_zones(&[weighed(1, "zone-b")]) });
    let plan = plan(json!({ "podGroups": [pods("web", 1, "1", spec)] }));
    assert_eq!(zone_of_web(&plan), "zone-a");
}

#[test]
fn preferred_company_is_sought_and_preferred_distance_kept() {
    let nodes = json!({ "nodes": [running("db", "zone-c")] });
    assert_eq!(zone_with(prefers_pods("podAffinity", ZONE, "db"), nodes), "zone-c");
    let nodes = json!({ "nodes": [running("db", "zone-a")] });
    assert_eq!(zone_with(prefers_pods("podAntiAffinity", ZONE, "db"), nodes), "zone-b");
}

#[test]
fn pods_that_would_rather_be_alone_share_a_node_when_there_is_only_one() {
    let spec = json!({ "affinity": prefers_pods("podAntiAffinity", HOSTNAME, "web") });
    let web = pods("web", 3, "100m", spec);
    let free = plan(json!({ "podGroups": [web] }));
    assert_eq!(free.pods_per_claim("web"), [1, 1, 1]);
    let one_node = pool("general", json!({ "limits": { "nodes": "1" } }));
    let scarce = plan(json!({ "nodePools": [one_node], "podGroups": [web] }));
    assert_eq!(scarce.pods_per_claim("web"), [3]);
}

#[test]
fn ignored_preferences_cost_nothing() {
    let ignoring =
        || json!({ "options": { "preferencePolicy": "Ignore" }, "nodes": [running("db", "zone-c")] });
    assert_eq!(zone_with(prefers_zones(&[weighed(1, "zone-c")]), ignoring()), "zone-a");
    assert_eq!(zone_with(prefers_pods("podAffinity", ZONE, "db"), ignoring()), "zone-a");
    let web = pods("web", 3, "1", json!({ "topologySpreadConstraints": soft_spread("web") }));
    let soft = plan(json!({ "options": { "preferencePolicy": "Ignore" }, "podGroups": [web] }));
    assert_eq!(soft.zones("web").len(), 1);
}

#[test]
fn a_reluctant_pool_is_avoided_even_when_preferences_are_ignored() {
    let taints = json!([{ "key": "k", "effect": "PreferNoSchedule" }]);
    let reluctant = pool("reluctant", json!({ "weight": 9, "template": { "spec": { "taints": taints } } }));
    let plan = plan(json!({
        "options": { "preferencePolicy": "Ignore" },
        "nodePools": [reluctant, pool("general", json!({}))], "podGroups": [pods("web", 1, "1", json!({}))],
    }));
    assert_eq!(plan.only_claim().node_pool, "general");
}

#[test]
fn preferred_company_is_given_up_before_a_preferred_zone() {
    let mut both = prefers_pods("podAffinity", ZONE, "db");
    overwrite(&mut both, prefers_zones(&[weighed(1, "zone-b")]));
    assert_eq!(zone_with(both, json!({ "nodes": [running("db", "zone-c")] })), "zone-b");
}

#[test]
fn preferred_distance_is_given_up_before_a_preferred_zone() {
    let mut both = prefers_pods("podAntiAffinity", ZONE, "db");
    overwrite(&mut both, prefers_zones(&[weighed(1, "zone-b")]));
    assert_eq!(zone_with(both, json!({ "nodes": [running("db", "zone-b")] })), "zone-b");
}

#[test]
fn preferred_company_is_given_up_before_preferred_distance() {
    let mut both = prefers_pods("podAffinity", ZONE, "db");
    overwrite(&mut both, prefers_pods("podAntiAffinity", ZONE, "db"));
    let zone = zone_with(both, json!({ "nodes": [running("db", "zone-a")] }));
    assert_ne!(zone, "zone-a");
}

#[test]
fn a_preferred_zone_is_given_up_before_an_even_spread() {
    let spec = json!({
        "affinity": prefers_zones(&[weighed(1, "zone-b")]), "topologySpreadConstraints": soft_spread("web"),
    });
    let web = pods("web", 1, "2", spec);
    let mut old = running("web", "zone-b");
    old["podGroups"][0]["pod"]["metadata"]["name"] = json!("old");
    let plan = plan(json!({ "nodes": [old], "podGroups": [web] }));
    assert_ne!(zone_of_web(&plan), "zone-b");
}

#[test]
fn an_even_spread_is_given_up_before_a_reluctant_pool_is_used() {
    let taints = json!([{ "key": "k", "effect": "PreferNoSchedule" }]);
    let only = |zone: &str| expressions(&[(ZONE, "In", &[zone])]);
    let reluctant = pool(
        "reluctant",
        json!({ "template": { "spec": { "taints": taints, "requirements": only("zone-a") } } }),
    );
    let general = pool("general", json!({ "template": { "spec": { "requirements": only("zone-b") } } }));
    let web = pods("web", 1, "2", json!({ "topologySpreadConstraints": soft_spread("web") }));
    let mut old = running("web", "zone-b");
    old["podGroups"][0]["pod"]["metadata"]["name"] = json!("old");
    let plan = plan(json!({ "nodePools": [reluctant, general], "nodes": [old], "podGroups": [web] }));
    assert_eq!(plan.only_claim().node_pool, "general");
}

#[test]
fn preferences_given_up_by_one_pod_still_hold_for_the_others() {
    // Room for one pod in the zone all of them prefer.
    let mut big = machine("big", 8);
    for offering in big["offerings"].as_array_mut().unwrap() {
        offering[3] = json!(offering[0] != "zone-c");
    }
    let nodes = json!([node("n", "big", "zone-c", json!({ "podGroups": [pods("old", 1, "5", json!({}))] }))]);
    let web = pods("web", 2, "3", json!({ "affinity": prefers_zones(&[weighed(1, "zone-c")]) }));
    let plan = plan(json!({ "instanceTypes": [big], "nodes": nodes, "podGroups": [web] }));
    plan.assert_all_placed();
    assert_eq!(plan.on_nodes()["n"].len(), 1);
    assert_eq!(launch(plan.only_claim()).zone, "zone-a");
}
