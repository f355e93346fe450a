//! Rules of ConfigMaps, Secrets, accounts, quotas, limits and endpoints.

use std::collections::BTreeSet;
use std::net::IpAddr;

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
        let wrong = format::label_key(kind.text());
        let standard = matches!(kind.text(), "Pod" | "Container" | "PersistentVolumeClaim");
        if wrong.is_empty() && !kind.text().contains('/') && !standard {
            let rule = "must be a standard limit type or fully qualified";
            errors.push(kind.invalid_value(&json!(kind.text()), rule));
        }
        errors.form(&kind, wrong);
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
            let ip = address.field("ip");
            pod::ip_address(&ip, errors);
            endpoint_address(&ip, errors);
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

/// Checks that an address can be that of a pod.
fn endpoint_address(place: &Place<'_, '_>, errors: &mut Errors) {
    let Ok(address) = place.text().parse::<IpAddr>() else {
        errors.push(place.invalid_value(&json!(place.text()), "must be a valid IP address"));
        return;
    };
    let (link_local, multicast) = match address {
        IpAddr::V4(address) => (address.is_link_local(), address.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(address) => (address.is_unicast_link_local(), address.segments()[0] & 0xff0f == 0xff02),
    };
    for (wrong, rule) in [
        (address.is_unspecified(), format!("may not be unspecified ({})", place.text())),
        (address.is_loopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned()),
        (link_local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)".to_owned()),
        (multicast, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)".to_owned()),
    ] {
        if wrong {
            errors.push(place.invalid(rule));
        }
    }
}

/// The scopes of a quota stay.
pub(super) fn quota_update(new: &Value, old: &Value, errors: &mut Errors) {
    let set = |quota: &Value| -> BTreeSet<String> {
        let scopes = quota["spec"]["scopes"].as_array().into_iter().flatten();
        scopes.filter_map(|scope| scope.as_str().map(str::to_owned)).collect()
    };
    if set(new) != set(old) {
        errors.push(FieldError::invalid("spec.scopes", &new["spec"]["scopes"], "field is immutable"));
    }
}
