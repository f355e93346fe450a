//! What a client should know about an object that is not wrong.

use serde_json::Value;

use crate::registry::Resource;

/// Returns warnings about an object; on updates only about what may have changed.
pub(crate) fn warnings(resource: &Resource, object: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = Vec::new();
    let same = old.is_some_and(|old| old["metadata"]["generation"] == object["metadata"]["generation"]);
    if same && &*resource.name != "endpoints" {
        return warnings;
    }
    match &*resource.name {
        // Nobody changes pods by hand.
        "pods" if old.is_some() => {}
        "pods" => pod_spec(&object["spec"], "spec", &mut warnings),
        "podtemplates" => pod_spec(&object["template"]["spec"], "template.spec", &mut warnings),
        "deployments.apps"
        | "replicasets.apps"
        | "statefulsets.apps"
        | "daemonsets.apps"
        | "jobs.batch"
        | "replicationcontrollers" => {
            pod_spec(&object["spec"]["template"]["spec"], "spec.template.spec", &mut warnings);
        }
        "cronjobs.batch" => {
            let spec = &object["spec"]["jobTemplate"]["spec"]["template"]["spec"];
            pod_spec(spec, "spec.jobTemplate.spec.template.spec", &mut warnings);
        }
        "persistentvolumeclaims" => {
            whole_bytes(&object["spec"]["resources"], "spec.resources", &["storage"], &mut warnings);
        }
        "endpoints" => {
            warnings.push(
                "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice".to_owned(),
            );
        }
        _ => {}
    }
    warnings
}

/// Amounts of bytes that are not whole.
fn whole_bytes(resources: &Value, path: &str, names: &[&str], warnings: &mut Vec<String>) {
    for kind in ["limits", "requests"] {
        for name in names {
            let Some(amount) = resources[kind][*name].as_str() else { continue };
            if amount.ends_with('m') {
                warnings.push(format!(
                    "{path}.{kind}[{name}]: fractional byte value {amount:?} is invalid, must be an integer"
                ));
            }
        }
    }
}

fn pod_spec(spec: &Value, path: &str, warnings: &mut Vec<String>) {
    for list in ["initContainers", "containers"] {
        for (index, container) in spec[list].as_array().into_iter().flatten().enumerate() {
            let path = format!("{path}.{list}[{index}].resources");
            whole_bytes(&container["resources"], &path, &["memory", "ephemeral-storage"], warnings);
        }
    }
    for (index, constraint) in spec["topologySpreadConstraints"].as_array().into_iter().flatten().enumerate()
    {
        if constraint["labelSelector"].is_null() {
            warnings.push(format!(
                "{path}.topologySpreadConstraints[{index}].labelSelector: a null labelSelector results in matching no pod"
            ));
        }
    }
}
