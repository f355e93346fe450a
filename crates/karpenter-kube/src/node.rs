//! Nodes, seen together with the NodeClaims they were launched for.
//!
//! Until a node is registered its claim knows better what it will look like; until it is initialised some of its taints
//! will still vanish and some of its resources may not have been reported yet.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1 as kube;
use k8s_openapi::api::storage::v1::CSINode;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use karpenter_api::NodeClaim;
use karpenter_api::annotations::DO_NOT_DISRUPT;
use karpenter_api::condition::nodeclaim::{
    DRIFTED, INITIALIZED as INITIALIZED_CONDITION, INSTANCE_TERMINATING, REBOOTING,
};
use karpenter_api::labels::{HOSTNAME, INITIALIZED, NODEPOOL, REGISTERED};
use karpenter_api::taints::REBOOTING as REBOOTING_TAINT;
use karpenter_core::cluster::{Labels, MachineState, Node, NodeLife, NodeStage, Taint};
use karpenter_quantity::ResourceList;

use crate::interner::Interner;
use crate::invalid::{At, Invalid};
use crate::labels::{add_successors, to_labels};
use crate::resources::resource_list;
use crate::taint::{lasting_taints, taints};

/// The objects that describe one machine.
#[derive(Clone, Copy, Debug)]
pub enum Machine<'a> {
    /// A node that Karpenter does not manage.
    Unmanaged(&'a kube::Node),
    /// A claim whose node has joined.
    Joined(&'a NodeClaim, &'a kube::Node),
    /// A claim whose node has not joined yet.
    Launched(&'a NodeClaim),
}

impl<'a> Machine<'a> {
    fn node(self) -> Option<&'a kube::Node> {
        match self {
            Self::Unmanaged(node) | Self::Joined(_, node) => Some(node),
            Self::Launched(_) => None,
        }
    }

    fn claim(self) -> Option<&'a NodeClaim> {
        match self {
            Self::Joined(claim, _) | Self::Launched(claim) => Some(claim),
            Self::Unmanaged(_) => None,
        }
    }

    fn metadata(self) -> &'a ObjectMeta {
        match self {
            Self::Unmanaged(node) | Self::Joined(_, node) => &node.metadata,
            Self::Launched(claim) => &claim.metadata,
        }
    }

    fn stage(self) -> NodeStage {
        match self {
            Self::Unmanaged(_) => NodeStage::Initialized,
            Self::Joined(_, node) if has_label(node, INITIALIZED) => NodeStage::Initialized,
            Self::Joined(..) => NodeStage::Registered,
            Self::Launched(_) => NodeStage::Launched,
        }
    }

    /// The claim, as long as it knows more about the node than the node itself.
    fn claim_until_registered(self) -> Option<&'a NodeClaim> {
        self.claim().filter(|_| !self.node().is_some_and(|node| has_label(node, REGISTERED)))
    }
}

fn has_label(node: &kube::Node, key: &str) -> bool {
    node.metadata.labels.as_ref().and_then(|labels| labels.get(key)).is_some_and(|value| value == "true")
}

/// The node as the core sees it, without its pods. `volume_limits` is the node's CSINode, once there is one.
pub fn node(
    machine: Machine<'_>,
    volume_limits: Option<&CSINode>,
    interner: &mut Interner,
) -> Result<Node, Invalid> {
    let metadata = machine.metadata();
    let name = interner.string(metadata.name.as_deref().unwrap_or_default());
    let labels = labels(machine, &name);
    let pool = machine.claim().and_then(|_| labels.get(NODEPOOL).cloned());
    let in_node = |pick: fn(&kube::NodeStatus) -> Option<&BTreeMap<String, _>>| {
        resource_list(machine.node().and_then(|node| node.status.as_ref()).and_then(pick))
    };
    let in_claim = |pick: fn(&karpenter_api::nodeclaim::NodeClaimStatus) -> Option<&BTreeMap<String, _>>| {
        resource_list(machine.claim().and_then(|claim| claim.status.as_ref()).and_then(pick))
    };
    let mut capacity = in_node(|status| status.capacity.as_ref()).at("status.capacity")?;
    let mut allocatable = in_node(|status| status.allocatable.as_ref()).at("status.allocatable")?;
    if machine.stage() != NodeStage::Initialized {
        fill_in(&mut capacity, &in_claim(|status| status.capacity.as_ref()).at("status.capacity")?);
        fill_in(&mut allocatable, &in_claim(|status| status.allocatable.as_ref()).at("status.allocatable")?);
    }
    Ok(Node {
        name,
        node_pool: pool,
        stage: machine.stage(),
        labels: interner.labels(labels),
        taints: effective_taints(machine).at("spec")?,
        capacity,
        allocatable,
        created: metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0),
        deleting: is_leaving(machine),
        life: life(machine),
        volume_limits: volume_limits.map(driver_limits).unwrap_or_default(),
        pods: Vec::new(),
    })
}

