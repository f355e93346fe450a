//! Which nodes may be disrupted at all, what they cost, and what disturbing them costs.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use rustc_hash::FxHashMap;

use super::Outlooks;
use super::budget::{Allowance, ConsolidationPolicy, DisruptionReason, allowances_of};
use super::outlook::Outlook;
use super::plan::DisruptionOptions;
use super::repair::{self, Broken, RepairNeed};
use super::rotation::replaceable_since;
use crate::catalog::{CAPACITY_TYPE, Catalog, INSTANCE_TYPE, InstanceType, SPOT, ZONE};
use crate::cluster::{
    ClusterSnapshot, DisruptionBudget, Labels, MachineState, Node, NodePool, NodeStage, Pod, PodOwner,
    PodPhase, Taint, TaintEffect,
};
use crate::solver::{covering, leaves_with_node, offering_price};

/// What disturbing any node costs, even an empty one.
pub(crate) const NODE_COST: f64 = 1.0;

/// The taint of nodes being disrupted: pods that tolerate it are not evicted.
pub(crate) const DISRUPTED: &str = "karpenter.sh/disrupted";

/// A node that may be disrupted.
pub(crate) struct Candidate<'a> {
    pub(crate) node: &'a Arc<Node>,
    pub(crate) pool: &'a Arc<NodePool>,
    pub(crate) instance_type: Option<&'a Arc<InstanceType>>,
    /// Price per hour; 0 when unknown.
    pub(crate) price: f64,
    /// What disturbing it costs: 1, and about 1 for every pod that has to move.
    pub(crate) cost: f64,
    /// Since when it is to be replaced although it is well: it has drifted, or is old enough.
    pub(crate) replaceable: Option<Timestamp>,
    /// Pods that need a new place.
    pub(crate) moving: Vec<Arc<Pod>>,
    /// Whether pods refuse, so that it may go only where its drain is bounded.
    pub(crate) refused: bool,
    /// Whether pods that came or went recently keep it.
    pub(crate) quiet: bool,
    /// Why consolidation leaves it alone.
    pub(crate) unconsolidatable: Option<Outlook>,
}

impl Candidate<'_> {
    /// Whether nobody would miss it: the cost of its pods counts, not their number.
    pub(crate) fn is_empty(&self) -> bool {
        self.cost <= NODE_COST
    }

    /// Whether emptiness may delete it now.
    pub(crate) fn is_empty_now(&self) -> bool {
        let on = self.pool.disruption.consolidate_after.is_some();
        self.is_empty() && self.quiet && on && !self.refused
    }

    pub(crate) fn is_spot(&self) -> bool {
        self.node.labels.get(CAPACITY_TYPE).is_some_and(|value| &**value == SPOT)
    }

    pub(crate) fn is_balanced(&self) -> bool {
        self.pool.disruption.policy == ConsolidationPolicy::Balanced
    }

    fn ratio(&self) -> f64 {
        self.price / self.cost
    }
}

/// Everything found about the nodes of a cluster.
pub(crate) struct Candidates<'a> {
    /// Nodes that may be disrupted, those that save most per disturbance first.
    pub(crate) all: Vec<Candidate<'a>>,
    pub(crate) outlooks: Outlooks,
    /// Broken nodes that may be repaired.
    pub(crate) broken: Vec<Broken<'a>>,
    /// Why other broken nodes are not repaired.
    pub(crate) unrepaired: Outlooks,
    /// Drifted nodes of static pools that may be disrupted.
    pub(crate) static_drifted: Vec<&'a Arc<Node>>,
    /// Cost per hour and cost of disturbance of whole pools.
    pub(crate) totals: BTreeMap<Arc<str>, Totals>,
}

/// A pool as a whole.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) price: f64,
    pub(crate) cost: f64,
}

