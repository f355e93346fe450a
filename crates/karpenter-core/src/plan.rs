//! What a provisioning decision looks like: plain data that is printed, diffed, replayed and carried out.

use std::sync::Arc;

use karpenter_quantity::ResourceList;

use crate::catalog::InstanceType;
use crate::requirements::Requirement;

mod explanation;

pub use explanation::{Ignored, Obstacle, PoolObstacle, Scarcity, Unschedulable};

/// How preferences (preferred affinity, `ScheduleAnyway`) are treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PreferencePolicy {
    /// As requirements, dropped one by one where they cannot be met.
    #[default]
    Respect,
    /// Not at all.
    Ignore,
}

/// What happens when `minValues` cannot be met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MinValuesPolicy {
    /// The NodePool cannot be used.
    #[default]
    Strict,
    /// The number is lowered to what is there.
    BestEffort,
}

/// Whether a pod waits for reserved capacity that exists but is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReservedPolicy {
    /// The pod is deferred to the next round.
    #[default]
    Strict,
    /// Spot or on-demand capacity is used instead.
    Fallback,
}

/// Which of several plans that serve the same pods is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PackingPolicy {
    /// The cheapest; of equally cheap ones the one with the fewest nodes.
    #[default]
    Cheapest,
    /// The one with the fewest nodes; of those the cheapest.
    FewestNodes,
}

/// Settings of the solver.
#[derive(Clone, Debug)]
pub struct SolverOptions {
    /// How preferences are treated.
    pub preferences: PreferencePolicy,
    /// How `minValues` is treated.
    pub min_values: MinValuesPolicy,
    /// Which plan is kept.
    pub packing: PackingPolicy,
    /// How reserved offerings are treated; `None` when the feature is off.
    pub reserved: Option<ReservedPolicy>,
    /// Whether pods with dynamic resource claims are refused.
    pub ignore_dynamic_resources: bool,
    /// How many alternative plans are tried, counted in placements, not in time.
    pub improvement_steps: u64,
    /// Whether alternatives are computed on all cores. The plan is the same either way.
    pub parallel: bool,
}

impl Default for SolverOptions {
    fn default() -> Self {
        Self {
            preferences: PreferencePolicy::Respect,
            min_values: MinValuesPolicy::Strict,
            packing: PackingPolicy::Cheapest,
            reserved: Some(ReservedPolicy::Strict),
            ignore_dynamic_resources: true,
            improvement_steps: 150_000,
            parallel: false,
        }
    }
}

/// The answer to "what has to be created so that the pending pods can run".
#[derive(Clone, Debug, Default)]
pub struct ProvisioningPlan {
    /// NodeClaims to create, in the order they were opened.
    pub claims: Vec<ClaimPlan>,
    /// Pods that fit on existing nodes: node name and pods, by node name.
    pub existing: Vec<(Arc<str>, Vec<PodIndex>)>,
    /// Pods without a place, and why; pods that share a reason share the explanation.
    pub unschedulable: Vec<(PodIndex, Arc<Unschedulable>)>,
    /// Pods that were not considered, and why.
    pub ignored: Vec<(PodIndex, Ignored)>,
    /// The pods the indices refer to: the snapshot's pending pods, then those of deleting nodes.
    pub pods: Vec<Arc<crate::cluster::Pod>>,
}

impl ProvisioningPlan {
    /// Price per hour of the new nodes, each at its cheapest offering.
    pub fn price(&self) -> f64 {
        self.claims.iter().map(|claim| claim.cheapest.price).sum()
    }
}

/// Index into [`ProvisioningPlan::pods`].
pub type PodIndex = u32;

/// One NodeClaim to create.
#[derive(Clone, Debug)]
pub struct ClaimPlan {
    /// The NodePool it belongs to.
    pub node_pool: Arc<str>,
    /// Requirements of pool and pods together, by key.
    pub requirements: Vec<Requirement>,
    /// Requests of its pods plus the smallest daemon overhead.
    pub requests: ResourceList,
    /// Every instance type that carries its pods, cheapest first, at most [`INSTANCE_TYPES_MAX`].
    pub instance_types: Vec<Arc<InstanceType>>,
    /// The cheapest way to launch it.
    pub cheapest: Launch,
    /// Its pods.
    pub pods: Vec<PodIndex>,
    /// Whether `minValues` of the pool had to be lowered.
    pub min_values_relaxed: bool,
    /// Reservations it may use.
    pub reservations: Vec<Arc<str>>,
}

/// The largest number of instance types a NodeClaim lists.
pub const INSTANCE_TYPES_MAX: usize = 600;

/// One concrete machine.
#[derive(Clone, Debug)]
pub struct Launch {
    /// Its instance type.
    pub instance_type: Arc<str>,
    /// Its zone.
    pub zone: Arc<str>,
    /// Its capacity type.
    pub capacity_type: Arc<str>,
    /// Its price per hour.
    pub price: f64,
}