/// A claim does not know its node's name yet, so the name of the claim stands for the host.
fn labels(machine: Machine<'_>, name: &Arc<str>) -> Labels {
    let labels = match machine.claim_until_registered() {
        Some(claim) => claim.metadata.labels.as_ref(),
        None => machine.metadata().labels.as_ref(),
    };
    let mut labels = to_labels(labels);
    labels.entry(HOSTNAME.into()).or_insert_with(|| name.clone());
    add_successors(&mut labels);
    labels
}

fn effective_taints(machine: Machine<'_>) -> Result<Vec<Taint>, Invalid> {
    let written = match (machine.claim_until_registered(), machine.node()) {
        (Some(claim), _) => claim.spec.taints.as_ref(),
        (None, node) => node.and_then(|node| node.spec.as_ref()).and_then(|spec| spec.taints.as_ref()),
    };
    let all = taints(written.into_iter().flatten()).at("taints")?;
    let rebooting = life(machine).machine == MachineState::Rebooting;
    match machine.claim() {
        Some(claim) if machine.stage() != NodeStage::Initialized || rebooting => {
            let startup = taints(claim.spec.startup_taints.iter().flatten()).at("startupTaints")?;
            let mut lasting = lasting_taints(all, &startup);
            // A node that is being restarted comes back: its pods need no other.
            lasting.retain(|taint| !(rebooting && &*taint.key == REBOOTING_TAINT));
            Ok(lasting)
        }
        _ => Ok(all),
    }
}

/// Takes over what has not been reported yet.
fn fill_in(reported: &mut ResourceList, promised: &ResourceList) {
    for (name, quantity) in promised.iter().filter(|(_, quantity)| !quantity.is_zero()) {
        if reported.get(name).is_zero() {
            reported.insert(name, quantity);
        }
    }
}

fn is_leaving(machine: Machine<'_>) -> bool {
    let Some(claim) = machine.claim() else { return machine.metadata().deletion_timestamp.is_some() };
    let conditions = claim.status.iter().flat_map(|status| status.conditions.iter().flatten());
    claim.metadata.deletion_timestamp.is_some()
        || conditions.into_iter().any(|found| found.type_ == INSTANCE_TERMINATING && found.status == "True")
}

/// What voluntary disruption must know: annotations, and what the claim has been through.
fn life(machine: Machine<'_>) -> NodeLife {
    let status = machine.claim().and_then(|claim| claim.status.as_ref());
    let condition = |kind: &str| {
        let mut conditions = status.into_iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.find(|found| found.type_ == kind && found.status == "True")
    };
    let since = |kind: &str| condition(kind).map(|found| found.last_transition_time.0);
    let annotations = machine.metadata().annotations.as_ref();
    let spec = machine.claim().map(|claim| &claim.spec);
    NodeLife {
        ready: machine.node().is_some_and(is_ready),
        do_not_disrupt: annotations
            .and_then(|all| all.get(DO_NOT_DISRUPT))
            .is_some_and(|value| value == "true"),
        initialized: since(INITIALIZED_CONDITION),
        last_pod_event: status.and_then(|status| status.last_pod_event_time.as_ref()).map(|time| time.0),
        expire_after: spec
            .and_then(|spec| spec.expire_after.as_ref())
            .and_then(karpenter_api::NillableDuration::value),
        drifted: since(DRIFTED),
        has_termination_grace_period: spec.is_some_and(|spec| spec.termination_grace_period.is_some()),
        machine: match (condition(INSTANCE_TERMINATING), condition(REBOOTING)) {
            (Some(_), _) => MachineState::Terminating,
            (None, Some(_)) => MachineState::Rebooting,
            (None, None) => MachineState::Running,
        },
    }
}

