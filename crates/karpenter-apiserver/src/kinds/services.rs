//! What the server allocates for Services: cluster addresses and their families, ports on nodes.
//!
//! Allocation comes before validation and refuses what it cannot give.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::{Value, json};

use super::place::{Errors, Place};
use super::validation::service;
use crate::error::FieldError;
use crate::server::Core;

/// The first address and the number of addresses of Services.
const FIRST_ADDRESS: u32 = 0x0a60_0000;
const ADDRESSES: u32 = 0x1_0000;
const RANGE: &str = "10.96.0.0/16";
/// The ports on nodes.
const PORTS: std::ops::RangeInclusive<i64> = 30_000..=32_767;

/// Gives a new or changed Service the addresses and ports it needs.
///
/// # Errors
/// Returns what it asks for and cannot have.
pub(super) fn prepare(
    core: &Core,
    old: Option<&Value>,
    new: &mut Value,
    dry_run: bool,
) -> Result<(), Vec<FieldError>> {
    if let Some(old) = old {
        keep_allocated(old, new);
    }
    pair_addresses(old, new);
    if needs_address(new) {
        families(old, new)?;
        address(core, old, new, dry_run)?;
    }
    if needs_ports(new) {
        ports(core, old, new)?;
    }
    if let Some(old) = old {
        drop_dependent(old, new);
    }
    Ok(())
}

fn needs_address(service: &Value) -> bool {
    service["spec"]["type"] != "ExternalName"
}

fn exposes_ports(service: &Value) -> bool {
    matches!(service["spec"]["type"].as_str(), Some("NodePort" | "LoadBalancer"))
}

fn needs_ports(service: &Value) -> bool {
    exposes_ports(service)
        && !(service["spec"]["type"] == "LoadBalancer"
            && service["spec"]["allocateLoadBalancerNodePorts"] == false)
}

fn is_checked(service: &Value) -> bool {
    service["spec"]["type"] == "LoadBalancer" && service["spec"]["externalTrafficPolicy"] == "Local"
}

fn is_external(service: &Value) -> bool {
    exposes_ports(service)
        || (service["spec"]["type"] == "ClusterIP" && !list(service, "externalIPs").is_empty())
}

fn text<'v>(service: &'v Value, name: &str) -> &'v str {
    service["spec"][name].as_str().unwrap_or_default()
}

fn list<'v>(service: &'v Value, name: &str) -> &'v [Value] {
    service["spec"][name].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn number(port: &Value) -> i64 {
    port["nodePort"].as_i64().unwrap_or(0)
}

/// A change that says nothing about what was allocated keeps it.
fn keep_allocated(old: &Value, new: &mut Value) {
    if needs_address(old) && needs_address(new) {
        if text(new, "clusterIP").is_empty() {
            new["spec"]["clusterIP"] = old["spec"]["clusterIP"].clone();
        }
        if list(new, "clusterIPs").is_empty() && !list(old, "clusterIPs").is_empty() {
            new["spec"]["clusterIPs"] = old["spec"]["clusterIPs"].clone();
        }
    }
    if exposes_ports(old) && exposes_ports(new) {
        let now: Vec<i64> = list(new, "ports").iter().map(number).collect();
        for port in new["spec"]["ports"].as_array_mut().into_iter().flatten() {
            if number(port) == 0
                && let Some(before) = list(old, "ports").iter().rfind(|other| other["name"] == port["name"])
                && number(before) != 0
                && !now.contains(&number(before))
            {
                port["nodePort"] = number(before).into();
            }
        }
    }
    if is_checked(old) && is_checked(new) && new["spec"]["healthCheckNodePort"].as_i64().unwrap_or(0) == 0 {
        new["spec"]["healthCheckNodePort"] = old["spec"]["healthCheckNodePort"].clone();
    }
}

/// The address is written twice, alone and as the first of a list; clients that know one of them leave the other.
fn pair_addresses(old: Option<&Value>, new: &mut Value) {
    let address = text(new, "clusterIP").to_owned();
    let Some(old) = old else {
        if !address.is_empty() && list(new, "clusterIPs").is_empty() {
            new["spec"]["clusterIPs"] = json!([address]);
        }
        return;
    };
    if text(old, "clusterIP") == address {
        return;
    }
    if list(old, "clusterIPs") == list(new, "clusterIPs") {
        new["spec"]["clusterIPs"] = if address.is_empty() { Value::Null } else { json!([address]) };
    }
}

