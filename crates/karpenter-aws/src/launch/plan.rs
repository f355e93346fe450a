//! What a launch asks EC2 for, from a claim, its class and what can be bought: no call, no clock.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_api::annotations::{MIN_VALUES_RELAXED, PRICE_OVERLAY_APPLIED};
use karpenter_api::labels::aws::{NODE_CLASS, PLACEMENT_GROUP_PARTITION};
use karpenter_api::labels::{CAPACITY_TYPE, NODEPOOL};
use karpenter_api::{LabelRules, NodeClaim};
use karpenter_aws_bootstrap::kubelet::{Kubelet, MaxPods};
use karpenter_aws_bootstrap::{
    AmiFamily, Cluster, Input, bottlerocket_release, node_labels, node_taints, user_data,
};
use karpenter_aws_catalogue::{
    ClassSettings, ControllerSettings, Expressions, NodeShape, RegionTypes, node_shape,
};
use karpenter_aws_client::ec2::CreateLaunchTemplate;
use karpenter_core::catalog::{InstanceType, Offering};
use karpenter_core::requirements::Requirement;
use karpenter_kube::resources::resource_list;
use karpenter_kube::selector::api_requirement;
use karpenter_provider::LaunchError;
use karpenter_quantity::ResourceList;

use super::candidates::{Candidate, Purchase, Selection, Wanted};
use super::template::{Contents, request};
use crate::drift::image_for;
use crate::names::{EKS_CLUSTER, cluster_tag};
use crate::node_class::{Ami, ResolvedClass};

/// The resource by which pods ask for EFA.
const EFA: &str = "vpc.amazonaws.com/efa";
/// The resource by which pods ask for Nitro Enclaves.
const ENCLAVES: &str = "eks.amazonaws.com/nitro-sandbox";

/// What all launches of a process have in common.
#[derive(Clone)]
pub(crate) struct Surroundings {
    pub(crate) cluster: Cluster,
    pub(crate) rules: LabelRules,
    pub(crate) controller: ControllerSettings,
    /// Evaluates formulas, if they are allowed.
    pub(crate) formulas: Option<Arc<dyn Expressions>>,
    /// Whether the gate `ReservedCapacity` is on.
    pub(crate) reserves: bool,
    /// Whether a launch goes on when `minValues` cannot be had.
    pub(crate) min_values_best_effort: bool,
}

impl Surroundings {
    /// Whether the cluster's network is IPv6, by the address of its DNS.
    fn ipv6(&self) -> bool {
        self.cluster.dns.as_deref().is_some_and(|address| address.contains(':'))
    }
}

/// Types that are launched from one template.
pub(crate) struct Group {
    pub(crate) template: CreateLaunchTemplate,
    pub(crate) image_id: String,
    pub(crate) candidates: Vec<Candidate>,
}

/// What a claim asks for.
pub(crate) fn wanted(claim: &NodeClaim, rules: &LabelRules) -> Result<Wanted, LaunchError> {
    let lines: Result<Vec<Requirement>, _> =
        claim.spec.requirements.iter().map(|line| api_requirement(line, rules)).collect();
    let lines = lines.map_err(|error| LaunchError::failed(format!("spec.requirements: {error}")))?;
    let requests = claim.spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    let requests = resource_list(requests).map_err(|error| LaunchError::failed(error.to_string()))?;
    Ok(Wanted::new(&lines, requests))
}

/// Tags of everything that is made for a claim.
pub(crate) fn tags(claim: &NodeClaim, class: &ResolvedClass, cluster: &str) -> BTreeMap<String, String> {
    let label = |key: &str| claim.metadata.labels.as_ref().and_then(|labels| labels.get(key)).cloned();
    let mut tags = class.class.spec.tags.clone();
    tags.insert(cluster_tag(cluster), "owned".to_owned());
    tags.insert(NODEPOOL.to_owned(), label(NODEPOOL).unwrap_or_default());
    tags.insert(EKS_CLUSTER.to_owned(), cluster.to_owned());
    tags.insert(NODE_CLASS.to_owned(), claim.spec.node_class_ref.name.clone());
    tags
}