fn is_ready(node: &kube::Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|found| found.type_ == "Ready" && found.status == "True")
}

fn driver_limits(object: &CSINode) -> BTreeMap<Arc<str>, u32> {
    let drivers = object.spec.drivers.iter();
    let limit = |driver: &k8s_openapi::api::storage::v1::CSINodeDriver| {
        let count = driver.allocatable.as_ref()?.count?;
        Some((Arc::from(driver.name.as_str()), u32::try_from(count).unwrap_or(0)))
    };
    drivers.filter_map(limit).collect()
}

#[cfg(test)]
mod tests {
    use karpenter_core::cluster::TaintEffect;
    use serde_json::{Value, json};

    use super::*;

    fn claim() -> NodeClaim {
        serde_json::from_value(json!({
            "metadata": { "name": "claim", "labels": { NODEPOOL: "general", "from": "claim" } },
            "spec": {
                "taints": [{ "key": "dedicated", "effect": "NoSchedule" }],
                "startupTaints": [{ "key": "starting", "effect": "NoSchedule" }],
            },
            "status": { "allocatable": { "cpu": "4", "example.com/gpu": "1" } },
        }))
        .unwrap()
    }

    fn joined(labels: &Value) -> kube::Node {
        serde_json::from_value(json!({
            "metadata": { "name": "node", "labels": labels },
            "spec": { "taints": [
                { "key": "starting", "effect": "NoSchedule" },
                { "key": "node.kubernetes.io/not-ready", "effect": "NoExecute" },
                { "key": "own", "effect": "NoExecute" },
            ] },
            "status": { "allocatable": { "cpu": "3", "example.com/gpu": "0" } },
        }))
        .unwrap()
    }

    fn converted(machine: Machine<'_>) -> Node {
        node(machine, None, &mut Interner::default()).unwrap()
    }

    fn taint_keys(node: &Node) -> Vec<(&str, TaintEffect)> {
        node.taints.iter().map(|taint| (&*taint.key, taint.effect)).collect()
    }

    #[test]
    fn a_launched_claim_stands_for_its_node() {
        let claim = claim();
        let node = converted(Machine::Launched(&claim));
        assert_eq!((&*node.name, node.stage), ("claim", NodeStage::Launched));
        assert_eq!(node.labels.get(HOSTNAME).map(AsRef::as_ref), Some("claim"));
        assert_eq!(taint_keys(&node), [("dedicated", TaintEffect::NoSchedule)]);
        assert_eq!(node.allocatable.get("cpu").to_string(), "4");
        assert_eq!(node.node_pool.as_deref(), Some("general"));
    }

    #[test]
    fn a_registered_node_speaks_for_itself_but_may_not_have_reported_everything() {
        let (claim, object) = (claim(), joined(&json!({ REGISTERED: "true", NODEPOOL: "general" })));
        let node = converted(Machine::Joined(&claim, &object));
        assert_eq!(node.stage, NodeStage::Registered);
        assert_eq!(taint_keys(&node), [("own", TaintEffect::NoExecute)]);
        assert_eq!(node.allocatable.get("cpu").to_string(), "3");
        assert_eq!(node.allocatable.get("example.com/gpu").to_string(), "1");
    }

    #[test]
    fn an_unregistered_node_looks_like_its_claim() {
        let (claim, object) = (claim(), joined(&json!({})));
        let node = converted(Machine::Joined(&claim, &object));
        assert_eq!(node.labels.get("from").map(AsRef::as_ref), Some("claim"));
        assert_eq!(taint_keys(&node), [("dedicated", TaintEffect::NoSchedule)]);
    }

    #[test]
    fn an_initialized_or_unmanaged_node_is_what_it_says() {
        let labels = json!({ REGISTERED: "true", INITIALIZED: "true", NODEPOOL: "general" });
        let (claim, object) = (claim(), joined(&labels));
        for (machine, pool) in
            [(Machine::Joined(&claim, &object), Some("general")), (Machine::Unmanaged(&object), None)]
        {
            let node = converted(machine);
            assert_eq!((node.stage, node.taints.len()), (NodeStage::Initialized, 3));
            assert!(node.allocatable.get("example.com/gpu").is_zero());
            assert_eq!(node.node_pool.as_deref(), pool);
        }
    }
}