/// Decides about the families of a Service's addresses; only one of them is there to be had.
fn families(old: Option<&Value>, new: &mut Value) -> Result<(), Vec<FieldError>> {
    let headless = text(new, "clusterIP") == "None";
    let unselective = new["spec"]["selector"].as_object().is_none_or(serde_json::Map::is_empty);
    if new["spec"]["ipFamilyPolicy"].is_null() {
        let before = old.map(|old| old["spec"]["ipFamilyPolicy"].clone()).filter(|policy| !policy.is_null());
        let fresh = if headless && unselective { "RequireDualStack" } else { "SingleStack" };
        new["spec"]["ipFamilyPolicy"] = before.unwrap_or_else(|| fresh.into());
    }
    let mut errors = Errors::default();
    let root = Place::root("", new);
    service::addresses(&root.field("spec"), &mut errors);
    if !errors.0.is_empty() {
        return Err(errors.0);
    }
    let policy = new["spec"]["ipFamilyPolicy"].clone();
    let refuse = |rule: &str| FieldError::invalid("spec.ipFamilyPolicy", &policy, rule);
    let mut refused = Vec::new();
    if policy == "SingleStack" {
        for (name, what) in [("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")] {
            if list(new, name).len() == 2 {
                let rule = "must be 'RequireDualStack' or 'PreferDualStack' when multiple";
                refused.push(refuse(&format!("{rule} {what} are specified")));
            }
        }
    }
    let mut families = list(new, "ipFamilies").to_vec();
    for (index, address) in list(new, "clusterIPs").iter().enumerate().skip(families.len()) {
        match address.as_str().and_then(|text| text.parse::<IpAddr>().ok()) {
            Some(IpAddr::V4(_)) => families.push("IPv4".into()),
            Some(IpAddr::V6(_)) => {
                let path = format!("spec.clusterIPs[{index}]");
                let rule = "IPv6 is not configured on this cluster";
                refused.push(FieldError::invalid(path, &new["spec"]["clusterIPs"], rule));
            }
            None => break,
        }
    }
    if !refused.is_empty() {
        return Err(refused);
    }
    if headless && unselective {
        if families.is_empty() {
            families.push("IPv4".into());
        }
        if families.len() < 2 && policy != "SingleStack" {
            families.push(if families[0] == "IPv4" { "IPv6".into() } else { "IPv4".into() });
        }
    } else {
        if policy == "RequireDualStack" {
            refused.push(refuse("this cluster is not configured for dual-stack services"));
        }
        for (index, family) in families.iter().enumerate().filter(|(_, family)| *family != "IPv4") {
            let path = format!("spec.ipFamilies[{index}]");
            refused.push(FieldError::invalid(path, family, "not configured on this cluster"));
        }
        if families.is_empty() {
            families.push("IPv4".into());
        }
    }
    new["spec"]["ipFamilies"] = Value::Array(families);
    if refused.is_empty() { Ok(()) } else { Err(refused) }
}

fn address(core: &Core, old: Option<&Value>, new: &mut Value, dry_run: bool) -> Result<(), Vec<FieldError>> {
    let asked = text(new, "clusterIP").to_owned();
    let kept = old.is_some_and(|old| needs_address(old) && text(old, "clusterIP") == asked);
    match asked.parse::<IpAddr>() {
        _ if asked.is_empty() => {
            let free = free_address(core);
            new["spec"]["clusterIP"] = free.clone().into();
            new["spec"]["clusterIPs"] = json!([free]);
        }
        Ok(address) if !kept && old.is_none_or(|old| !needs_address(old)) => {
            let why = match (is_inside(address), dry_run) {
                (false, false) => "the provided network does not match the current range".to_owned(),
                (false, true) => {
                    format!(
                        "the provided IP ({asked}) is not in the valid range. The range of valid IPs is {RANGE}"
                    )
                }
                // Whoever only tries is not told what others have.
                (true, false) if used_addresses(core).contains(&asked) => {
                    "provided IP is already allocated".to_owned()
                }
                (true, _) => return Ok(()),
            };
            let rule = format!("failed to allocate IP {asked}: {why}");
            return Err(vec![FieldError::invalid("spec.clusterIPs", &new["spec"]["clusterIPs"], rule)]);
        }
        _ => {}
    }
    Ok(())
}

