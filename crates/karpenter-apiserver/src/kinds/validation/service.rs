//! Rules of Services.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::configuration::endpoint_address;
use super::network::{cidr, cidr_form};
use super::{pod, probe};
use crate::error::FieldError;
use crate::kinds::place::{Errors, Place};
use crate::kinds::{format, metadata};

const FAMILIES: &[&str] = &["IPv4", "IPv6"];
const FAMILY_POLICIES: &[&str] = &["PreferDualStack", "RequireDualStack", "SingleStack"];
const BALANCED_ONLY: &str = "may only be used when `type` is 'LoadBalancer'";
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";

pub(super) fn validate(service: &Place<'_, '_>, errors: &mut Errors) {
    let spec = service.field("spec");
    let kind = spec.field("type");
    let ports = spec.field("ports");
    if ports.len() == 0 && !is_headless(&spec) && kind.text() != "ExternalName" {
        errors.push(ports.required(""));
    }
    match kind.text() {
        "LoadBalancer" | "NodePort" if is_headless(&spec) => {
            let rule = format!("may not be set to 'None' for {} services", kind.text());
            errors.push(FieldError::invalid("spec.clusterIPs[0]", &json!("None"), rule));
        }
        "ExternalName" => external_name(&spec, errors),
        _ => {}
    }
    ports_rules(&ports, kind.text(), errors);
    metadata::labels(&spec.field("selector"), errors);
    affinity(&spec, errors);
    addresses(&spec, errors);
    for address in spec.field("externalIPs").items() {
        if address.text().parse::<IpAddr>().is_ok() {
            endpoint_address(&address, errors);
        } else {
            pod::ip_address(&address, errors);
        }
    }
    errors.one_of(&kind, &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]);
    source_ranges(service, errors);
    balancer(&spec, errors);
    traffic(&spec, errors);
}

fn is_headless(spec: &Place<'_, '_>) -> bool {
    spec.value["clusterIPs"]
        .as_array()
        .is_some_and(|addresses| addresses.len() == 1 && addresses[0] == "None")
}

fn external_name(spec: &Place<'_, '_>, errors: &mut Errors) {
    let rule = "may not be set for ExternalName services";
    for name in ["clusterIPs", "ipFamilies"] {
        let list = spec.field(name);
        if list.len() > 0 {
            errors.push(list.forbidden(rule));
        }
    }
    let policy = spec.field("ipFamilyPolicy");
    if policy.is_set() {
        errors.push(policy.forbidden(rule));
    }
    let name = spec.field("externalName");
    let bare = name.text().strip_suffix('.').unwrap_or(name.text());
    if bare.is_empty() {
        errors.push(name.required(""));
    } else {
        for rule in format::dns_subdomain(bare) {
            errors.push(name.invalid_value(&json!(bare), rule));
        }
    }
}

fn ports_rules(ports: &Place<'_, '_>, kind: &str, errors: &mut Errors) {
    let several = ports.len() > 1;
    let mut names: Vec<&str> = Vec::new();
    let mut numbers: Vec<(i64, &str)> = Vec::new();
    let mut outside: Vec<(i64, &str)> = Vec::new();
    for port in ports.items() {
        let name = port.field("name");
        if name.text().is_empty() {
            if several {
                errors.push(name.required(""));
            }
        } else {
            errors.form(&name, format::dns_label(name.text()));
            if names.contains(&name.text()) {
                errors.push(name.duplicate());
            }
            names.push(name.text());
        }
        let number = port.field("port");
        let value = number.number().unwrap_or(0);
        for rule in format::port_number(value) {
            errors.push(number.invalid_value(&json!(value), rule));
        }
        let protocol = port.field("protocol");
        errors.one_of(&protocol, &["SCTP", "TCP", "UDP"]);
        probe::port(&port.field("targetPort"), errors);
        let identity = (value, protocol.text());
        if numbers.contains(&identity) {
            // Kubernetes shows only what makes a port the same as another, with all fields it has.
            let shown = json!({"name": "", "protocol": protocol.text(), "port": value});
            errors.push(FieldError::duplicate(port.path(), &shown));
        }
        numbers.push(identity);
        let node_port = port.field("nodePort");
        let taken = (node_port.number().unwrap_or(0), protocol.text());
        if taken.0 != 0 {
            if kind == "ClusterIP" {
                errors.push(node_port.forbidden("may not be used when `type` is 'ClusterIP'"));
            }
            if outside.contains(&taken) {
                errors.push(node_port.duplicate());
            }
            outside.push(taken);
        }
        let application = port.field("appProtocol");
        if application.is_set() {
            errors.form(&application, format::label_key(application.text()));
        }
    }
}

