//! Voluntary disruption: which nodes can go, what comes in their place, and why the others stay.
//!
//! ```text
//! snapshot ─► candidates (rules, budgets, costs) ─► Stage (compiled once) ─► emptiness, drift, consolidation ─► DisruptionPlan
//! ```
//! Every method is asked on the untouched cluster; the caller carries out the first command it likes. Every candidate is looked at,
//! on all cores where the options say so, and the plan is the same with one thread or many. Start at [`plan_disruption`].

mod balanced;
mod budget;
mod candidate;
mod deletion_cost;
mod drift;
mod foresight;
mod moves;
mod multi;
mod outlook;
mod plan;
mod repair;
mod rollout;
mod rotation;
mod schedule;
mod single;
mod static_pools;
mod terminate_first;

pub use budget::{
    Allowance, Budget, BudgetNodes, BudgetWindow, ConsolidationPolicy, DisruptionReason, MinimumSaving,
    PoolDisruption, allowances,
};
pub use candidate::{PoolCosts, pool_costs};
pub use deletion_cost::deletion_costs;
pub use outlook::Outlook;
pub use plan::{
    DisruptionCommand, DisruptionMethod, DisruptionOptions, DisruptionPlan, NodeOutlook, TerminateFirst,
};
pub use repair::{RepairKind, RepairNeed, Repairs, UNHEALTHY_TOLERATED_PERCENT, stops_repairs};
pub use rollout::{Rollout, RolloutPause, RolloutProgress};
pub use rotation::Rotation;
pub use schedule::Schedule;
pub use static_pools::{StaticPool, scale_down_order};

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use crate::catalog::Catalog;
use crate::cluster::{ClusterSnapshot, Node, NodeStage, Pod, PodOwner};
use crate::plan::{ReservedPolicy, SolverOptions};
use crate::solver::{Stage, eligible};
use budget::allowances_of;
use candidate::{Candidate, Candidates};
use moves::Field;

/// Plans which nodes to delete or replace, each method asked on the cluster as it is.
pub fn plan_disruption(
    snapshot: &ClusterSnapshot,
    catalog: &Catalog,
    options: &DisruptionOptions,
    now: Timestamp,
) -> DisruptionPlan {
    plan_disruption_step_by_step(snapshot, catalog, options, now, |_| {})
}

/// As [`plan_disruption`]; `done` is called after each method, for those who want to know how long each takes.
pub fn plan_disruption_step_by_step(
    snapshot: &ClusterSnapshot,
    catalog: &Catalog,
    options: &DisruptionOptions,
    now: Timestamp,
    mut done: impl FnMut(DisruptionMethod),
) -> DisruptionPlan {
    if options.methods.is_empty() {
        return switched_off(snapshot);
    }
    let found = Candidates::new(snapshot, catalog, options, now);
    if found.all.is_empty() && found.broken.is_empty() && found.static_drifted.is_empty() {
        options.methods.iter().for_each(|method| done(*method));
        return nobody_goes(&found, options);
    }
    // A pod that would wait for reserved capacity takes what there is: nobody is left without a place for it.
    let solver = SolverOptions {
        reserved: options.solver.reserved.map(|_| ReservedPolicy::Fallback),
        ..options.solver.clone()
    };
    let moving = found.all.iter().map(|candidate| candidate.moving.clone());
    let leaving: Vec<_> = moving.chain(found.broken.iter().map(|broken| broken.moving.clone())).collect();
    let (stage, numbers) = Stage::new((snapshot, catalog, &solver), eligible(snapshot), &leaving);
    let planner = Planner {
        found: &found,
        numbers: &numbers,
        stage: &stage,
        options,
        solver: &solver,
        snapshot,
        catalog,
        now,
        consolidation: OnceCell::new(),
    };
    let mut outlooks = found.outlooks.clone();
    let mut commands = Vec::new();
    for method in &options.methods {
        commands.extend(planner.ask(*method, &mut outlooks));
        done(*method);
    }
    outlooks.extend(found.unrepaired.clone());
    mark_planned(&commands, &mut outlooks);
    DisruptionPlan { commands, pods: stage.pods().to_vec(), ..described(&found, options, outlooks) }
}

