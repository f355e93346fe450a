//! Initialization: a registered node is ready for pods once it is Ready, has lost the taints of its youth and shows what was asked for.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Taint};
use karpenter_api::condition::nodeclaim::{
    INITIALIZED, KNOWN_EPHEMERAL_TAINTS_EXIST, NODE_NOT_FOUND, NODE_NOT_READY, REBOOTING,
    RESOURCE_NOT_REGISTERED, STARTUP_TAINTS_EXIST,
};
use karpenter_api::labels::INITIALIZED as INITIALIZED_LABEL;
use karpenter_api::{NodeClaim, taints};
use karpenter_kube::resources::quantity;
use karpenter_runtime::Write;

use super::{condition, conditions, is_registered, is_true};
use crate::patches::difference;

/// Brings initialization a step further: returns the write to the node that is still missing, or says in the claim how far it is.
pub(super) fn step(claim: &mut NodeClaim, nodes: &[Arc<Node>], now: Timestamp) -> Option<Write> {
    let restarting = condition(claim, REBOOTING).is_some_and(is_true);
    if restarting || condition(claim, INITIALIZED).is_some_and(is_true) || !is_registered(claim) {
        return None;
    }
    let [node] = nodes else {
        conditions(claim, now).set_unknown(INITIALIZED, NODE_NOT_FOUND, "Node not registered with cluster");
        return None;
    };
    if let Some((reason, message)) = obstacle(claim, node) {
        conditions(claim, now).set_unknown(INITIALIZED, reason, &message);
        return None;
    }
    let mut ready = Node::clone(node);
    ready.metadata.labels.get_or_insert_default().insert(INITIALIZED_LABEL.to_owned(), "true".to_owned());
    if let Some(write) = difference(&**node, &ready) {
        return Some(write);
    }
    conditions(claim, now).set_true(INITIALIZED);
    None
}

/// What the node still lacks.
fn obstacle(claim: &NodeClaim, node: &Node) -> Option<(&'static str, String)> {
    if !is_ready(node) {
        return Some((NODE_NOT_READY, "Node status is not ready".to_owned()));
    }
    let carried = || node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    let startup = |taint: &&Taint| {
        claim
            .spec
            .startup_taints
            .iter()
            .flatten()
            .any(|own| own.key == taint.key && own.effect == taint.effect)
    };
    if let Some(taint) = carried().find(startup) {
        return Some((STARTUP_TAINTS_EXIST, format!("StartupTaint {} still exists", shown(taint))));
    }
    if let Some(taint) = carried().find(|taint| taints::is_known_ephemeral(taint)) {
        return Some((
            KNOWN_EPHEMERAL_TAINTS_EXIST,
            format!("KnownEphemeralTaint {} still exists", shown(taint)),
        ));
    }
    let resource = missing_resource(claim, node)?;
    Some((RESOURCE_NOT_REGISTERED, format!("Resource \"{resource}\" was requested but not registered")))
}

/// A resource that was asked for and that the node does not show yet.
fn missing_resource<'a>(claim: &'a NodeClaim, node: &Node) -> Option<&'a str> {
    let requests = claim.spec.resources.as_ref()?.requests.as_ref()?;
    let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
    let is_zero = |text| quantity(text).map_or(true, karpenter_quantity::Quantity::is_zero);
    let missing = |(name, wanted): &(&String, _)| {
        !is_zero(*wanted) && allocatable.and_then(|all| all.get(*name)).is_none_or(is_zero)
    };
    requests.iter().find(missing).map(|(name, _)| name.as_str())
}

/// Whether the kubelet says the node is ready.
pub(crate) fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn shown(taint: &Taint) -> String {
    match taint.value.as_deref() {
        Some(value) if !value.is_empty() => format!("{}={value}:{}", taint.key, taint.effect),
        _ => format!("{}:{}", taint.key, taint.effect),
    }
}
