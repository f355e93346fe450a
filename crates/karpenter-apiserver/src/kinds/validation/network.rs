//! Rules of the kinds around the network.

use serde_json::{Value, json};

use super::{probe, scheduling};
use crate::error::FieldError;
use crate::kinds::format;
use crate::kinds::place::{Errors, Place};

pub(super) fn validate(resource: &str, object: &Place<'_, '_>, errors: &mut Errors) {
    match resource {
        "networkpolicies.networking.k8s.io" => network_policy(&object.field("spec"), errors),
        "ingresses.networking.k8s.io" => ingress(&object.field("spec"), errors),
        "ingressclasses.networking.k8s.io" => ingress_class(&object.field("spec"), errors),
        _ => {}
    }
}

fn network_policy(spec: &Place<'_, '_>, errors: &mut Errors) {
    scheduling::label_selector(&spec.field("podSelector"), errors);
    for (list, peers) in [("ingress", "from"), ("egress", "to")] {
        for rule in spec.field(list).items() {
            for port in rule.field("ports").items() {
                policy_port(&port, errors);
            }
            for peer in rule.field(peers).items() {
                policy_peer(&peer, errors);
            }
        }
    }
    let types = spec.field("policyTypes");
    if types.len() > 2 {
        errors.push(types.invalid("may not specify more than two policyTypes"));
        return;
    }
    for kind in types.items() {
        if !matches!(kind.text(), "Ingress" | "Egress") {
            errors.push(kind.unsupported(&["Ingress", "Egress"]));
        }
    }
}

fn policy_port(port: &Place<'_, '_>, errors: &mut Errors) {
    errors.one_of_or_none(&port.field("protocol"), &["TCP", "UDP", "SCTP"]);
    let (number, end) = (port.field("port"), port.field("endPort"));
    if number.is_set() {
        probe::port(&number, errors);
    }
    let Some(last) = end.number() else { return };
    match number.number() {
        Some(first) => {
            for rule in format::port_number(last) {
                errors.push(end.invalid(rule));
            }
            if last < first {
                errors.push(end.invalid_value(number.value, "must be greater than or equal to `port`"));
            }
        }
        None if number.is_set() => {
            errors.push(end.invalid("may not be specified when `port` is non-numeric"));
        }
        None => errors.push(end.invalid("may not be specified when `port` is not specified")),
    }
}

fn policy_peer(peer: &Place<'_, '_>, errors: &mut Errors) {
    let block = peer.field("ipBlock");
    let mut count = 0;
    for name in ["podSelector", "namespaceSelector"] {
        let selector = peer.field(name);
        if selector.is_set() {
            count += 1;
            scheduling::label_selector(&selector, errors);
        }
    }
    if block.is_set() {
        count += 1;
        let range = block.field("cidr");
        if range.text().is_empty() {
            errors.push(range.required(""));
        } else {
            cidr(&range, errors);
            for except in block.field("except").items().filter(|_| cidr_form(range.text())) {
                cidr(&except, errors);
                if cidr_form(except.text()) && !is_within(except.text(), range.text()) {
                    errors.push(except.invalid("must be a strict subset of `cidr`"));
                }
            }
        }
        if count > 1 {
            errors.push(peer.forbidden("may not specify both ipBlock and another peer"));
        }
    }
    if count == 0 {
        errors.push(peer.required("must specify a peer"));
    }
}

/// Whether a range of addresses is a part of another, and not all of it.
fn is_within(inner: &str, outer: &str) -> bool {
    let parsed = |text: &str| -> Option<(std::net::IpAddr, u32)> {
        let (address, length) = text.split_once('/')?;
        Some((address.parse().ok()?, length.parse().ok()?))
    };
    let (Some((inner, inner_length)), Some((outer, outer_length))) = (parsed(inner), parsed(outer)) else {
        return false;
    };
    let start = |address: std::net::IpAddr| match address {
        std::net::IpAddr::V4(address) => (32, u128::from(u32::from(address))),
        std::net::IpAddr::V6(address) => (128, u128::from(address)),
    };
    let ((bits, first), (outer_bits, second)) = (start(inner), start(outer));
    let rest = bits - outer_length.min(bits);
    bits == outer_bits && inner_length > outer_length && (rest >= 128 || first >> rest == second >> rest)
}

