//! When a node counts as broken, and what is done about it: a provider's repair policies, checked as a whole and matched against nodes.
//!
//! A policy names a condition of the node and, as a regular expression, the reasons it covers. Exactly one policy of the set names no
//! reasons: it covers what none of the others does. Everything here is a function of conditions and times. Start at [`RepairPolicies::verdict`].

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use regex::Regex;

/// A policy's priority is at most this.
const HIGHEST_PRIORITY: u8 = 100;
/// A broken node gains a rank for every so many minutes it has been waiting.
const MINUTES_PER_RANK: f64 = 30.0;

/// What is done about a broken node; the more disruptive is the greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RepairAction {
    /// Its machine is restarted in place.
    RebootNode,
    /// It gets a replacement and goes.
    ReplaceNode,
}

/// A node condition that is a reason for repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairPolicy {
    /// Type of the node's condition.
    pub condition: &'static str,
    /// Its status.
    pub status: &'static str,
    /// Which reasons of the condition it covers, as a regular expression; `None` covers what no other policy does.
    pub reason: Option<&'static str>,
    /// How long the condition may last before anything is done.
    pub toleration: Duration,
    /// How long pods get to leave; `None` leaves it to the claim.
    pub grace_period: Option<Duration>,
    /// Which broken node comes first: higher goes first.
    pub priority: u8,
    /// What is done.
    pub action: RepairAction,
}

/// A condition of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConditionSeen<'n> {
    /// Its type.
    pub type_: &'n str,
    /// Its status.
    pub status: &'n str,
    /// Its reason.
    pub reason: &'n str,
    /// Since when it has that status.
    pub since: Timestamp,
}

/// What a node's conditions mean.
#[derive(Clone, Debug, PartialEq)]
pub enum RepairVerdict {
    /// No policy covers any of them.
    Healthy,
    /// It is broken, and tolerated until then.
    Tolerated(Timestamp),
    /// It is to be repaired.
    Due(RepairDue),
}

/// A repair that is due.
#[derive(Clone, Debug, PartialEq)]
pub struct RepairDue {
    /// What is done.
    pub action: RepairAction,
    /// How long pods get to leave, if a policy says so: the shortest that one says.
    pub grace_period: Option<Duration>,
    /// How urgent it is; higher goes first.
    pub score: f64,
    /// The condition that decided on the action.
    pub condition: Arc<str>,
    /// Its reason.
    pub reason: Arc<str>,
}

/// A provider's repair policies, found to be sound.
#[derive(Clone, Debug, Default)]
pub struct RepairPolicies {
    policies: Vec<Compiled>,
}

#[derive(Clone, Debug)]
struct Compiled {
    policy: RepairPolicy,
    /// The reasons; `None` for the one that covers the rest.
    reasons: Option<Regex>,
    /// How many distinct priorities are lower.
    rank: usize,
}

/// A policy that covers a condition of a node, and when its toleration ends.
struct Match<'p, 'n> {
    compiled: &'p Compiled,
    condition: ConditionSeen<'n>,
    due: Timestamp,
}

impl RepairPolicies {
    /// Checks a provider's policies.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with them, in one sentence each; a set with a mistake is not used at all.
    pub fn new(policies: Vec<RepairPolicy>) -> Result<Self, Vec<String>> {
        let mut mistakes: Vec<String> = policies.iter().flat_map(mistakes).collect();
        let rest: Vec<&RepairPolicy> = policies.iter().filter(|policy| policy.reason.is_none()).collect();
        match rest[..] {
            [only] if only.action == RepairAction::ReplaceNode => {}
            [only] => mistakes.push(format!(
                "the policy for {} that names no reason covers whatever others do not, so its action must be ReplaceNode",
                only.condition
            )),
            _ => mistakes.push(format!(
                "{} repair policies name no reason; exactly one must, it covers whatever others do not",
                rest.len()
            )),
        }
        let priorities: BTreeSet<u8> = policies.iter().map(|policy| policy.priority).collect();
        let mut compiled = Vec::new();
        for policy in policies {
            let reasons = match policy.reason.map(Regex::new).transpose() {
                Ok(reasons) => reasons,
                Err(error) => {
                    mistakes.push(format!("the reasons of {} cannot be read: {error}", policy.condition));
                    continue;
                }
            };
            let rank = priorities.range(..policy.priority).count();
            compiled.push(Compiled { policy, reasons, rank });
        }
        if mistakes.is_empty() { Ok(Self { policies: compiled }) } else { Err(mistakes) }
    }

