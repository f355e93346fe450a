//! NodePools with a fixed number of nodes: which node goes first when there are too many, and how drifted nodes are replaced.
//!
//! A static pool's new node is made from the pool's template alone, so nothing has to be simulated: a drifted node gets one
//! replacement, as many at once as budgets and `limits.nodes` allow.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::Outlooks;
use super::budget::{Allowance, DisruptionReason};
use super::candidate::{NODE_COST, eviction_cost};
use super::outlook::{self, Outlook};
use super::plan::{DisruptionCommand, DisruptionMethod, DisruptionOptions, TerminateFirst};
use super::rollout::RolloutPause;
use super::rotation::replaceable_since;
use super::terminate_first::{held_reservation, only_full_reservations};
use crate::catalog::Catalog;
use crate::cluster::{Node, NodePool, PodOwner};

/// A NodePool with a fixed number of nodes, and how far it is from it.
#[derive(Clone, Debug)]
pub struct StaticPool {
    /// The pool.
    pub pool: Arc<NodePool>,
    /// How many nodes it should have.
    pub replicas: u32,
    /// How many it has, less those that are leaving or about to.
    pub active: u32,
    /// How many are about to leave once their replacement is up.
    pub pending: u32,
    /// How many more its `limits.nodes` allows; `u32::MAX` without a limit.
    pub room: u32,
}

/// One command for every drifted node of a static pool that may go now, the longest drifted first.
pub(crate) fn plan_drift(
    (drifted, catalog): (&[&Arc<Node>], &Catalog),
    allowances: &BTreeMap<Arc<str>, Allowance>,
    options: &DisruptionOptions,
    now: Timestamp,
    outlooks: &mut Outlooks,
) -> Vec<DisruptionCommand> {
    let mut commands = Vec::new();
    for pool in &options.static_pools {
        let name = &pool.pool.name;
        let mut waiting: Vec<&Arc<Node>> =
            drifted.iter().copied().filter(|node| node.node_pool.as_ref() == Some(name)).collect();
        let rotation = pool.pool.disruption.rotation.as_ref();
        waiting.sort_by_key(|node| (replaceable_since(node, rotation, now), node.name.clone()));
        if pool.active + pool.pending > pool.replicas {
            waiting.iter().for_each(|node| drop(outlooks.insert(node.name.clone(), Outlook::ScalingDown)));
            continue;
        }
        let mut stage = match options.rollout(name) {
            Ok(stage) => stage,
            Err(pause) => {
                let paused = Outlook::RolloutPaused { pause };
                waiting.iter().for_each(|node| drop(outlooks.insert(node.name.clone(), paused.clone())));
                continue;
            }
        };
        let allowance = allowances.get(name).copied();
        let mut allowed = allowance.map_or(0, |allowance| allowance.remaining());
        let mut room = Room::of(pool, catalog, options.terminate_first_drift);
        room.order(&mut waiting, catalog);
        for node in waiting {
            let refusal = if allowed == 0 {
                Some(outlook::over_budget(DisruptionReason::Drifted, allowance))
            } else if stage == 0 {
                Some(Outlook::RolloutPaused { pause: RolloutPause::Stage { until: None } })
            } else {
                room.refusal(node, catalog)
            };
            if let Some(refusal) = refusal {
                outlooks.insert(node.name.clone(), refusal);
                continue;
            }
            (allowed, stage) = (allowed - 1, stage - 1);
            commands.push(command(node, name, room.take()));
        }
    }
    commands
}

/// How a static pool's nodes can be replaced.
pub(crate) enum Room {
    /// So many may come up beside the old ones.
    Beside(u32),
    /// None may: the old ones go first.
    First,
    /// None can, because all reservations are full: those that hold a slot go first, the others stay.
    Slots,
}

impl Room {
    /// `terminate_first` says whether old nodes may go first.
    pub(crate) fn of(pool: &StaticPool, catalog: &Catalog, terminate_first: bool) -> Self {
        if terminate_first && only_full_reservations(&pool.pool, catalog) {
            Self::Slots
        } else if terminate_first && pool.room == 0 {
            Self::First
        } else {
            Self::Beside(pool.room)
        }
    }

