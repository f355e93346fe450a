//! Pods: what they ask of a node, and what scheduling must know about them.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_quantity::ResourceList;

use super::labels::{Labels, Selector};
use super::node::Toleration;
use super::volume::VolumeRef;
use crate::requirements::Requirement;

/// Identity of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodId {
    /// The pod's namespace.
    pub namespace: Arc<str>,
    /// The pod's name.
    pub name: Arc<str>,
    /// The pod's UID: breaks ties in the queue.
    pub uid: Arc<str>,
}

/// Who owns a pod, as far as scheduling cares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PodOwner {
    /// A workload controller or nobody.
    #[default]
    Workload,
    /// A StatefulSet: a terminating pod will come back.
    StatefulSet,
    /// A DaemonSet: the pod belongs to its node.
    DaemonSet,
    /// The node itself (a mirror pod).
    Node,
    /// A CapacityBuffer: a virtual pod that reserves headroom.
    CapacityBuffer,
}

/// The pod's phase, as far as scheduling cares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PodPhase {
    /// Not yet running.
    #[default]
    Pending,
    /// Running.
    Running,
    /// Succeeded or failed.
    Terminal,
}

/// One pod.
#[derive(Clone, Debug)]
pub struct Pod {
    /// Who it is.
    pub id: PodId,
    /// Its labels, shared between pods that look alike.
    pub labels: Arc<Labels>,
    /// What it asks of a node, shared between pods that look alike.
    pub spec: Arc<PodSpec>,
    /// When it was created.
    pub created: Timestamp,
    /// Its priority: higher is served first.
    pub priority: i32,
    /// Who owns it.
    pub owner: PodOwner,
    /// Its phase.
    pub phase: PodPhase,
    /// Whether it is being deleted.
    pub terminating: bool,
    /// Whether the pod, now, refuses to be disrupted voluntarily.
    pub do_not_disrupt: bool,
    /// What its annotations say moving it costs, from -2^31 to 2^31; 0 when they say nothing.
    pub disruption_cost: i32,
    /// Persistent volume claims it mounts, by name; generic ephemeral volumes already resolved.
    pub volumes: Vec<VolumeRef>,
}

impl Pod {
    /// `namespace/name`.
    pub fn key(&self) -> String {
        format!("{}/{}", self.id.namespace, self.id.name)
    }

    /// Whether the pod counts for spreading and affinity.
    pub fn is_active(&self) -> bool {
        self.phase != PodPhase::Terminal && !self.terminating
    }

    /// Whether the pod needs a new place once its node is gone.
    pub fn is_reschedulable(&self) -> bool {
        let comes_back = self.terminating && self.owner == PodOwner::StatefulSet;
        (self.is_active() || comes_back) && !matches!(self.owner, PodOwner::DaemonSet | PodOwner::Node)
    }
}

/// Everything about a pod that decides where it can run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodSpec {
    /// Effective requests: containers, init containers, sidecars, pod-level resources and overhead, plus `pods: 1`.
    pub requests: ResourceList,
    /// `nodeSelector`.
    pub node_selector: BTreeMap<Arc<str>, Arc<str>>,
    /// Required node affinity: one of the terms must hold; empty when there is none.
    pub required_terms: Vec<Vec<Requirement>>,
    /// Preferred node affinity.
    pub preferred_terms: Vec<PreferredTerm>,
    /// Tolerations.
    pub tolerations: Vec<Toleration>,
    /// Topology spread constraints.
    pub spread: Vec<SpreadConstraint>,
    /// Required pod affinity.
    pub affinity: Vec<PodAffinityTerm>,
    /// Required pod anti-affinity.
    pub anti_affinity: Vec<PodAffinityTerm>,
    /// Preferred pod affinity.
    pub preferred_affinity: Vec<WeightedAffinityTerm>,
    /// Preferred pod anti-affinity.
    pub preferred_anti_affinity: Vec<WeightedAffinityTerm>,
    /// Host ports of its containers.
    pub host_ports: Vec<HostPort>,
    /// Whether the pod claims devices through dynamic resource allocation.
    pub uses_dynamic_resources: bool,
    /// Whether a node affinity term uses `matchFields`, which no new node can be planned for.
    pub uses_match_fields: bool,
}

/// A preferred node affinity term.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PreferredTerm {
    /// 1 to 100; heavier is honoured longer.
    pub weight: i32,
    /// All of them must hold.
    pub requirements: Vec<Requirement>,
}

/// What to do when a spread constraint cannot be met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names are Kubernetes' own")]
pub enum Unsatisfiable {
    DoNotSchedule,
    ScheduleAnyway,
}

/// One topology spread constraint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SpreadConstraint {
    /// How far the fullest domain may be above the emptiest.
    pub max_skew: u32,
    /// The node label whose values are the domains.
    pub topology_key: Arc<str>,
    /// Hard or soft.
    pub when_unsatisfiable: Unsatisfiable,
    /// Which pods count; `None` counts none.
    pub selector: Option<Selector>,
    /// With fewer eligible domains than this, the emptiest counts as zero.
    pub min_domains: Option<u32>,
    /// Whether only nodes that the pod's node affinity accepts count.
    pub honor_node_affinity: bool,
    /// Whether only nodes whose taints the pod tolerates count.
    pub honor_node_taints: bool,
    /// Pod labels whose values narrow the selector.
    pub match_label_keys: Vec<Arc<str>>,
}

/// A pod affinity or anti-affinity term.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodAffinityTerm {
    /// The node label whose values are the domains.
    pub topology_key: Arc<str>,
    /// Which pods count; `None` selects none.
    pub selector: Option<Selector>,
    /// Namespaces listed; with no namespace selector either, the pod's own.
    pub namespaces: Vec<Arc<str>>,
    /// Namespaces selected by label.
    pub namespace_selector: Option<Selector>,
    /// Pod labels whose values narrow the selector.
    pub match_label_keys: Vec<Arc<str>>,
    /// Pod labels whose values are excluded by the selector.
    pub mismatch_label_keys: Vec<Arc<str>>,
}

/// A preferred pod affinity or anti-affinity term.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WeightedAffinityTerm {
    /// 1 to 100; heavier is dropped first.
    pub weight: i32,
    /// The term.
    pub term: PodAffinityTerm,
}

/// A port taken on the node itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    /// `0.0.0.0` (or `::`) stands for every address.
    pub ip: Arc<str>,
    /// The port.
    pub port: u16,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: Arc<str>,
}

impl HostPort {
    /// Whether both cannot be open on one node.
    pub fn conflicts(&self, other: &Self) -> bool {
        let anywhere = |ip: &str| ip.is_empty() || ip == "0.0.0.0" || ip == "::";
        self.port == other.port
            && self.protocol == other.protocol
            && (self.ip == other.ip || anywhere(&self.ip) || anywhere(&other.ip))
    }
}

/// A PodDisruptionBudget, reduced to what decides whether a pod of a leaving node may be planned for elsewhere.
#[derive(Clone, Debug)]
pub struct DisruptionBudget {
    /// Its name.
    pub name: Arc<str>,
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Which pods it covers.
    pub selector: Option<Selector>,
    /// Whether its spec can never allow an eviction (`maxUnavailable: 0`, `minAvailable: 100%`).
    pub never_allows: bool,
    /// How many evictions it allows now.
    pub disruptions_allowed: u32,
    /// Whether unhealthy pods may always be evicted.
    pub always_allows_unhealthy: bool,
}