    /// Whether any condition is one that a policy names, whatever its reason and however long it has lasted.
    pub fn is_unhealthy<'n>(&self, conditions: impl IntoIterator<Item = ConditionSeen<'n>>) -> bool {
        conditions.into_iter().any(|condition| self.is_named(condition))
    }

    /// What the conditions of a node mean at `now`. None of them counts from before `not_before`: the node's creation, or the end of its last restart.
    pub fn verdict<'n>(
        &self,
        conditions: impl IntoIterator<Item = ConditionSeen<'n>>,
        not_before: Timestamp,
        now: Timestamp,
    ) -> RepairVerdict {
        let matches: Vec<Match<'_, 'n>> = conditions
            .into_iter()
            .filter(|condition| self.is_named(*condition))
            .flat_map(|condition| self.covering(condition, not_before))
            .collect();
        let due: Vec<&Match<'_, 'n>> = matches.iter().filter(|found| now >= found.due).collect();
        let Some(decisive) = due.iter().copied().max_by(|a, b| decides(a, b)) else {
            let next = matches.iter().map(|found| found.due).min();
            return next.map_or(RepairVerdict::Healthy, RepairVerdict::Tolerated);
        };
        let urgency = |found: &&Match<'_, 'n>| {
            let waited = now.duration_since(found.due).as_secs_f64() / 60.0;
            found.compiled.rank as f64 + waited / MINUTES_PER_RANK
        };
        RepairVerdict::Due(RepairDue {
            action: decisive.compiled.policy.action,
            grace_period: due.iter().filter_map(|found| found.compiled.policy.grace_period).min(),
            score: due.iter().map(urgency).fold(0.0, f64::max),
            condition: decisive.condition.type_.into(),
            reason: decisive.condition.reason.into(),
        })
    }

    fn is_named(&self, condition: ConditionSeen<'_>) -> bool {
        self.policies.iter().any(|found| names(&found.policy, condition))
    }

    /// The policies that cover a condition: those whose reasons match, else the one for the rest.
    fn covering<'p, 'n>(&'p self, condition: ConditionSeen<'n>, not_before: Timestamp) -> Vec<Match<'p, 'n>> {
        let specific = self.policies.iter().filter(|found| {
            let reasons = found.reasons.as_ref();
            names(&found.policy, condition)
                && reasons.is_some_and(|reasons| reasons.is_match(condition.reason))
        });
        let mut covering: Vec<&Compiled> = specific.collect();
        if covering.is_empty() {
            covering.extend(self.policies.iter().filter(|found| found.reasons.is_none()));
        }
        let since = condition.since.max(not_before);
        let due = |compiled: &Compiled| {
            let toleration =
                SignedDuration::try_from(compiled.policy.toleration).unwrap_or(SignedDuration::MAX);
            since.saturating_add(toleration).unwrap_or(Timestamp::MAX)
        };
        covering.into_iter().map(|compiled| Match { compiled, condition, due: due(compiled) }).collect()
    }
}

fn names(policy: &RepairPolicy, condition: ConditionSeen<'_>) -> bool {
    policy.condition == condition.type_ && policy.status == condition.status
}

/// Which of two due policies decides on the action: the more disruptive, then the more important, then the one due longer, then by name.
fn decides(a: &Match<'_, '_>, b: &Match<'_, '_>) -> Ordering {
    let of = |found: &Match<'_, '_>| (found.compiled.policy.action, found.compiled.policy.priority);
    of(a).cmp(&of(b)).then_with(|| b.due.cmp(&a.due)).then_with(|| b.condition.type_.cmp(a.condition.type_))
}

