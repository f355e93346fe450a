//! Fields of built-in objects that updates may not change.

use serde_json::Value;

use crate::error::FieldError;

pub(super) fn validate(resource: &str, old: &Value, new: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    match resource {
        "pods" => pod(old, new, &mut errors),
        "deployments.apps" | "replicasets.apps" | "daemonsets.apps" | "jobs.batch" => {
            immutable(old, new, "spec.selector", &mut errors);
        }
        "statefulsets.apps" => stateful_set(old, new, &mut errors),
        "nodes" => node(old, new, &mut errors),
        "priorityclasses.scheduling.k8s.io" => {
            immutable(old, new, "value", &mut errors);
            immutable(old, new, "preemptionPolicy", &mut errors);
        }
        "storageclasses.storage.k8s.io" => {
            for path in ["provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"] {
                if at(old, path) != at(new, path) {
                    let rule = format!("updates to {path} are forbidden.");
                    errors.push(FieldError::forbidden(path, &rule));
                }
            }
        }
        "secrets" | "configmaps" => frozen_data(resource, old, new, &mut errors),
        "roles.rbac.authorization.k8s.io" => {}
        "rolebindings.rbac.authorization.k8s.io" | "clusterrolebindings.rbac.authorization.k8s.io"
            if old["roleRef"] != new["roleRef"] =>
        {
            errors.push(FieldError::invalid("roleRef", &new["roleRef"], "cannot change roleRef"));
        }
        super::DEFINITIONS => {
            for path in ["spec.group", "spec.names.plural", "spec.names.kind", "spec.scope"] {
                immutable(old, new, path, &mut errors);
            }
        }
        _ => {}
    }
    if new["metadata"]["deletionTimestamp"].is_string() {
        new_finalizers(old, new, &mut errors);
    }
    errors
}

fn at<'v>(object: &'v Value, path: &str) -> &'v Value {
    path.split('.').fold(object, |value, part| &value[part])
}

fn immutable(old: &Value, new: &Value, path: &str, errors: &mut Vec<FieldError>) {
    if at(old, path) != at(new, path) {
        errors.push(FieldError::invalid(path, at(new, path), "field is immutable"));
    }
}

/// No finalizer can be added to an object that is being deleted.
fn new_finalizers(old: &Value, new: &Value, errors: &mut Vec<FieldError>) {
    let list = |object: &Value| object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    let before = list(old);
    let added: Vec<Value> = list(new).into_iter().filter(|finalizer| !before.contains(finalizer)).collect();
    if !added.is_empty() {
        let rule = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers {}",
            Value::Array(added)
        );
        errors.push(FieldError::forbidden("metadata.finalizers", &rule));
    }
}

fn pod(old: &Value, new: &Value, errors: &mut Vec<FieldError>) {
    // What may change is taken from the old pod on both sides; the rest must be equal.
    let fixed = |pod: &Value| {
        let mut spec = pod["spec"].clone();
        for list in ["containers", "initContainers"] {
            for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                container.as_object_mut().map(|container| container.remove("image"));
            }
        }
        if let Some(fields) = spec.as_object_mut() {
            for name in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
                fields.remove(name);
            }
        }
        spec
    };
    let gates = |pod: &Value| pod["spec"]["schedulingGates"].as_array().cloned().unwrap_or_default();
    let before = gates(old);
    let was_gated = !before.is_empty();
    if gates(new).iter().any(|gate| !before.contains(gate)) {
        let rule = "only deletion is allowed, but found new scheduling gate";
        errors.push(FieldError::forbidden("spec.schedulingGates", rule));
    }
    let (mut before, mut after) = (fixed(old), fixed(new));
    if was_gated {
        // Gated pods may still be narrowed.
        for spec in [&mut before, &mut after] {
            spec.as_object_mut().map(|fields| (fields.remove("nodeSelector"), fields.remove("affinity")));
        }
    }
    if before != after {
        let rule = "pod updates may not change fields other than `spec.containers[*].image`, \
                    `spec.initContainers[*].image`, `spec.activeDeadlineSeconds`, `spec.tolerations` (only additions to \
                    existing tolerations), `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was \
                    previously negative)";
        errors.push(FieldError::forbidden("spec", rule));
    }
    let tolerations = |pod: &Value| pod["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
    let after = tolerations(new);
    if tolerations(old).iter().any(|toleration| !after.contains(toleration)) {
        let rule = "existing toleration can not be modified except its tolerationSeconds";
        errors.push(FieldError::forbidden("spec.tolerations", rule));
    }
}

fn stateful_set(old: &Value, new: &Value, errors: &mut Vec<FieldError>) {
    let changeable = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    let fixed = |object: &Value| {
        let mut spec = object["spec"].clone();
        if let Some(fields) = spec.as_object_mut() {
            fields.retain(|name, _| !changeable.contains(&name.as_str()));
        }
        spec
    };
    if fixed(old) != fixed(new) {
        let rule = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
                    'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and \
                    'minReadySeconds' are forbidden";
        errors.push(FieldError::forbidden("spec", rule));
    }
}

fn node(old: &Value, new: &Value, errors: &mut Vec<FieldError>) {
    for name in ["providerID", "podCIDR"] {
        let (before, after) = (&old["spec"][name], &new["spec"][name]);
        if before.as_str().is_some_and(|text| !text.is_empty()) && before != after {
            let rule = format!("node updates may not change {name} once it is set");
            errors.push(FieldError::forbidden(format!("spec.{name}"), &rule));
        }
    }
}

fn frozen_data(resource: &str, old: &Value, new: &Value, errors: &mut Vec<FieldError>) {
    if resource == "secrets" {
        immutable(old, new, "type", errors);
    }
    if old["immutable"] != true {
        return;
    }
    let rule = "field is immutable when `immutable` is set";
    if new["immutable"] != true {
        errors.push(FieldError::forbidden("immutable", rule));
    }
    for name in ["data", "binaryData"] {
        if old[name] != new[name] {
            errors.push(FieldError::forbidden(name, rule));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_bound_pod_changes_only_images_and_tolerations() {
        let old = json!({"spec": {"nodeName": "n", "containers": [{"name": "a", "image": "1"}]}});
        let mut new = old.clone();
        new["spec"]["containers"][0]["image"] = "2".into();
        new["spec"]["tolerations"] = json!([{"key": "x"}]);
        assert!(validate("pods", &old, &new).is_empty());
        new["spec"]["nodeName"] = "m".into();
        assert_eq!(validate("pods", &old, &new)[0].field, "spec");
    }

    #[test]
    fn finalizers_cannot_be_added_while_deleting() {
        let old = json!({"metadata": {"deletionTimestamp": "t", "finalizers": ["a"]}});
        let mut new = old.clone();
        new["metadata"]["finalizers"] = json!(["a", "b"]);
        assert_eq!(validate("configmaps", &old, &new)[0].field, "metadata.finalizers");
        new["metadata"]["finalizers"] = json!([]);
        assert!(validate("configmaps", &old, &new).is_empty());
    }
}
