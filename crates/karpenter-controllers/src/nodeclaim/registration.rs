//! Registration: the node with the machine's identity gets what its claim promises, and loses the taint that kept pods away.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use karpenter_api::condition::AWAITING_RECONCILIATION;
use karpenter_api::condition::nodeclaim::{LAUNCHED, MULTIPLE_NODES_FOUND, NODE_NOT_FOUND, REGISTERED};
use karpenter_api::labels::{DO_NOT_SYNC_TAINTS, REGISTERED as REGISTERED_LABEL};
use karpenter_api::{NodeClaim, taints};
use karpenter_runtime::Write;

use super::{FINALIZER, condition, conditions, is_registered, is_true};
use crate::patches::difference;

/// Brings registration a step further: returns the write to the node that is still missing, or says in the claim how far it is.
/// While the provider `delays` it, nothing is promised of the node.
pub(super) fn step(
    claim: &mut NodeClaim,
    nodes: &[Arc<Node>],
    delays: bool,
    now: Timestamp,
) -> Option<Write> {
    if is_registered(claim) || !condition(claim, LAUNCHED).is_some_and(is_true) {
        return None;
    }
    let node = match nodes {
        [] => {
            conditions(claim, now).set_unknown(
                REGISTERED,
                NODE_NOT_FOUND,
                "Node not registered with cluster",
            );
            return None;
        }
        [node] => node,
        _ => {
            let message = format!("{} nodes have the provider id of this NodeClaim", nodes.len());
            conditions(claim, now).set_false(REGISTERED, MULTIPLE_NODES_FOUND, &message);
            return None;
        }
    };
    if delays {
        let message = "The provider has yet to say all that the node will be labelled with";
        conditions(claim, now).set_unknown(REGISTERED, AWAITING_RECONCILIATION, message);
        return None;
    }
    if let Some(write) = difference(&**node, &registered(claim, node)) {
        return Some(write);
    }
    claim.status.get_or_insert_default().node_name.clone_from(&node.metadata.name);
    conditions(claim, now).set_true(REGISTERED);
    None
}

/// Nodes registered by an older version may lack the label that names their NodeClass.
pub(super) fn hydrate(claim: &NodeClaim, nodes: &[Arc<Node>]) -> Option<Write> {
    let [node] = nodes else { return None };
    let class = &claim.spec.node_class_ref;
    let key = format!("{}/{}", class.group, class.kind.to_lowercase());
    let mut hydrated = Node::clone(node);
    hydrated.metadata.labels.get_or_insert_default().entry(key).or_insert_with(|| class.name.clone());
    if is_registered(claim) { difference(&**node, &hydrated) } else { None }
}

/// The node as its claim wants it.
fn registered(claim: &NodeClaim, node: &Node) -> Node {
    let mut node = node.clone();
    let metadata = &mut node.metadata;
    let finalizers = metadata.finalizers.get_or_insert_default();
    if !finalizers.iter().any(|found| found == FINALIZER) {
        finalizers.push(FINALIZER.to_owned());
    }
    let owners = metadata.owner_references.get_or_insert_default();
    if !owners.iter().any(|owner| owner.kind == "NodeClaim") {
        owners.push(owner(claim));
    }
    let annotations = metadata.annotations.get_or_insert_default();
    annotations.extend(claim.metadata.annotations.clone().unwrap_or_default());
    let labels = metadata.labels.get_or_insert_default();
    labels.extend(claim.metadata.labels.clone().unwrap_or_default());
    labels.insert(REGISTERED_LABEL.to_owned(), "true".to_owned());
    let keeps_taints = labels.get(DO_NOT_SYNC_TAINTS).is_some_and(|value| value == "true");
    let spec = node.spec.get_or_insert_default();
    let list = spec.taints.get_or_insert_default();
    if !keeps_taints {
        let promised = claim.spec.taints.iter().flatten().chain(claim.spec.startup_taints.iter().flatten());
        for taint in promised {
            add(list, taint);
        }
    }
    list.retain(|taint| taint.key != taints::UNREGISTERED);
    if list.is_empty() {
        spec.taints = None;
    }
    node
}

/// A taint of the same key and effect stays as it is: the node knows better what it is being used for.
fn add(list: &mut Vec<Taint>, taint: &Taint) {
    if !list.iter().any(|found| found.key == taint.key && found.effect == taint.effect) {
        list.push(taint.clone());
    }
}

fn owner(claim: &NodeClaim) -> OwnerReference {
    OwnerReference {
        api_version: "karpenter.sh/v1".to_owned(),
        kind: "NodeClaim".to_owned(),
        name: claim.metadata.name.clone().unwrap_or_default(),
        uid: claim.metadata.uid.clone().unwrap_or_default(),
        block_owner_deletion: Some(true),
        controller: None,
    }
}