fn mistakes(policy: &RepairPolicy) -> Vec<String> {
    let mut found = Vec::new();
    if policy.condition.is_empty() {
        found.push("a repair policy names no condition".to_owned());
    }
    if !matches!(policy.status, "True" | "False" | "Unknown") {
        found.push(format!(
            "the repair policy for {} has status {:?}; write True, False or Unknown",
            policy.condition, policy.status
        ));
    }
    if policy.priority > HIGHEST_PRIORITY {
        found.push(format!(
            "the repair policy for {} has priority {}; the highest is {HIGHEST_PRIORITY}",
            policy.condition, policy.priority
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    fn policy(condition: &'static str, reason: Option<&'static str>, action: RepairAction) -> RepairPolicy {
        RepairPolicy {
            condition,
            status: "False",
            reason,
            toleration: 10 * MINUTE,
            grace_period: None,
            priority: 0,
            action,
        }
    }

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_second(minute * 60).expect("an instant")
    }

    fn seen<'n>(type_: &'n str, reason: &'n str, since: i64) -> ConditionSeen<'n> {
        ConditionSeen { type_, status: "False", reason, since: at(since) }
    }

    fn rest() -> RepairPolicy {
        policy("Ready", None, RepairAction::ReplaceNode)
    }

    fn due(policies: &RepairPolicies, conditions: &[ConditionSeen<'_>], now: i64) -> Option<RepairDue> {
        match policies.verdict(conditions.iter().copied(), at(0), at(now)) {
            RepairVerdict::Due(due) => Some(due),
            _ => None,
        }
    }

    #[test]
    fn a_set_with_any_mistake_is_refused_as_a_whole() {
        assert!(RepairPolicies::new(vec![rest()]).is_ok());
        assert!(RepairPolicies::new(vec![]).is_err(), "nothing covers the rest");
        assert!(RepairPolicies::new(vec![rest(), rest()]).is_err(), "two cover the rest");
        let reboots = policy("Ready", None, RepairAction::RebootNode);
        assert!(RepairPolicies::new(vec![reboots]).is_err(), "what is unknown is not rebooted");
        let unreadable = policy("Disk", Some("("), RepairAction::ReplaceNode);
        let strange = RepairPolicy { status: "Maybe", priority: 101, ..rest() };
        let found = RepairPolicies::new(vec![unreadable, strange]).expect_err("three mistakes");
        assert_eq!(found.len(), 3, "{found:?}");
    }

    #[test]
    fn a_condition_is_tolerated_from_its_transition_or_the_node_s_creation() {
        let policies = RepairPolicies::new(vec![rest()]).expect("sound");
        let ready = [seen("Ready", "KubeletDown", 5)];
        let verdict = |not_before, now| policies.verdict(ready, at(not_before), at(now));
        assert_eq!(verdict(0, 14), RepairVerdict::Tolerated(at(15)));
        assert!(matches!(verdict(0, 15), RepairVerdict::Due(_)));
        assert_eq!(verdict(8, 15), RepairVerdict::Tolerated(at(18)), "a node is not older than itself");
        assert_eq!(policies.verdict([seen("Disk", "", 0)], at(0), at(60)), RepairVerdict::Healthy);
    }

    #[test]
    fn the_policy_for_the_rest_covers_unknown_reasons_of_every_named_condition() {
        let network = policy("Network", Some("^Cable"), RepairAction::RebootNode);
        let policies = RepairPolicies::new(vec![rest(), network]).expect("sound");
        let action = |reason| due(&policies, &[seen("Network", reason, 0)], 60).map(|due| due.action);
        assert_eq!(action("CableLoose"), Some(RepairAction::RebootNode));
        assert_eq!(action("Unheard"), Some(RepairAction::ReplaceNode));
        let patient = RepairPolicy {
            toleration: 100 * MINUTE,
            ..policy("Network", Some("Cable"), RepairAction::RebootNode)
        };
        let policies = RepairPolicies::new(vec![rest(), patient]).expect("sound");
        assert_eq!(
            due(&policies, &[seen("Network", "Cable", 0)], 60),
            None,
            "one that waits keeps the rest away"
        );
    }

    #[test]
    fn of_several_the_most_disruptive_decides_and_the_shortest_drain_counts() {
        let reboot = RepairPolicy {
            grace_period: Some(MINUTE),
            priority: 50,
            ..policy("Kernel", Some(".*"), RepairAction::RebootNode)
        };
        let replace = RepairPolicy {
            grace_period: Some(2 * MINUTE),
            ..policy("Disk", Some(".*"), RepairAction::ReplaceNode)
        };
        let policies = RepairPolicies::new(vec![rest(), reboot, replace]).expect("sound");
        let found = due(&policies, &[seen("Kernel", "a", 0), seen("Disk", "b", 5)], 40).expect("due");
        assert_eq!(
            (found.action, &*found.condition, &*found.reason),
            (RepairAction::ReplaceNode, "Disk", "b")
        );
        assert_eq!(found.grace_period, Some(MINUTE));
        assert!((found.score - 2.0).abs() < 1e-9, "rank 1 and thirty minutes: {}", found.score);
    }
}