/// The partition a launch goes to, if the claim asks for any: the first of those it allows in which something can be had.
pub(crate) fn partition(wanted: &Wanted, class: &ResolvedClass, candidates: &[Candidate]) -> Option<u32> {
    let allowed = wanted.requirements.get(PLACEMENT_GROUP_PARTITION)?;
    let count = class.placement_group.as_ref().and_then(|group| group.partition_count)?;
    let mut partitions: Vec<String> = (1..=count).map(|number| number.to_string()).collect();
    partitions.sort();
    let offerings = || candidates.iter().flat_map(|candidate| &candidate.offerings);
    let chosen = partitions
        .into_iter()
        .find(|number| allowed.contains(number) && offerings().any(|offering| is_in(offering, number)));
    chosen.and_then(|number| number.parse().ok())
}

/// What is left of candidates in a partition.
pub(crate) fn in_partition(candidates: Vec<Candidate>, partition: u32) -> Vec<Candidate> {
    let number = partition.to_string();
    let narrowed = candidates.into_iter().map(|mut candidate| {
        candidate.offerings.retain(|offering| is_in(offering, &number));
        candidate
    });
    narrowed.filter(|candidate| !candidate.offerings.is_empty()).collect()
}

fn is_in(offering: &Offering, partition: &str) -> bool {
    offering.requirements.get(PLACEMENT_GROUP_PARTITION).is_some_and(|set| set.contains(partition))
}

/// Passed on with the launch, unless the claim is not what the user asked for.
pub(crate) fn context(claim: &NodeClaim, class: &ResolvedClass) -> Option<String> {
    if annotated(claim, MIN_VALUES_RELAXED) { None } else { class.class.spec.context.clone() }
}

/// Whether a NodeOverlay set the prices.
pub(crate) fn priced_by_overlay(claim: &NodeClaim) -> bool {
    annotated(claim, PRICE_OVERLAY_APPLIED)
}

fn annotated(claim: &NodeClaim, key: &str) -> bool {
    let annotations = claim.metadata.annotations.as_ref();
    annotations.and_then(|annotations| annotations.get(key)).is_some_and(|value| value == "true")
}

/// Puts what was selected into groups, each with its template.
pub(crate) fn groups(
    claim: &NodeClaim,
    class: &ResolvedClass,
    settings: &ClassSettings,
    types: &RegionTypes,
    (wanted, selection, partition): (&Wanted, Selection, Option<u32>),
    surroundings: &Surroundings,
) -> Result<Vec<Group>, LaunchError> {
    let tags = tags(claim, class, &surroundings.cluster.name);
    let mut groups: BTreeMap<String, Group> = BTreeMap::new();
    let purchase = selection.purchase;
    for candidate in selection.candidates {
        let Some(ami) = image_for(&class.amis, &candidate.instance_type) else { continue };
        let text =
            written(claim, class, settings, types, (&candidate.instance_type, ami, purchase), surroundings)?;
        for (reservation, candidate) in by_reservation(candidate, purchase.is_reserved()) {
            let contents = Contents {
                image_id: &ami.id,
                user_data: &text,
                efa_interfaces: efa_interfaces(&wanted.requests, &candidate.instance_type),
                tenancy: selection.tenancy,
                partition,
                enclaves: wanted.requests.contains(ENCLAVES),
                purchase,
                reservation: reservation.as_deref(),
                reserves: surroundings.reserves,
                ipv6: surroundings.ipv6(),
                tags: &tags,
            };
            let template = request(class, &contents);
            let name = template.launch_template_name.clone();
            let group = groups.entry(name).or_insert_with(|| Group {
                template,
                image_id: ami.id.clone(),
                candidates: Vec::new(),
            });
            group.candidates.push(candidate);
        }
    }
    if groups.is_empty() {
        return Err(LaunchError::InsufficientCapacity(
            "no image of the EC2NodeClass runs on any of the instance types; check amiSelectorTerms"
                .to_owned(),
        ));
    }
    Ok(groups.into_values().collect())
}

/// A launch names its reservation, so each reservation needs a template of its own.
fn by_reservation(candidate: Candidate, reserved: bool) -> Vec<(Option<Arc<str>>, Candidate)> {
    if !reserved {
        return vec![(None, candidate)];
    }
    let mut parts: BTreeMap<Option<Arc<str>>, Candidate> = BTreeMap::new();
    for offering in candidate.offerings {
        let id = offering.reservation.as_ref().map(|found| Arc::clone(&found.id));
        let part = parts.entry(id).or_insert_with(|| Candidate {
            instance_type: Arc::clone(&candidate.instance_type),
            offerings: Vec::new(),
        });
        part.offerings.push(offering);
    }
    parts.into_iter().collect()
}

