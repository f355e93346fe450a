//! Volumes tie pods to places, and a node attaches only so many.

use serde_json::{Value, json};

use super::{Plan, ZONE, launch, machine, node, plan, pods};

const DRIVER: &str = "ebs.csi.aws.com";

fn using(claims: &[&str]) -> Value {
    let volume = |claim: &&str| json!({ "name": claim, "persistentVolumeClaim": { "claimName": claim } });
    json!({ "volumes": claims.iter().map(volume).collect::<Value>() })
}

/// A volume that can be reached from these zones, and the claim bound to it under the same name.
fn bound(name: &str, zones: &[&str]) -> (Value, Value) {
    let terms = json!([{ "matchExpressions": [{ "key": ZONE, "operator": "In", "values": zones }] }]);
    let volume = json!({ "metadata": { "name": name }, "spec": {
        "csi": { "driver": DRIVER, "volumeHandle": name },
        "nodeAffinity": { "required": { "nodeSelectorTerms": terms } } } });
    let claim = json!({
        "metadata": { "name": name, "namespace": "default", "annotations": { "pv.kubernetes.io/bind-completed": "yes" } },
        "spec": { "volumeName": name }, "status": { "phase": "Bound" } });
    (volume, claim)
}

/// A claim that waits for its pod.
fn unbound(name: &str, class: &str) -> Value {
    json!({ "metadata": { "name": name, "namespace": "default" }, "spec": { "storageClassName": class },
        "status": { "phase": "Pending" } })
}

fn class(name: &str, mode: &str, zones: &[&str]) -> Value {
    let topologies = json!([{ "matchLabelExpressions": [{ "key": ZONE, "values": zones }] }]);
    json!({ "metadata": { "name": name }, "provisioner": DRIVER, "volumeBindingMode": mode,
        "allowedTopologies": if zones.is_empty() { json!([]) } else { topologies } })
}

#[track_caller]
fn with_bound(volumes: &[(&str, &[&str])], fields: Value) -> Plan {
    let (volumes, claims): (Vec<Value>, Vec<Value>) =
        volumes.iter().map(|(name, zones)| bound(name, zones)).unzip();
    let mut scenario = json!({ "persistentVolumes": volumes, "persistentVolumeClaims": claims });
    super::overwrite(&mut scenario, fields);
    plan(scenario)
}

#[test]
fn a_pod_goes_to_the_zone_of_its_volume() {
    let plan =
        with_bound(&[("data", &["zone-c"])], json!({ "podGroups": [pods("db", 1, "1", using(&["data"]))] }));
    assert_eq!(launch(plan.only_claim()).zone, "zone-c");
}

#[test]
fn several_volumes_must_meet_in_one_zone() {
    let volumes: &[(&str, &[&str])] =
        &[("a", &["zone-a", "zone-b"]), ("b", &["zone-b", "zone-c"]), ("c", &["zone-c"])];
    let groups = json!([pods("meet", 1, "1", using(&["a", "b"])), pods("apart", 1, "1", using(&["a", "c"]))]);
    let plan = with_bound(volumes, json!({ "podGroups": groups }));
    assert_eq!(plan.unplaced(), ["apart-0"]);
    assert_eq!(launch(plan.claim_of("meet-0")).zone, "zone-b");
}

#[test]
fn a_new_volume_may_be_made_where_its_class_allows() {
    let plan = plan(json!({
        "storageClasses": [class("fast", "WaitForFirstConsumer", &["zone-b", "zone-c"])],
        "persistentVolumeClaims": [unbound("data", "fast")],
        "podGroups": [pods("db", 1, "1", using(&["data"]))],
    }));
    assert_eq!(launch(plan.only_claim()).zone, "zone-b");
}

#[test]
fn pods_whose_claims_cannot_be_used_yet_are_not_considered() {
    let classes = json!([class("now", "Immediate", &[]), class("later", "WaitForFirstConsumer", &[])]);
    let mut lost = unbound("lost", "later");
    lost["status"]["phase"] = json!("Lost");
    let mut dangling = unbound("dangling", "later");
    dangling["spec"]["volumeName"] = json!("nowhere");
    let claims = json!([
        unbound("immediate", "now"),
        unbound("classless", ""),
        unbound("unknown", "gone"),
        lost,
        dangling,
    ]);
    let names = ["immediate", "classless", "unknown", "lost", "dangling", "missing"];
    let groups: Value = names.iter().map(|name| pods(name, 1, "1", using(&[name]))).collect();
    let plan =
        plan(json!({ "storageClasses": classes, "persistentVolumeClaims": claims, "podGroups": groups }));
    assert_eq!(plan.result.ignored.len(), names.len(), "{:?}", plan.result);
    assert!(plan.claims().is_empty());
}

