//! The node the controller's pods are on.

use anyhow::Context as _;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

/// Its name.
pub(crate) const NODE: &str = "host-0";
/// For how long a sign of life counts.
const LEASE_SECONDS: u32 = 40;

/// The time as the API writes it.
pub(crate) fn now() -> String {
    Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default().to_string()
}

/// Creates the node, tainted: the suites want every node that is there before a spec to be closed to other pods. The API server
/// turns to the kubelet's port for connections to pods; it would prefer a host name, so the node has none.
pub(crate) async fn create(client: &Client, kubelet_port: Option<u16>) -> anyhow::Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let node: Node = serde_json::from_value(json!({
        "metadata": {"name": NODE, "labels": {
            "kubernetes.io/hostname": NODE, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
            "node-role.kubernetes.io/control-plane": "",
        }},
        "spec": {"taints": [{"key": "CriticalAddonsOnly", "effect": "NoSchedule"}]},
    }))
    .context("describing the node")?;
    match nodes.create(&PostParams::default(), &node).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        answer => drop(answer.context("creating the node")?),
    }
    let conditions: Vec<Value> =
        [("Ready", "True"), ("MemoryPressure", "False"), ("DiskPressure", "False"), ("PIDPressure", "False")]
            .map(|(type_, status)| {
                json!({
                    "type": type_, "status": status, "reason": "Test", "message": "",
                    "lastHeartbeatTime": now(), "lastTransitionTime": now(),
                })
            })
            .into();
    let resources = json!({"cpu": "8", "memory": "16Gi", "pods": "20"});
    let status = json!({"status": {
        "capacity": resources, "allocatable": resources, "conditions": conditions,
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": kubelet_port.map(|port| json!({"kubeletEndpoint": {"Port": port}})),
    }});
    nodes
        .patch_status(NODE, &PatchParams::default(), &Patch::Merge(status))
        .await
        .context("readying the node")?;
    Ok(())
}

/// Says that the node lives.
pub(crate) async fn renew_lease(client: &Client) -> anyhow::Result<()> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-node-lease");
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": NODE},
        "spec": {
            "holderIdentity": NODE, "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": format!("{:.6}", Timestamp::now()),
        },
    });
    let parameters = PatchParams::apply("host-kubelet").force();
    leases.patch(NODE, &parameters, &Patch::Apply(lease)).await.context("renewing the node's lease")?;
    Ok(())
}