    /// Nodes that give back a slot come first where slots are what is missing.
    fn order(&self, nodes: &mut [&Arc<Node>], catalog: &Catalog) {
        if matches!(self, Self::Slots) {
            nodes.sort_by_key(|node| held_reservation(node, catalog).is_none());
        }
    }

    /// Why this node cannot be replaced.
    pub(crate) fn refusal(&self, node: &Node, catalog: &Catalog) -> Option<Outlook> {
        match self {
            Self::Beside(0) => Some(Outlook::AtNodeLimit),
            Self::Slots if held_reservation(node, catalog).is_none() => Some(Outlook::ReservationsFull),
            Self::Beside(_) | Self::First | Self::Slots => None,
        }
    }

    /// Takes a node's worth of it; why the node goes before its replacement, if it does.
    pub(crate) fn take(&mut self) -> Option<TerminateFirst> {
        match self {
            Self::Beside(room) => {
                *room = room.saturating_sub(1);
                None
            }
            Self::First => Some(TerminateFirst::StaticAtLimit),
            Self::Slots => Some(TerminateFirst::NoReservedCapacity),
        }
    }
}

fn command(node: &Arc<Node>, pool: &Arc<str>, terminate_first: Option<TerminateFirst>) -> DisruptionCommand {
    DisruptionCommand {
        method: DisruptionMethod::StaticDrift,
        reason: DisruptionReason::Drifted,
        candidates: vec![node.name.clone()],
        replacements: Vec::new(),
        template_replacements: if terminate_first.is_none() { vec![pool.clone()] } else { Vec::new() },
        existing: Vec::new(),
        repair: None,
        terminate_first,
        prices: Vec::new(),
        scores: Vec::new(),
        source_cost: 0.0,
        savings: 0.0,
    }
}

/// Names of the nodes in the order in which a static pool gives them up: empty ones first, then those whose pods are disturbed least for
/// the time they have left, nodes with pods that refuse last of all.
pub fn scale_down_order(nodes: &[&Arc<Node>], now: Timestamp) -> Vec<Arc<str>> {
    let mut order: Vec<(bool, bool, f64, &Arc<Node>)> =
        nodes.iter().map(|node| (!is_empty(node), refuses(node), cost(node, now), *node)).collect();
    order.sort_by(|a, b| {
        (a.0, a.1).cmp(&(b.0, b.1)).then(a.2.total_cmp(&b.2)).then_with(|| a.3.name.cmp(&b.3.name))
    });
    order.into_iter().map(|(_, _, _, node)| node.name.clone()).collect()
}

/// Whether nothing but pods of DaemonSets runs on it, and none of them refuses.
fn is_empty(node: &Node) -> bool {
    let mut active = node.pods.iter().filter(|pod| pod.is_active());
    active.all(|pod| matches!(pod.owner, PodOwner::DaemonSet | PodOwner::Node) && !pod.do_not_disrupt)
}

fn refuses(node: &Node) -> bool {
    node.life.do_not_disrupt || node.pods.iter().any(|pod| pod.is_active() && pod.do_not_disrupt)
}

fn cost(node: &Node, now: Timestamp) -> f64 {
    let moving = node.pods.iter().filter(|pod| pod.is_reschedulable());
    let cost = moving.fold(NODE_COST, |cost, pod| cost + eviction_cost(pod).max(0.0));
    cost * lifetime_remaining(node, now)
}

/// Which share of its life a node has before it.
pub(crate) fn lifetime_remaining(node: &Node, now: Timestamp) -> f64 {
    let Some(life) = node.life.expire_after.filter(SignedDuration::is_positive) else { return 1.0 };
    let age = now.duration_since(node.created).as_secs_f64();
    ((life.as_secs_f64() - age) / life.as_secs_f64()).clamp(0.0, 1.0)
}
