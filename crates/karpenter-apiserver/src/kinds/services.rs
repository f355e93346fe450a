//! What the server allocates for Services: cluster addresses and node ports.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::server::Core;

/// The first address and the number of addresses of Services, those of `10.96.0.0/16`.
const FIRST_ADDRESS: u32 = 0x0a60_0000;
const ADDRESSES: u32 = 0x1_0000;
/// The ports on nodes.
const PORTS: std::ops::RangeInclusive<i64> = 30_000..=32_767;

/// A change that says nothing about allocated addresses keeps them.
pub(super) fn keep_allocated(old: &Value, new: &mut Value) {
    let (was, is) = (&old["spec"], &new["spec"]);
    if was["type"] == "ExternalName" || is["type"] == "ExternalName" {
        return;
    }
    let unset = |value: &Value| value.as_str().is_none_or(str::is_empty);
    let (no_address, no_addresses) = (unset(&is["clusterIP"]), is["clusterIPs"].is_null());
    if no_address && no_addresses {
        new["spec"]["clusterIP"] = was["clusterIP"].clone();
        new["spec"]["clusterIPs"] = was["clusterIPs"].clone();
    }
    for name in ["ipFamilies", "ipFamilyPolicy"] {
        if new["spec"][name].is_null() {
            new["spec"][name] = was[name].clone();
        }
    }
    keep_ports(old, new);
}

/// Ports of the same protocol and number keep their port on the nodes.
fn keep_ports(old: &Value, new: &mut Value) {
    let needs =
        |service: &Value| matches!(service["spec"]["type"].as_str(), Some("NodePort" | "LoadBalancer"));
    if !needs(old) || !needs(new) {
        return;
    }
    let before = old["spec"]["ports"].as_array().cloned().unwrap_or_default();
    for port in new["spec"]["ports"].as_array_mut().into_iter().flatten() {
        if port["nodePort"].as_i64().unwrap_or(0) == 0 {
            let same =
                |other: &&Value| other["port"] == port["port"] && other["protocol"] == port["protocol"];
            if let Some(found) = before.iter().find(same).and_then(|found| found.get("nodePort")) {
                port["nodePort"] = found.clone();
            }
        }
    }
}

/// Gives a Service the addresses and ports it needs.
pub(super) fn allocate(core: &Core, service: &mut Value) {
    let spec = &mut service["spec"];
    let kind = spec["type"].as_str().unwrap_or_default().to_owned();
    if kind == "ExternalName" {
        return;
    }
    let unset = |value: &Value| value.as_str().is_none_or(str::is_empty);
    if unset(&spec["clusterIP"]) {
        if let Some(first) = spec["clusterIPs"].get(0).cloned() {
            spec["clusterIP"] = first;
        } else {
            spec["clusterIP"] = free_address(core).into();
        }
    }
    if spec["clusterIPs"].is_null() {
        spec["clusterIPs"] = json!([spec["clusterIP"]]);
    }
    if spec["ipFamilies"].is_null() {
        spec["ipFamilies"] = json!(["IPv4"]);
    }
    if spec["ipFamilyPolicy"].is_null() {
        spec["ipFamilyPolicy"] = json!("SingleStack");
    }
    let ports =
        kind == "NodePort" || (kind == "LoadBalancer" && spec["allocateLoadBalancerNodePorts"] != false);
    if ports {
        allocate_ports(core, spec);
    }
}

fn services(core: &Core) -> Vec<Value> {
    let page = core.store.list("services", None, None, None);
    page.map(|page| page.objects.iter().map(|(_, object)| object.value()).collect()).unwrap_or_default()
}

fn free_address(core: &Core) -> String {
    let used: BTreeSet<String> = services(core)
        .iter()
        .filter_map(|service| service["spec"]["clusterIP"].as_str().map(str::to_owned))
        .collect();
    // The first is the network, the second the API server's own.
    let free = (2..ADDRESSES).map(|index| std::net::Ipv4Addr::from(FIRST_ADDRESS + index).to_string());
    free.into_iter().find(|address| !used.contains(address)).unwrap_or_default()
}

fn allocate_ports(core: &Core, spec: &mut Value) {
    let ports_of = |spec: &Value| -> Vec<i64> {
        let ports = spec["ports"].as_array().into_iter().flatten();
        ports.filter_map(|port| port["nodePort"].as_i64()).filter(|port| *port != 0).collect()
    };
    let mut used: BTreeSet<i64> =
        services(core).iter().flat_map(|service| ports_of(&service["spec"])).collect();
    used.extend(ports_of(spec));
    for port in spec["ports"].as_array_mut().into_iter().flatten() {
        if port["nodePort"].as_i64().unwrap_or(0) == 0
            && let Some(free) = PORTS.into_iter().find(|candidate| !used.contains(candidate))
        {
            used.insert(free);
            port["nodePort"] = free.into();
        }
    }
}