impl<'a> Candidates<'a> {
    pub(crate) fn new(
        snapshot: &'a ClusterSnapshot,
        catalog: &'a Catalog,
        options: &'a DisruptionOptions,
        now: Timestamp,
    ) -> Self {
        let pools = snapshot.node_pools.iter().map(|pool| (&*pool.name, pool)).collect();
        let types = snapshot
            .node_pools
            .iter()
            .map(|pool| (&*pool.name, types_by_name(catalog, &pool.name)))
            .collect();
        let mut screen = Screen { snapshot, options, now, pools, types, covering: FxHashMap::default() };
        let mut all: Vec<Candidate<'a>> = Vec::new();
        let mut static_drifted = Vec::new();
        let (mut broken, mut unrepaired) = (Vec::new(), Outlooks::new());
        let repair_allowances = screen.repair_allowances();
        let mut outlooks = Outlooks::new();
        for node in &snapshot.nodes {
            if let Some(need) = options.repairs.due.get(&node.name) {
                match screen.broken(node, need, &repair_allowances) {
                    Ok(found) => {
                        broken.push(found);
                        outlooks.insert(node.name.clone(), Outlook::NotAsked);
                        continue;
                    }
                    Err(outlook) => drop(unrepaired.insert(node.name.clone(), outlook)),
                }
            }
            let own = options.static_pools.iter().find(|own| node.node_pool.as_ref() == Some(&own.pool.name));
            if let Some(own) = own {
                let refusal = screen.static_refusal(node, &own.pool);
                let outlook = refusal.unwrap_or_else(|| {
                    static_drifted.push(node);
                    Outlook::NotAsked
                });
                outlooks.insert(node.name.clone(), outlook);
                continue;
            }
            match screen.candidate(node) {
                Ok(candidate) => {
                    let outlook = candidate.unconsolidatable.clone().unwrap_or(Outlook::NotAsked);
                    outlooks.insert(node.name.clone(), outlook);
                    all.push(candidate);
                }
                Err(outlook) => {
                    outlooks.insert(node.name.clone(), outlook);
                }
            }
        }
        all.sort_by(|a, b| b.ratio().total_cmp(&a.ratio()).then_with(|| a.node.name.cmp(&b.node.name)));
        let totals = totals(snapshot, &all, options);
        Self { all, outlooks, broken, unrepaired, static_drifted, totals }
    }
}

impl Candidates<'_> {
    /// How many nodes could go for this reason, budgets aside.
    pub(crate) fn eligible(&self, reason: DisruptionReason) -> usize {
        let count = |wanted: &dyn Fn(&Candidate<'_>) -> bool| {
            self.all.iter().filter(|candidate| wanted(candidate)).count()
        };
        match reason {
            DisruptionReason::Empty => count(&|candidate| candidate.is_empty_now()),
            DisruptionReason::Underutilized => {
                count(&|candidate| candidate.unconsolidatable.is_none() && !candidate.is_empty())
            }
            DisruptionReason::Drifted => {
                count(&|candidate| candidate.replaceable.is_some()) + self.static_drifted.len()
            }
            DisruptionReason::Unhealthy => self.broken.len(),
        }
    }
}

type TypesByName<'a> = FxHashMap<&'a str, &'a Arc<InstanceType>>;

fn types_by_name<'a>(catalog: &'a Catalog, pool: &str) -> TypesByName<'a> {
    catalog.types(pool).iter().map(|instance_type| (&*instance_type.name, instance_type)).collect()
}

struct Screen<'a> {
    snapshot: &'a ClusterSnapshot,
    options: &'a DisruptionOptions,
    now: Timestamp,
    pools: FxHashMap<&'a str, &'a Arc<NodePool>>,
    types: FxHashMap<&'a str, TypesByName<'a>>,
    /// PodDisruptionBudgets by labels and namespace of the pods they cover: pods of a workload share both.
    covering: FxHashMap<(*const Labels, *const str), Vec<&'a DisruptionBudget>>,
}

