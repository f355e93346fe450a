//! Defaults that belong to a whole kind, and fields that its wire form has twice.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

pub(super) fn complete(resource: &str, object: &mut Value) {
    match resource {
        "pods" => {
            pod(object);
            if object["status"].is_object() {
                said_twice(&mut object["status"], "podIP", "podIPs", "ip");
            }
        }
        "namespaces" => namespace(object),
        "secrets" => secret(object),
        "services" => service(object),
        "replicationcontrollers" => replication_controller(object),
        "jobs.batch" => {
            let labels = object["spec"]["template"]["metadata"]["labels"].clone();
            if labels.is_object() && is_empty(&object["metadata"]["labels"]) {
                object["metadata"]["labels"] = labels;
            }
            job(&mut object["spec"]);
        }
        "daemonsets.apps" => {
            // The count of templates is a field within Kubernetes and an annotation outside.
            default(&mut object["metadata"]["annotations"], "deprecated.daemonset.template.generation", "0");
        }
        "statefulsets.apps" => {
            let templates = object["spec"].get_mut("volumeClaimTemplates").and_then(Value::as_array_mut);
            for template in templates.into_iter().flatten() {
                template["apiVersion"] = json!("v1");
                template["kind"] = json!("PersistentVolumeClaim");
            }
        }
        // The first range has a field of its own.
        "nodes" => said_twice(&mut object["spec"], "podCIDR", "podCIDRs", ""),
        "horizontalpodautoscalers.autoscaling" => autoscaler(&mut object["spec"]),
        _ => {}
    }
    for path in ["/spec", "/template/spec", "/spec/template/spec", "/spec/jobTemplate/spec/template/spec"] {
        if let Some(spec) = object.pointer_mut(path) {
            service_account(spec);
        }
    }
}

/// Of a field and a list that begins with the same, the field counts; `inner` is its name in the items of the list.
fn said_twice(fields: &mut Value, single: &str, list: &str, inner: &str) {
    let item = |text: &str| if inner.is_empty() { json!(text) } else { json!({ inner: text }) };
    let first = &fields[list][0];
    let first = if inner.is_empty() { first } else { &first[inner] };
    let first = first.as_str().unwrap_or_default().to_owned();
    let alone = fields[single].as_str().unwrap_or_default().to_owned();
    if !alone.is_empty() && alone != first {
        fields[list] = json!([item(&alone)]);
    } else if alone.is_empty() && !first.is_empty() {
        fields[single] = first.into();
    }
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_none_or(serde_json::Map::is_empty)
}

/// Sets a field that is absent.
fn default(object: &mut Value, name: &str, value: impl Into<Value>) {
    if object[name].is_null() {
        object[name] = value.into();
    }
}

/// The account has an old and a new name.
fn service_account(spec: &mut Value) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (new, old) = (text(&spec["serviceAccountName"]), text(&spec["serviceAccount"]));
    let account = if new.is_empty() { old } else { new };
    if !account.is_empty() {
        spec["serviceAccountName"] = account.clone().into();
        spec["serviceAccount"] = account.into();
    }
}

fn pod(pod: &mut Value) {
    let spec = &mut pod["spec"];
    let host_network = spec["hostNetwork"] == true;
    for list in ["containers", "initContainers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            // A limit without a request is also the request.
            if let Some(limits) = container["resources"]["limits"].as_object().cloned() {
                for (name, limit) in limits {
                    default(&mut container["resources"]["requests"], &name, limit);
                }
            }
            for port in container.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
                if host_network && port["hostPort"].as_i64().unwrap_or(0) == 0 {
                    port["hostPort"] = port["containerPort"].clone();
                }
            }
        }
    }
    default(spec, "enableServiceLinks", true);
}

fn namespace(object: &mut Value) {
    let name = object["metadata"]["name"].clone();
    if name.as_str().is_some_and(|name| !name.is_empty()) {
        object["metadata"]["labels"]["kubernetes.io/metadata.name"] = name;
    }
}

