//! Defaults of structs that depend on other fields of the same struct.

use serde_json::{Map, Value, json};

pub(super) fn complete(full_name: &str, value: &mut Value) {
    match full_name {
        "core.v1.Container" => pull_policy(value),
        "core.v1.Volume" => volume(value),
        "core.v1.NodeStatus" if value["allocatable"].is_null() && value["capacity"].is_object() => {
            value["allocatable"] = value["capacity"].clone();
        }
        "core.v1.LimitRangeItem" => limit_range_item(value),
        "apps.v1.DeploymentStrategy" => {
            rolling(value, &[("maxUnavailable", json!("25%")), ("maxSurge", json!("25%"))]);
        }
        "apps.v1.DaemonSetUpdateStrategy" => {
            rolling(value, &[("maxUnavailable", json!(1)), ("maxSurge", json!(0))]);
        }
        "apps.v1.StatefulSetUpdateStrategy" => stateful_rolling(value),
        "rbac.v1.Subject" => {
            let named = matches!(value["kind"].as_str(), Some("User" | "Group"));
            if named && value["apiGroup"].as_str().is_none_or(str::is_empty) {
                value["apiGroup"] = json!("rbac.authorization.k8s.io");
            }
        }
        "resource.v1.ExactDeviceRequest" | "resource.v1.DeviceSubRequest"
            if value["allocationMode"] == "ExactCount" && value["count"].as_i64().unwrap_or(0) == 0 =>
        {
            value["count"] = json!(1);
        }
        "networking.v1.NetworkPolicySpec" if value["policyTypes"].as_array().is_none_or(Vec::is_empty) => {
            let egress = value["egress"].as_array().is_some_and(|rules| !rules.is_empty());
            value["policyTypes"] = if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
        }
        "storage.v1.CSIDriverSpec" if value["volumeLifecycleModes"].as_array().is_none_or(Vec::is_empty) => {
            value["volumeLifecycleModes"] = json!(["Persistent"]);
        }
        _ => {}
    }
}

fn pull_policy(container: &mut Value) {
    if container["imagePullPolicy"].as_str().is_some_and(|policy| !policy.is_empty()) {
        return;
    }
    let image = container["image"].as_str().unwrap_or_default();
    let tag = image.rsplit('/').next().and_then(|name| name.split_once(':')).map(|(_, tag)| tag);
    // An image that cannot be named has no tag at all.
    let latest = is_nameable(image) && !image.contains('@') && matches!(tag, None | Some("latest"));
    container["imagePullPolicy"] = json!(if latest { "Always" } else { "IfNotPresent" });
}

/// Whether a registry could have an image of this name.
fn is_nameable(image: &str) -> bool {
    let name = image.split('@').next().unwrap_or_default();
    let (mut parts, last) = match name.rsplit_once('/') {
        None => (Vec::new(), name),
        Some((folder, last)) => (folder.split('/').collect(), last),
    };
    let last = last.split(':').next().unwrap_or_default();
    // The first may be a host, which has its own rules.
    if parts.first().is_some_and(|host| host.contains(['.', ':']) || *host == "localhost") {
        parts.remove(0);
    }
    parts.push(last);
    let is_identifier = name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    !is_identifier && parts.into_iter().all(is_path_component)
}

fn is_path_component(part: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let (Some(first), Some(last)) = (part.bytes().next(), part.bytes().next_back()) else { return false };
    let between = part.split(|character: char| character.is_ascii() && plain(character as u8));
    plain(first)
        && plain(last)
        && between.filter(|separator| !separator.is_empty()).all(|separator| {
            matches!(separator, "." | "_" | "__") || separator.bytes().all(|byte| byte == b'-')
        })
}

fn volume(volume: &mut Value) {
    let sources =
        volume.as_object().into_iter().flatten().filter(|(name, value)| *name != "name" && !value.is_null());
    if sources.count() == 0 {
        volume["emptyDir"] = json!({});
    }
}

fn limit_range_item(item: &mut Value) {
    if item["type"] != "Container" {
        return;
    }
    let read = |item: &Value, name: &str| item[name].as_object().cloned().unwrap_or_default();
    let merged = |mut target: Map<String, Value>, source: Map<String, Value>| {
        for (name, value) in source {
            target.entry(name).or_insert(value);
        }
        target
    };
    let default = merged(read(item, "default"), read(item, "max"));
    let request = merged(read(item, "defaultRequest"), default.clone());
    let request = merged(request, read(item, "min"));
    item["default"] = Value::Object(default);
    item["defaultRequest"] = Value::Object(request);
}

fn rolling(strategy: &mut Value, parameters: &[(&str, Value)]) {
    if strategy["type"].as_str().is_none_or(str::is_empty) {
        strategy["type"] = json!("RollingUpdate");
    }
    if strategy["type"] != "RollingUpdate" {
        return;
    }
    for (name, value) in parameters {
        let place = &mut strategy["rollingUpdate"][*name];
        if place.is_null() {
            *place = value.clone();
        }
    }
}

fn stateful_rolling(strategy: &mut Value) {
    if strategy["type"].as_str().is_none_or(str::is_empty) {
        strategy["type"] = json!("RollingUpdate");
        if strategy["rollingUpdate"].is_null() {
            strategy["rollingUpdate"] = json!({});
        }
    }
    if strategy["type"] == "RollingUpdate" && strategy["rollingUpdate"].is_object() {
        let place = &mut strategy["rollingUpdate"]["partition"];
        if place.is_null() {
            *place = json!(0);
        }
    }
}
