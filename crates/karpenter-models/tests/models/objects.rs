//! Short ways to write objects down.

use k8s_openapi::api::core::v1::{Node, Pod};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Reads an object from JSON.
pub(crate) fn read<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// Merges `extra` into `base`, object by object.
pub(crate) fn merge(base: &mut Value, extra: Value) {
    match (base, extra) {
        (Value::Object(base), Value::Object(extra)) => {
            for (key, value) in extra {
                merge(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, extra) => *base = extra,
    }
}

/// A node with 4 cpus, 16 GiB and room for 10 pods in a zone.
pub(crate) fn node(name: &str, zone: &str, extra: Value) -> Node {
    let mut node = json!({
        "metadata": {"name": name, "labels": {
            "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone,
        }},
        "status": {"allocatable": {"cpu": "4", "memory": "16Gi", "pods": "10"}},
    });
    merge(&mut node, extra);
    read(node)
}

/// A pod of namespace `default` that asks for some cpu.
pub(crate) fn pod(name: &str, cpu: &str, extra: Value) -> Pod {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}")},
        "spec": {"containers": [{"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu}}}]},
    });
    merge(&mut pod, extra);
    read(pod)
}

/// A pod on a node.
pub(crate) fn placed(name: &str, node: &str, cpu: &str, mut extra: Value) -> Pod {
    merge(&mut extra, json!({"spec": {"nodeName": node}}));
    pod(name, cpu, extra)
}
