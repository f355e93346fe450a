//! Rules of ConfigMaps, Secrets, accounts, quotas, limits, endpoints and events.

use serde_json::{Value, json};

use super::{pod, resources};
use crate::error::FieldError;
use crate::kinds::format;
use crate::kinds::place::{Errors, Place};

const SIZE_MAX: usize = 1024 * 1024;

pub(super) fn validate(resource: &str, object: &Place<'_, '_>, errors: &mut Errors) {
    match resource {
        "configmaps" => config_map(object, errors),
        "secrets" => secret(object, errors),
        "resourcequotas" => resource_quota(&object.field("spec"), errors),
        "limitranges" => limit_range(&object.field("spec"), errors),
        "endpoints" => {
            for subset in object.field("subsets").items() {
                endpoint_subset(&subset, errors);
            }
        }
        "events" => event(object, errors),
        _ => {}
    }
}

fn config_map(map: &Place<'_, '_>, errors: &mut Errors) {
    let (data, binary) = (map.field("data"), map.field("binaryData"));
    let mut size = 0;
    for (key, value) in data.entries() {
        for rule in format::config_key(key) {
            errors.push(value.invalid_value(&json!(key), rule));
        }
        if binary.value.get(key).is_some() {
            errors.push(value.invalid_value(&json!(key), "duplicate of key present in binaryData"));
        }
        size += value.text().len();
    }
    for (key, value) in binary.entries() {
        for rule in format::config_key(key) {
            errors.push(value.invalid_value(&json!(key), rule));
        }
        size += value.text().len() / 4 * 3;
    }
    if size > SIZE_MAX {
        errors.push(FieldError::too_long("", SIZE_MAX));
    }
}

fn secret(secret: &Place<'_, '_>, errors: &mut Errors) {
    let data = secret.field("data");
    let mut size = 0;
    for (key, value) in data.entries() {
        for rule in format::config_key(key) {
            errors.push(value.invalid_value(&json!(key), rule));
        }
        size += value.text().len() / 4 * 3;
    }
    if size > SIZE_MAX {
        errors.push(FieldError::too_long("data", SIZE_MAX));
    }
    let has = |key: &str| data.value.get(key).is_some();
    let missing = |key: &str| FieldError::required(format!("data[{key}]"), "");
    match secret.field("type").text() {
        "kubernetes.io/service-account-token" => {
            let account = &secret.value["metadata"]["annotations"]["kubernetes.io/service-account.name"];
            if account.as_str().is_none_or(str::is_empty) {
                let path = "metadata.annotations[kubernetes.io/service-account.name]";
                errors.push(FieldError::required(path, ""));
            }
        }
        "kubernetes.io/dockerconfigjson" if !has(".dockerconfigjson") => {
            errors.push(missing(".dockerconfigjson"));
        }
        "kubernetes.io/dockercfg" if !has(".dockercfg") => errors.push(missing(".dockercfg")),
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
            errors.push(FieldError::required("data[username]", ""));
            errors.push(FieldError::required("data[password]", ""));
        }
        "kubernetes.io/ssh-auth" if !has("ssh-privatekey") => errors.push(missing("ssh-privatekey")),
        "kubernetes.io/tls" => {
            for key in ["tls.crt", "tls.key"] {
                if !has(key) {
                    errors.push(missing(key));
                }
            }
        }
        _ => {}
    }
}

/// What a change of a frozen ConfigMap or Secret may not touch.
pub(super) fn update(resource: &str, new: &Value, old: &Value, errors: &mut Errors) {
    let (after, before) = (Place::root("", new), Place::root("", old));
    if resource == "secrets" {
        errors.immutable(&after.field("type"), &before.field("type"));
    }
    if old["immutable"] != true {
        return;
    }
    let rule = "field is immutable when `immutable` is set";
    if new["immutable"] != true {
        errors.push(after.field("immutable").forbidden(rule));
    }
    for name in ["data", "binaryData"] {
        if old.get(name) != new.get(name) {
            errors.push(after.field(name).forbidden(rule));
        }
    }
}

fn resource_quota(spec: &Place<'_, '_>, errors: &mut Errors) {
    resources::quota(&spec.field("hard"), errors);
    let scopes = spec.field("scopes");
    for scope in scopes.items() {
        const KNOWN: &[&str] = &[
            "Terminating",
            "NotTerminating",
            "BestEffort",
            "NotBestEffort",
            "PriorityClass",
            "CrossNamespacePodAffinity",
            "VolumeAttributesClass",
        ];
        if !KNOWN.contains(&scope.text()) {
            errors.push(scopes.invalid("unsupported scope"));
        }
    }
}

