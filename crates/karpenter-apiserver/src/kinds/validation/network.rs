//! Rules of Services and of the kinds around the network.

use serde_json::{Value, json};

use super::{pod, probe, scheduling};
use crate::error::FieldError;
use crate::kinds::place::{Errors, Place};
use crate::kinds::{format, metadata};

pub(super) fn validate(resource: &str, object: &Place<'_, '_>, errors: &mut Errors) {
    match resource {
        "networkpolicies.networking.k8s.io" => network_policy(&object.field("spec"), errors),
        "ingresses.networking.k8s.io" => ingress(&object.field("spec"), errors),
        "ingressclasses.networking.k8s.io" => ingress_class(&object.field("spec"), errors),
        "endpointslices.discovery.k8s.io" => endpoint_slice(object, errors),
        _ => {}
    }
}

pub(super) fn service(service: &Place<'_, '_>, errors: &mut Errors) {
    let spec = service.field("spec");
    let kind = spec.field("type");
    let headless = spec.field("clusterIP").text() == "None";
    let external = kind.text() == "ExternalName";
    let ports = spec.field("ports");
    if ports.len() == 0 && !headless && !external {
        errors.push(ports.required(""));
    }
    match kind.text() {
        "LoadBalancer" if headless => {
            let rule = "may not be set to 'None' for LoadBalancer services";
            errors.push(
                spec.field("clusterIPs")
                    .items()
                    .next()
                    .map_or_else(|| spec.field("clusterIP").invalid(rule), |first| first.invalid(rule)),
            );
        }
        "NodePort" if headless => {
            let rule = "may not be set to 'None' for NodePort services";
            errors.push(
                spec.field("clusterIPs")
                    .items()
                    .next()
                    .map_or_else(|| spec.field("clusterIP").invalid(rule), |first| first.invalid(rule)),
            );
        }
        "ExternalName" => external_name(&spec, errors),
        _ => {}
    }
    service_ports(&ports, kind.text(), errors);
    metadata::labels(&spec.field("selector"), errors);
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
    for address in spec.field("externalIPs").items() {
        pod::ip_address(&address, errors);
    }
    if kind.text().is_empty() {
        errors.push(kind.required(""));
    } else if !matches!(kind.text(), "ClusterIP" | "NodePort" | "LoadBalancer" | "ExternalName") {
        errors.push(kind.unsupported(&["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]));
    }
    errors.one_of_or_none(&spec.field("internalTrafficPolicy"), &["Cluster", "Local"]);
    traffic(&spec, errors);
}

fn external_name(spec: &Place<'_, '_>, errors: &mut Errors) {
    let addresses = spec.field("clusterIPs");
    if addresses.len() > 0 || spec.field("clusterIP").is_set() {
        errors.push(addresses.forbidden("may not be set for ExternalName services"));
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

fn service_ports(ports: &Place<'_, '_>, kind: &str, errors: &mut Errors) {
    let several = ports.len() > 1;
    let mut names: Vec<&str> = Vec::new();
    let mut numbers: Vec<(i64, &str)> = Vec::new();
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
        errors.one_of(&port.field("protocol"), &["SCTP", "TCP", "UDP"]);
        let target = port.field("targetPort");
        probe::port(&target, errors);
        let identity = (value, port.field("protocol").text());
        if numbers.contains(&identity) {
            errors.push(FieldError::duplicate(port.path(), port.value));
        }
        numbers.push(identity);
        let node_port = port.field("nodePort");
        if kind == "ClusterIP" && node_port.number().unwrap_or(0) != 0 {
            errors.push(node_port.forbidden("may not be used when `type` is 'ClusterIP'"));
        }
        let application = port.field("appProtocol");
        if application.is_set() {
            errors.form(&application, format::label_key(application.text()));
        }
    }
}

fn traffic(spec: &Place<'_, '_>, errors: &mut Errors) {
    let kind = spec.field("type").text();
    let policy = spec.field("externalTrafficPolicy");
    let external = matches!(kind, "NodePort" | "LoadBalancer")
        || (kind == "ClusterIP" && spec.field("externalIPs").len() > 0);
    if !external && !policy.text().is_empty() {
        let rule = "may only be set for externally-accessible services";
        errors.push(policy.invalid(rule));
    } else if external && !matches!(policy.text(), "Cluster" | "Local") {
        errors.push(policy.unsupported(&["Cluster", "Local"]));
    }
    let check = spec.field("healthCheckNodePort");
    if check.number().is_some_and(|port| port != 0) && !(kind == "LoadBalancer" && policy.text() == "Local") {
        let rule = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        errors.push(check.invalid(rule));
    }
    if kind != "LoadBalancer" {
        let ranges = spec.field("loadBalancerSourceRanges");
        if ranges.len() > 0 {
            errors.push(ranges.forbidden("may only be used when `type` is 'LoadBalancer'"));
        }
        let class = spec.field("loadBalancerClass");
        if class.is_set() {
            errors.push(class.forbidden("may only be used when `type` is 'LoadBalancer'"));
        }
        let allocate = spec.field("allocateLoadBalancerNodePorts");
        if allocate.is_set() {
            errors.push(allocate.forbidden("may only be used when `type` is 'LoadBalancer'"));
        }
    }
    let distribution = spec.field("trafficDistribution");
    errors.one_of_or_none(&distribution, &["PreferClose", "PreferSameNode", "PreferSameZone"]);
}

/// What a change of a Service may not touch.
pub(super) fn service_update(new: &Value, old: &Value, errors: &mut Errors) {
    let (kind, was) = (&new["spec"]["type"], &old["spec"]["type"]);
    let allocated = old["spec"]["clusterIP"].as_str().is_some_and(|address| !address.is_empty());
    if kind != "ExternalName" && was != "ExternalName" && allocated {
        let after = Place::root("", new);
        let spec = after.field("spec");
        if new["spec"]["clusterIPs"][0] != old["spec"]["clusterIPs"][0] {
            let addresses = spec.field("clusterIPs");
            let rule = "may not change once set";
            errors.push(match addresses.items().next() {
                Some(first) => FieldError::invalid(format!("{}[0]", addresses.path()), first.value, rule),
                None => addresses.invalid(rule),
            });
        }
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
            errors.push(kind.unsupported(&["Egress", "Ingress"]));
        }
    }
}

fn policy_port(port: &Place<'_, '_>, errors: &mut Errors) {
    errors.one_of_or_none(&port.field("protocol"), &["SCTP", "TCP", "UDP"]);
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
                errors.push(end.invalid("must be greater than or equal to `port`"));
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
        }
        for except in block.field("except").items() {
            cidr(&except, errors);
        }
        if count > 1 {
            errors.push(peer.forbidden("may not specify both ipBlock and another peer"));
        }
    }
    if count == 0 {
        errors.push(peer.required("must specify a peer"));
    }
}

fn cidr(range: &Place<'_, '_>, errors: &mut Errors) {
    let parsed = range.text().split_once('/').is_some_and(|(address, length)| {
        let bits = match address.parse::<std::net::IpAddr>() {
            Ok(std::net::IpAddr::V4(_)) => 32,
            Ok(std::net::IpAddr::V6(_)) => 128,
            Err(_) => return false,
        };
        length.parse::<u8>().is_ok_and(|length| length <= bits)
    });
    if !parsed {
        let rule = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
        errors.push(range.invalid(rule));
    }
}

fn ingress(spec: &Place<'_, '_>, errors: &mut Errors) {
    let (rules, default) = (spec.field("rules"), spec.field("defaultBackend"));
    if rules.len() == 0 && !default.is_set() {
        errors.push(spec.invalid("either `defaultBackend` or `rules` must be specified"));
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
        "" => errors.push(kind.required("pathType must be specified")),
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
        for name in ["kind", "name"] {
            let place = resource.field(name);
            if place.text().is_empty() {
                errors.push(place.required(""));
            }
        }
    } else if service.is_set() {
        let name = service.field("name");
        if name.text().is_empty() {
            errors.push(name.required(""));
        } else {
            errors.form(&name, format::dns_1035_label(name.text()));
        }
        let port = service.field("port");
        let (port_name, number) = (port.field("name"), port.field("number"));
        let has_number = number.number().is_some_and(|number| number != 0);
        if !port_name.text().is_empty() && has_number {
            errors.push(service.invalid_value(&json!(""), "cannot set both port name & port number"));
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
    let group = parameters.field("apiGroup");
    if !group.text().is_empty() {
        errors.form(&group, format::dns_subdomain(group.text()));
    }
    for name in ["kind", "name"] {
        let place = parameters.field(name);
        if place.text().is_empty() {
            errors.push(place.required(""));
        } else {
            errors.form(&place, format::path_segment(place.text()));
        }
    }
    let (scope, namespace) = (parameters.field("scope"), parameters.field("namespace"));
    match scope.text() {
        "Cluster" => {
            if namespace.is_set() {
                let rule = "`parameters.scope` is set to 'Cluster'";
                errors.push(namespace.forbidden(rule));
            }
        }
        "Namespace" => {
            if namespace.text().is_empty() {
                errors.push(namespace.required("`parameters.scope` is set to 'Namespace'"));
            } else {
                errors.form(&namespace, format::dns_label(namespace.text()));
            }
        }
        "" => errors.push(scope.required("")),
        _ => errors.push(scope.unsupported(&["Cluster", "Namespace"])),
    }
}

/// A domain, a slash and a path.
fn prefixed_path(place: &Place<'_, '_>, errors: &mut Errors) {
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

fn endpoint_slice(slice: &Place<'_, '_>, errors: &mut Errors) {
    let kind = slice.field("addressType");
    if kind.text().is_empty() {
        errors.push(kind.required(""));
    } else if !matches!(kind.text(), "FQDN" | "IPv4" | "IPv6") {
        errors.push(kind.unsupported(&["FQDN", "IPv4", "IPv6"]));
    }
    for endpoint in slice.field("endpoints").items() {
        slice_endpoint(&endpoint, kind.text(), errors);
    }
    let mut names: Vec<&str> = Vec::new();
    for port in slice.field("ports").items() {
        let name = port.field("name");
        if !name.text().is_empty() {
            errors.form(&name, format::dns_label(name.text()));
        }
        if names.contains(&name.text()) {
            errors.push(name.duplicate());
        }
        names.push(name.text());
        errors.one_of(&port.field("protocol"), &["SCTP", "TCP", "UDP"]);
        let application = port.field("appProtocol");
        if application.is_set() {
            errors.form(&application, format::label_key(application.text()));
        }
    }
}

fn slice_endpoint(endpoint: &Place<'_, '_>, kind: &str, errors: &mut Errors) {
    let addresses = endpoint.field("addresses");
    if addresses.len() == 0 {
        errors.push(addresses.required("must contain at least 1 address"));
    }
    for address in addresses.items() {
        match kind {
            "IPv4" if address.text().parse::<std::net::Ipv4Addr>().is_err() => {
                let rule = if address.text().parse::<std::net::IpAddr>().is_ok() {
                    "must be an IPv4 address"
                } else {
                    "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
                };
                errors.push(address.invalid(rule));
            }
            "IPv6" if address.text().parse::<std::net::Ipv6Addr>().is_err() => {
                let rule = if address.text().parse::<std::net::IpAddr>().is_ok() {
                    "must be an IPv6 address"
                } else {
                    "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
                };
                errors.push(address.invalid(rule));
            }
            _ => {}
        }
    }
    let name = endpoint.field("hostname");
    if name.is_set() {
        errors.form(&name, format::dns_label(name.text()));
    }
    let node = endpoint.field("nodeName");
    if node.is_set() {
        errors.form(&node, format::dns_subdomain(node.text()));
    }
}