/// Whether a Service may have an address: the network's own and the one of everybody in it are nobody's.
fn is_inside(address: IpAddr) -> bool {
    let IpAddr::V4(address) = address else { return false };
    let index = u32::from(address).wrapping_sub(FIRST_ADDRESS);
    (1..ADDRESSES - 1).contains(&index)
}

fn services(core: &Core) -> Vec<Value> {
    let page = core.store.list("services", None, None, None);
    page.map(|page| page.objects.iter().map(|(_, object)| object.value()).collect()).unwrap_or_default()
}

fn used_addresses(core: &Core) -> BTreeSet<String> {
    services(core).iter().map(|service| text(service, "clusterIP").to_owned()).collect()
}

fn free_address(core: &Core) -> String {
    let used = used_addresses(core);
    // The first is the network, the second the API server's own.
    let free = (2..ADDRESSES).map(|index| std::net::Ipv4Addr::from(FIRST_ADDRESS + index).to_string());
    free.into_iter().find(|address| !used.contains(address)).unwrap_or_default()
}

fn ports(core: &Core, old: Option<&Value>, new: &mut Value) -> Result<(), Vec<FieldError>> {
    let own: Vec<i64> = old.map(|old| list(old, "ports").iter().map(number).collect()).unwrap_or_default();
    let mut used: BTreeSet<i64> =
        services(core).iter().flat_map(|service| list(service, "ports").iter().map(number)).collect();
    for (index, port) in list(new, "ports").iter().enumerate() {
        let asked = number(port);
        if asked == 0 || own.contains(&asked) {
            continue;
        }
        let rule = if !PORTS.contains(&asked) {
            "provided port is not in the valid range. The range of valid ports is 30000-32767"
        } else if used.contains(&asked) {
            "provided port is already allocated"
        } else {
            continue;
        };
        let path = format!("spec.ports[{index}].nodePort");
        return Err(vec![FieldError::invalid(path, &port["nodePort"], rule)]);
    }
    used.extend(list(new, "ports").iter().map(number));
    for port in new["spec"]["ports"].as_array_mut().into_iter().flatten() {
        if number(port) == 0
            && let Some(free) = PORTS.into_iter().find(|candidate| !used.contains(candidate))
        {
            used.insert(free);
            port["nodePort"] = free.into();
        }
    }
    Ok(())
}

/// Drops what no longer applies after a change of the type, unless the client changed that too.
fn drop_dependent(old: &Value, new: &mut Value) {
    let same = |new: &Value, name: &str| old["spec"][name] == new["spec"][name];
    let mut dropped: Vec<&str> = Vec::new();
    if needs_address(old) && !needs_address(new) {
        if list(old, "clusterIPs") == list(new, "clusterIPs") {
            dropped.extend(["clusterIP", "clusterIPs"]);
        }
        dropped.extend(["ipFamilies", "ipFamilyPolicy"].iter().filter(|name| same(new, name)));
    }
    if is_checked(old) && !is_checked(new) && same(new, "healthCheckNodePort") {
        dropped.push("healthCheckNodePort");
    }
    let was_balanced = old["spec"]["type"] == "LoadBalancer" && new["spec"]["type"] != "LoadBalancer";
    if was_balanced {
        let names = ["allocateLoadBalancerNodePorts", "loadBalancerClass"];
        dropped.extend(names.iter().filter(|name| same(new, name)));
    }
    if is_external(old) && !is_external(new) && same(new, "externalTrafficPolicy") {
        dropped.push("externalTrafficPolicy");
    }
    let before: BTreeSet<i64> = list(old, "ports").iter().map(number).collect();
    let frees_ports = exposes_ports(old)
        && !exposes_ports(new)
        && list(new, "ports").iter().all(|port| number(port) == 0 || before.contains(&number(port)));
    if let Some(spec) = new["spec"].as_object_mut() {
        for name in dropped {
            spec.remove(name);
        }
    }
    if frees_ports {
        for port in new["spec"]["ports"].as_array_mut().into_iter().flatten() {
            port.as_object_mut().map(|port| port.remove("nodePort"));
        }
    }
    if new["spec"]["type"] != "LoadBalancer" && new["status"]["loadBalancer"].is_object() {
        new["status"]["loadBalancer"] = json!({});
    }
}
