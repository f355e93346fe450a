//! Repair: broken nodes are replaced or restarted, the most urgent first, within budgets and only while most of their pool is well.
//!
//! What counts as broken, and how urgent it is, somebody else has decided from the provider's policies; here it is decided whether the
//! repair may happen now and what comes in the node's place.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::Outlooks;
use super::budget::{Allowance, DisruptionReason};
use super::candidate::eviction_cost;
use super::drift::placed_anyhow;
use super::moves::Field;
use super::outlook::Outlook;
use super::plan::{DisruptionCommand, DisruptionMethod, DisruptionOptions, TerminateFirst};
use super::static_pools::{Room, StaticPool, lifetime_remaining};
use super::terminate_first::placed_in_own_slot;
use crate::cluster::{Node, NodeStage, Pod};

/// How much of a pool may be broken before nothing is repaired any more, in percent: then something else is wrong.
pub const UNHEALTHY_TOLERATED_PERCENT: u32 = 20;

/// What is done about a broken node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepairKind {
    /// Its machine is restarted in place.
    Reboot,
    /// It gets a replacement and goes.
    Replace,
}

/// A repair that is due.
#[derive(Clone, Debug, PartialEq)]
pub struct RepairNeed {
    /// How urgent it is; higher goes first.
    pub score: f64,
    /// What is done.
    pub kind: RepairKind,
    /// How long pods get to leave; without a bound they may refuse.
    pub bound: Option<SignedDuration>,
    /// Whether the node forbids it.
    pub vetoed: bool,
    /// The condition of the node and its reason.
    pub cause: Arc<str>,
}

/// What is known of broken nodes.
#[derive(Clone, Debug, Default)]
pub struct Repairs {
    /// Repairs that are due, by node.
    pub due: BTreeMap<Arc<str>, RepairNeed>,
    /// Nodes with a condition that some policy names, tolerated or not.
    pub unhealthy: BTreeSet<Arc<str>>,
    /// How much of a pool may be unhealthy, in percent; the default where a pool is not listed.
    pub tolerated_percent: BTreeMap<Arc<str>, u32>,
    /// Whether a node may go before its replacement where both cannot exist at once.
    pub terminate_first: bool,
}

/// A broken node that may be repaired now.
pub(crate) struct Broken<'a> {
    pub(crate) node: &'a Arc<Node>,
    pub(crate) need: &'a RepairNeed,
    /// Every pod that could live elsewhere, whatever protects it.
    pub(crate) moving: Vec<Arc<Pod>>,
    pub(crate) static_pool: Option<&'a StaticPool>,
    cost: f64,
}

impl<'a> Broken<'a> {
    pub(crate) fn new(
        node: &'a Arc<Node>,
        need: &'a RepairNeed,
        static_pool: Option<&'a StaticPool>,
        now: Timestamp,
    ) -> Self {
        let cost: f64 = node.pods.iter().map(|pod| eviction_cost(pod)).sum();
        let moving = node.pods.iter().filter(|pod| pod.is_reschedulable() && static_pool.is_none());
        Self {
            node,
            need,
            moving: moving.cloned().collect(),
            static_pool,
            cost: cost * lifetime_remaining(node, now),
        }
    }

    fn command(&self) -> DisruptionCommand {
        DisruptionCommand {
            method: DisruptionMethod::Repair,
            reason: DisruptionReason::Unhealthy,
            candidates: vec![self.node.name.clone()],
            replacements: Vec::new(),
            template_replacements: Vec::new(),
            existing: Vec::new(),
            repair: Some(self.need.clone()),
            terminate_first: None,
            prices: Vec::new(),
            scores: Vec::new(),
            source_cost: 0.0,
            savings: 0.0,
        }
    }
}

