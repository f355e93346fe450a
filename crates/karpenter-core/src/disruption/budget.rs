//! Budgets: how many nodes of a pool may be disrupted now, and when that changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::rollout::Rollout;
use super::rotation::Rotation;
use super::schedule::Schedule;
use crate::cluster::{ClusterSnapshot, MachineState, Node, NodePool, NodeStage};

/// Why a node is disrupted; budgets can be bound to reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum DisruptionReason {
    /// It has no pods that would have to move.
    Empty,
    /// Its pods fit elsewhere, or on something cheaper.
    Underutilized,
    /// It no longer matches its NodePool.
    Drifted,
    /// It is broken.
    Unhealthy,
}

/// Which nodes of a pool consolidation may touch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConsolidationPolicy {
    /// Nodes without pods that would have to move.
    WhenEmpty,
    /// Also nodes whose pods fit elsewhere, or on something cheaper.
    #[default]
    WhenEmptyOrUnderutilized,
    /// As above, when the saving outweighs the disturbance.
    Balanced,
}

/// What a move must save at least.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MinimumSaving {
    /// In percent of what the nodes cost that go.
    Percent(f64),
    /// Per hour.
    PerHour(f64),
}

impl MinimumSaving {
    /// Reads `10%` or `0.05`; nothing else.
    pub fn parse(text: &str) -> Option<Self> {
        let number =
            |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
        match text.strip_suffix('%') {
            Some(percent) => number(percent).map(Self::Percent),
            None => number(text).map(Self::PerHour),
        }
    }

    /// What nodes that cost `source` per hour must save.
    pub(crate) fn of(self, source: f64) -> f64 {
        match self {
            Self::Percent(percent) => source * percent / 100.0,
            Self::PerHour(price) => price,
        }
    }
}

/// How the nodes of a pool may be disrupted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PoolDisruption {
    /// How long a node must be free of pod changes before it may be consolidated; `None` means never.
    pub consolidate_after: Option<SignedDuration>,
    /// Which nodes may be consolidated.
    pub policy: ConsolidationPolicy,
    /// How many nodes may be disrupted at once; without budgets any number.
    pub budgets: Vec<Budget>,
    /// What consolidation must save at least; anything where nothing is said.
    pub minimum_saving: Option<MinimumSaving>,
    /// How long consolidation leaves a node alone on which a pod was created; `None` means it does not matter.
    pub pod_residency: Option<SignedDuration>,
    /// From which age on nodes are replaced like drifted ones; never where nothing is said.
    pub rotation: Option<Rotation>,
    /// In which stages drifted nodes are replaced.
    pub rollout: Rollout,
}

/// A bound on how many nodes of a pool may be disrupted at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// The reasons it applies to; `None` means all.
    pub reasons: Option<Vec<DisruptionReason>>,
    /// How many nodes.
    pub nodes: BudgetNodes,
    /// When it is in force.
    pub window: BudgetWindow,
}

/// How many nodes a budget allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetNodes {
    /// So many.
    Count(u32),
    /// So many in a hundred of the pool's nodes, rounded up.
    Percent(u32),
    /// What was written cannot be read, so nothing is allowed.
    Unreadable,
}

/// When a budget is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BudgetWindow {
    /// At all times.
    Always,
    /// For `duration` after each time of the schedule.
    Recurring {
        /// When it opens.
        schedule: Schedule,
        /// For how long.
        duration: SignedDuration,
    },
    /// The schedule cannot be read, so the budget allows nothing.
    Unreadable,
}

impl BudgetNodes {
    /// Reads a number or a percentage.
    pub fn parse(text: &str) -> Self {
        if let Ok(count) = text.parse() {
            return Self::Count(count);
        }
        let percent = text.strip_suffix('%').and_then(|number| number.parse().ok());
        percent.map_or(Self::Unreadable, Self::Percent)
    }

    pub(crate) fn of(self, nodes: u32) -> u32 {
        match self {
            Self::Count(count) => count,
            Self::Percent(percent) => {
                u32::try_from((u64::from(nodes) * u64::from(percent)).div_ceil(100)).unwrap_or(u32::MAX)
            }
            Self::Unreadable => 0,
        }
    }
}

impl Budget {
    /// How many nodes of a pool with so many the budget allows now; `None` while it is not in force.
    fn allowed(&self, nodes: u32, now: Timestamp) -> Option<u32> {
        match &self.window {
            BudgetWindow::Always => Some(self.nodes.of(nodes)),
            BudgetWindow::Unreadable => Some(0),
            BudgetWindow::Recurring { schedule, duration } => {
                let opened = schedule.next_after(now.checked_sub(*duration).ok()?)?;
                (opened <= now).then(|| self.nodes.of(nodes))
            }
        }
    }

    /// When a budget that is in force ends, if it ever does.
    fn closes(&self, now: Timestamp) -> Option<Timestamp> {
        let BudgetWindow::Recurring { schedule, duration } = &self.window else { return None };
        let mut closes = now;
        // Windows may overlap: the budget ends when the last of a chain does. A chain that long never ends.
        for _ in 0..1000 {
            let opened = schedule.next_after(closes.checked_sub(*duration).ok()?)?;
            if opened > closes {
                return Some(closes);
            }
            closes = opened.checked_add(*duration).ok()?;
        }
        None
    }

