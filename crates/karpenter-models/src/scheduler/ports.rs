//! Ports of the node's own addresses that pods take.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PodSpec;

const EVERY_ADDRESS: &str = "0.0.0.0";

/// A port on one of the node's addresses, or on all of them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct HostPort {
    /// From 1 to 65535.
    port: i32,
    protocol: String,
    address: String,
}

impl HostPort {
    /// Reads the host ports of a pod's containers and sidecars.
    pub(crate) fn of(spec: &PodSpec) -> Vec<Self> {
        let sidecars = spec.init_containers.iter().flatten();
        let sidecars = sidecars.filter(|container| container.restart_policy.as_deref() == Some("Always"));
        let mut ports: Vec<Self> = spec
            .containers
            .iter()
            .chain(sidecars)
            .flat_map(|container| container.ports.iter().flatten())
            .filter_map(|port| {
                let number = port.host_port.filter(|number| *number > 0)?;
                let address = port.host_ip.clone().filter(|address| !address.is_empty());
                Some(Self {
                    port: number,
                    protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
                    address: address.unwrap_or_else(|| EVERY_ADDRESS.to_owned()),
                })
            })
            .collect();
        ports.sort();
        ports.dedup();
        ports
    }

    fn collides(&self, other: &Self) -> bool {
        self.port == other.port
            && self.protocol == other.protocol
            && (self.address == other.address
                || self.address == EVERY_ADDRESS
                || other.address == EVERY_ADDRESS)
    }
}

/// The host ports taken on one node, with how many pods take each.
#[derive(Clone, Debug, Default)]
pub(crate) struct TakenPorts(BTreeMap<HostPort, u32>);

impl TakenPorts {
    /// Counts a pod's ports.
    pub(crate) fn take(&mut self, ports: &[HostPort]) {
        for port in ports {
            *self.0.entry(port.clone()).or_default() += 1;
        }
    }

    /// Counts a pod's ports no longer.
    pub(crate) fn release(&mut self, ports: &[HostPort]) {
        for port in ports {
            if let Some(count) = self.0.get_mut(port) {
                *count -= 1;
                if *count == 0 {
                    self.0.remove(port);
                }
            }
        }
    }

    /// Returns whether none of the ports is taken.
    pub(crate) fn are_free(&self, ports: &[HostPort]) -> bool {
        !ports.iter().any(|port| self.0.keys().any(|taken| taken.collides(port)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn ports(ports: Value) -> Vec<HostPort> {
        let spec = json!({"containers": [{"name": "c", "ports": ports}]});
        HostPort::of(&serde_json::from_value(spec).unwrap())
    }

    #[test]
    fn a_port_collides_on_the_same_address_or_on_all_of_them() {
        let mut taken = TakenPorts::default();
        let one_address = ports(json!([{"containerPort": 80, "hostPort": 80, "hostIP": "10.0.0.1"}]));
        taken.take(&one_address);
        assert!(!taken.are_free(&one_address));
        assert!(!taken.are_free(&ports(json!([{"containerPort": 1, "hostPort": 80}]))));
        assert!(taken.are_free(&ports(json!([{"containerPort": 1, "hostPort": 80, "hostIP": "10.0.0.2"}]))));
        assert!(taken.are_free(&ports(json!([{"containerPort": 1, "hostPort": 80, "protocol": "UDP"}]))));
        taken.release(&one_address);
        assert!(taken.are_free(&one_address));
    }

    #[test]
    fn container_ports_alone_take_nothing_from_the_node() {
        assert!(ports(json!([{"containerPort": 80}])).is_empty());
    }
}
