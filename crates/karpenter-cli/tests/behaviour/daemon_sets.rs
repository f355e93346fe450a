//! Every node also carries the DaemonSets that suit it.

use karpenter_checker::Quantity;
use serde_json::{Value, json};

use super::{INSTANCE_TYPE, expressions, node, plan, pods, pool};

fn daemon_set(name: &str, cpu: &str, spec: Value) -> Value {
    let pod = &pods(name, 1, cpu, spec)["pod"];
    json!({ "name": name, "template": { "metadata": pod["metadata"], "spec": pod["spec"] } })
}

fn quantity(text: &str) -> Quantity {
    text.parse().expect("the test writes a quantity")
}

#[test]
fn a_daemon_takes_room_on_new_nodes() {
    let agent = daemon_set("agent", "500m", json!({}));
    let plan = plan(json!({ "daemonSets": [agent], "podGroups": [pods("web", 1, "1800m", json!({}))] }));
    assert_eq!(plan.only_claim().instance_types, ["medium", "large"]);
    assert_eq!(plan.only_claim().requests["cpu"], quantity("2300m"));
}

#[test]
fn limits_of_a_daemon_stand_in_for_requests_it_does_not_have() {
    let containers = json!([{ "name": "agent", "resources": { "limits": { "cpu": "500m" } } }]);
    let agent = daemon_set("agent", "0", json!({ "containers": containers }));
    let plan = plan(json!({ "daemonSets": [agent], "podGroups": [pods("web", 1, "1", json!({}))] }));
    assert_eq!(plan.only_claim().requests["cpu"], quantity("1500m"));
}

#[test]
fn a_daemon_that_does_not_tolerate_the_pool_takes_no_room() {
    let taints = json!([{ "key": "dedicated", "effect": "NoSchedule" }]);
    let tainted = pool("general", json!({ "template": { "spec": { "taints": taints } } }));
    let tolerations = json!({ "tolerations": [{ "operator": "Exists" }] });
    let check = |spec: Value, expected: &str| {
        let plan = plan(json!({
            "nodePools": [tainted], "daemonSets": [daemon_set("agent", "500m", spec)],
            "podGroups": [pods("web", 1, "1", tolerations.clone())],
        }));
        assert_eq!(plan.only_claim().requests["cpu"], quantity(expected));
    };
    check(json!({}), "1");
    check(tolerations.clone(), "1500m");
}

#[test]
fn a_daemon_for_some_machines_takes_room_on_those_only() {
    let only_small = json!({ "nodeSelector": { INSTANCE_TYPE: "small" } });
    let agent = daemon_set("agent", "500m", only_small);
    let plan = plan(json!({ "daemonSets": [agent], "podGroups": [pods("web", 1, "1800m", json!({}))] }));
    // The small machine has room for the pod or for the daemon, not for both.
    assert_eq!(plan.only_claim().instance_types, ["medium", "large"]);
    assert_eq!(plan.only_claim().requests["cpu"], quantity("1800m"));
}

#[test]
fn any_term_of_a_daemons_affinity_will_do() {
    let terms = json!([
        { "matchExpressions": expressions(&[(INSTANCE_TYPE, "In", &["large"])]) },
        { "matchExpressions": expressions(&[(INSTANCE_TYPE, "In", &["small"])]) },
    ]);
    let affinity = json!({ "affinity": { "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms } } } });
    let agent = daemon_set("agent", "500m", affinity);
    let plan = plan(json!({ "daemonSets": [agent], "podGroups": [pods("web", 1, "1800m", json!({}))] }));
    assert_eq!(plan.only_claim().instance_types, ["medium", "large"]);
}

#[test]
fn room_is_kept_for_a_daemon_that_has_not_started_on_a_node() {
    let agent = daemon_set("agent", "500m", json!({}));
    let problem = |running: Value| {
        json!({
            "daemonSets": [agent],
            "nodes": [node("n", "small", "zone-a", json!({ "podGroups": running }))],
            "podGroups": [pods("web", 1, "1500m", json!({}))],
        })
    };
    let mut started = pods("agent-x", 1, "500m", json!({}));
    started["pod"]["metadata"]["ownerReferences"] = json!([{ "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "a", "controller": true }]);
    assert_eq!(plan(problem(json!([]))).on_nodes()["n"], ["web-0"]);
    assert_eq!(plan(problem(json!([started]))).on_nodes()["n"], ["web-0"]);
    let other = pods("other", 1, "500m", json!({}));
    assert_eq!(plan(problem(json!([other]))).claims().len(), 1);
}

#[test]
fn a_port_of_a_daemon_is_taken_on_every_node_it_runs_on() {
    let port = json!([{ "name": "c", "resources": { "requests": { "cpu": "100m" } },
        "ports": [{ "containerPort": 80, "hostPort": 80 }] }]);
    let everywhere = daemon_set("agent", "0", json!({ "containers": port }));
    let web = pods("web", 1, "0", json!({ "containers": port }));
    assert_eq!(plan(json!({ "daemonSets": [everywhere], "podGroups": [web] })).unplaced(), ["web-0"]);
    let on_small =
        daemon_set("agent", "0", json!({ "containers": port, "nodeSelector": { INSTANCE_TYPE: "small" } }));
    let plan = plan(json!({ "daemonSets": [on_small], "podGroups": [web] }));
    assert_eq!(plan.only_claim().instance_types, ["medium", "large"]);
}