fn secret(object: &mut Value) {
    let Some(texts) = object.as_object_mut().and_then(|fields| fields.remove("stringData")) else { return };
    for (name, text) in texts.as_object().into_iter().flatten() {
        object["data"][name] = STANDARD.encode(text.as_str().unwrap_or_default()).into();
    }
}

fn service(object: &mut Value) {
    let spec = &mut object["spec"];
    let unset = |value: &Value| value.as_str().is_none_or(str::is_empty);
    if unset(&spec["sessionAffinity"]) {
        spec["sessionAffinity"] = json!("None");
    }
    match spec["sessionAffinity"].as_str() {
        Some("None") => {
            spec.as_object_mut().map(|spec| spec.remove("sessionAffinityConfig"));
        }
        Some("ClientIP") if spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"].is_null() => {
            spec["sessionAffinityConfig"] = json!({"clientIP": {"timeoutSeconds": 10800}});
        }
        _ => {}
    }
    if unset(&spec["type"]) {
        spec["type"] = json!("ClusterIP");
    }
    for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        let target = &port["targetPort"];
        if target.is_null() || *target == 0 || *target == "" {
            port["targetPort"] = port["port"].clone();
        }
    }
    let kind = spec["type"].as_str().unwrap_or_default().to_owned();
    let external = matches!(kind.as_str(), "NodePort" | "LoadBalancer")
        || (kind == "ClusterIP" && spec["externalIPs"].as_array().is_some_and(|ips| !ips.is_empty()));
    if external && unset(&spec["externalTrafficPolicy"]) {
        spec["externalTrafficPolicy"] = json!("Cluster");
    }
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer" | "ClusterIP") {
        default(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind != "LoadBalancer" {
        return;
    }
    default(spec, "allocateLoadBalancerNodePorts", true);
    let ingress = object["status"]["loadBalancer"]["ingress"].as_array_mut();
    for address in ingress.into_iter().flatten() {
        if !address["ip"].as_str().is_none_or(str::is_empty) {
            default(address, "ipMode", "VIP");
        }
    }
}

fn replication_controller(object: &mut Value) {
    let labels = object["spec"]["template"]["metadata"]["labels"].clone();
    if !labels.is_object() {
        return;
    }
    if is_empty(&object["spec"]["selector"]) {
        object["spec"]["selector"] = labels.clone();
    }
    if is_empty(&object["metadata"]["labels"]) {
        object["metadata"]["labels"] = labels;
    }
}

fn job(spec: &mut Value) {
    if spec["completions"].is_null() && spec["parallelism"].is_null() {
        spec["completions"] = json!(1);
    }
    default(spec, "parallelism", 1);
    let backoff = if spec["backoffLimitPerIndex"].is_null() { 6 } else { i32::MAX };
    default(spec, "backoffLimit", backoff);
    default(spec, "completionMode", "NonIndexed");
    default(spec, "suspend", false);
    let replacement = if spec["podFailurePolicy"].is_null() { "TerminatingOrFailed" } else { "Failed" };
    default(spec, "podReplacementPolicy", replacement);
    default(spec, "manualSelector", false);
}

fn autoscaler(spec: &mut Value) {
    if spec["metrics"].as_array().is_none_or(Vec::is_empty) {
        spec["metrics"] = json!([{"type": "Resource", "resource": {
            "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80},
        }}]);
    }
    if !spec["behavior"].is_object() {
        return;
    }
    let up = json!({"selectPolicy": "Max", "stabilizationWindowSeconds": 0, "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15}, {"type": "Percent", "value": 100, "periodSeconds": 15},
    ]});
    let down =
        json!({"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]});
    for (direction, rules) in [("scaleUp", up), ("scaleDown", down)] {
        for (name, value) in rules.as_object().into_iter().flatten() {
            default(&mut spec["behavior"][direction], name, value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_take_plain_texts() {
        let mut secret = json!({"stringData": {"password": "hunter2"}});
        complete("secrets", &mut secret);
        assert_eq!(secret, json!({"data": {"password": "aHVudGVyMg=="}}));
    }
}