impl<'a> Screen<'a> {
    fn candidate(&mut self, node: &'a Arc<Node>) -> Result<Candidate<'a>, Outlook> {
        let pool = self.pool_of(node)?;
        let refusal = node.pods.iter().find_map(|pod| self.refusal(pod));
        let replaceable = replaceable_since(node, pool.disruption.rotation.as_ref(), self.now);
        if let Some(refusal) = &refusal
            && !(replaceable.is_some() && node.life.has_termination_grace_period)
        {
            return Err(refusal.clone());
        }
        let label = |key: &str| node.labels.get(key).map(|value| &**value);
        let instance_type = label(INSTANCE_TYPE).and_then(|name| self.types[&*pool.name].get(name)).copied();
        let price = instance_type.zip(label(ZONE)).zip(label(CAPACITY_TYPE));
        let price = price.and_then(|((known, zone), capacity)| offering_price(known, zone, capacity));
        let reschedulable = || node.pods.iter().filter(|pod| pod.is_reschedulable());
        let budgets = &self.snapshot.disruption_budgets;
        let mut candidate = Candidate {
            node,
            pool,
            instance_type,
            price: price.filter(|price| !price.is_nan()).unwrap_or(0.0),
            cost: reschedulable().fold(NODE_COST, |cost, pod| cost + eviction_cost(pod).max(0.0)),
            replaceable,
            moving: reschedulable().filter(|pod| leaves_with_node(pod, budgets)).cloned().collect(),
            refused: refusal.is_some(),
            quiet: pool.disruption.consolidate_after.is_some_and(|after| self.quiet_for(node) >= after),
            unconsolidatable: None,
        };
        candidate.unconsolidatable = refusal.or_else(|| unconsolidatable(&candidate, self.now));
        Ok(candidate)
    }

    fn quiet_for(&self, node: &Node) -> jiff::SignedDuration {
        self.now.duration_since(quiet_since(node))
    }

    /// What budgets leave for repairs, in every pool.
    fn repair_allowances(&self) -> BTreeMap<Arc<str>, Allowance> {
        if self.options.repairs.due.is_empty() {
            return BTreeMap::new();
        }
        let fixed = self.options.static_pools.iter().map(|own| &own.pool);
        let pools = self.snapshot.node_pools.iter().chain(fixed);
        allowances_of(pools, &self.snapshot.nodes, DisruptionReason::Unhealthy, self.now)
    }

    /// A broken node, unless something puts its repair off. Neither the node's `do-not-disrupt` does, nor what protects its pods if their drain is bounded.
    fn broken(
        &mut self,
        node: &'a Arc<Node>,
        need: &'a RepairNeed,
        allowances: &BTreeMap<Arc<str>, Allowance>,
    ) -> Result<Broken<'a>, Outlook> {
        let Some(name) = &node.node_pool else { return Err(Outlook::NotManaged) };
        if self.options.disrupting.contains(&node.name) || node.deleting {
            return Err(Outlook::Leaving);
        }
        if node.life.machine == MachineState::Rebooting {
            return Err(Outlook::Rebooting);
        }
        if node.stage == NodeStage::Launched {
            return Err(Outlook::NotInitialized);
        }
        if node.stage == NodeStage::Initialized && self.options.nominated.contains(&node.name) {
            return Err(Outlook::Nominated);
        }
        let static_pool = self.options.static_pools.iter().find(|own| own.pool.name == *name);
        if static_pool.is_none() {
            self.known_pool(name)?;
        }
        if need.vetoed {
            return Err(Outlook::DoNotRepair);
        }
        if need.bound.is_none()
            && let Some(refusal) = node.pods.iter().find_map(|pod| self.refusal(pod))
        {
            return Err(refusal);
        }
        match repair::postponed(node, &self.snapshot.nodes, self.options, allowances) {
            Some(outlook) => Err(outlook),
            None => Ok(Broken::new(node, need, static_pool, self.now)),
        }
    }

    /// Why a node of a static pool is not replaced: only drift does that.
    fn static_refusal(&mut self, node: &Node, pool: &NodePool) -> Option<Outlook> {
        if let Err(outlook) = self.is_free(node) {
            return Some(outlook);
        }
        if replaceable_since(node, pool.disruption.rotation.as_ref(), self.now).is_none() {
            return Some(Outlook::Static);
        }
        if node.life.has_termination_grace_period {
            return None;
        }
        node.pods.iter().find_map(|pod| self.refusal(pod))
    }

