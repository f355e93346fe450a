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
use super::plan::{DisruptionCommand, DisruptionMethod, TerminateFirst};
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
    pools: &[StaticPool],
    drifted: &[&Arc<Node>],
    allowances: &BTreeMap<Arc<str>, Allowance>,
    terminate_first: bool,
    outlooks: &mut Outlooks,
) -> Vec<DisruptionCommand> {
    let mut commands = Vec::new();
    for pool in pools {
        let name = &pool.pool.name;
        let mut waiting: Vec<&Arc<Node>> =
            drifted.iter().copied().filter(|node| node.node_pool.as_ref() == Some(name)).collect();
        waiting.sort_by_key(|node| (node.life.drifted, node.name.clone()));
        if pool.active + pool.pending > pool.replicas {
            waiting.iter().for_each(|node| drop(outlooks.insert(node.name.clone(), Outlook::ScalingDown)));
            continue;
        }
        let allowance = allowances.get(name).copied();
        let mut allowed = allowance.map_or(0, |allowance| allowance.remaining());
        // Where not even one replacement may come up beside the old node, the old one goes first if it may.
        let first = pool.room == 0 && terminate_first;
        let mut room = if first { u32::MAX } else { pool.room };
        for node in waiting {
            if allowed == 0 {
                let outlook = outlook::over_budget(DisruptionReason::Drifted, allowance);
                outlooks.insert(node.name.clone(), outlook);
            } else if room == 0 {
                outlooks.insert(node.name.clone(), Outlook::AtNodeLimit);
            } else {
                (allowed, room) = (allowed - 1, room - 1);
                commands.push(command(node, name, first.then_some(TerminateFirst::StaticAtLimit)));
            }
        }
    }
    commands
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
