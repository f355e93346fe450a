//! Pods: who they are, what they ask of a node, and whether they wait for one.
//!
//! Start at [`pod`]. What a pod asks of a node is put together from its parts: [`requests`] for resources, `affinity` for
//! where it wants to be, [`volumes`] for the claims it mounts.

mod affinity;
pub mod requests;
pub mod volumes;

use jiff::Timestamp;
use k8s_openapi::api::core::v1 as kube;
use karpenter_core::cluster::{HostPort, Pod, PodId, PodOwner, PodPhase, PodSpec};
use karpenter_core::requirements::{Operator, Requirement};

use crate::interner::Interner;
use crate::invalid::{At, Invalid, each};
use crate::labels::normalized_key;
use crate::selector::node_selector_term;
use crate::taint::tolerations;

use requests::{MissingRequests, effective_requests};
use volumes::volume_refs;

/// The annotation by which a pod refuses voluntary disruption.
pub const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";

/// The pod as the core sees it at `now`.
pub fn pod(object: &kube::Pod, now: Timestamp, interner: &mut Interner) -> Result<Pod, Invalid> {
    let metadata = &object.metadata;
    let spec = object.spec.as_ref();
    let name = metadata.name.as_deref().unwrap_or_default();
    let nothing = kube::PodSpec::default();
    let converted =
        pod_spec(spec.unwrap_or(&nothing), object.status.as_ref(), MissingRequests::AreZero).at("spec")?;
    Ok(Pod {
        id: PodId {
            namespace: interner.string(metadata.namespace.as_deref().unwrap_or("default")),
            name: name.into(),
            uid: metadata.uid.as_deref().unwrap_or_default().into(),
        },
        labels: interner.label_map(metadata.labels.iter().flatten()),
        spec: interner.spec(converted),
        created: metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0),
        priority: spec.and_then(|spec| spec.priority).unwrap_or(0),
        owner: owner(object),
        phase: phase(object),
        terminating: metadata.deletion_timestamp.is_some(),
        do_not_disrupt: refuses_disruption(object, now),
        volumes: spec.map(|spec| volume_refs(name, spec)).unwrap_or_default(),
    })
}

/// What a pod with this spec asks of a node.
pub fn pod_spec(
    spec: &kube::PodSpec,
    status: Option<&kube::PodStatus>,
    missing: MissingRequests,
) -> Result<PodSpec, Invalid> {
    let mut result = PodSpec {
        requests: effective_requests(spec, status, missing)?,
        node_selector: spec
            .node_selector
            .iter()
            .flatten()
            .map(|(key, value)| (normalized_key(key).into(), value.as_str().into()))
            .collect(),
        tolerations: tolerations(spec.tolerations.iter().flatten()).at("tolerations")?,
        spread: each(spec.topology_spread_constraints.iter().flatten(), affinity::spread_constraint)
            .at("topologySpreadConstraints")?,
        host_ports: host_ports(spec),
        uses_dynamic_resources: spec.resource_claims.as_ref().is_some_and(|claims| !claims.is_empty()),
        ..PodSpec::default()
    };
    if let Some(affinity) = &spec.affinity {
        affinity::add_affinity(&mut result, affinity).at("affinity")?;
    }
    Ok(result)
}

/// Required node affinity terms with what makes them special.
fn required_terms(selector: &kube::NodeSelector) -> Result<Vec<Vec<Requirement>>, Invalid> {
    let is_empty = |term: &&kube::NodeSelectorTerm| {
        term.match_expressions.as_ref().is_none_or(Vec::is_empty)
            && term.match_fields.as_ref().is_none_or(Vec::is_empty)
    };
    let terms = &selector.node_selector_terms;
    let indexed = terms.iter().enumerate().filter(|(_, term)| !is_empty(term));
    let converted: Vec<_> = indexed
        .map(|(index, term)| node_selector_term(term).at_index(index))
        .collect::<Result<_, _>>()
        .at("nodeSelectorTerms")?;
    Ok(if converted.is_empty() { vec![unsatisfiable_term()] } else { converted })
}

/// Kubernetes lets a node selector whose terms are all empty match no node at all. The core knows no such term, so it is
/// spelled as a contradiction.
fn unsatisfiable_term() -> Vec<Requirement> {
    let on_arch = |operator| Requirement::new("kubernetes.io/arch", operator, Vec::<&str>::new());
    vec![on_arch(Operator::Exists), on_arch(Operator::DoesNotExist)]
}

/// Ports of the node that regular containers take; init containers' ports are free again when these start.
fn host_ports(spec: &kube::PodSpec) -> Vec<HostPort> {
    let ports = spec.containers.iter().flat_map(|container| container.ports.iter().flatten());
    let mut taken: Vec<HostPort> = ports.filter_map(host_port).collect();
    taken.sort();
    taken.dedup();
    taken
}

fn host_port(port: &kube::ContainerPort) -> Option<HostPort> {
    let number = u16::try_from(port.host_port?).ok().filter(|number| *number > 0)?;
    let or = |text: Option<&String>, default: &str| text.map_or(default, String::as_str).into();
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    Some(HostPort {
        ip: or(given(&port.host_ip).as_ref(), "0.0.0.0"),
        port: number,
        protocol: or(given(&port.protocol).as_ref(), "TCP"),
    })
}

fn owner(object: &kube::Pod) -> PodOwner {
    let owned_by = |api_version: &str, kind: &str| {
        let owners = object.metadata.owner_references.iter().flatten();
        owners.into_iter().any(|owner| owner.api_version == api_version && owner.kind == kind)
    };
    if owned_by("apps/v1", "DaemonSet") {
        PodOwner::DaemonSet
    } else if owned_by("v1", "Node") {
        PodOwner::Node
    } else if owned_by("apps/v1", "StatefulSet") {
        PodOwner::StatefulSet
    } else {
        PodOwner::Workload
    }
}

fn phase(object: &kube::Pod) -> PodPhase {
    match object.status.as_ref().and_then(|status| status.phase.as_deref()) {
        Some("Succeeded" | "Failed") => PodPhase::Terminal,
        Some("Running") => PodPhase::Running,
        _ => PodPhase::Pending,
    }
}

/// Whether the pod waits for a node that Karpenter should provide: the scheduler gave up on it, nothing has been decided for
/// it, and it is not a pod that belongs to a node anyway.
pub fn is_provisionable(object: &kube::Pod) -> bool {
    let status = object.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_ref()).into_iter().flatten();
    let gave_up = |condition: &kube::PodCondition| {
        condition.type_ == "PodScheduled" && condition.reason.as_deref() == Some("Unschedulable")
    };
    let is_set = |text: Option<&String>| text.is_some_and(|text| !text.is_empty());
    conditions.into_iter().any(gave_up)
        && !is_set(object.spec.as_ref().and_then(|spec| spec.node_name.as_ref()))
        && !is_set(status.and_then(|status| status.nominated_node_name.as_ref()))
        && !matches!(owner(object), PodOwner::DaemonSet | PodOwner::Node)
}

/// Whether the pod refuses voluntary disruption at `now`: for good, or for a while after its start.
pub fn refuses_disruption(object: &kube::Pod, now: Timestamp) -> bool {
    let _ = now;
    object.metadata.annotations.iter().flatten().any(|(key, value)| key == DO_NOT_DISRUPT && value == "true")
}
