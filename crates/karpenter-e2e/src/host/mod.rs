//! What a kubelet says about its pods.

pub(crate) mod node;
pub(crate) mod process;

use std::net::IpAddr;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

/// Whether a pod is one of the controller's.
pub(crate) fn is_karpenter(pod: &Pod) -> bool {
    let labels = pod.metadata.labels.as_ref();
    let instance = labels.and_then(|labels| labels.get("app.kubernetes.io/instance"));
    pod.metadata.namespace.as_deref() == Some("kube-system")
        && instance.is_some_and(|name| name == "karpenter")
}

/// Shows a pod as running at an address, whether it is ready and how often it was started again.
pub(crate) async fn show(
    client: &Client,
    pod: &Pod,
    address: IpAddr,
    (ready, restarts): (bool, u32),
) -> anyhow::Result<()> {
    let now = node::now();
    let yes = |yes: bool| if yes { "True" } else { "False" };
    let conditions: Vec<Value> =
        [("PodScheduled", true), ("Initialized", true), ("ContainersReady", ready), ("Ready", ready)]
            .map(|(type_, is)| json!({"type": type_, "status": yes(is), "lastTransitionTime": now}))
            .into();
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let statuses: Vec<Value> = containers
        .map(|container| {
            json!({
                "name": container.name, "image": container.image, "imageID": "",
                "ready": ready, "started": true, "restartCount": restarts,
                "state": {"running": {"startedAt": now}},
            })
        })
        .collect();
    let status = json!({"status": {
        "phase": "Running", "startTime": now, "conditions": conditions, "containerStatuses": statuses,
        "hostIP": "127.0.0.1", "podIP": address, "podIPs": [{"ip": address}],
    }});
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    match pods.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        answer => answer.map(drop).with_context(|| format!("writing the status of pod {namespace}/{name}")),
    }
}