/// Whether a text is a range of addresses.
pub(super) fn cidr_form(text: &str) -> bool {
    text.split_once('/').is_some_and(|(address, length)| {
        let bits = match address.parse::<std::net::IpAddr>() {
            Ok(std::net::IpAddr::V4(_)) => 32,
            Ok(std::net::IpAddr::V6(_)) => 128,
            Err(_) => return false,
        };
        length.parse::<u8>().is_ok_and(|length| length <= bits)
    })
}

pub(super) fn cidr(range: &Place<'_, '_>, errors: &mut Errors) {
    if !cidr_form(range.text()) {
        let rule = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
        errors.push(range.invalid(rule));
    }
}

fn ingress(spec: &Place<'_, '_>, errors: &mut Errors) {
    let (rules, default) = (spec.field("rules"), spec.field("defaultBackend"));
    if rules.len() == 0 && !default.is_set() {
        let rule = "either `defaultBackend` or `rules` must be specified";
        errors.push(spec.invalid_value(&Value::Null, rule));
    }
    if default.is_set() {
        ingress_backend(&default, errors);
    }
    for rule in rules.items() {
        let host = rule.field("host");
        if !host.text().is_empty() {
            if host.text().parse::<std::net::IpAddr>().is_ok() {
                errors.push(host.invalid("must be a DNS name, not an IP address"));
            } else if host.text().contains('*') {
                errors.form(&host, format::wildcard_subdomain(host.text()));
            } else {
                errors.form(&host, format::dns_subdomain(host.text()));
            }
        }
        let http = rule.field("http");
        if http.is_set() {
            let paths = http.field("paths");
            if paths.len() == 0 {
                errors.push(paths.required(""));
            }
            for path in paths.items() {
                ingress_path(&path, errors);
            }
        }
    }
    for tls in spec.field("tls").items() {
        for host in tls.field("hosts").items() {
            let wrong = if host.text().contains('*') {
                format::wildcard_subdomain(host.text())
            } else {
                format::dns_subdomain(host.text())
            };
            errors.form(&host, wrong);
        }
        let secret = tls.field("secretName");
        if !secret.text().is_empty() {
            errors.form(&secret, format::dns_subdomain(secret.text()));
        }
    }
    let class = spec.field("ingressClassName");
    if class.is_set() {
        errors.form(&class, format::dns_subdomain(class.text()));
    }
}

fn ingress_path(path: &Place<'_, '_>, errors: &mut Errors) {
    let (text, kind) = (path.field("path"), path.field("pathType"));
    match kind.text() {
        "" if !kind.is_set() => {
            errors.push(kind.required("pathType must be specified"));
            return;
        }
        "Exact" | "Prefix" => {
            if !text.text().starts_with('/') {
                errors.push(text.invalid_value(&json!(text.text()), "must be an absolute path"));
            }
            for part in ["//", "/./", "/../", "%2f", "%2F"] {
                if text.text().contains(part) {
                    errors.push(text.invalid(format!("must not contain '{part}'")));
                }
            }
            for end in ["/..", "/."] {
                if text.text().ends_with(end) {
                    errors.push(text.invalid(format!("cannot end with '{end}'")));
                }
            }
        }
        "ImplementationSpecific" => {
            if !text.text().is_empty() && !text.text().starts_with('/') {
                errors.push(text.invalid("must be an absolute path"));
            }
        }
        _ => errors.push(kind.unsupported(&["Exact", "ImplementationSpecific", "Prefix"])),
    }
    ingress_backend(&path.field("backend"), errors);
}