fn affinity(spec: &Place<'_, '_>, errors: &mut Errors) {
    let affinity = spec.field("sessionAffinity");
    errors.one_of(&affinity, &["ClientIP", "None"]);
    if affinity.text() == "ClientIP" {
        let config = spec.field("sessionAffinityConfig");
        let client = config.field("clientIP");
        let timeout = client.field("timeoutSeconds");
        if timeout.number().is_some_and(|seconds| !(1..=86_400).contains(&seconds)) {
            errors.push(timeout.invalid("must be greater than 0 and less than 86400"));
        }
    }
}

/// Checks the addresses of a Service and their families as far as they stand for themselves.
pub(in crate::kinds) fn addresses(spec: &Place<'_, '_>, errors: &mut Errors) {
    if spec.field("type").text() == "ExternalName" {
        return;
    }
    let (address, list) = (spec.field("clusterIP"), spec.field("clusterIPs"));
    match (address.text(), list.value.get(0)) {
        ("", Some(_)) => {
            errors.push(list.invalid("must be empty when `clusterIP` is not specified"));
        }
        ("", None) => {}
        (_, None) => errors.push(list.required("")),
        (text, Some(first)) if first != text => {
            errors.push(list.invalid("first value must match `clusterIP`"));
        }
        _ => {}
    }
    let families = spec.field("ipFamilies");
    let mut seen: Vec<&str> = Vec::new();
    for family in families.items() {
        if !FAMILIES.contains(&family.text()) {
            errors.push(family.unsupported(FAMILIES));
        }
        if seen.contains(&family.text()) {
            errors.push(family.duplicate());
        }
        seen.push(family.text());
    }
    errors.one_of_or_none(&spec.field("ipFamilyPolicy"), FAMILY_POLICIES);
    let before = errors.0.len();
    for (index, item) in list.items().enumerate() {
        if index == 0 && item.text() == "None" {
            if list.len() > 1 {
                errors.push(list.invalid("'None' must be the first and only value"));
            }
            continue;
        }
        pod::ip_address(&item, errors);
    }
    let malformed = errors.0.len() > before;
    if list.len() > 2 {
        errors.push(list.invalid("may only hold up to 2 values"));
    }
    if malformed {
        return;
    }
    let parsed: Vec<IpAddr> = list.items().filter_map(|item| item.text().parse().ok()).collect();
    let both = parsed.iter().any(IpAddr::is_ipv4) && parsed.iter().any(IpAddr::is_ipv6);
    if list.len() > 1 && !both {
        errors.push(list.invalid("may specify no more than one IP for each IP family"));
    }
    for (index, ((item, address), family)) in list.items().zip(&parsed).zip(&seen).enumerate() {
        let expected = if address.is_ipv4() { "IPv4" } else { "IPv6" };
        if *family != expected && FAMILIES.contains(family) {
            let article = format!("expected an {family} value as indicated by `ipFamilies[{index}]`");
            errors.push(item.invalid(article));
        }
    }
}

fn source_ranges(service: &Place<'_, '_>, errors: &mut Errors) {
    let spec = service.field("spec");
    let balanced = spec.field("type").text() == "LoadBalancer";
    let ranges = spec.field("loadBalancerSourceRanges");
    if ranges.len() > 0 {
        // Kubernetes writes the name of the field as its own code does.
        let path = "spec.LoadBalancerSourceRanges";
        if !balanced {
            errors.push(FieldError::forbidden(path, BALANCED_ONLY));
        }
        for (index, range) in ranges.items().enumerate() {
            let text = json!(range.text().trim());
            cidr(&Place::root(&format!("{path}[{index}]"), &text), errors);
        }
        return;
    }
    let annotation = &service.value["metadata"]["annotations"][SOURCE_RANGES];
    let Some(text) = annotation.as_str() else { return };
    let path = format!("metadata.annotations[{SOURCE_RANGES}]");
    if !balanced {
        errors.push(FieldError::forbidden(path.clone(), BALANCED_ONLY));
    }
    for range in text.split(',').map(str::trim).filter(|_| !text.trim().is_empty()) {
        if !cidr_form(range) {
            cidr(&Place::root(&path, &json!(range)), errors);
        }
    }
}

