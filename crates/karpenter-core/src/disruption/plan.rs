//! What a disruption decision looks like: plain data that is printed, checked and carried out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;

use super::budget::DisruptionReason;
use super::outlook::Outlook;
use super::repair::{RepairNeed, Repairs};
use super::rollout::RolloutPause;
use super::static_pools::StaticPool;
use crate::cluster::Pod;
use crate::plan::{ClaimPlan, PodIndex, SolverOptions};

/// A way of finding nodes that can go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum DisruptionMethod {
    /// One broken node, replaced or restarted.
    Repair,
    /// Nodes without pods that would have to move.
    Emptiness,
    /// Nodes of static NodePools that no longer match their pool, each with one made from the pool's template.
    StaticDrift,
    /// One node that no longer matches its NodePool, with whatever its pods need in its place.
    Drift,
    /// Several nodes at once, with nothing or cheaper nodes in their place.
    MultiNodeConsolidation,
    /// One node, with nothing or one cheaper node in its place.
    SingleNodeConsolidation,
}

impl DisruptionMethod {
    /// Why the nodes it finds go.
    pub fn reason(self) -> DisruptionReason {
        match self {
            Self::Repair => DisruptionReason::Unhealthy,
            Self::Emptiness => DisruptionReason::Empty,
            Self::StaticDrift | Self::Drift => DisruptionReason::Drifted,
            Self::MultiNodeConsolidation | Self::SingleNodeConsolidation => DisruptionReason::Underutilized,
        }
    }
}

/// Settings of disruption.
#[derive(Clone, Debug)]
pub struct DisruptionOptions {
    /// Settings of the solver behind it.
    pub solver: SolverOptions,
    /// The methods asked, in this order; without any, disruption is switched off.
    pub methods: Vec<DisruptionMethod>,
    /// Whether spot nodes may be replaced by cheaper spot nodes.
    pub spot_to_spot: bool,
    /// Nodes that are expected to get pods soon.
    pub nominated: BTreeSet<Arc<str>>,
    /// Nodes a command under way already disrupts.
    pub disrupting: BTreeSet<Arc<str>>,
    /// What each pool costs per hour, where somebody keeps count; otherwise the candidates' prices are added up.
    pub pool_costs: BTreeMap<Arc<str>, f64>,
    /// The most nodes one command may disrupt.
    pub nodes_per_command: usize,
    /// NodePools with a fixed number of nodes; they are not among those of the snapshot, which pods can make grow.
    pub static_pools: Vec<StaticPool>,
    /// What is known of broken nodes.
    pub repairs: Repairs,
    /// Whether a move is looked at once more as if it had been made, so that its result is not moved again.
    pub foresight: bool,
    /// Whether a drifted node may go before its replacement where both cannot exist at once.
    pub terminate_first_drift: bool,
    /// How many drifted nodes of a pool its roll-out lets go now, or why none; any number where a pool is not listed.
    pub rollouts: BTreeMap<Arc<str>, Result<u32, RolloutPause>>,
}

impl DisruptionOptions {
    /// How many nodes of a pool its roll-out lets go now.
    pub(crate) fn rollout(&self, pool: &str) -> Result<u32, RolloutPause> {
        self.rollouts.get(pool).copied().unwrap_or(Ok(u32::MAX))
    }
}

impl Default for DisruptionOptions {
    fn default() -> Self {
        Self {
            solver: SolverOptions::default(),
            methods: vec![
                DisruptionMethod::Emptiness,
                DisruptionMethod::StaticDrift,
                DisruptionMethod::Drift,
                DisruptionMethod::MultiNodeConsolidation,
                DisruptionMethod::SingleNodeConsolidation,
            ],
            spot_to_spot: false,
            nominated: BTreeSet::new(),
            disrupting: BTreeSet::new(),
            pool_costs: BTreeMap::new(),
            nodes_per_command: 100,
            static_pools: Vec::new(),
            repairs: Repairs::default(),
            foresight: true,
            terminate_first_drift: false,
            rollouts: BTreeMap::new(),
        }
    }
}

/// What can be disrupted now, and what cannot.
#[derive(Clone, Debug, Default)]
pub struct DisruptionPlan {
    /// The commands every method found, each for the cluster as it is: at most one, except of static drift, whose commands go together.
    pub commands: Vec<DisruptionCommand>,
    /// What each node's future looks like, by name.
    pub nodes: Vec<NodeOutlook>,
    /// The pods the indices refer to.
    pub pods: Vec<Arc<Pod>>,
    /// How many nodes could be disrupted for each reason that was asked about, budgets aside.
    pub eligible: BTreeMap<DisruptionReason, usize>,
}

/// Why a node goes before its replacement: both cannot exist at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum TerminateFirst {
    /// The reservation it runs in is full, and its pods find a place nowhere else.
    NoReservedCapacity,
    /// Its static NodePool has as many nodes as `limits.nodes` allows.
    StaticAtLimit,
}

/// Nodes to disrupt together.
#[derive(Clone, Debug)]
pub struct DisruptionCommand {
    /// What found them.
    pub method: DisruptionMethod,
    /// Why they go.
    pub reason: DisruptionReason,
    /// The nodes, by name.
    pub candidates: Vec<Arc<str>>,
    /// NodeClaims to create before they go.
    pub replacements: Vec<ClaimPlan>,
    /// NodePools from whose template alone a NodeClaim is made before they go.
    pub template_replacements: Vec<Arc<str>>,
    /// Nodes that stay and the pods they get, by name.
    pub existing: Vec<(Arc<str>, Vec<PodIndex>)>,
    /// How a broken node is repaired.
    pub repair: Option<RepairNeed>,
    /// Why the nodes go before what replaces them, if they do.
    pub terminate_first: Option<TerminateFirst>,
    /// Scores of the move in the Balanced NodePools it takes nodes from.
    pub scores: Vec<(Arc<str>, f64)>,
    /// What each node costs per hour, where each may go without the others; nothing where they go together.
    pub prices: Vec<f64>,
    /// What the nodes cost per hour.
    pub source_cost: f64,
    /// What is saved per hour, the replacements at their cheapest.
    pub savings: f64,
}

impl DisruptionCommand {
    /// The same for some of the nodes only, where each may go without the others.
    #[must_use]
    pub fn only(mut self, goes: impl Fn(&Arc<str>) -> bool) -> Self {
        let priced = self.candidates.into_iter().zip(self.prices).filter(|(node, _)| goes(node));
        (self.candidates, self.prices) = priced.unzip();
        self.source_cost = self.prices.iter().sum();
        self.savings = self.source_cost;
        self
    }
}

/// A node and its future.
#[derive(Clone, Debug)]
pub struct NodeOutlook {
    /// The node's name.
    pub node: Arc<str>,
    /// Whether it is to be disrupted, or why not.
    pub outlook: Outlook,
}
