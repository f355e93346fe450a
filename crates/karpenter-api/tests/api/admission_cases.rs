//! What the CRDs of NodeClaim, NodeOverlay and CapacityBuffer accept and refuse.

use serde_json::json;

use crate::admission::Table;
use crate::shared_cases::{
    conditions, duration, nillable_duration, node_class_ref, quantities, requirements, taints,
};

pub(crate) fn nodeclaim() -> Table {
    let mut table = Table::new(
        "NodeClaim",
        json!({
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodeClaim",
            "metadata": {"name": "default-x7f2p"},
            "spec": {
                "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "Exists"}],
                "resources": {},
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
            },
            "status": {}
        }),
    );
    for pointer in ["/spec", "/spec/requirements", "/spec/nodeClassRef"] {
        table.add("a part missing", &[(pointer, None)], None, Some("is a required property"));
    }
    requirements(&mut table, "/spec/requirements", true);
    let own_pool = json!([{"key": "karpenter.sh/nodepool", "operator": "In", "values": ["default"]}]);
    table.accept("the label of its pool", "/spec/requirements", own_pool);
    let kwok = json!([{"key": "karpenter.kwok.sh/unknown", "operator": "Exists"}]);
    table.refuse(
        "a KWOK label",
        "/spec/requirements",
        kwok,
        r#"label domain "karpenter.kwok.sh" is restricted"#,
    );
    taints(&mut table, "/spec/taints");
    taints(&mut table, "/spec/startupTaints");
    node_class_ref(&mut table, "/spec/nodeClassRef");
    nillable_duration(&mut table, "/spec/expireAfter");
    duration(&mut table, "/spec/terminationGracePeriod");
    quantities(&mut table, "/spec/resources/requests", "cpu");
    quantities(&mut table, "/status/capacity", "cpu");
    quantities(&mut table, "/status/allocatable", "cpu");
    table.accept("a pod event", "/status/lastPodEventTime", json!("2024-01-01T00:00:00Z"));
    table.refuse("a pod event at noon", "/status/lastPodEventTime", json!("noon"), "date-time");
    for (pointer, value) in [
        ("/spec/nodeClassRef/name", json!("other")),
        ("/spec/expireAfter", json!("1h")),
        ("/spec/requirements", json!([])),
        ("/spec/taints", json!([])),
    ] {
        table.add("the spec changes", &[(pointer, Some(value))], Some(&[]), Some("spec is immutable"));
    }
    let node = [("/status/nodeName", Some(json!("node-1")))];
    table.add("the status changes", &node, Some(&[]), None);
    conditions(&mut table, false);
    table
}

pub(crate) fn nodeoverlay() -> Table {
    let mut table = Table::new(
        "NodeOverlay",
        json!({
            "apiVersion": "karpenter.sh/v1alpha1",
            "kind": "NodeOverlay",
            "metadata": {"name": "discount"},
            "spec": {"requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "Exists"}]}
        }),
    );
    for pointer in ["/spec", "/spec/requirements"] {
        table.add("a part missing", &[(pointer, None)], None, Some("is a required property"));
    }
    requirements(&mut table, "/spec/requirements", false);
    let own_pool = json!([{"key": "karpenter.sh/nodepool", "operator": "In", "values": ["default"]}]);
    table.accept("the label of a pool", "/spec/requirements", own_pool);
    let nothing = json!([{"key": "a", "operator": "NotIn", "values": []}]);
    let refusal = "requirements with operator 'NotIn' must have a value defined";
    table.refuse("NotIn nothing", "/spec/requirements", nothing, refusal);
    for price in ["0", "1", "0.25", "10.50"] {
        table.accept(price, "/spec/price", json!(price));
    }
    for price in ["-1", "+1", "1.", ".5", "free", "10%", ""] {
        table.refuse(price, "/spec/price", json!(price), "does not match");
    }
    for change in ["+1", "-0.5", "+.5", "+10%", "+250.5%", "-15%", "-99.9%", "-100%", "-.5"] {
        table.accept(change, "/spec/priceAdjustment", json!(change));
    }
    for change in ["1", "10%", "-101%", "-100.1%", "+", "+ten", ""] {
        table.refuse(change, "/spec/priceAdjustment", json!(change), "does not match");
    }
    let both = [("/spec/price", Some(json!("1"))), ("/spec/priceAdjustment", Some(json!("+1")))];
    table.add("two prices", &both, None, Some("cannot set both 'price' and 'priceAdjustment'"));
    quantities(&mut table, "/spec/capacity", "example.com/device");
    table.accept("huge pages", "/spec/capacity", json!({"hugepages-2Mi": "1Gi"}));
    for name in ["cpu", "memory", "ephemeral-storage", "pods"] {
        table.refuse(name, "/spec/capacity", json!({name: 1}), "invalid resource restricted");
    }
    for weight in [1, 10000] {
        table.accept("a weight", "/spec/weight", json!(weight));
    }
    table.refuse("weight zero", "/spec/weight", json!(0), "less than the minimum of 1");
    table.refuse("a heavy weight", "/spec/weight", json!(10001), "greater than the maximum of 10000");
    conditions(&mut table, true);
    table
}

pub(crate) fn capacitybuffer() -> Table {
    let mut table = Table::new(
        "CapacityBuffer",
        json!({
            "apiVersion": "autoscaling.x-k8s.io/v1beta1",
            "kind": "CapacityBuffer",
            "metadata": {"name": "headroom", "namespace": "default"},
            "spec": {"podTemplateRef": {"name": "chunk"}, "replicas": 3}
        }),
    );
    table.add("no spec", &[("/spec", None)], None, Some("is a required property"));
    table.accept(
        "a template with limits",
        "/spec",
        json!({"podTemplateRef": {"name": "a"}, "limits": {"cpu": 1}}),
    );
    let workload = json!({"kind": "Deployment", "name": "web"});
    table.accept("a workload", "/spec", json!({"scalableRef": workload, "percentage": 20}));
    table.accept("neither, which only the controller refuses", "/spec", json!({}));
    let refusal = "If podTemplateRef is set, replicas or limits must also be set";
    table.refuse("a template alone", "/spec", json!({"podTemplateRef": {"name": "a"}}), refusal);
    let refusal = "You must define either PodTemplateRef or ScalableRef, but not both";
    table.refuse("both", "/spec/scalableRef", workload, refusal);
    for field in ["replicas", "percentage"] {
        let pointer = format!("/spec/{field}");
        table.accept("nothing", &pointer, json!(0));
        table.refuse("less than nothing", &pointer, json!(-1), "less than the minimum of 0");
    }
    table.refuse("a nameless template", "/spec/podTemplateRef/name", json!(""), "shorter than 1 character");
    table.add(
        "a template without name",
        &[("/spec/podTemplateRef/name", None)],
        None,
        Some("is a required property"),
    );
    for (field, rest) in [("kind", "name"), ("name", "kind")] {
        let empty = json!({"scalableRef": {field: "", rest: "x"}});
        table.refuse("an empty part of the workload", "/spec", empty, "shorter than 1 character");
        let missing = json!({"scalableRef": {rest: "x"}});
        table.refuse("a part of the workload missing", "/spec", missing, "is a required property");
    }
    quantities(&mut table, "/spec/limits", "cpu");
    let status = |name: serde_json::Value| json!({"podTemplateRef": name});
    table.refuse(
        "a nameless template in use",
        "/status",
        status(json!({"name": ""})),
        "shorter than 1 character",
    );
    table.refuse("a template in use without name", "/status", status(json!({})), "is a required property");
    conditions(&mut table, true);
    table
}
