//! Pods that want to be near others, or far from them.

use serde_json::{Value, json};

use super::{HOSTNAME, ZONE, app, launch, node, plan, pods, pool_with};

fn term(key: &str, selector: Value) -> Value {
    json!({ "topologyKey": key, "labelSelector": selector })
}

fn near(term: Value) -> Value {
    json!({ "affinity": { "podAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [term] } } })
}

fn far(term: Value) -> Value {
    json!({ "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [term] } } })
}

/// A full node with one pod on it.
fn full_node(name: &str, zone: &str, pod: Value) -> Value {
    node(name, "small", zone, json!({ "podGroups": [pod] }))
}

#[test]
fn pods_that_want_each_other_share_a_zone() {
    let plan = plan(json!({ "podGroups": [pods("web", 6, "7", near(term(ZONE, app("web"))))] }));
    plan.assert_all_placed();
    assert_eq!(plan.zones("web").len(), 1);
    assert_eq!(plan.claims().len(), 6);
}

#[test]
fn pods_that_want_each_other_share_a_node_as_far_as_it_goes() {
    let plan = plan(json!({ "podGroups": [pods("web", 5, "2", near(term(HOSTNAME, app("web"))))] }));
    assert_eq!(plan.only_claim().pods.len(), 4);
    assert_eq!(plan.unplaced().len(), 1);
}

#[test]
fn a_pod_follows_pods_that_run_already() {
    let nodes = json!([full_node("n", "zone-c", pods("db", 1, "2", json!({})))]);
    let plan =
        plan(json!({ "nodes": nodes, "podGroups": [pods("web", 2, "1", near(term(ZONE, app("db"))))] }));
    plan.assert_all_placed();
    assert_eq!(plan.zones("web")["zone-c"], 2);
}

#[test]
fn a_pod_follows_pods_of_the_same_batch() {
    // The follower is larger, so it is looked at first.
    let db = pods("db", 1, "1", json!({ "nodeSelector": { ZONE: "zone-b" } }));
    let follower = pods("web", 1, "7", near(term(ZONE, app("db"))));
    let same_host = pods("cache", 1, "500m", near(term(HOSTNAME, app("db"))));
    let plan = plan(json!({ "podGroups": [follower, db, same_host] }));
    plan.assert_all_placed();
    assert_eq!(launch(plan.claim_of("web-0")).zone, "zone-b");
    assert_eq!(plan.claim_of("cache-0").pods, plan.claim_of("db-0").pods);
}

#[test]
fn a_chain_of_followers_ends_up_in_one_zone() {
    let groups = json!([
        pods("a", 1, "7", near(term(ZONE, app("b")))),
        pods("b", 1, "7", near(term(ZONE, app("c")))),
        pods("c", 1, "7", json!({ "nodeSelector": { ZONE: "zone-c" } })),
    ]);
    let plan = plan(json!({ "podGroups": groups }));
    plan.assert_all_placed();
    assert!(plan.claims().iter().all(|claim| launch(claim).zone == "zone-c"));
}

#[test]
fn a_pod_that_wants_pods_nobody_runs_has_no_place() {
    let plan = plan(json!({ "podGroups": [pods("web", 1, "1", near(term(ZONE, app("db"))))] }));
    assert_eq!(plan.unplaced(), ["web-0"]);
}

#[test]
fn a_zone_no_machine_is_in_cannot_be_followed_to() {
    let nodes = json!([full_node("n", "zone-c", pods("db", 1, "2", json!({})))]);
    let pools = json!([pool_with("general", &[(ZONE, "In", &["zone-a"])])]);
    let web = pods("web", 1, "1", near(term(ZONE, app("db"))));
    let plan = plan(json!({ "nodePools": pools, "nodes": nodes, "podGroups": [web] }));
    assert_eq!(plan.unplaced(), ["web-0"]);
}

#[test]
fn pods_that_avoid_each_other_get_a_node_each() {
    let plan = plan(json!({ "podGroups": [pods("web", 3, "100m", far(term(HOSTNAME, app("web"))))] }));
    assert_eq!(plan.pods_per_claim("web"), [1, 1, 1]);
}

#[test]
fn pods_that_avoid_each_others_zone_never_share_one() {
    let plan = plan(json!({ "podGroups": [pods("web", 4, "1", far(term(ZONE, app("web"))))] }));
    assert!(plan.zones("web").values().all(|count| *count == 1));
    assert_eq!(plan.unplaced().len(), 1);
}

#[test]
fn a_pod_keeps_away_from_pods_that_run_already() {
    let nodes = json!([
        node("n", "large", "zone-a", json!({ "podGroups": [pods("db", 1, "1", json!({}))] })),
        node("m", "large", "zone-b", json!({})),
    ]);
    let web = pods("web", 2, "1", far(term(ZONE, app("db"))));
    let plan = plan(json!({ "nodes": nodes, "podGroups": [web] }));
    assert_eq!(plan.on_nodes()["m"].len(), 2);
}

#[test]
fn a_pod_that_asks_for_nothing_respects_those_that_want_to_be_alone() {
    let lonely = pods("db", 1, "1", far(term(ZONE, app("web"))));
    let nodes = json!([node("n", "large", "zone-a", json!({ "podGroups": [lonely] }))]);
    let plan = plan(json!({ "nodes": nodes, "podGroups": [pods("web", 2, "1", json!({}))] }));
    plan.assert_all_placed();
    assert!(plan.on_nodes().is_empty() && !plan.zones("web").contains_key("zone-a"), "{:?}", plan.result);
}

#[test]
fn pods_of_one_batch_respect_those_that_want_to_be_alone() {
    let lonely = pods("db", 1, "500m", far(term(HOSTNAME, json!({}))));
    let plan = plan(json!({ "podGroups": [pods("web", 3, "100m", json!({})), lonely] }));
    plan.assert_all_placed();
    assert_eq!(plan.claim_of("db-0").pods, ["default/db-0"]);
}

#[test]
fn near_and_far_at_once_has_no_place() {
    let mut spec = near(term(ZONE, app("db")));
    spec["affinity"]["podAntiAffinity"] = far(term(ZONE, app("db")))["affinity"]["podAntiAffinity"].clone();
    let nodes = json!([full_node("n", "zone-a", pods("db", 1, "2", json!({})))]);
    let plan = plan(json!({ "nodes": nodes, "podGroups": [pods("web", 1, "1", spec)] }));
    assert_eq!(plan.unplaced(), ["web-0"]);
}

/// Whether a pod with this anti-affinity term stays away from a pod of the namespace `shop`, which is in `zone-a`.
#[track_caller]
fn check_namespaces(fields: Value, stays_away: bool) {
    let mut db = pods("db", 1, "2", json!({}));
    db["pod"]["metadata"]["namespace"] = json!("shop");
    let mut term = term(ZONE, app("db"));
    super::overwrite(&mut term, fields);
    let plan = plan(json!({
        "namespaces": [{ "name": "shop", "labels": { "tier": "front" } }],
        "nodes": [full_node("n", "zone-a", db)],
        "podGroups": [pods("web", 1, "1", far(term.clone()))],
    }));
    plan.assert_all_placed();
    assert_eq!(launch(plan.only_claim()).zone != "zone-a", stays_away, "{term}");
}

#[test]
fn terms_are_about_the_pods_own_namespace_unless_they_say_otherwise() {
    check_namespaces(json!({}), false);
    check_namespaces(json!({ "namespaces": ["shop"] }), true);
    check_namespaces(json!({ "namespaces": ["bank"] }), false);
    check_namespaces(json!({ "namespaceSelector": {} }), true);
    check_namespaces(json!({ "namespaceSelector": { "matchLabels": { "tier": "front" } } }), true);
    check_namespaces(json!({ "namespaceSelector": { "matchLabels": { "tier": "back" } } }), false);
    let by_name = json!({ "matchLabels": { "kubernetes.io/metadata.name": "shop" } });
    check_namespaces(json!({ "namespaceSelector": by_name }), true);
}

#[test]
fn a_zone_is_not_started_while_matching_pods_may_be_in_another() {
    // The group shares a full node whose zone nothing decides; the last pod needs a node of its own in the same zone.
    let group = pods("web", 4, "2", near(term(HOSTNAME, json!({}))));
    let last = pods("late", 1, "1", near(term(ZONE, json!({}))));
    let plan = plan(json!({ "podGroups": [group, last] }));
    plan.assert_all_placed();
    assert_eq!(plan.claims().len(), 2);
}