#[test]
fn a_node_that_is_there_attaches_no_more_volumes_than_it_can() {
    let volumes: &[(&str, &[&str])] = &[("a", &["zone-a"]), ("b", &["zone-a"]), ("c", &["zone-a"])];
    let old = pods("old", 1, "100m", using(&["a"]));
    let nodes =
        json!([node("n", "large", "zone-a", json!({ "volumeLimits": { DRIVER: 2 }, "podGroups": [old] }))]);
    let groups = json!([pods("one", 1, "100m", using(&["b"])), pods("two", 1, "100m", using(&["c"]))]);
    let plan = with_bound(volumes, json!({ "nodes": nodes, "podGroups": groups }));
    plan.assert_all_placed();
    assert_eq!(plan.on_nodes()["n"].len(), 1);
    assert_eq!(plan.claims().len(), 1);
}

#[test]
fn a_volume_that_is_attached_already_takes_no_further_slot() {
    let volumes: &[(&str, &[&str])] = &[("a", &["zone-a"])];
    let old = pods("old", 1, "100m", using(&["a"]));
    let nodes =
        json!([node("n", "large", "zone-a", json!({ "volumeLimits": { DRIVER: 1 }, "podGroups": [old] }))]);
    let plan =
        with_bound(volumes, json!({ "nodes": nodes, "podGroups": [pods("two", 3, "100m", using(&["a"]))] }));
    assert_eq!(plan.on_nodes()["n"].len(), 3);
}

#[test]
fn a_new_node_is_not_given_more_volumes_than_its_types_attach() {
    let mut small = machine("small", 2);
    small["volumeLimits"] = json!({ DRIVER: 2 });
    let mut large = machine("large", 8);
    large["volumeLimits"] = json!({ DRIVER: 4 });
    let names = ["a", "b", "c", "d", "e"];
    let volumes: Vec<(&str, &[&str])> = names.iter().map(|name| (*name, &["zone-a"] as &[&str])).collect();
    let groups: Value = names.iter().map(|name| pods(name, 1, "100m", using(&[name]))).collect();
    let plan = with_bound(&volumes, json!({ "instanceTypes": [small, large], "podGroups": groups }));
    plan.assert_all_placed();
    for claim in plan.claims() {
        let most = if claim.instance_types.iter().any(|name| name == "small") { 2 } else { 4 };
        assert!(claim.pods.len() <= most, "{claim:?}");
    }
    // Three small machines cost 0.24, a large one alone 0.32.
    plan.assert_price(0.24);
}

#[test]
fn volumes_of_other_drivers_are_not_limited() {
    let mut small = machine("small", 2);
    small["volumeLimits"] = json!({ "other.csi.example.com": 1 });
    let volumes: &[(&str, &[&str])] = &[("a", &["zone-a"]), ("b", &["zone-a"])];
    let groups = json!([pods("one", 1, "100m", using(&["a", "b"]))]);
    let plan = with_bound(volumes, json!({ "instanceTypes": [small], "podGroups": groups }));
    plan.assert_all_placed();
}

#[test]
fn an_ephemeral_volume_is_claimed_under_the_name_of_its_pod() {
    let spec = json!({ "volumes": [{ "name": "scratch", "ephemeral": { "volumeClaimTemplate": {
        "spec": { "storageClassName": "fast" } } } }] });
    let plan = plan(json!({
        "storageClasses": [class("fast", "WaitForFirstConsumer", &["zone-b"])],
        "persistentVolumeClaims": [unbound("db-0-scratch", "fast"), unbound("db-1-scratch", "fast")],
        "podGroups": [pods("db", 2, "1", spec)],
    }));
    plan.assert_all_placed();
    assert_eq!(plan.zones("db").into_keys().collect::<Vec<_>>(), ["zone-b"]);
}

#[test]
fn a_local_volume_is_made_anew_on_another_host() {
    let volume = json!({ "metadata": { "name": "disk" }, "spec": { "local": { "path": "/disk" },
        "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": [
            { "key": super::HOSTNAME, "operator": "In", "values": ["gone"] }] }] } } } });
    let (_, mut claim) = bound("disk", &[]);
    claim["metadata"]["name"] = json!("disk");
    let plan = plan(json!({
        "persistentVolumes": [volume], "persistentVolumeClaims": [claim],
        "podGroups": [pods("db", 1, "1", using(&["disk"]))],
    }));
    plan.assert_all_placed();
}
