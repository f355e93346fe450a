//! Rules of ConfigMaps, Secrets, accounts, quotas and endpoints.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::{Value, json};

use super::{limit_range, pod, resources};
use crate::error::FieldError;
use crate::kinds::format;
use crate::kinds::place::{Errors, Place};

const SIZE_MAX: usize = 1024 * 1024;

pub(super) fn validate(resource: &str, object: &Place<'_, '_>, errors: &mut Errors) {
    match resource {
        "configmaps" => config_map(object, errors),
        "secrets" => secret(object, errors),
        "resourcequotas" => resource_quota(&object.field("spec"), errors),
        "limitranges" => limit_range::validate(&object.field("spec"), errors),
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
        // The place is the whole object, which has no name.
        errors.push(FieldError::too_long("[]", SIZE_MAX));
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
        "kubernetes.io/ssh-auth" if data.field("ssh-privatekey").text().is_empty() => {
            errors.push(missing("ssh-privatekey"));
        }
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

const SCOPES: &[&str] = &[
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
];

fn resource_quota(spec: &Place<'_, '_>, errors: &mut Errors) {
    resources::quota(&spec.field("hard"), errors);
    let scopes = spec.field("scopes");
    let hard: Vec<&str> = spec.field("hard").entries().map(|(name, _)| name).collect();
    let misapplied = |scope: &str| {
        hard.iter().filter(|name| resources::is_quota_standard(name) && !scope_covers(scope, name)).count()
    };
    for scope in scopes.items() {
        if !SCOPES.contains(&scope.text()) {
            errors.push(scopes.invalid("unsupported scope"));
        }
        for _ in 0..misapplied(scope.text()) {
            errors.push(scopes.invalid("unsupported scope applied to resource"));
        }
    }
    let selector = spec.field("scopeSelector");
    // Kubernetes names the list and not its items.
    let expressions = selector.field("matchExpressions");
    for expression in expressions.items() {
        scope_requirement(&expressions, &expression, errors);
        for _ in 0..misapplied(expression.field("scopeName").text()) {
            let rule = "unsupported scope applied to resource";
            errors.push(expressions.invalid_value(selector.value, rule));
        }
    }
    let named = |scope: &str| expressions.items().any(|item| item.field("scopeName").text() == scope);
    let listed = |scope: &str| scopes.items().any(|item| item.text() == scope);
    for (one, other) in [("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")] {
        if listed(one) && listed(other) {
            errors.push(scopes.invalid("conflicting scopes"));
        }
        if named(one) && named(other) {
            errors.push(expressions.invalid_value(scopes.value, "conflicting scopes"));
        }
    }
}

/// Whether a scope says something about a resource.
fn scope_covers(scope: &str, resource: &str) -> bool {
    let of_pods = matches!(
        resource,
        "cpu"
            | "memory"
            | "ephemeral-storage"
            | "requests.cpu"
            | "requests.memory"
            | "requests.ephemeral-storage"
            | "limits.cpu"
            | "limits.memory"
            | "limits.ephemeral-storage"
            | "pods"
    );
    match scope {
        "Terminating"
        | "NotTerminating"
        | "NotBestEffort"
        | "PriorityClass"
        | "CrossNamespacePodAffinity" => of_pods,
        "BestEffort" => resource == "pods",
        _ => true,
    }
}

fn scope_requirement(list: &Place<'_, '_>, expression: &Place<'_, '_>, errors: &mut Errors) {
    let (scope, operator, values) =
        (expression.field("scopeName"), expression.field("operator"), expression.field("values"));
    let shown = json!(scope.text());
    if !SCOPES.contains(&scope.text()) {
        errors.push(list.field("scopeName").invalid_value(&shown, "unsupported scope"));
    }
    let sign = json!(operator.text());
    let is_bare = !matches!(scope.text(), "PriorityClass" | "VolumeAttributesClass");
    if is_bare && SCOPES.contains(&scope.text()) && operator.text() != "Exists" {
        let rule = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, \
                    ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or \
                    ResourceQuotaScopeCrossNamespacePodAffinity";
        errors.push(list.field("operator").invalid_value(&sign, rule));
    }
    match operator.text() {
        "In" | "NotIn" if values.len() == 0 => {
            let rule = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
            errors.push(list.field("values").required(rule));
        }
        "Exists" | "DoesNotExist" if values.len() > 0 => {
            let rule = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
            errors.push(list.field("values").invalid_value(values.value, rule));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        _ => errors.push(list.field("operator").invalid_value(&sign, "not a valid selector operator")),
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
        let application = port.field("appProtocol");
        if application.is_set() {
            errors.form(&application, format::label_key(application.text()));
        }
    }
}

/// Checks that an address can be that of a pod.
pub(super) fn endpoint_address(place: &Place<'_, '_>, errors: &mut Errors) {
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
