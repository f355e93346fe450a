//! What a client should know about an object that is not wrong.

use serde_json::Value;

use crate::registry::Resource;

/// Returns warnings about an object.
pub(crate) fn warnings(resource: &Resource, object: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    match &*resource.name {
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
        "endpoints" => {
            warnings.push(
                "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice".to_owned(),
            );
        }
        _ => {}
    }
    warnings
}

fn pod_spec(spec: &Value, path: &str, warnings: &mut Vec<String>) {
    for (index, constraint) in spec["topologySpreadConstraints"].as_array().into_iter().flatten().enumerate()
    {
        if constraint["labelSelector"].is_null() {
            warnings.push(format!(
                "{path}.topologySpreadConstraints[{index}].labelSelector: a null labelSelector results in matching no pod"
            ));
        }
    }
}