/// Without a candidate there is nothing to try, and nothing need be compiled for that.
fn nobody_goes(found: &Candidates<'_>, options: &DisruptionOptions) -> DisruptionPlan {
    let mut outlooks = found.outlooks.clone();
    outlooks.extend(found.unrepaired.clone());
    described(found, options, outlooks)
}

/// What is to be said of nodes and candidates.
fn described(found: &Candidates<'_>, options: &DisruptionOptions, outlooks: Outlooks) -> DisruptionPlan {
    let nodes = outlooks.into_iter().map(|(node, outlook)| NodeOutlook { node, outlook }).collect();
    let reasons = options.methods.iter().map(|method| method.reason()).collect::<BTreeSet<_>>();
    let eligible = reasons.into_iter().map(|reason| (reason, found.eligible(reason))).collect();
    DisruptionPlan { nodes, eligible, ..DisruptionPlan::default() }
}

/// Nothing is disrupted, and every node says why.
fn switched_off(snapshot: &ClusterSnapshot) -> DisruptionPlan {
    let managed = snapshot.nodes.iter().filter(|node| node.node_pool.is_some());
    let stays = |node: &Arc<Node>| NodeOutlook { node: node.name.clone(), outlook: Outlook::SwitchedOff };
    DisruptionPlan { nodes: managed.map(stays).collect(), ..DisruptionPlan::default() }
}

/// What each node's future looks like, by name.
type Outlooks = BTreeMap<Arc<str>, Outlook>;

struct Planner<'a> {
    found: &'a Candidates<'a>,
    numbers: &'a [Vec<u32>],
    stage: &'a Stage<'a>,
    options: &'a DisruptionOptions,
    solver: &'a SolverOptions,
    snapshot: &'a ClusterSnapshot,
    catalog: &'a Catalog,
    now: Timestamp,
    /// The ground both methods of consolidation are tried on.
    consolidation: OnceCell<Field<'a>>,
}

impl<'a> Planner<'a> {
    fn ask(&self, method: DisruptionMethod, outlooks: &mut Outlooks) -> Vec<DisruptionCommand> {
        let found = match method {
            DisruptionMethod::StaticDrift => return self.static_drift(outlooks),
            DisruptionMethod::Repair => {
                if self.found.broken.is_empty() {
                    return Vec::new();
                }
                repair::plan(&self.field(DisruptionReason::Unhealthy, false), self.found.all.len(), outlooks)
            }
            DisruptionMethod::Emptiness => self.emptiness(outlooks),
            DisruptionMethod::Drift => drift::plan(&self.field(DisruptionReason::Drifted, false), outlooks),
            DisruptionMethod::MultiNodeConsolidation => {
                multi::plan(self.consolidation()).map(|command| self.foreseen(command))
            }
            DisruptionMethod::SingleNodeConsolidation => single::plan(self.consolidation(), outlooks),
        };
        found.into_iter().collect()
    }

    /// The move, or a larger one where its own result would be moved again.
    fn foreseen(&self, command: DisruptionCommand) -> DisruptionCommand {
        if !self.options.foresight {
            return command;
        }
        foresight::foreseen(self.consolidation(), (self.snapshot, self.catalog), command, self.now)
    }

    fn static_drift(&self, outlooks: &mut Outlooks) -> Vec<DisruptionCommand> {
        let pools = &self.options.static_pools;
        let drifted = &self.found.static_drifted;
        if drifted.is_empty() {
            return Vec::new();
        }
        let allowances = allowances_of(
            pools.iter().map(|pool| &pool.pool),
            &self.snapshot.nodes,
            DisruptionReason::Drifted,
            self.now,
        );
        static_pools::plan_drift((drifted, self.catalog), &allowances, self.options, self.now, outlooks)
    }

