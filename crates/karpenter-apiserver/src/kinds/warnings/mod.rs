//! What a client should know about an object that is not wrong.

mod addresses;
mod objects;
mod paths;
mod pod;
mod service;

use serde_json::Value;

use super::format;
use crate::registry::Resource;

/// Returns warnings about an object; on updates mostly about what may have changed.
pub(crate) fn warnings(resource: &Resource, object: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = Vec::new();
    let same = old.is_some_and(|old| old["metadata"]["generation"] == object["metadata"]["generation"]);
    let counted = !object["metadata"]["generation"].is_null();
    if !(same && counted) {
        respecified(resource, object, old, &mut warnings);
    }
    objects::repeated(&resource.name, object, old, &mut warnings);
    warnings
}

fn respecified(resource: &Resource, object: &Value, old: Option<&Value>, warnings: &mut Vec<String>) {
    if old.is_none() {
        warnings.extend(name_in_hosts(resource, object));
    }
    match &*resource.name {
        // Nobody changes pods by hand.
        "pods" if old.is_some() => {}
        "daemonsets.apps" if old.is_some_and(|old| old["spec"]["template"] == object["spec"]["template"]) => {
        }
        "pods" => pod::of_template(object, "", warnings),
        "podtemplates" => pod::of_template(&object["template"], "template.", warnings),
        // Of these the template that is replaced is looked at.
        "replicationcontrollers" => {
            pod::of_template(&old.unwrap_or(object)["spec"]["template"], "spec.template.", warnings);
        }
        "deployments.apps" | "replicasets.apps" | "statefulsets.apps" | "daemonsets.apps" | "jobs.batch" => {
            pod::of_template(&object["spec"]["template"], "spec.template.", warnings);
        }
        "cronjobs.batch" => {
            let template = &object["spec"]["jobTemplate"]["spec"]["template"];
            pod::of_template(template, "spec.jobTemplate.spec.template.", warnings);
        }
        "persistentvolumeclaims" => {
            whole_bytes(
                &object["spec"]["resources"]["requests"],
                "spec.resources.requests",
                "storage",
                warnings,
            );
            whole_bytes(&object["spec"]["resources"]["limits"], "spec.resources.limits", "storage", warnings);
        }
        "csidrivers.storage.k8s.io" => warnings.extend(tokens_in_the_open(&object["spec"], old)),
        "persistentvolumes" => volume(&object["spec"], warnings),
        "services" => service::of_service(object, warnings),
        "endpoints" => {
            warnings.push(
                "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice".to_owned(),
            );
        }
        _ => {}
    }
}

/// Names of workloads end up in the names of hosts.
fn name_in_hosts(resource: &Resource, object: &Value) -> Option<String> {
    let used = match &*resource.name {
        "pods" => "the Pod's hostname",
        "deployments.apps"
        | "replicasets.apps"
        | "jobs.batch"
        | "cronjobs.batch"
        | "replicationcontrollers" => "Pod names and hostnames",
        _ => return None,
    };
    let rules = format::dns_label(object["metadata"]["name"].as_str().unwrap_or_default());
    (!rules.is_empty()).then(|| {
        format!(
            "metadata.name: this is used in {used}, which can result in surprising behavior; a DNS label is \
             recommended: [{}]",
            rules.join(" ")
        )
    })
}

/// Drivers that get tokens should get them where they are not logged.
fn tokens_in_the_open(spec: &Value, old: Option<&Value>) -> Option<String> {
    let requests = spec["tokenRequests"].as_array().filter(|requests| !requests.is_empty())?;
    let asked_before = old.is_some_and(|old| old["spec"]["tokenRequests"].as_array() == Some(requests));
    (!asked_before && spec["serviceAccountTokenInSecrets"].is_null()).then(|| {
        "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible \
         logging of tokens in volume attributes"
            .to_owned()
    })
}

/// An amount of bytes that is not whole.
fn whole_bytes(amounts: &Value, path: &str, name: &str, warnings: &mut Vec<String>) {
    let Some(amount) = amounts[name].as_str().filter(|amount| amount.ends_with('m')) else { return };
    warnings.push(format!("{path}[{name}]: fractional byte value {amount:?} is invalid, must be an integer"));
}

/// Labels of nodes that have been renamed.
fn old_label(key: &str) -> Option<&'static str> {
    Some(match key {
        "beta.kubernetes.io/arch" => r#"deprecated since v1.14; use "kubernetes.io/arch" instead"#,
        "beta.kubernetes.io/os" => r#"deprecated since v1.14; use "kubernetes.io/os" instead"#,
        "failure-domain.beta.kubernetes.io/region" => {
            r#"deprecated since v1.17; use "topology.kubernetes.io/region" instead"#
        }
        "failure-domain.beta.kubernetes.io/zone" => {
            r#"deprecated since v1.17; use "topology.kubernetes.io/zone" instead"#
        }
        "beta.kubernetes.io/instance-type" => {
            r#"deprecated since v1.17; use "node.kubernetes.io/instance-type" instead"#
        }
        "app.kubernetes.io/created-by" => "deprecated since v1.9",
        "scheduler.alpha.kubernetes.io/preferAvoidPods" => {
            "deprecated since v1.22; use Taints and Tolerations instead"
        }
        "node-role.kubernetes.io/master" => r#"use "node-role.kubernetes.io/control-plane" instead"#,
        _ => return None,
    })
}

/// A term about nodes; where values are only preferred they need not be labels.
fn node_selector_term(term: &Value, path: &str, preferred: bool, warnings: &mut Vec<String>) {
    for (index, expression) in items(&term["matchExpressions"]) {
        let path = format!("{path}.matchExpressions[{index}]");
        let key = expression["key"].as_str().unwrap_or_default();
        if let Some(message) = old_label(key) {
            warnings.push(format!("{path}.key: {key} is {message}"));
        }
        for (index, value) in items(&expression["values"]).filter(|_| preferred) {
            let value = value.as_str().unwrap_or_default();
            for rule in format::label_value(value) {
                warnings.push(format!("{path}.values[{index}]: {value} is invalid, {rule}"));
            }
        }
    }
}

fn items(list: &Value) -> impl Iterator<Item = (usize, &Value)> {
    list.as_array().into_iter().flatten().enumerate()
}

fn volume(spec: &Value, warnings: &mut Vec<String>) {
    if spec["persistentVolumeReclaimPolicy"] == "Recycle" {
        warnings.push(
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended \
             approach is to use dynamic provisioning."
                .to_owned(),
        );
    }
    for (index, term) in items(&spec["nodeAffinity"]["required"]["nodeSelectorTerms"]) {
        let path = format!("spec.nodeAffinity.required.nodeSelectorTerms[{index}]");
        node_selector_term(term, &path, false, warnings);
    }
}