/// Why a node's pool or budget puts its repair off.
pub(crate) fn postponed(
    node: &Node,
    nodes: &[Arc<Node>],
    options: &DisruptionOptions,
    allowances: &BTreeMap<Arc<str>, Allowance>,
) -> Option<Outlook> {
    let pool = node.node_pool.as_ref()?;
    let of_pool = || {
        nodes
            .iter()
            .filter(|other| other.node_pool.as_ref() == Some(pool) && other.stage != NodeStage::Launched)
    };
    let total = u32::try_from(of_pool().count()).unwrap_or(u32::MAX);
    let unhealthy = of_pool().filter(|other| options.repairs.unhealthy.contains(&other.name)).count();
    let unhealthy = u32::try_from(unhealthy).unwrap_or(u32::MAX);
    let percent = options.repairs.tolerated_percent.get(pool).copied().unwrap_or(UNHEALTHY_TOLERATED_PERCENT);
    if stops_repairs(unhealthy, total, percent) {
        return Some(Outlook::RepairsStopped { unhealthy, nodes: total });
    }
    // A node that never came up takes nothing from a budget.
    let allowance = allowances.get(pool).copied();
    let none_left = allowance.is_none_or(|allowance| allowance.remaining() == 0);
    (node.stage == NodeStage::Initialized && none_left)
        .then(|| super::outlook::over_budget(DisruptionReason::Unhealthy, allowance))
}

/// Whether so much is broken that the nodes can hardly be the cause. What is tolerated is rounded up.
pub fn stops_repairs(unhealthy: u32, nodes: u32, tolerated_percent: u32) -> bool {
    u64::from(unhealthy) > (u64::from(nodes) * u64::from(tolerated_percent)).div_ceil(100)
}

/// The first repair that works. `first` is the number of the first broken node among those the stage knows.
pub(crate) fn plan(field: &Field<'_>, first: usize, outlooks: &mut Outlooks) -> Option<DisruptionCommand> {
    let broken = &field.found.broken;
    let mut order: Vec<usize> = (0..broken.len()).collect();
    order.sort_by(|a, b| {
        let (a, b) = (&broken[*a], &broken[*b]);
        (b.need.score.total_cmp(&a.need.score))
            .then(a.cost.total_cmp(&b.cost))
            .then_with(|| a.node.name.cmp(&b.node.name))
    });
    for index in order {
        let found = &broken[index];
        let repaired = match (found.need.kind, found.static_pool) {
            (RepairKind::Reboot, _) => Ok(found.command()),
            (RepairKind::Replace, Some(pool)) => from_template(field, found, pool),
            (RepairKind::Replace, None) => simulated(field, found, &field.numbers[first + index]),
        };
        match repaired {
            Ok(command) => return Some(command),
            Err(outlook) => drop(outlooks.insert(found.node.name.clone(), outlook)),
        }
    }
    None
}

fn from_template(
    field: &Field<'_>,
    found: &Broken<'_>,
    pool: &StaticPool,
) -> Result<DisruptionCommand, Outlook> {
    if pool.active + pool.pending > pool.replicas {
        return Err(Outlook::ScalingDown);
    }
    let (_, catalog, _) = field.ground;
    let mut room = Room::of(pool, catalog, field.options.repairs.terminate_first);
    if let Some(refusal) = room.refusal(found.node, catalog) {
        return Err(refusal);
    }
    let mut command = found.command();
    command.terminate_first = room.take();
    if command.terminate_first.is_none() {
        command.template_replacements.push(pool.pool.name.clone());
    }
    Ok(command)
}

fn simulated(field: &Field<'_>, found: &Broken<'_>, pods: &[u32]) -> Result<DisruptionCommand, Outlook> {
    let mut trial = field.settled.trial();
    if let Some(place) = field.stage.place(found.node) {
        trial.remove(place, pods);
    }
    if !placed_anyhow(&mut trial) {
        let first = field.options.repairs.terminate_first;
        let own = first.then(|| placed_in_own_slot(field.ground, found.node, &found.moving)).flatten();
        if let Some(placed) = own {
            let terminate_first = Some(TerminateFirst::NoReservedCapacity);
            return Ok(DisruptionCommand { terminate_first, existing: placed.existing, ..found.command() });
        }
        let pod = trial.stuck(pods).map(|pod| field.stage.pods()[pod as usize].key());
        return Err(Outlook::NoPlace { pod });
    }
    let placed = trial.written();
    Ok(DisruptionCommand { replacements: placed.claims, existing: placed.existing, ..found.command() })
}
