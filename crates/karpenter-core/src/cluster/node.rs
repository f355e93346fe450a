//! Nodes: what is there, how much is free, and who may use it.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use karpenter_quantity::ResourceList;

use super::labels::Labels;
use super::pod::Pod;

/// What a taint does to pods that do not tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names are Kubernetes' own")]
pub enum TaintEffect {
    NoSchedule,
    PreferNoSchedule,
    NoExecute,
}

/// A node taint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Taint {
    /// The taint's key.
    pub key: Arc<str>,
    /// Its value, possibly empty.
    pub value: Arc<str>,
    /// Its effect.
    pub effect: TaintEffect,
}

/// How a toleration compares values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names are Kubernetes' own")]
pub enum TolerationOperator {
    Equal,
    Exists,
    Lt,
    Gt,
}

/// A pod's toleration. An empty key with `Exists` tolerates everything; no effect means every effect.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Toleration {
    /// The taint's key, or empty for any.
    pub key: Arc<str>,
    /// How the value is compared.
    pub operator: TolerationOperator,
    /// The value.
    pub value: Arc<str>,
    /// The effect, or any.
    pub effect: Option<TaintEffect>,
}

impl Toleration {
    /// Whether it covers this taint.
    pub fn covers(&self, taint: &Taint) -> bool {
        if self.effect.is_some_and(|effect| effect != taint.effect)
            || !(self.key.is_empty() || self.key == taint.key)
        {
            return false;
        }
        let numbers = || Some((self.value.parse::<i64>().ok()?, taint.value.parse::<i64>().ok()?));
        match self.operator {
            TolerationOperator::Exists => true,
            TolerationOperator::Equal => !self.key.is_empty() && self.value == taint.value,
            TolerationOperator::Gt => numbers().is_some_and(|(bound, value)| value > bound),
            TolerationOperator::Lt => numbers().is_some_and(|(bound, value)| value < bound),
        }
    }
}

/// Checks that every taint is covered.
///
/// # Errors
///
/// The first taint none of the tolerations covers.
pub fn tolerates<'a>(tolerations: &[Toleration], taints: &'a [Taint]) -> Result<(), &'a Taint> {
    match taints.iter().find(|taint| !tolerations.iter().any(|toleration| toleration.covers(taint))) {
        Some(taint) => Err(taint),
        None => Ok(()),
    }
}

/// How far a node has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeStage {
    /// Ready for pods; also every node Karpenter does not manage.
    #[default]
    Initialized,
    /// The Node object is there, but not yet initialised.
    Registered,
    /// Only the NodeClaim is there.
    Launched,
}

/// What voluntary disruption must know about a node besides what is on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeLife {
    /// Whether the Node is Ready.
    pub ready: bool,
    /// Whether the node refuses voluntary disruption (`karpenter.sh/do-not-disrupt: "true"`).
    pub do_not_disrupt: bool,
    /// Since when it is initialised; the creation counts where nobody knows.
    pub initialized: Option<Timestamp>,
    /// When a pod last came to the node or left it.
    pub last_pod_event: Option<Timestamp>,
    /// How long it lives at most; never ends when missing.
    pub expire_after: Option<SignedDuration>,
    /// Since when it no longer matches its NodePool.
    pub drifted: Option<Timestamp>,
    /// Whether its drain is bounded, so that pods that refuse cannot hold it up for ever.
    pub has_termination_grace_period: bool,
    /// What is happening to its machine.
    pub machine: MachineState,
}

/// What is happening to a node's machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MachineState {
    /// Nothing special.
    #[default]
    Running,
    /// It is being rebooted.
    Rebooting,
    /// It is being taken down.
    Terminating,
}

impl Default for NodeLife {
    fn default() -> Self {
        Self {
            ready: true,
            do_not_disrupt: false,
            initialized: None,
            last_pod_event: None,
            expire_after: None,
            drifted: None,
            has_termination_grace_period: false,
            machine: MachineState::Running,
        }
    }
}

/// A node, or a launched NodeClaim that will become one.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its name; a launched NodeClaim's own name while there is no Node.
    pub name: Arc<str>,
    /// The owning NodePool; none for nodes Karpenter does not manage.
    pub node_pool: Option<Arc<str>>,
    /// How far it has come.
    pub stage: NodeStage,
    /// Its labels, or those it will have.
    pub labels: Arc<Labels>,
    /// The taints that count for scheduling: without ephemeral and startup taints while it is not initialised.
    pub taints: Vec<Taint>,
    /// Its capacity, for NodePool limits.
    pub capacity: ResourceList,
    /// What pods may use.
    pub allocatable: ResourceList,
    /// When it was created.
    pub created: Timestamp,
    /// Whether it is marked for deletion: its capacity is not used and its pods need a new place.
    pub deleting: bool,
    /// CSI driver to the largest number of volumes; a driver not listed is unlimited.
    pub volume_limits: BTreeMap<Arc<str>, u32>,
    /// What voluntary disruption must know about it.
    pub life: NodeLife,
    /// The pods bound to it.
    pub pods: Vec<Arc<Pod>>,
}

#[cfg(test)]
impl Node {
    /// A node about which nothing else is said.
    pub(crate) fn sample(name: &str, created: Timestamp) -> Self {
        Self {
            name: name.into(),
            node_pool: Some("general".into()),
            stage: NodeStage::Initialized,
            labels: Arc::default(),
            taints: Vec::new(),
            capacity: ResourceList::default(),
            allocatable: ResourceList::default(),
            created,
            deleting: false,
            volume_limits: BTreeMap::new(),
            life: NodeLife::default(),
            pods: Vec::new(),
        }
    }
}
