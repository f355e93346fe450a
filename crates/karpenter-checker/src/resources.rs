//! What pods ask for: resource requests and host ports.

use crate::pod::{Container, ContainerPort, PodSpec, Resources};
use crate::quantity::Quantity;
use crate::scenario::ResourceList;

/// The resource every pod uses one of.
pub(crate) const PODS: &str = "pods";

/// Adds `more` to `total`, resource by resource.
pub(crate) fn add(total: &mut ResourceList, more: &ResourceList) {
    for (name, amount) in more {
        *total.entry(name.clone()).or_default() += *amount;
    }
}

/// Adds `count` times `each` to `total`.
pub(crate) fn add_times(total: &mut ResourceList, each: &ResourceList, count: usize) {
    for (name, amount) in each {
        *total.entry(name.clone()).or_default() += amount.times(count);
    }
}

/// Returns how much of a resource there is, zero where the list does not name it.
pub(crate) fn amount(list: &ResourceList, name: &str) -> Quantity {
    list.get(name).copied().unwrap_or_default()
}

/// Returns the first resource of which more is wanted than there is.
pub(crate) fn exceeded<'a>(wanted: &'a ResourceList, available: &ResourceList) -> Option<&'a str> {
    wanted
        .iter()
        .find(|(name, wanted)| wanted.is_positive() && **wanted > amount(available, name))
        .map(|(name, _)| name.as_str())
}

/// Returns what a machine has left for pods: capacity less overhead, and memory less its huge pages.
pub(crate) fn allocatable(capacity: &ResourceList, overhead: &ResourceList) -> ResourceList {
    let huge_pages: Quantity =
        capacity.iter().filter(|(name, _)| name.starts_with("hugepages-")).map(|(_, amount)| *amount).sum();
    let left = |name: &String, total: &Quantity| {
        let reserved = amount(overhead, name) + if name == "memory" { huge_pages } else { Quantity::ZERO };
        (name.clone(), (*total - reserved).floored_at_zero())
    };
    capacity.iter().map(|(name, total)| left(name, total)).collect()
}

/// Returns what one pod needs on its node, itself counted under `pods`.
///
/// Init containers run one after the other beside the sidecars started before them, so each is weighed with
/// those; what the pod declares as a whole replaces the sum of its containers.
pub(crate) fn pod_requests(spec: &PodSpec) -> ResourceList {
    let mut running = ResourceList::new();
    for container in &spec.containers {
        add(&mut running, &container.resources.requests);
    }
    let mut sidecars = ResourceList::new();
    let mut starting = ResourceList::new();
    for container in &spec.init_containers {
        let mut at_once = sidecars.clone();
        add(&mut at_once, &container.resources.requests);
        if container.restart_policy == "Always" {
            sidecars.clone_from(&at_once);
        }
        raise(&mut starting, &at_once);
    }
    add(&mut running, &sidecars);
    raise(&mut running, &starting);
    for (name, amount) in &spec.resources.requests {
        if name == "cpu" || name == "memory" || name.starts_with("hugepages-") {
            running.insert(name.clone(), *amount);
        }
    }
    add(&mut running, &spec.overhead);
    running.insert(PODS.to_owned(), Quantity::whole(1));
    running
}

/// Returns what a daemon pod needs: a limit without a request is a request, as the API server would write it.
pub(crate) fn daemon_requests(spec: &PodSpec) -> ResourceList {
    let mut defaulted = spec.clone();
    for container in defaulted.containers.iter_mut().chain(&mut defaulted.init_containers) {
        default_requests(&mut container.resources);
    }
    pod_requests(&defaulted)
}

fn default_requests(resources: &mut Resources) {
    for (name, limit) in &resources.limits {
        resources.requests.entry(name.clone()).or_insert(*limit);
    }
}

fn raise(to: &mut ResourceList, at_least: &ResourceList) {
    for (name, amount) in at_least {
        let entry = to.entry(name.clone()).or_default();
        *entry = (*entry).max(*amount);
    }
}

/// A port of the node that a pod occupies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostPort {
    address: String,
    port: u16,
    protocol: String,
}

impl HostPort {
    /// Two pods clash on one port and protocol unless both name an address, and a different one.
    pub(crate) fn clashes_with(&self, other: &HostPort) -> bool {
        let everywhere = |address: &str| address == "0.0.0.0" || address == "::";
        self.port == other.port
            && self.protocol == other.protocol
            && (self.address == other.address || everywhere(&self.address) || everywhere(&other.address))
    }

    pub(crate) fn describe(&self) -> String {
        format!("{}:{}/{}", self.address, self.port, self.protocol)
    }
}

/// Returns the host ports of a pod's regular containers.
pub(crate) fn host_ports(spec: &PodSpec) -> Vec<HostPort> {
    let ports =
        |container: &Container| container.ports.iter().filter(|p| p.host_port != 0).map(host_port).collect();
    spec.containers.iter().flat_map(|container| -> Vec<HostPort> { ports(container) }).collect()
}

fn host_port(port: &ContainerPort) -> HostPort {
    let or = |text: &str, fallback: &str| if text.is_empty() { fallback.to_owned() } else { text.to_owned() };
    HostPort {
        address: or(&port.host_ip, "0.0.0.0"),
        port: port.host_port,
        protocol: or(&port.protocol, "TCP"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(json: &str) -> Vec<(String, String)> {
        let spec: PodSpec = serde_json::from_str(json).unwrap();
        pod_requests(&spec).into_iter().map(|(name, amount)| (name, amount.to_string())).collect()
    }

    fn cpu(json: &str) -> String {
        requests(json).into_iter().find(|(name, _)| name == "cpu").unwrap().1
    }

    #[test]
    fn sidecars_run_beside_later_init_containers_and_the_pod() {
        let spec = r#"{"containers":[{"resources":{"requests":{"cpu":"1"}}}],
            "initContainers":[
              {"restartPolicy":"Always","resources":{"requests":{"cpu":"500m"}}},
              {"resources":{"requests":{"cpu":"2"}}}]}"#;
        assert_eq!(cpu(spec), "2.5");
        let late = r#"{"containers":[{"resources":{"requests":{"cpu":"1"}}}],
            "initContainers":[
              {"resources":{"requests":{"cpu":"1"}}},
              {"restartPolicy":"Always","resources":{"requests":{"cpu":"500m"}}}]}"#;
        assert_eq!(cpu(late), "1.5");
    }

    #[test]
    fn pod_level_requests_replace_the_sum_and_overhead_is_added() {
        let spec = r#"{"containers":[{"resources":{"requests":{"cpu":"1","memory":"1Gi"}}}],
            "resources":{"requests":{"cpu":"3"}},"overhead":{"cpu":"100m"}}"#;
        assert_eq!(cpu(spec), "3.1");
    }

    #[test]
    fn ports_clash_unless_addresses_differ() {
        let port = |address: &str| HostPort { address: address.into(), port: 80, protocol: "TCP".into() };
        assert!(port("0.0.0.0").clashes_with(&port("10.0.0.1")));
        assert!(port("10.0.0.1").clashes_with(&port("10.0.0.1")));
        assert!(!port("10.0.0.2").clashes_with(&port("10.0.0.1")));
    }
}