    /// The node's pool, unless something about the node itself forbids disrupting it.
    fn pool_of(&self, node: &Node) -> Result<&'a Arc<NodePool>, Outlook> {
        self.is_free(node)?;
        let Some(name) = &node.node_pool else { return Err(Outlook::NotManaged) };
        self.known_pool(name)
    }

    fn known_pool(&self, name: &Arc<str>) -> Result<&'a Arc<NodePool>, Outlook> {
        let unknown = || Outlook::UnknownNodePool { node_pool: name.clone() };
        let pool = self.pools.get(&**name).copied().ok_or_else(unknown)?;
        if self.types[&**name].is_empty() { Err(unknown()) } else { Ok(pool) }
    }

    /// Whether nothing about the node itself forbids disrupting it.
    fn is_free(&self, node: &Node) -> Result<(), Outlook> {
        if node.node_pool.is_none() {
            return Err(Outlook::NotManaged);
        }
        if self.options.disrupting.contains(&node.name) || node.deleting {
            return Err(Outlook::Leaving);
        }
        if node.life.machine == MachineState::Rebooting {
            return Err(Outlook::Rebooting);
        }
        if node.stage != NodeStage::Initialized {
            return Err(Outlook::NotInitialized);
        }
        if self.options.nominated.contains(&node.name) {
            return Err(Outlook::Nominated);
        }
        if node.life.do_not_disrupt {
            return Err(Outlook::DoNotDisrupt);
        }
        Ok(())
    }

    /// Why a pod keeps its node.
    fn refusal(&mut self, pod: &Pod) -> Option<Outlook> {
        if !pod.is_active() {
            return None;
        }
        if pod.do_not_disrupt {
            return Some(Outlook::PodDoNotDisrupt { pod: pod.key() });
        }
        if pod.owner == PodOwner::Node || stays_on_disrupted(pod) {
            return None;
        }
        let budgets = &self.snapshot.disruption_budgets;
        if budgets.is_empty() {
            return None;
        }
        let key = (Arc::as_ptr(&pod.labels), Arc::as_ptr(&pod.id.namespace));
        let covering = self.covering.entry(key).or_insert_with(|| covering(pod, budgets).collect());
        let name = |budget: &&DisruptionBudget| format!("{}/{}", budget.namespace, budget.name);
        match covering[..] {
            [] => None,
            [budget] => {
                let exempt = budget.always_allows_unhealthy && pod.phase != PodPhase::Running;
                (budget.disruptions_allowed == 0 && !exempt)
                    .then(|| Outlook::PodDisruptionBudget { pod: pod.key(), budget: name(&budget) })
            }
            _ => Some(Outlook::SeveralPodDisruptionBudgets {
                pod: pod.key(),
                budgets: covering.iter().map(name).collect(),
            }),
        }
    }
}

/// Why consolidation (and where it says so, emptiness) leaves a candidate alone.
fn unconsolidatable(candidate: &Candidate<'_>, now: Timestamp) -> Option<Outlook> {
    let settings = &candidate.pool.disruption;
    let Some(after) = settings.consolidate_after else { return Some(Outlook::ConsolidationOff) };
    if !candidate.quiet {
        let until = quiet_since(candidate.node).checked_add(after).unwrap_or(Timestamp::MAX);
        return Some(Outlook::TooYoung { until });
    }
    if candidate.is_empty() {
        return None;
    }
    if let Some(outlook) = settings.pod_residency.and_then(|residency| newcomer(candidate, residency, now)) {
        return Some(outlook);
    }
    if settings.policy == ConsolidationPolicy::WhenEmpty {
        return Some(Outlook::NotEmpty);
    }
    let missing = |label: &str| Some(Outlook::UnknownPrice { label: label.into() });
    if candidate.instance_type.is_none() {
        return missing(INSTANCE_TYPE);
    }
    [CAPACITY_TYPE, ZONE]
        .into_iter()
        .find(|label| !candidate.node.labels.contains_key(*label))
        .and_then(missing)
}

