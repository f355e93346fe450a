//! Rules of single built-in objects.

use serde_json::{Value, json};

use super::metadata::is_label;
use crate::crd;
use crate::error::FieldError;
use crate::selector::LabelSelector;
use crate::store::StoredObject;

const WORKLOADS: &[&str] = &["deployments.apps", "replicasets.apps", "statefulsets.apps", "daemonsets.apps"];

pub(super) fn validate(resource: &str, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    match resource {
        "pods" => pod_spec(&object["spec"], "spec", &mut errors),
        name if WORKLOADS.contains(&name) => workload(object, &mut errors),
        "jobs.batch" => {
            pod_spec(&object["spec"]["template"]["spec"], "spec.template.spec", &mut errors);
            let policy = &object["spec"]["template"]["spec"]["restartPolicy"];
            if !matches!(policy.as_str(), Some("OnFailure" | "Never")) {
                let path = "spec.template.spec.restartPolicy";
                errors.push(FieldError::unsupported(path, policy, &["OnFailure", "Never"]));
            }
        }
        "nodes" => node(object, &mut errors),
        "poddisruptionbudgets.policy" => {
            let spec = &object["spec"];
            if spec.get("minAvailable").is_some() && spec.get("maxUnavailable").is_some() {
                let rule = "minAvailable and maxUnavailable cannot be both set";
                errors.push(FieldError::invalid("spec", &json!("object"), rule));
            }
        }
        "priorityclasses.scheduling.k8s.io" => {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            let value = object["value"].as_i64().unwrap_or(0);
            if value > 1_000_000_000 && !name.starts_with("system-") {
                let rule = "maximum allowed value of a user defined priority is 1000000000";
                errors.push(FieldError::forbidden("value", rule));
            }
        }
        "services" => service(&object["spec"], &mut errors),
        "storageclasses.storage.k8s.io" if object["provisioner"].as_str().is_none_or(str::is_empty) => {
            errors.push(FieldError::required("provisioner", ""));
        }
        "leases.coordination.k8s.io" if object["spec"]["leaseDurationSeconds"].as_i64() == Some(0) => {
            let path = "spec.leaseDurationSeconds";
            errors.push(FieldError::invalid(path, &json!(0), "must be greater than 0"));
        }
        super::DEFINITIONS => errors.extend(crd::check(object)),
        _ => {}
    }
    errors
}

fn pod_spec(spec: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let containers = spec["containers"].as_array().map(Vec::as_slice).unwrap_or_default();
    if containers.is_empty() {
        errors.push(FieldError::required(format!("{path}.containers"), ""));
    }
    let mut names = Vec::new();
    for list in ["initContainers", "containers"] {
        for (index, container) in spec[list].as_array().into_iter().flatten().enumerate() {
            let path = format!("{path}.{list}[{index}]");
            let name = container["name"].as_str().unwrap_or_default();
            if name.is_empty() {
                errors.push(FieldError::required(format!("{path}.name"), ""));
            } else if !is_label(name) {
                let rule = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', \
                            and must start and end with an alphanumeric character";
                errors.push(FieldError::invalid(format!("{path}.name"), &container["name"], rule));
            }
            if names.contains(&name) {
                errors.push(FieldError::duplicate(format!("{path}.name"), &container["name"]));
            }
            names.push(name);
            if container["image"].as_str().is_none_or(str::is_empty) {
                errors.push(FieldError::required(format!("{path}.image"), ""));
            }
        }
    }
    let policy = &spec["restartPolicy"];
    if !matches!(policy.as_str(), Some("Always" | "OnFailure" | "Never")) {
        let supported = ["Always", "OnFailure", "Never"];
        errors.push(FieldError::unsupported(format!("{path}.restartPolicy"), policy, &supported));
    }
    if spec["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0) {
        let path = format!("{path}.terminationGracePeriodSeconds");
        let rule = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(path, &spec["terminationGracePeriodSeconds"], rule));
    }
}

fn workload(object: &Value, errors: &mut Vec<FieldError>) {
    let spec = &object["spec"];
    if spec["selector"].is_object() {
        check_selector(spec, errors);
    } else {
        errors.push(FieldError::required("spec.selector", ""));
    }
    if spec["replicas"].as_i64().is_some_and(|replicas| replicas < 0) {
        let rule = "must be greater than or equal to 0";
        errors.push(FieldError::invalid("spec.replicas", &spec["replicas"], rule));
    }
    pod_spec(&spec["template"]["spec"], "spec.template.spec", errors);
    let policy = &spec["template"]["spec"]["restartPolicy"];
    if policy != "Always" {
        errors.push(FieldError::unsupported("spec.template.spec.restartPolicy", policy, &["Always"]));
    }
}

fn check_selector(spec: &Value, errors: &mut Vec<FieldError>) {
    let template = StoredObject::new(&spec["template"], 0, &[]);
    let selector = LabelSelector::from_object(&spec["selector"]);
    if selector.is_empty() {
        let rule = "empty selector is invalid for deployment";
        errors.push(FieldError::invalid("spec.selector", &spec["selector"], rule));
    } else if !selector.matches(&template) {
        let labels = &spec["template"]["metadata"]["labels"];
        let rule = "`selector` does not match template `labels`";
        errors.push(FieldError::invalid("spec.template.metadata.labels", labels, rule));
    }
}

fn node(object: &Value, errors: &mut Vec<FieldError>) {
    let mut seen = Vec::new();
    for (index, taint) in object["spec"]["taints"].as_array().into_iter().flatten().enumerate() {
        let path = format!("spec.taints[{index}]");
        let effect = &taint["effect"];
        if !matches!(effect.as_str(), Some("NoSchedule" | "PreferNoSchedule" | "NoExecute")) {
            let supported = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
            errors.push(FieldError::unsupported(format!("{path}.effect"), effect, &supported));
        }
        let identity = (&taint["key"], effect);
        if seen.contains(&identity) {
            errors.push(FieldError::duplicate(path, taint));
        }
        seen.push(identity);
    }
}

fn service(spec: &Value, errors: &mut Vec<FieldError>) {
    let headless = spec["clusterIP"] == "None" || spec["type"] == "ExternalName";
    if !headless && spec["ports"].as_array().is_none_or(Vec::is_empty) {
        errors.push(FieldError::required("spec.ports", ""));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_needs_containers_with_names_and_images() {
        let pod = json!({"spec": {"restartPolicy": "Always", "containers": [{"name": "A"}]}});
        let fields: Vec<String> = validate("pods", &pod).into_iter().map(|error| error.field).collect();
        assert_eq!(fields, ["spec.containers[0].name", "spec.containers[0].image"]);
    }

    #[test]
    fn a_workload_must_select_its_own_pods() {
        let deployment = json!({"spec": {
            "selector": {"matchLabels": {"app": "a"}},
            "template": {"metadata": {"labels": {"app": "b"}},
                "spec": {"restartPolicy": "Always", "containers": [{"name": "a", "image": "i"}]}},
        }});
        let errors = validate("deployments.apps", &deployment);
        assert_eq!(errors[0].field, "spec.template.metadata.labels");
    }
}
