//! Which pods are planned for, and what they ask for.

use karpenter_checker::Quantity;
use serde_json::{Value, json};

use super::{plan, pods, with_defaults};
use crate::planned::{printed_plan, read_plan};

/// What a pod with this spec asks for on its node.
#[track_caller]
fn check_cpu(spec: Value, expected: &str) {
    let plan = plan(json!({ "podGroups": [pods("web", 1, "1", spec)] }));
    plan.assert_all_placed();
    let expected: Quantity = expected.parse().expect("the test writes a quantity");
    assert_eq!(plan.only_claim().requests["cpu"], expected);
}

fn cpu(cpu: &str) -> Value {
    json!({ "requests": { "cpu": cpu } })
}

#[test]
fn containers_run_at_once_and_init_containers_before_them() {
    let two = json!([{ "resources": cpu("1") }, { "name": "d", "resources": cpu("500m") }]);
    check_cpu(json!({ "containers": two }), "1500m");
    let small = json!({ "name": "i", "resources": cpu("600m") });
    let large = json!({ "name": "j", "resources": cpu("3") });
    check_cpu(json!({ "initContainers": [small] }), "1");
    check_cpu(json!({ "initContainers": [small, large] }), "3");
    check_cpu(json!({ "containers": two, "initContainers": [small, large] }), "3");
}

#[test]
fn sidecars_run_beside_containers_and_beside_the_init_containers_after_them() {
    let sidecar = json!({ "name": "s", "restartPolicy": "Always", "resources": cpu("500m") });
    let init = json!({ "name": "i", "resources": cpu("2") });
    check_cpu(json!({ "initContainers": [sidecar] }), "1500m");
    check_cpu(json!({ "initContainers": [sidecar, init] }), "2500m");
    check_cpu(json!({ "initContainers": [init, sidecar] }), "2");
}

#[test]
fn overhead_comes_on_top() {
    check_cpu(json!({ "overhead": { "cpu": "250m" } }), "1250m");
    check_cpu(json!({ "overhead": { "cpu": "250m" }, "resources": cpu("3") }), "3250m");
}

#[test]
fn requests_of_the_whole_pod_replace_those_of_its_containers() {
    check_cpu(json!({ "resources": cpu("3") }), "3");
    check_cpu(json!({ "resources": { "requests": { "memory": "1Gi" } } }), "1");
    let init = json!({ "name": "i", "resources": cpu("2") });
    check_cpu(json!({ "resources": cpu("1500m"), "initContainers": [init] }), "1500m");
}

#[test]
fn a_type_too_small_for_the_pod_is_not_listed() {
    let plan = plan(json!({ "podGroups": [pods("web", 1, "3", json!({}))] }));
    assert_eq!(plan.only_claim().instance_types, ["medium", "large"]);
}

#[test]
fn a_pod_too_large_for_every_machine_has_no_place() {
    let plan = plan(json!({ "podGroups": [pods("web", 1, "9", json!({})), pods("ok", 1, "1", json!({}))] }));
    assert_eq!(plan.unplaced(), ["web-0"]);
    plan.assert_price(0.08);
}

#[test]
fn a_resource_no_machine_has_keeps_the_pod_waiting() {
    let containers = json!([{ "resources": { "requests": { "example.com/gpu": "1" } } }]);
    let plan = plan(json!({ "podGroups": [pods("web", 1, "1", json!({ "containers": containers }))] }));
    assert_eq!(plan.unplaced(), ["web-0"]);
}

#[test]
fn the_number_of_pods_a_machine_takes_is_a_resource() {
    let plan = plan(json!({ "podGroups": [pods("web", 31, "1m", json!({}))] }));
    plan.assert_all_placed();
    assert_eq!(plan.pods_per_claim("web").iter().sum::<usize>(), 31);
    assert_eq!(plan.claims().len(), 2);
}

#[test]
fn pods_that_do_not_wait_for_a_node_are_left_alone() {
    let owned_by = |api_version: &str, kind: &str| {
        let mut group = pods("owned", 1, "1", json!({}));
        group["pod"]["metadata"]["ownerReferences"] =
            json!([{ "apiVersion": api_version, "kind": kind, "name": "o", "uid": "o", "controller": true }]);
        group
    };
    let mut nominated = pods("nominated", 1, "1", json!({}));
    nominated["pod"]["status"] = json!({ "nominatedNodeName": "n" });
    let bound = pods("bound", 1, "1", json!({ "nodeName": "n" }));
    for group in [owned_by("apps/v1", "DaemonSet"), owned_by("v1", "Node"), nominated, bound] {
        let scenario = with_defaults(json!({ "podGroups": [group] }));
        let result = read_plan(&printed_plan(&scenario));
        assert_eq!(result.ignored.len(), 1, "{group}");
        assert!(result.new_node_claims.is_empty() && result.errors.is_empty(), "{group}");
    }
    let plan = plan(json!({ "podGroups": [owned_by("apps/v1", "ReplicaSet")] }));
    plan.assert_all_placed();
}

#[test]
fn pods_that_ask_for_no_nodepool_or_select_by_fields_are_ignored() {
    let term = |expression: Value| {
        json!({ "affinity": { "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [expression] } } } })
    };
    let unmanaged =
        json!({ "matchExpressions": [{ "key": "karpenter.sh/nodepool", "operator": "DoesNotExist" }] });
    let by_field = json!({ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["n"] }] });
    for expression in [unmanaged, by_field] {
        let plan = plan(json!({ "podGroups": [pods("web", 1, "1", term(expression))] }));
        assert_eq!(plan.result.ignored.len(), 1, "{:?}", plan.result);
        assert!(plan.claims().is_empty());
    }
}
