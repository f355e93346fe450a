//! A paper machine is a Node object: what it looks like, and how it is read back.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, NodeSpec, NodeStatus, Taint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use karpenter_api::labels::{HOSTNAME, INSTANCE_TYPE, kwok};
use karpenter_api::resource::ResourceList;
use karpenter_api::{NodeClaim, taints};
use karpenter_core::requirements::RequirementSet;
use karpenter_provider::{Choice, Machine};

use crate::PROVIDER_ID_PREFIX;

/// The name of the machine of a claim. It follows from the claim's UID, so a launch repeated is the same machine.
pub(crate) fn name(claim: &NodeClaim) -> String {
    let uid = claim.metadata.uid.as_deref().unwrap_or_default();
    let digits: String = uid.chars().filter(char::is_ascii_hexdigit).take(10).collect();
    format!("kwok-{}-{digits}", claim.metadata.name.as_deref().unwrap_or_default())
}

/// The Node of the machine that was chosen for `claim`.
pub(crate) fn node(claim: &NodeClaim, choice: &Choice<'_>) -> Node {
    let name = name(claim);
    let requests =
        claim.spec.resources.as_ref().and_then(|resources| resources.requests.clone()).unwrap_or_default();
    // Whatever a pod may ask for, a paper machine has: what the type does not list is as large as the request.
    let with_requests = |resources| requests.clone().into_iter().chain(written(resources)).collect();
    let mut annotations = claim.metadata.annotations.clone().unwrap_or_default();
    annotations.insert(kwok::NODE.to_owned(), kwok::NODE_VALUE.to_owned());
    Node {
        metadata: ObjectMeta {
            labels: Some(labels(claim, choice)),
            annotations: Some(annotations),
            name: Some(name.clone()),
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec {
            provider_id: Some(format!("{PROVIDER_ID_PREFIX}{name}")),
            taints: Some(vec![Taint {
                key: taints::UNREGISTERED.to_owned(),
                effect: "NoExecute".to_owned(),
                ..Taint::default()
            }]),
            ..NodeSpec::default()
        }),
        status: Some(NodeStatus {
            capacity: Some(with_requests(&choice.instance_type.capacity)),
            allocatable: Some(with_requests(&choice.instance_type.allocatable())),
            phase: Some("Pending".to_owned()),
            ..NodeStatus::default()
        }),
    }
}

fn labels(claim: &NodeClaim, choice: &Choice<'_>) -> BTreeMap<String, String> {
    let mut labels = claim.metadata.labels.clone().unwrap_or_default();
    for requirement in &claim.spec.requirements {
        if let ("In", [value]) = (requirement.operator.as_str(), requirement.values()) {
            labels.insert(requirement.key.clone(), value.clone());
        }
    }
    labels.insert(INSTANCE_TYPE.to_owned(), choice.instance_type.name.to_string());
    labels.extend(settled(&choice.instance_type.requirements));
    labels.extend(settled(&choice.offering.requirements));
    labels.insert(kwok::INSTANCE_PRICE.to_owned(), format!("{:.6}", choice.offering.price));
    labels.insert(kwok::PARTITION.to_owned(), "a".to_owned());
    labels.insert(kwok::NODE.to_owned(), kwok::NODE_VALUE.to_owned());
    labels.insert(HOSTNAME.to_owned(), claim.metadata.name.clone().unwrap_or_default());
    labels
}

/// Labels that can have only one value.
fn settled(requirements: &RequirementSet) -> impl Iterator<Item = (String, String)> {
    requirements.iter().filter_map(|(key, set)| Some((key.to_string(), set.single()?.to_string())))
}

fn written(resources: &karpenter_quantity::ResourceList) -> ResourceList {
    resources.iter().map(|(name, quantity)| (name.to_owned(), Text(quantity.to_string()))).collect()
}

/// What the provider answers about the machine behind `node`.
pub(crate) fn machine(node: &Node) -> Machine {
    let labels = node.metadata.labels.clone().unwrap_or_default();
    let status = node.status.clone().unwrap_or_default();
    Machine {
        provider_id: node.spec.as_ref().and_then(|spec| spec.provider_id.clone()).unwrap_or_default(),
        image_id: None,
        claim: labels.get(HOSTNAME).cloned(),
        annotations: node.metadata.annotations.clone().unwrap_or_default(),
        capacity: status.capacity.unwrap_or_default(),
        allocatable: status.allocatable.unwrap_or_default(),
        created: node.metadata.creation_timestamp.as_ref().map(|time| time.0),
        terminating: node.metadata.deletion_timestamp.is_some(),
        labels,
    }
}