fn efa_interfaces(requests: &ResourceList, instance_type: &InstanceType) -> u32 {
    if requests.get(EFA).is_zero() {
        return 0;
    }
    u32::try_from(instance_type.capacity.get(EFA).ceil_units()).unwrap_or_default()
}

/// The labels a node starts with: those of the claim, those its requirements leave no choice about, and how it was bought.
fn labels(claim: &NodeClaim, purchase: Purchase) -> BTreeMap<String, String> {
    let mut labels = claim.metadata.labels.clone().unwrap_or_default();
    for requirement in &claim.spec.requirements {
        if let ("In", [value]) = (requirement.operator.as_str(), requirement.values()) {
            labels.entry(requirement.key.clone()).or_insert_with(|| value.clone());
        }
    }
    labels.insert(CAPACITY_TYPE.to_owned(), purchase.capacity_type().to_owned());
    labels
}

/// The user data of a type.
fn written(
    claim: &NodeClaim,
    class: &ResolvedClass,
    settings: &ClassSettings,
    types: &RegionTypes,
    (instance_type, ami, purchase): (&InstanceType, &Ami, Purchase),
    surroundings: &Surroundings,
) -> Result<String, LaunchError> {
    let spec = &class.class.spec;
    let known = types.get(&instance_type.name);
    let shape = known
        .map(|known| node_shape(known, settings, surroundings.controller, surroundings.formulas.as_deref()));
    let kubelet = kubelet(class, shape.as_ref());
    let labels = node_labels(class.family, &labels(claim, purchase));
    let none = Vec::new();
    let taints = node_taints(
        claim.spec.taints.as_ref().unwrap_or(&none),
        claim.spec.startup_taints.as_ref().unwrap_or(&none),
    );
    let cluster = Cluster { service_cidr: class.service_cidr.clone(), ..surroundings.cluster.clone() };
    let release = (class.family == AmiFamily::Bottlerocket)
        .then(|| bottlerocket_release(alias_version(class), ami.name.as_deref()))
        .flatten();
    let input = Input {
        cluster: &cluster,
        labels: &labels,
        taints: &taints,
        kubelet: &kubelet,
        kubelet_fields: spec.kubelet.as_ref(),
        custom: spec.user_data.as_deref(),
        raid0: settings.raid0,
        bottlerocket_release: release.as_deref(),
    };
    let data = user_data(class.family, &input).map_err(|error| LaunchError::Failed {
        reason: "LaunchTemplateFailed".to_owned(),
        message: error.to_string(),
    })?;
    Ok(data.text)
}

/// The version that the class's alias names, if it is not `latest`.
fn alias_version(class: &ResolvedClass) -> Option<&str> {
    let mut aliases = class.class.spec.ami_selector_terms.iter().filter_map(|term| term.alias.as_deref());
    let (_, version) = aliases.next()?.split_once('@')?;
    (version != "latest").then_some(version)
}

/// The kubelet's configuration on a type: numbers instead of formulas, and always the number of pods.
fn kubelet(class: &ResolvedClass, shape: Option<&NodeShape>) -> Kubelet {
    let read = class.class.spec.kubelet.as_ref().map(Kubelet::read).unwrap_or_default();
    let Some(shape) = shape else { return read };
    let texts = |resources: &ResourceList| -> BTreeMap<String, String> {
        resources.iter().map(|(name, quantity)| (name.to_owned(), quantity.to_string())).collect()
    };
    // What users wrote as quantities stays as they wrote it.
    let merged = |written: &BTreeMap<String, String>, evaluated: &ResourceList| {
        let mut merged = texts(evaluated);
        for (name, text) in written {
            if text.parse::<karpenter_quantity::Quantity>().is_ok() {
                merged.insert(name.clone(), text.clone());
            }
        }
        merged
    };
    Kubelet {
        max_pods: Some(MaxPods::Number(shape.max_pods.into())),
        kube_reserved: merged(&read.kube_reserved, &shape.kube_reserved),
        system_reserved: merged(&read.system_reserved, &shape.system_reserved),
        ..read
    }
}
