//! Admission of new objects: what Kubernetes' default admission plugins check and add.
//!
//! Here: namespaces must exist and not be going away, pods get their priority and the tolerations for unreachable
//! nodes, new nodes start tainted as not ready until somebody sees them ready.

use serde_json::{Value, json};

use super::runtime_class;
use crate::error::ApiError;
use crate::registry::Resource;
use crate::server::Core;
use crate::store::Key;

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// Keeps a claim that a pod mounts.
pub(crate) const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";
/// Keeps a volume that is bound.
pub(crate) const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";
const EVICTION_TOLERANCE_SECONDS: i64 = 300;

/// Checks a new object once it is known to be valid.
///
/// # Errors
/// 403 when a pod says about its runtime what no class says.
pub(crate) fn check_create(core: &Core, resource: &Resource, object: &Value) -> Result<(), ApiError> {
    if &*resource.name == "pods" { runtime_class::check(core, object) } else { Ok(()) }
}

/// Completes a changed object as a new one would be.
pub(crate) fn admit_update(resource: &Resource, object: &mut Value) {
    if &*resource.name == "pods" {
        tolerate_lost_nodes(object);
    }
}

/// Checks and completes a new object.
///
/// # Errors
/// 404 when the namespace is missing, 403 when it is being deleted or a class of the pod is unknown.
pub(crate) fn admit_create(core: &Core, resource: &Resource, object: &mut Value) -> Result<(), ApiError> {
    if resource.namespaced {
        check_namespace(core, resource, object)?;
    }
    match &*resource.name {
        "pods" => {
            set_priority(core, object)?;
            tolerate_lost_nodes(object);
            runtime_class::admit(core, object)?;
            let spec = &mut object["spec"];
            if spec.get("serviceAccountName").is_none() {
                spec["serviceAccountName"] = "default".into();
                spec["serviceAccount"] = "default".into();
            }
        }
        "nodes" => taint_new_node(object),
        "persistentvolumes" => protect(object, VOLUME_PROTECTION),
        "persistentvolumeclaims" => {
            protect(object, CLAIM_PROTECTION);
            set_storage_class(core, object);
        }
        _ => {}
    }
    Ok(())
}

fn check_namespace(core: &Core, resource: &Resource, object: &Value) -> Result<(), ApiError> {
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let found = core.store.get("namespaces", &Key::new("", namespace));
    let found = found.ok_or_else(|| ApiError::not_found("namespaces", namespace))?;
    if found.deleting {
        let why =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        let mut error = ApiError::forbidden(&resource.name, name, why);
        error.details["causes"] = json!([{
            "reason": "NamespaceTerminating", "message": format!("namespace {namespace} is being terminated"),
            "field": "metadata.namespace",
        }]);
        return Err(error);
    }
    Ok(())
}

fn set_priority(core: &Core, pod: &mut Value) -> Result<(), ApiError> {
    const CLASSES: &str = "priorityclasses.scheduling.k8s.io";
    let class_name = pod["spec"]["priorityClassName"].as_str().unwrap_or_default().to_owned();
    let class = if class_name.is_empty() {
        let page = core.store.list(CLASSES, None, None, None);
        let classes = page.map(|page| page.objects).unwrap_or_default();
        classes.iter().map(|(_, class)| class.value()).find(|class| class["globalDefault"] == true)
    } else {
        let found = core.store.get(CLASSES, &Key::new("", class_name.as_str()));
        let found = found.ok_or_else(|| {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            ApiError::forbidden("pods", name, format!("no PriorityClass with name {class_name} was found"))
        })?;
        Some(found.value())
    };
    let spec = &mut pod["spec"];
    if let Some(class) = class {
        spec["priorityClassName"] = class["metadata"]["name"].clone();
        spec["priority"] = class["value"].clone();
        spec["preemptionPolicy"] = class["preemptionPolicy"].clone();
    } else {
        spec["priority"] = 0.into();
        spec["preemptionPolicy"] = "PreemptLowerPriority".into();
    }
    Ok(())
}

fn tolerate_lost_nodes(pod: &mut Value) {
    let spec = &mut pod["spec"];
    let mut tolerations = spec["tolerations"].as_array().cloned().unwrap_or_default();
    for key in [NOT_READY, UNREACHABLE] {
        let tolerated = tolerations.iter().any(|toleration| {
            let any_key = toleration["key"].as_str().is_none_or(str::is_empty);
            let any_effect = toleration["effect"].as_str().is_none_or(str::is_empty);
            (any_key || toleration["key"] == key) && (any_effect || toleration["effect"] == "NoExecute")
        });
        if !tolerated {
            tolerations.push(json!({
                "key": key, "operator": "Exists", "effect": "NoExecute",
                "tolerationSeconds": EVICTION_TOLERANCE_SECONDS,
            }));
        }
    }
    spec["tolerations"] = Value::Array(tolerations);
}

/// Storage in use is not deleted.
fn protect(object: &mut Value, finalizer: &str) {
    let mut finalizers = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    if !finalizers.iter().any(|other| other == finalizer) {
        finalizers.push(finalizer.into());
    }
    object["metadata"]["finalizers"] = Value::Array(finalizers);
}

/// A claim that names no class gets the newest of the default classes.
fn set_storage_class(core: &Core, claim: &mut Value) {
    const DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";
    const NAMED: &str = "volume.beta.kubernetes.io/storage-class";
    if claim["spec"].get("storageClassName").is_some()
        || claim["metadata"]["annotations"].get(NAMED).is_some()
    {
        return;
    }
    let page = core.store.list("storageclasses.storage.k8s.io", None, None, None);
    let classes =
        page.map(|page| page.objects).unwrap_or_default().into_iter().map(|(_, class)| class.value());
    let newest =
        classes.filter(|class| class["metadata"]["annotations"][DEFAULT] == "true").max_by_key(|class| {
            let text = |name: &str| class["metadata"][name].as_str().unwrap_or_default().to_owned();
            (text("creationTimestamp"), std::cmp::Reverse(text("name")))
        });
    if let Some(class) = newest {
        claim["spec"]["storageClassName"] = class["metadata"]["name"].clone();
    }
}

fn taint_new_node(node: &mut Value) {
    let spec = &mut node["spec"];
    let mut taints = spec["taints"].as_array().cloned().unwrap_or_default();
    if !taints.iter().any(|taint| taint["key"] == NOT_READY && taint["effect"] == "NoSchedule") {
        taints.push(json!({"key": NOT_READY, "effect": "NoSchedule"}));
    }
    spec["taints"] = Value::Array(taints);
}
