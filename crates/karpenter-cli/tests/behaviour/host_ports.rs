//! Two pods cannot listen on the same port of one node.

use serde_json::{Value, json};

use super::{Plan, node, plan, pods};

fn listening(name: &str, count: u32, port: Value) -> Value {
    let containers = json!([{ "resources": { "requests": { "cpu": "100m" } }, "ports": [port] }]);
    pods(name, count, "100m", json!({ "containers": containers }))
}

#[track_caller]
fn planned(groups: Value) -> Plan {
    let plan = plan(json!({ "podGroups": groups }));
    plan.assert_all_placed();
    plan
}

#[test]
fn equal_ports_need_a_node_each() {
    let plan = planned(json!([listening("web", 3, json!({ "containerPort": 80, "hostPort": 80 }))]));
    assert_eq!(plan.pods_per_claim("web"), [1, 1, 1]);
}

#[test]
fn ports_conflict_when_protocol_and_address_meet() {
    let first = json!({ "containerPort": 80, "hostPort": 80, "protocol": "TCP", "hostIP": "10.0.0.1" });
    let check = |second: Value, nodes: usize| {
        let plan = planned(json!([listening("a", 1, first.clone()), listening("b", 1, second.clone())]));
        assert_eq!(plan.claims().len(), nodes, "{second}");
    };
    check(json!({ "containerPort": 80, "hostPort": 80, "hostIP": "10.0.0.1" }), 2);
    check(json!({ "containerPort": 80, "hostPort": 80 }), 2);
    check(json!({ "containerPort": 80, "hostPort": 80, "hostIP": "0.0.0.0" }), 2);
    check(json!({ "containerPort": 80, "hostPort": 80, "hostIP": "10.0.0.2" }), 1);
    check(json!({ "containerPort": 80, "hostPort": 80, "protocol": "UDP" }), 1);
    check(json!({ "containerPort": 80, "hostPort": 81 }), 1);
    check(json!({ "containerPort": 80 }), 1);
}

#[test]
fn a_port_in_use_on_a_node_keeps_pods_off_it() {
    let port = json!({ "containerPort": 80, "hostPort": 80 });
    let nodes = json!([
        node("busy", "large", "zone-a", json!({ "podGroups": [listening("old", 1, port.clone())] })),
        node("free", "large", "zone-a", json!({})),
    ]);
    let plan = plan(json!({ "nodes": nodes, "podGroups": [listening("web", 2, port)] }));
    plan.assert_all_placed();
    assert_eq!(plan.on_nodes().into_keys().collect::<Vec<_>>(), ["free"]);
    assert_eq!(plan.claims().len(), 1);
}