    fn applies_to(&self, reason: DisruptionReason) -> bool {
        self.reasons.as_ref().is_none_or(|reasons| reasons.contains(&reason))
    }
}

/// What a pool's budgets say about one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Nodes that may be disrupted at once.
    pub allowed: u32,
    /// Nodes that already are, or are broken.
    pub disrupting: u32,
    /// When more may be allowed, as far as budgets say.
    pub opens: Option<Timestamp>,
}

impl Allowance {
    /// Nodes that may be disrupted now.
    pub fn remaining(&self) -> u32 {
        self.allowed.saturating_sub(self.disrupting)
    }
}

/// What the budgets of every pool say about one reason.
pub fn allowances(
    snapshot: &ClusterSnapshot,
    reason: DisruptionReason,
    now: Timestamp,
) -> BTreeMap<Arc<str>, Allowance> {
    allowances_of(snapshot.node_pools.iter(), &snapshot.nodes, reason, now)
}

/// What the budgets of `pools` say about one reason.
pub(crate) fn allowances_of<'p>(
    pools: impl Iterator<Item = &'p Arc<NodePool>>,
    nodes: &[Arc<Node>],
    reason: DisruptionReason,
    now: Timestamp,
) -> BTreeMap<Arc<str>, Allowance> {
    let mut counts: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
    for node in nodes.iter().filter(|node| counts_for_budgets(node)) {
        let Some(pool) = &node.node_pool else { continue };
        let (nodes, disrupting) = counts.entry(pool).or_default();
        *nodes += 1;
        let broken = !node.life.ready && reason != DisruptionReason::Unhealthy;
        *disrupting += u32::from(node.deleting || is_rebooting(node) || broken);
    }
    let of_pool = |pool: &Arc<NodePool>| {
        let (nodes, disrupting) = counts.get(&*pool.name).copied().unwrap_or_default();
        (pool.name.clone(), allowance(pool, reason, nodes, disrupting, now))
    };
    pools.map(of_pool).collect()
}

/// Nodes of which a percentage is taken: those that are up, or on their way back.
fn counts_for_budgets(node: &Node) -> bool {
    (node.stage == NodeStage::Initialized || is_rebooting(node))
        && node.life.machine != MachineState::Terminating
}

fn is_rebooting(node: &Node) -> bool {
    node.life.machine == MachineState::Rebooting
}

fn allowance(
    pool: &NodePool,
    reason: DisruptionReason,
    nodes: u32,
    disrupting: u32,
    now: Timestamp,
) -> Allowance {
    let in_force = || {
        let relevant = pool.disruption.budgets.iter().filter(|budget| budget.applies_to(reason));
        relevant.filter_map(|budget| Some((budget, budget.allowed(nodes, now)?)))
    };
    let allowed = in_force().map(|(_, allowed)| allowed).min().unwrap_or(u32::MAX);
    // More is allowed once every budget as tight as this one has ended.
    let tight = || in_force().filter(|(_, own)| *own <= disrupting.max(allowed));
    let ends: Option<Vec<Timestamp>> = tight().map(|(budget, _)| budget.closes(now)).collect();
    Allowance { allowed, disrupting, opens: ends.and_then(|ends| ends.into_iter().max()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-01-01T12:00:00Z".parse().expect("an instant")
    }

    fn budget(nodes: &str, window: Option<(&str, i64)>) -> Budget {
        let window = window.map_or(BudgetWindow::Always, |(schedule, hours)| BudgetWindow::Recurring {
            schedule: Schedule::parse(schedule).expect("a schedule"),
            duration: SignedDuration::from_hours(hours),
        });
        Budget { reasons: None, nodes: BudgetNodes::parse(nodes), window }
    }

    fn allowed(budgets: Vec<Budget>, nodes: u32) -> Allowance {
        let disruption = PoolDisruption { budgets, ..PoolDisruption::default() };
        let pool = NodePool { disruption, ..NodePool::default() };
        allowance(&pool, DisruptionReason::Empty, nodes, 0, now())
    }

    #[test]
    fn percentages_are_rounded_up_and_the_tightest_budget_counts() {
        assert_eq!(allowed(vec![budget("10%", None)], 3).allowed, 1);
        assert_eq!(allowed(vec![budget("10%", None)], 0).allowed, 0);
        assert_eq!(allowed(vec![budget("50%", None), budget("2", None)], 9).allowed, 2);
        assert_eq!(allowed(vec![], 9).allowed, u32::MAX);
        assert_eq!(allowed(vec![budget("many", None)], 9).allowed, 0);
    }

    #[test]
    fn a_budget_binds_only_while_it_is_in_force_and_says_when_it_ends() {
        let closed = allowed(vec![budget("0", Some(("0 9 * * *", 8)))], 5);
        assert_eq!(closed.allowed, 0);
        assert_eq!(closed.opens.map(|instant| instant.to_string()).as_deref(), Some("2026-01-01T17:00:00Z"));
        assert_eq!(allowed(vec![budget("0", Some(("0 9 * * *", 2)))], 5).allowed, u32::MAX);
        assert_eq!(allowed(vec![budget("0", None)], 5).opens, None);
    }

    #[test]
    fn reasons_that_are_not_listed_are_not_bound() {
        let of_drift = Budget { reasons: Some(vec![DisruptionReason::Drifted]), ..budget("0", None) };
        assert_eq!(allowed(vec![of_drift], 5).allowed, u32::MAX);
    }
}
