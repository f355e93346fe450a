//! What a node's kubelet writes about it.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeSpec, NodeStatus, Taint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use karpenter_quantity::{CPU, MEMORY, PODS};
use serde_json::{Value, json};

use super::addresses::node_address;
use crate::annotations::KUBELET;
use crate::event::time;
use crate::selector::Labels;

/// What nodes offer that say nothing about it: as much as kwok's do.
const OFFERED: [(&str, &str); 3] = [(CPU, "1k"), (MEMORY, "1Ti"), (PODS, "1M")];

/// A machine that has booted and joins the cluster.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// The node's name.
    pub name: String,
    /// How the cloud names it.
    pub provider_id: Option<String>,
    /// The node's labels beyond the host name.
    pub labels: Labels,
    /// Taints the node starts with; others take them off.
    pub taints: Vec<Taint>,
    /// Everything the machine has, by resource.
    pub capacity: Vec<(String, String)>,
    /// What of it pods may use; all if nothing is said.
    pub allocatable: Vec<(String, String)>,
}

/// Returns the node a machine registers as. Its kubelet makes it ready once it is created.
pub fn machine_node(machine: &Machine) -> Node {
    let map = |list: &[(String, String)]| {
        Some(list.iter().map(|(name, amount)| (name.clone(), Quantity(amount.clone()))).collect())
    };
    let mut labels = machine.labels.clone();
    labels.entry("kubernetes.io/hostname".to_owned()).or_insert_with(|| machine.name.clone());
    labels.entry("kubernetes.io/os".to_owned()).or_insert_with(|| "linux".to_owned());
    labels.entry("kubernetes.io/arch".to_owned()).or_insert_with(|| "amd64".to_owned());
    let allocatable = if machine.allocatable.is_empty() { &machine.capacity } else { &machine.allocatable };
    Node {
        metadata: ObjectMeta {
            name: Some(machine.name.clone()),
            labels: Some(labels),
            annotations: Some([(KUBELET.to_owned(), "running".to_owned())].into()),
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec {
            provider_id: machine.provider_id.clone(),
            taints: Some(machine.taints.clone()),
            ..NodeSpec::default()
        }),
        status: Some(NodeStatus {
            capacity: map(&machine.capacity),
            allocatable: map(allocatable),
            ..NodeStatus::default()
        }),
    }
}

/// Returns the status of a node whose kubelet works; `ready` unless it says it is not.
pub(super) fn node_status(node: &Node, ready: bool, version: &str, now: Timestamp) -> Value {
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let label = |key: &str, default: &str| -> String {
        let labels = node.metadata.labels.as_ref();
        labels.and_then(|labels| labels.get(key)).cloned().unwrap_or_else(|| default.to_owned())
    };
    let mut status = json!({
        "phase": "Running",
        "conditions": conditions(node, ready, now),
        "addresses": [
            {"type": "InternalIP", "address": node_address(name)},
            {"type": "Hostname", "address": label("kubernetes.io/hostname", name)},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "architecture": label("kubernetes.io/arch", "amd64"),
            "operatingSystem": label("kubernetes.io/os", "linux"),
            "kubeletVersion": version, "kubeProxyVersion": "", "containerRuntimeVersion": "model://1.0",
            "kernelVersion": "model", "osImage": "model", "bootID": "", "machineID": "", "systemUUID": "",
        },
    });
    let known = node.status.as_ref();
    let offers = |list: Option<&std::collections::BTreeMap<_, _>>| list.is_some_and(|list| !list.is_empty());
    let usual: Value =
        OFFERED.iter().map(|(name, amount)| ((*name).to_owned(), Value::from(*amount))).collect();
    if !offers(known.and_then(|status| status.allocatable.as_ref())) {
        let capacity = known.and_then(|status| status.capacity.as_ref()).filter(|list| !list.is_empty());
        status["allocatable"] = capacity.map_or_else(|| usual.clone(), |capacity| json!(capacity));
    }
    if !offers(known.and_then(|status| status.capacity.as_ref())) {
        let allocatable =
            known.and_then(|status| status.allocatable.as_ref()).filter(|list| !list.is_empty());
        status["capacity"] = allocatable.map_or(usual, |allocatable| json!(allocatable));
    }
    status
}

fn conditions(node: &Node, ready: bool, now: Timestamp) -> Value {
    let fine = [
        ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ];
    let mut conditions: Vec<Value> = fine
        .iter()
        .map(|(type_, reason, message)| condition(node, type_, "False", (reason, message), now))
        .collect();
    conditions.push(if ready {
        condition(node, "Ready", "True", ("KubeletReady", "kubelet is posting ready status"), now)
    } else {
        let why = "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady";
        condition(node, "Ready", "False", ("KubeletNotReady", why), now)
    });
    conditions.into()
}

fn condition(node: &Node, type_: &str, status: &str, why: (&str, &str), now: Timestamp) -> Value {
    let known = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let since = known
        .filter(|known| known.type_ == type_ && known.status == status)
        .find_map(|known| known.last_transition_time.as_ref())
        .map_or(now, |time| time.0);
    json!({
        "type": type_, "status": status, "reason": why.0, "message": why.1,
        "lastHeartbeatTime": time(now), "lastTransitionTime": time(since),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_becomes_a_node_with_its_name_for_a_host() {
        let machine = Machine {
            name: "n1".to_owned(),
            provider_id: Some("cloud:///n1".to_owned()),
            capacity: vec![("cpu".to_owned(), "4".to_owned())],
            ..Machine::default()
        };
        let node = machine_node(&machine);
        assert_eq!(node.metadata.labels.as_ref().unwrap()["kubernetes.io/hostname"], "n1");
        let status = node_status(&node, true, "v1", Timestamp::UNIX_EPOCH);
        assert_eq!(status.get("allocatable"), None, "what the machine offers is left alone");
    }

    #[test]
    fn a_node_that_says_nothing_offers_plenty() {
        let status = node_status(&Node::default(), true, "v1", Timestamp::UNIX_EPOCH);
        assert_eq!(status["allocatable"]["cpu"], "1k");
        assert_eq!(status["conditions"][3]["status"], "True");
    }
}