fn balancer(spec: &Place<'_, '_>, errors: &mut Errors) {
    let balanced = spec.field("type").text() == "LoadBalancer";
    let allocate = spec.field("allocateLoadBalancerNodePorts");
    if allocate.is_set() && !balanced {
        errors.push(allocate.forbidden(BALANCED_ONLY));
    }
    let class = spec.field("loadBalancerClass");
    if class.is_set() && balanced {
        errors.form(&class, format::label_key(class.text()));
    } else if class.is_set() {
        errors.push(class.forbidden(BALANCED_ONLY));
    }
}

fn traffic(spec: &Place<'_, '_>, errors: &mut Errors) {
    let kind = spec.field("type").text();
    let policy = spec.field("externalTrafficPolicy");
    let external = matches!(kind, "NodePort" | "LoadBalancer")
        || (kind == "ClusterIP" && spec.field("externalIPs").len() > 0);
    if external {
        errors.one_of(&policy, &["Cluster", "Local"]);
    } else if !policy.text().is_empty() {
        errors.push(policy.invalid("may only be set for externally-accessible services"));
    }
    let check = spec.field("healthCheckNodePort");
    let checked = kind == "LoadBalancer" && policy.text() == "Local";
    if checked {
        for rule in format::port_number(check.number().unwrap_or(0)) {
            errors.push(check.invalid(rule));
        }
    } else if check.number().is_some_and(|port| port != 0) {
        let rule = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        errors.push(check.invalid(rule));
    }
    errors.one_of_or_none(&spec.field("internalTrafficPolicy"), &["Cluster", "Local"]);
    let distribution = spec.field("trafficDistribution");
    errors.one_of_or_none(&distribution, &["PreferClose", "PreferSameZone", "PreferSameNode"]);
}

/// What a change of a Service may not touch.
pub(super) fn update(new: &Value, old: &Value, errors: &mut Errors) {
    let after = Place::root("", new);
    let spec = after.field("spec");
    let (kind, was) = (&new["spec"]["type"], &old["spec"]["type"]);
    if kind != "ExternalName" && was != "ExternalName" {
        let headless = (is_headless(&spec), is_headless(&Place::root("spec", &old["spec"])));
        if headless != (true, true) {
            kept_list(&spec, &old["spec"], "clusterIPs", "clusterIP", errors);
        }
        if headless == (false, false) {
            kept_list(&spec, &old["spec"], "ipFamilies", "ipFamily", errors);
        }
    }
    if kind == "LoadBalancer" && was == "LoadBalancer" {
        let class = spec.field("loadBalancerClass");
        if *class.value != old["spec"]["loadBalancerClass"] {
            errors.push(class.invalid("may not change once set"));
        }
        let check = spec.field("healthCheckNodePort");
        let local = |service: &Value| service["spec"]["externalTrafficPolicy"] == "Local";
        if local(new) && local(old) && *check.value != old["spec"]["healthCheckNodePort"] {
            errors.push(check.forbidden("field is immutable"));
        }
    }
}

/// What has been allocated stays; a second item may come, and go where one is enough.
fn kept_list(spec: &Place<'_, '_>, old: &Value, name: &str, what: &str, errors: &mut Errors) {
    let now = spec.field(name);
    let before = old[name].as_array().map(Vec::as_slice).unwrap_or_default();
    let after = now.value.as_array().map(Vec::as_slice).unwrap_or_default();
    let path = now.path();
    let shown = Value::Array(after.to_vec());
    if after.is_empty() && !before.is_empty() {
        let rule = format!("primary {what} can not be unset");
        errors.push(FieldError::invalid(format!("{path}[0]"), &shown, rule));
        return;
    }
    let compared = if before.len() == after.len() { before.len() } else { 1 };
    for (index, (before, after)) in before.iter().zip(after).enumerate().take(compared) {
        if before != after {
            // Of families Kubernetes always names the first.
            let index = if name == "clusterIPs" { index } else { 0 };
            let rule = "may not change once set";
            errors.push(FieldError::invalid(format!("{path}[{index}]"), &shown, rule));
        }
    }
    let policy = spec.field("ipFamilyPolicy");
    if before.len() > after.len() && after.len() == 1 && policy.text() != "SingleStack" {
        let rule = format!("must be set to 'SingleStack' when releasing the secondary {what}");
        errors.push(policy.invalid(rule));
    }
}