    fn consolidation(&self) -> &Field<'a> {
        self.consolidation.get_or_init(|| self.field(DisruptionReason::Underutilized, true))
    }

    /// The ground consolidation or drift is tried on.
    fn field(&self, reason: DisruptionReason, consolidating: bool) -> Field<'a> {
        let pools: BTreeMap<&str, &PoolDisruption> =
            self.snapshot.node_pools.iter().map(|pool| (&*pool.name, &pool.disruption)).collect();
        let is_shut = |node: &Node| {
            let young = || {
                let pool = node.node_pool.as_ref().and_then(|pool| pools.get(&**pool));
                let after = pool.and_then(|pool| pool.consolidate_after);
                after.is_some_and(|after| self.now.duration_since(candidate::quiet_since(node)) < after)
            };
            node.node_pool.is_some() && (node.stage != NodeStage::Initialized || (consolidating && young()))
        };
        Field {
            settled: self.stage.settle(is_shut),
            stage: self.stage,
            numbers: self.numbers,
            found: self.found,
            allowances: allowances(self.snapshot, reason, self.now),
            options: self.options,
            reason,
            ground: (self.snapshot, self.catalog, self.solver),
        }
    }

    /// Whether virtual pods of a CapacityBuffer are planned on a node: it is kept free on purpose.
    fn holds_buffer(&self, candidate: &Candidate<'_>) -> bool {
        let is_buffer = |pod: &Arc<Pod>| pod.owner == PodOwner::CapacityBuffer;
        if !self.snapshot.pending.iter().any(is_buffer) {
            return false;
        }
        let place = self.stage.place(candidate.node);
        let planned = place.map_or(&[][..], |place| self.consolidation().settled.planned(place));
        planned.iter().any(|pod| is_buffer(&self.stage.pods()[*pod as usize]))
    }

    /// Nodes nobody would miss, as many as budgets allow, the dearest first.
    fn emptiness(&self, outlooks: &mut Outlooks) -> Option<DisruptionCommand> {
        let allowances = allowances(self.snapshot, DisruptionReason::Empty, self.now);
        let mut left: BTreeMap<&str, u32> =
            allowances.iter().map(|(pool, allowance)| (&**pool, allowance.remaining())).collect();
        let mut taken: Vec<&Candidate<'_>> = Vec::new();
        for candidate in self.found.all.iter().filter(|candidate| candidate.is_empty_now()) {
            if self.holds_buffer(candidate) {
                outlooks.insert(candidate.node.name.clone(), Outlook::HoldsBuffer);
                continue;
            }
            match left.get_mut(&*candidate.pool.name) {
                Some(left) if *left > 0 => {
                    *left -= 1;
                    taken.push(candidate);
                }
                _ => {
                    let outlook = outlook::over_budget(
                        DisruptionReason::Empty,
                        allowances.get(&candidate.pool.name).copied(),
                    );
                    outlooks.insert(candidate.node.name.clone(), outlook);
                }
            }
        }
        taken.sort_by(|one, other| one.node.name.cmp(&other.node.name));
        let prices: Vec<f64> = taken.iter().map(|candidate| candidate.price).collect();
        let source_cost = prices.iter().sum();
        (!taken.is_empty()).then(|| DisruptionCommand {
            method: DisruptionMethod::Emptiness,
            reason: DisruptionReason::Empty,
            candidates: moves::names(taken.into_iter()),
            replacements: Vec::new(),
            template_replacements: Vec::new(),
            existing: Vec::new(),
            repair: None,
            terminate_first: None,
            scores: Vec::new(),
            prices,
            source_cost,
            savings: source_cost,
        })
    }
}

/// Nodes of commands are planned for, by the first command that names them.
fn mark_planned(commands: &[DisruptionCommand], outlooks: &mut Outlooks) {
    for command in commands.iter().rev() {
        for node in &command.candidates {
            outlooks.insert(node.clone(), Outlook::Planned { method: command.method });
        }
    }
}
