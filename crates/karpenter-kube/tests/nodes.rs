//! Existing nodes get the labels, taints and resources that their state implies.

use std::sync::Arc;

use karpenter_core::cluster::{Node, NodeStage};
use serde_json::{Value, json};

use crate::loaded;

/// The node of a scenario with one pool, one type and this node.
fn node(line: &Value) -> Arc<Node> {
    let problem = loaded(&json!({
        "instanceTypes": [{
            "name": "large", "capacity": { "cpu": "8", "memory": "10Gi" }, "overhead": { "cpu": "500m" },
            "volumeLimits": { "driver": 7 },
            "requirements": [
                { "key": "family", "operator": "In", "values": ["m"] },
                { "key": "sizes", "operator": "In", "values": ["a", "b"] },
                { "key": "nvme", "operator": "DoesNotExist" },
            ],
            "offerings": [["zone-a", "spot", 1.0, true]],
        }],
        "nodePools": [{
            "metadata": { "name": "pool" },
            "spec": { "template": { "metadata": { "labels": { "team": "a", "tier": "b" } } } },
        }],
        "nodes": [line],
    }));
    problem.snapshot.nodes[0].clone()
}

fn labels(node: &Node) -> Vec<(&str, &str)> {
    node.labels.iter().map(|(key, value)| (&**key, &**value)).collect()
}

fn taints(node: &Node) -> Vec<&str> {
    node.taints.iter().map(|taint| &*taint.key).collect()
}

#[test]
fn an_initialized_node_has_the_labels_of_type_placement_and_pool() {
    let node = node(&json!({
        "name": "n", "nodePool": "pool", "instanceType": "large", "zone": "zone-b", "capacityType": "on-demand",
        "labels": { "tier": "c" },
    }));
    let expected = [
        ("family", "m"),
        ("karpenter.sh/capacity-type", "on-demand"),
        ("karpenter.sh/initialized", "true"),
        ("karpenter.sh/nodepool", "pool"),
        ("karpenter.sh/registered", "true"),
        ("karpenter.test.sh/testnodeclass", "default"),
        ("kubernetes.io/hostname", "n"),
        ("node.kubernetes.io/instance-type", "large"),
        ("team", "a"),
        ("tier", "c"),
        ("topology.kubernetes.io/zone", "zone-b"),
    ];
    assert_eq!(labels(&node), expected);
    assert_eq!(node.capacity.get("cpu").to_string(), "8");
    assert_eq!(node.allocatable.get("cpu").to_string(), "7500m");
    assert_eq!(node.volume_limits.get("driver"), Some(&7));
    assert_eq!(node.created, "2026-01-01T11:00:00Z".parse().unwrap());
}

#[test]
fn taints_that_will_vanish_do_not_count_before_initialization() {
    let line = |state: &str| {
        json!({
            "name": "n", "nodePool": "pool", "state": state,
            "taints": [
                { "key": "stays", "effect": "NoSchedule" },
                { "key": "node.kubernetes.io/not-ready", "effect": "NoSchedule" },
            ],
            "startupTaints": [{ "key": "starts", "effect": "NoSchedule" }],
        })
    };
    assert_eq!(taints(&node(&line("registered"))), ["stays"]);
    assert_eq!(taints(&node(&line("launched"))), ["stays"]);
    assert_eq!(taints(&node(&line("initialized"))), ["stays", "node.kubernetes.io/not-ready"]);
}

#[test]
fn a_launched_node_goes_by_the_name_of_its_claim() {
    let node = node(&json!({ "name": "n", "nodePool": "pool", "state": "launched" }));
    assert_eq!((&*node.name, node.stage), ("nc-n", NodeStage::Launched));
    assert!(labels(&node).contains(&("kubernetes.io/hostname", "nc-n")));
    assert!(!node.labels.contains_key("karpenter.sh/registered"));
}

#[test]
fn an_unmanaged_node_is_what_it_says() {
    let node = node(&json!({
        "name": "n", "state": "launched", "capacity": { "cpu": "4" },
        "taints": [{ "key": "node.kubernetes.io/not-ready", "effect": "NoSchedule" }],
    }));
    assert_eq!((&*node.name, node.stage, node.node_pool.as_deref()), ("n", NodeStage::Initialized, None));
    assert_eq!(labels(&node), [("kubernetes.io/hostname", "n")]);
    assert_eq!(taints(&node), ["node.kubernetes.io/not-ready"]);
    assert_eq!(
        node.allocatable.get("cpu").to_string(),
        "4",
        "all of its capacity, when nothing else is said"
    );
}
