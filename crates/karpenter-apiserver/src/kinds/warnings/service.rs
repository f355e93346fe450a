//! Warnings about Services: what is ignored, what is going away, addresses that others may read differently.

use serde_json::Value;

use super::{addresses, items};

pub(super) fn of_service(service: &Value, warnings: &mut Vec<String>) {
    let spec = &service["spec"];
    let headless = spec["type"] == "ClusterIP" && spec["clusterIP"] == "None";
    let elsewhere = spec["type"] == "ExternalName";
    let annotations = &service["metadata"]["annotations"];
    let hints = annotations.get("service.kubernetes.io/topology-aware-hints").is_some();
    let external = is_set(spec, "externalIPs");
    say(
        &[(
            hints,
            "annotation service.kubernetes.io/topology-aware-hints is deprecated, please use \
             service.kubernetes.io/topology-mode instead",
        )],
        warnings,
    );
    odd_addresses(spec, "clusterIPs", warnings);
    say(
        &[
            (
                headless && is_set(spec, "loadBalancerIP"),
                "spec.loadBalancerIP is ignored for headless services",
            ),
            (headless && external, "spec.externalIPs is ignored for headless services"),
            (
                headless && spec["sessionAffinity"] != "None",
                "spec.SessionAffinity is ignored for headless services",
            ),
        ],
        warnings,
    );
    odd_addresses(spec, "externalIPs", warnings);
    say(
        &[(
            external && !headless && !elsewhere,
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
        )],
        warnings,
    );
    let balancer = spec["loadBalancerIP"].as_str().unwrap_or_default();
    warnings.extend(addresses::address("spec.loadBalancerIP", balancer));
    for (index, range) in items(&spec["loadBalancerSourceRanges"]) {
        let path = format!("spec.loadBalancerSourceRanges[{index}]");
        warnings.extend(addresses::range(&path, range.as_str().unwrap_or_default()));
    }
    say(
        &[
            (elsewhere && external, "spec.externalIPs is ignored when spec.type is \"ExternalName\""),
            (
                !elsewhere && is_set(spec, "externalName"),
                "spec.externalName is ignored when spec.type is not \"ExternalName\"",
            ),
            (
                spec["trafficDistribution"] == "PreferClose",
                "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"",
            ),
        ],
        warnings,
    );
}

/// Warns of what holds.
fn say(reasons: &[(bool, &str)], warnings: &mut Vec<String>) {
    let holding = reasons.iter().filter(|(holds, _)| *holds);
    warnings.extend(holding.map(|(_, warning)| (*warning).to_owned()));
}

fn odd_addresses(spec: &Value, name: &str, warnings: &mut Vec<String>) {
    warnings.extend(items(&spec[name]).filter_map(|(index, address)| {
        addresses::address(&format!("spec.{name}[{index}]"), address.as_str()?)
    }));
}

fn is_set(spec: &Value, name: &str) -> bool {
    match &spec[name] {
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    }
}
