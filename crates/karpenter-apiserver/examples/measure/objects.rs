//! Nodes and pods as a cluster has them.

use serde_json::{Value, json};

pub(crate) fn node(index: usize) -> Value {
    let resources = json!({"cpu": "16", "memory": "64Gi", "pods": "110", "ephemeral-storage": "100Gi"});
    let condition = |kind: &str, status: &str| {
        json!({
            "type": kind, "status": status, "reason": "KubeletReady", "message": "kubelet is posting ready status",
            "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    json!({
        "metadata": {"name": format!("node-{index:05}"), "labels": {
            "kubernetes.io/hostname": format!("node-{index:05}"), "kubernetes.io/arch": "amd64",
            "kubernetes.io/os": "linux", "node.kubernetes.io/instance-type": "m5.4xlarge",
            "topology.kubernetes.io/zone": format!("zone-{}", index % 3), "karpenter.sh/nodepool": "default",
            "karpenter.sh/capacity-type": "spot",
        }},
        "spec": {"providerID": format!("sim:///{index}")},
        "status": {
            "capacity": resources, "allocatable": resources,
            "conditions": [condition("Ready", "True"), condition("MemoryPressure", "False"),
                condition("DiskPressure", "False"), condition("PIDPressure", "False")],
        },
    })
}

pub(crate) fn pod(index: usize, nodes: usize) -> Value {
    json!({
        "metadata": {
            "name": format!("pod-{index:06}"),
            "labels": {"app": format!("app-{}", index % 100), "pod-template-hash": "5d4f8c7b9"},
            "ownerReferences": [{
                "apiVersion": "example.com/v1", "kind": "Set", "name": format!("set-{}", index % 100),
                "uid": format!("{:08x}-0000-4000-8000-000000000000", index % 100), "controller": true,
            }],
        },
        "spec": {
            "nodeName": format!("node-{:05}", index % nodes.max(1)),
            "containers": [{
                "name": "main", "image": "registry.example.com/team/app:1.2.3",
                "resources": {"requests": {"cpu": "500m", "memory": "512Mi"}, "limits": {"memory": "512Mi"}},
                "env": [{"name": "MODE", "value": "production"}, {"name": "REGION", "value": "one"}],
                "ports": [{"containerPort": 8080}],
            }],
        },
    })
}