fn limit_range(spec: &Place<'_, '_>, errors: &mut Errors) {
    let mut seen = Vec::new();
    for limit in spec.field("limits").items() {
        let kind = limit.field("type");
        for rule in format::label_key(kind.text()) {
            errors.push(kind.invalid_value(&json!(kind.text()), rule));
        }
        if !kind.text().contains('/') && !matches!(kind.text(), "Pod" | "Container" | "PersistentVolumeClaim")
        {
            let rule = "must be a standard limit type or fully qualified";
            errors.push(kind.invalid_value(&json!(kind.text()), rule));
        }
        if seen.contains(&kind.text()) {
            errors.push(kind.duplicate());
        }
        seen.push(kind.text());
        limit_amounts(&limit, errors);
    }
}

fn limit_amounts(limit: &Place<'_, '_>, errors: &mut Errors) {
    for list in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
        for (name, amount) in limit.field(list).entries() {
            resources::amount(&amount, name, errors);
        }
    }
    let get = |list: &str, name: &str| {
        limit.value[list]
            .get(name)
            .map(|value| (resources::quantity(value), value.as_str().unwrap_or_default().to_owned()))
    };
    for (name, _) in limit.field("min").entries() {
        if let (Some((min, min_text)), Some((max, max_text))) = (get("min", name), get("max", name))
            && min > max
        {
            let rule = format!("min value {min_text} is greater than max value {max_text}");
            errors.push(FieldError::invalid(format!("{}.min[{name}]", limit.path()), &json!(min_text), rule));
        }
    }
    for (list, bound, above) in [
        ("default", "max", true),
        ("defaultRequest", "max", true),
        ("defaultRequest", "default", true),
        ("default", "min", false),
        ("defaultRequest", "min", false),
    ] {
        for (name, _) in limit.field(list).entries() {
            let (Some((value, text)), Some((limit_value, limit_text))) = (get(list, name), get(bound, name))
            else {
                continue;
            };
            let what = if list == "default" { "default" } else { "default request" };
            let path = format!("{}.{list}[{name}]", limit.path());
            if above && value > limit_value {
                let other = if bound == "default" { "default limit" } else { bound };
                let rule = format!("{what} value {text} is greater than {other} value {limit_text}");
                errors.push(FieldError::invalid(path, &json!(text), rule));
            } else if !above && value < limit_value {
                let rule = format!("min value {limit_text} is greater than {what} value {text}");
                errors.push(FieldError::invalid(
                    format!("{}.min[{name}]", limit.path()),
                    &json!(limit_text),
                    rule,
                ));
            }
        }
    }
}

fn endpoint_subset(subset: &Place<'_, '_>, errors: &mut Errors) {
    let (ready, waiting) = (subset.field("addresses"), subset.field("notReadyAddresses"));
    if ready.len() == 0 && waiting.len() == 0 {
        errors.push(subset.required("must specify `addresses` or `notReadyAddresses`"));
    }
    for list in [&ready, &waiting] {
        for address in list.items() {
            pod::ip_address(&address.field("ip"), errors);
            let name = address.field("hostname");
            if !name.text().is_empty() {
                errors.form(&name, format::dns_label(name.text()));
            }
            let node = address.field("nodeName");
            if node.is_set() {
                errors.form(&node, format::dns_subdomain(node.text()));
            }
        }
    }
    let ports = subset.field("ports");
    for port in ports.items() {
        let name = port.field("name");
        if ports.len() > 1 && name.text().is_empty() {
            errors.push(name.required(""));
        } else if !name.text().is_empty() {
            errors.form(&name, format::dns_label(name.text()));
        }
        let number = port.field("port");
        for rule in format::port_number(number.number().unwrap_or(0)) {
            errors.push(number.invalid_value(&json!(number.number().unwrap_or(0)), rule));
        }
        errors.one_of(&port.field("protocol"), &["SCTP", "TCP", "UDP"]);
    }
}

fn event(event: &Place<'_, '_>, errors: &mut Errors) {
    let namespace = &event.value["metadata"]["namespace"];
    let name = if event.field("regarding").is_set() { "regarding" } else { "involvedObject" };
    let involved = event.field(name);
    let about = involved.field("namespace");
    let expected = if about.text().is_empty() { "default" } else { about.text() };
    if namespace != expected && !(about.text().is_empty() && namespace == "default") {
        let rule = "does not match event.namespace";
        errors.push(about.invalid_value(&json!(about.text()), rule));
    }
}