fn ingress_backend(backend: &Place<'_, '_>, errors: &mut Errors) {
    let (service, resource) = (backend.field("service"), backend.field("resource"));
    if service.is_set() && resource.is_set() {
        let empty = json!("");
        errors.push(backend.invalid_value(&empty, "cannot set both resource and service backends"));
    } else if resource.is_set() {
        local_reference(&resource, errors);
    } else if service.is_set() {
        let name = service.field("name");
        if name.text().is_empty() {
            errors.push(name.required(""));
        } else {
            errors.form(&name, format::dns_label(name.text()));
        }
        let port = service.field("port");
        let (port_name, number) = (port.field("name"), port.field("number"));
        let has_number = number.number().is_some_and(|number| number != 0);
        if !port_name.text().is_empty() && has_number {
            errors.push(backend.invalid_value(&json!(""), "cannot set both port name & port number"));
        } else if !port_name.text().is_empty() {
            errors.form(&port_name, format::port_name(port_name.text()));
        } else if has_number {
            errors.form(&number, format::port_number(number.number().unwrap_or(0)));
        } else {
            errors.push(backend.required("port name or number is required"));
        }
    } else {
        errors.push(backend.invalid_value(&json!(""), "resource or service backend is required"));
    }
}

/// Checks a reference to an object by group, kind and name.
fn local_reference(reference: &Place<'_, '_>, errors: &mut Errors) {
    let group = reference.field("apiGroup");
    if group.is_set() {
        errors.form(&group, format::dns_subdomain(group.text()));
    }
    for name in ["kind", "name"] {
        let place = reference.field(name);
        if place.text().is_empty() {
            errors.push(place.required(""));
        } else {
            errors.form(&place, format::path_segment(place.text()));
        }
    }
}

/// The class of a new ingress that is named twice is the same.
pub(super) fn ingress_create(ingress: &Place<'_, '_>, errors: &mut Errors) {
    const CLASS: &str = "kubernetes.io/ingress.class";
    let annotation = &ingress.value["metadata"]["annotations"][CLASS];
    let class = &ingress.value["spec"]["ingressClassName"];
    if annotation.is_string() && class.is_string() && annotation != class {
        let rule = "must match `ingressClassName` when both are specified";
        errors.push(FieldError::invalid(format!("annotations.{CLASS}"), annotation, rule));
    }
}

fn ingress_class(spec: &Place<'_, '_>, errors: &mut Errors) {
    let controller = spec.field("controller");
    if controller.text().len() > 250 {
        errors.push(FieldError::too_long(controller.path(), 250));
    }
    prefixed_path(&controller, errors);
    let parameters = spec.field("parameters");
    if !parameters.is_set() {
        return;
    }
    local_reference(&parameters, errors);
    let (scope, namespace) = (parameters.field("scope"), parameters.field("namespace"));
    match scope.text() {
        "Cluster" => {
            if namespace.is_set() {
                let rule = "`parameters.scope` is set to 'Cluster'";
                errors.push(namespace.forbidden(rule));
            }
        }
        "Namespace" => {
            if namespace.is_set() {
                errors.form(&namespace, format::dns_label(namespace.text()));
            } else {
                errors.push(namespace.required("`parameters.scope` is set to 'Namespace'"));
            }
        }
        "" if !scope.is_set() => errors.push(scope.required("")),
        _ => errors.push(scope.unsupported(&["Cluster", "Namespace"])),
    }
}

/// A domain, a slash and a path.
pub(super) fn prefixed_path(place: &Place<'_, '_>, errors: &mut Errors) {
    if place.text().is_empty() {
        errors.push(place.required(""));
        return;
    }
    match place.text().split_once('/') {
        Some((domain, path)) if !domain.is_empty() && !path.is_empty() => {
            for rule in format::dns_subdomain(domain) {
                errors.push(place.invalid_value(&json!(domain), rule));
            }
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte);
            if !path.bytes().all(allowed) {
                let rule = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
                errors.push(place.invalid_value(&json!(path), rule));
            }
        }
        _ => errors.push(place.invalid("must be a domain-prefixed path (such as \"acme.io/foo\")")),
    }
}