/// The newest pod that is too new to be moved.
fn newcomer(candidate: &Candidate<'_>, residency: SignedDuration, now: Timestamp) -> Option<Outlook> {
    let newest = candidate.moving.iter().max_by_key(|pod| pod.created)?;
    let until = newest.created.saturating_add(residency).unwrap_or(Timestamp::MAX);
    (now < until).then(|| Outlook::PodResidency { pod: newest.key(), until })
}

/// Since when no pod has come to the node or left it.
pub(crate) fn quiet_since(node: &Node) -> Timestamp {
    node.life.last_pod_event.or(node.life.initialized).unwrap_or(node.created)
}

/// The value of a node's label.
pub(crate) fn label_of<'n>(node: &'n Node, key: &str) -> Option<&'n str> {
    node.labels.get(key).map(|value| &**value)
}

fn stays_on_disrupted(pod: &Pod) -> bool {
    let taint = Taint { key: DISRUPTED.into(), value: "".into(), effect: TaintEffect::NoSchedule };
    pod.spec.tolerations.iter().any(|toleration| toleration.covers(&taint))
}

/// What moving a pod costs: about 1, more or less by priority and by what its annotations say.
pub(crate) fn eviction_cost(pod: &Pod) -> f64 {
    let by_annotation = f64::from(pod.disruption_cost) / f64::from(1 << 27);
    let by_priority = f64::from(pod.priority) / f64::from(1 << 25);
    (1.0 + by_annotation + by_priority).clamp(-10.0, 10.0)
}

/// What nodes cost.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PoolCosts {
    /// Per hour, by pool.
    pub per_hour: BTreeMap<Arc<str>, f64>,
    /// Nodes whose price is not known, with their pool.
    pub unknown: Vec<(Arc<str>, Arc<str>)>,
}

/// What the nodes of every pool cost.
pub fn pool_costs(snapshot: &ClusterSnapshot, catalog: &Catalog) -> PoolCosts {
    let mut costs = PoolCosts::default();
    let types: BTreeMap<&str, TypesByName<'_>> =
        catalog.by_pool.keys().map(|pool| (&**pool, types_by_name(catalog, pool))).collect();
    for node in &snapshot.nodes {
        let Some(pool) = &node.node_pool else { continue };
        let Some(types) = types.get(&**pool) else { continue };
        let label = |key: &str| node.labels.get(key).map(|value| &**value);
        let known = label(INSTANCE_TYPE).and_then(|name| types.get(name)).copied();
        let price = known.zip(label(ZONE)).zip(label(CAPACITY_TYPE));
        let price = price.and_then(|((known, zone), capacity)| offering_price(known, zone, capacity));
        match price.filter(|price| !price.is_nan()) {
            Some(price) => *costs.per_hour.entry(pool.clone()).or_insert(0.0) += price,
            None => costs.unknown.push((node.name.clone(), pool.clone())),
        }
    }
    costs
}

/// Cost and disturbance of whole pools, over every node.
fn totals(
    snapshot: &ClusterSnapshot,
    candidates: &[Candidate<'_>],
    options: &DisruptionOptions,
) -> BTreeMap<Arc<str>, Totals> {
    let mut totals: BTreeMap<Arc<str>, Totals> = BTreeMap::new();
    for candidate in candidates {
        totals.entry(candidate.pool.name.clone()).or_default().price += candidate.price;
    }
    let costs: FxHashMap<*const Node, f64> =
        candidates.iter().map(|candidate| (Arc::as_ptr(candidate.node), candidate.cost)).collect();
    for node in &snapshot.nodes {
        let Some(total) = node.node_pool.as_ref().and_then(|pool| totals.get_mut(pool)) else { continue };
        let of_pods = || {
            let counted = node
                .pods
                .iter()
                .filter(|pod| pod.phase != PodPhase::Terminal && pod.owner != PodOwner::DaemonSet);
            counted.fold(NODE_COST, |cost, pod| cost + eviction_cost(pod).max(0.0))
        };
        total.cost += costs.get(&Arc::as_ptr(node)).copied().unwrap_or_else(of_pods);
    }
    for (pool, total) in &mut totals {
        if let Some(price) = options.pool_costs.get(pool).filter(|price| **price > 0.0) {
            total.price = *price;
        }
    }
    totals
}
