//! Fields that the server drops from what it is given: those of features that are off by default, and those that
//! Kubernetes no longer lets anybody write.

use serde_json::{Value, json};

/// Where kinds keep the spec of their pods.
const POD_SPECS: &[(&str, &str)] = &[
    ("pods", "/spec"),
    ("podtemplates", "/template/spec"),
    ("replicationcontrollers", "/spec/template/spec"),
    ("deployments.apps", "/spec/template/spec"),
    ("replicasets.apps", "/spec/template/spec"),
    ("statefulsets.apps", "/spec/template/spec"),
    ("daemonsets.apps", "/spec/template/spec"),
    ("jobs.batch", "/spec/template/spec"),
    ("cronjobs.batch", "/spec/jobTemplate/spec/template/spec"),
];

/// Drops what a new or changed object of a kind cannot have.
pub(super) fn drop_fields(resource: &str, object: &mut Value) {
    if let Some((_, path)) = POD_SPECS.iter().find(|(name, _)| *name == resource)
        && let Some(spec) = object.pointer_mut(path)
    {
        drop_from_pod(spec);
    }
    match resource {
        "serviceaccounts" => bare_references(object),
        // Elections that the server coordinates.
        "leases.coordination.k8s.io" => remove(object, "/spec", &["strategy", "preferredHolder"]),
        // Pods that wait for drivers.
        "csidrivers.storage.k8s.io" => remove(object, "/spec", &["preventPodSchedulingIfMissing"]),
        // Several pods of a set that are replaced at once.
        "statefulsets.apps" => remove(object, "/spec/updateStrategy/rollingUpdate", &["maxUnavailable"]),
        _ => {}
    }
}

/// Configurations that kubelets once took from objects can no longer be reported.
pub(super) fn drop_configuration(node: &mut Value) {
    remove(node, "/status", &["config"]);
}

/// The topology that endpoints once had can no longer be written.
pub(super) fn drop_topology(slice: &mut Value) {
    for endpoint in items(slice, "/endpoints") {
        remove(endpoint, "", &["deprecatedTopology"]);
    }
}

/// Drops what a pod cannot report.
pub(super) fn drop_from_pod_status(status: &mut Value) {
    remove(status, "", &["nodeAllocatableResourceClaimStatuses"]);
    for list in ["/initContainerStatuses", "/containerStatuses", "/ephemeralContainerStatuses"] {
        for container in items(status, list) {
            for mount in items(container, "/volumeMounts") {
                remove(mount, "", &["volumeStatus"]);
            }
        }
    }
}

fn drop_from_pod(spec: &mut Value) {
    remove(spec, "", &["schedulingGroup"]);
    for list in ["/initContainers", "/containers", "/ephemeralContainers"] {
        for container in items(spec, list) {
            if container.pointer("/lifecycle/stopSignal").is_none() {
                continue;
            }
            remove(container, "/lifecycle", &["stopSignal"]);
            if container["lifecycle"].as_object().is_some_and(serde_json::Map::is_empty) {
                remove(container, "", &["lifecycle"]);
            }
        }
    }
    for volume in items(spec, "/volumes") {
        for source in items(volume, "/projected/sources") {
            remove(source, "", &["clusterTrustBundle", "podCertificate"]);
        }
    }
}

/// An account names its secrets and nothing more of them.
fn bare_references(account: &mut Value) {
    for secret in items(account, "/secrets") {
        *secret = json!({"name": secret["name"]});
    }
}

fn items<'v>(object: &'v mut Value, path: &str) -> impl Iterator<Item = &'v mut Value> {
    object.pointer_mut(path).and_then(Value::as_array_mut).into_iter().flatten()
}

fn remove(object: &mut Value, path: &str, names: &[&str]) {
    if let Some(fields) = object.pointer_mut(path).and_then(Value::as_object_mut) {
        for name in names {
            fields.remove(*name);
        }
    }
}
