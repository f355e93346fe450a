//! Whether a move has stayed good for long enough to be made: since when every look has found it again.
//!
//! Empty nodes are followed one by one, so that a node that fills up again holds no other back; other moves as a whole.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use karpenter_core::disruption::{DisruptionCommand, DisruptionMethod};

/// How long a move must stay good before it is made.
const STAYS_GOOD: SignedDuration = SignedDuration::from_secs(15);
/// An empty node that was quiet for this long was empty at every look one might have taken meanwhile. Longer than `STAYS_GOOD`,
/// because not every event of a pod is written down.
const QUIET: SignedDuration = SignedDuration::from_secs(25);

/// What was found, and since when.
#[derive(Debug, Default)]
pub(super) struct Sightings {
    empty: BTreeMap<Arc<str>, Timestamp>,
    consolidation: Option<(DisruptionCommand, Timestamp)>,
}

/// What is to become of a command that was found.
pub(super) enum Verdict {
    /// It is made, or that part of it which has stayed good.
    Make(Box<DisruptionCommand>),
    /// It may be made then, if it is still good.
    Wait(Timestamp),
}

impl Sightings {
    /// Takes in what a look found, and returns by which methods nodes had been found that are good no more.
    pub(super) fn note(&mut self, found: &[DisruptionCommand], now: Timestamp) -> Vec<DisruptionMethod> {
        let mut lost = Vec::new();
        let is_empty = |command: &&DisruptionCommand| command.method == DisruptionMethod::Emptiness;
        let empty: BTreeMap<Arc<str>, Timestamp> = found
            .iter()
            .filter(is_empty)
            .flat_map(|command| &command.candidates)
            .map(|node| (node.clone(), self.empty.get(node).copied().unwrap_or(now)))
            .collect();
        if self.empty.keys().any(|node| !empty.contains_key(node)) {
            lost.push(DisruptionMethod::Emptiness);
        }
        self.empty = empty;
        let known = self.consolidation.take();
        let is_found = |known: &DisruptionCommand| found.iter().any(|command| is_same(known, command));
        lost.extend(known.iter().filter(|(known, _)| !is_found(known)).map(|(known, _)| known.method));
        // Of several, the first will be made.
        self.consolidation = found.iter().find(|command| waits(command)).map(|first| {
            let since = known.filter(|(known, _)| is_same(known, first)).map_or(now, |(_, since)| since);
            (first.clone(), since)
        });
        lost
    }

    /// Says whether a command that was just found may be made. `quiet` tells since when no pod came to a node or left it.
    pub(super) fn judge(
        &self,
        found: DisruptionCommand,
        quiet: impl Fn(&str) -> Option<Timestamp>,
        now: Timestamp,
    ) -> Verdict {
        if found.method == DisruptionMethod::Emptiness {
            return self.judge_empty(found, quiet, now);
        }
        let since = self.consolidation.as_ref().filter(|(known, _)| is_same(known, &found));
        let ripe = since.map_or(now, |(_, since)| *since) + STAYS_GOOD;
        if !waits(&found) || ripe <= now { Verdict::Make(found.into()) } else { Verdict::Wait(ripe) }
    }

    /// Of empty nodes, those that have been empty for long enough may go alone.
    fn judge_empty(
        &self,
        found: DisruptionCommand,
        quiet: impl Fn(&str) -> Option<Timestamp>,
        now: Timestamp,
    ) -> Verdict {
        let ripe = |node: &Arc<str>| {
            let seen = self.empty.get(node).copied().unwrap_or(now) + STAYS_GOOD;
            quiet(node).map_or(seen, |since| seen.min(since + QUIET))
        };
        let first = found.candidates.iter().map(ripe).min().unwrap_or(now);
        if first > now {
            return Verdict::Wait(first);
        }
        Verdict::Make(found.only(|node| ripe(node) <= now).into())
    }

    /// Forgets nodes that are about to go.
    pub(super) fn forget(&mut self, command: &DisruptionCommand) {
        command.candidates.iter().for_each(|node| {
            self.empty.remove(node);
        });
        self.consolidation.take_if(|(known, _)| is_same(known, command));
    }
}

/// Whether a move must stay good before it is made. Nothing makes a repair or a roll-out unnecessary.
fn waits(command: &DisruptionCommand) -> bool {
    use DisruptionMethod::{MultiNodeConsolidation, SingleNodeConsolidation};
    matches!(command.method, MultiNodeConsolidation | SingleNodeConsolidation)
}

fn is_same(known: &DisruptionCommand, found: &DisruptionCommand) -> bool {
    known.method == found.method
        && known.candidates == found.candidates
        && known.replacements.len() == found.replacements.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: Timestamp = Timestamp::constant(1_767_268_800, 0);

    fn at(seconds: i64) -> Timestamp {
        NOON + SignedDuration::from_secs(seconds)
    }

    fn found(method: DisruptionMethod, nodes: &[&str]) -> DisruptionCommand {
        DisruptionCommand {
            method,
            reason: method.reason(),
            candidates: nodes.iter().map(|node| Arc::from(*node)).collect(),
            replacements: Vec::new(),
            template_replacements: Vec::new(),
            existing: Vec::new(),
            repair: None,
            terminate_first: None,
            scores: Vec::new(),
            prices: vec![1.0; nodes.len()],
            source_cost: nodes.len() as f64,
            savings: nodes.len() as f64,
        }
    }

    fn never_quiet(_: &str) -> Option<Timestamp> {
        None
    }

    /// The nodes that may go, or after how many seconds some may.
    fn judged(verdict: Verdict) -> Result<Vec<Arc<str>>, i64> {
        match verdict {
            Verdict::Make(command) => Ok(command.candidates),
            Verdict::Wait(until) => Err(until.duration_since(NOON).as_secs()),
        }
    }

    #[test]
    fn an_empty_node_goes_when_every_look_found_it_empty() {
        let mut sightings = Sightings::default();
        let both = found(DisruptionMethod::Emptiness, &["a", "b"]);
        sightings.note(std::slice::from_ref(&both), at(0));
        assert_eq!(judged(sightings.judge(both.clone(), never_quiet, at(0))), Err(15));
        assert_eq!(
            sightings.note(&[found(DisruptionMethod::Emptiness, &["a"])], at(10)),
            [DisruptionMethod::Emptiness]
        );
        assert!(sightings.note(std::slice::from_ref(&both), at(15)).is_empty());
        assert_eq!(judged(sightings.judge(both.clone(), never_quiet, at(15))), Ok(vec!["a".into()]));
        sightings.forget(&found(DisruptionMethod::Emptiness, &["a"]));
        let rest = found(DisruptionMethod::Emptiness, &["b"]);
        assert!(sightings.note(std::slice::from_ref(&rest), at(20)).is_empty());
        assert_eq!(judged(sightings.judge(rest, never_quiet, at(20))), Err(30));
    }

    #[test]
    fn a_node_that_was_long_quiet_needs_no_second_look() {
        let mut sightings = Sightings::default();
        let one = found(DisruptionMethod::Emptiness, &["a"]);
        sightings.note(std::slice::from_ref(&one), at(0));
        assert_eq!(judged(sightings.judge(one.clone(), |_| Some(at(-20)), at(0))), Err(5));
        assert_eq!(judged(sightings.judge(one, |_| Some(at(-25)), at(0))), Ok(vec!["a".into()]));
    }

    #[test]
    fn a_consolidation_must_be_found_again_unchanged() {
        let mut sightings = Sightings::default();
        let first = found(DisruptionMethod::MultiNodeConsolidation, &["a", "b"]);
        sightings.note(std::slice::from_ref(&first), at(0));
        assert_eq!(judged(sightings.judge(first.clone(), never_quiet, at(0))), Err(15));
        assert_eq!(judged(sightings.judge(first.clone(), never_quiet, at(15))), Ok(first.candidates.clone()));
        let other = found(DisruptionMethod::MultiNodeConsolidation, &["a", "c"]);
        let lost = sightings.note(std::slice::from_ref(&other), at(15));
        assert_eq!(lost, [DisruptionMethod::MultiNodeConsolidation]);
        assert_eq!(judged(sightings.judge(other, never_quiet, at(15))), Err(30));
    }

    #[test]
    fn what_stands_behind_empty_nodes_is_followed_meanwhile() {
        let mut sightings = Sightings::default();
        let empty = found(DisruptionMethod::Emptiness, &["a"]);
        let rest = found(DisruptionMethod::SingleNodeConsolidation, &["b"]);
        sightings.note(&[empty.clone(), rest.clone()], at(0));
        sightings.forget(&empty);
        assert!(sightings.note(std::slice::from_ref(&rest), at(15)).is_empty());
        assert_eq!(judged(sightings.judge(rest, never_quiet, at(15))), Ok(vec!["b".into()]));
    }

    #[test]
    fn of_two_consolidations_the_first_is_followed() {
        let mut sightings = Sightings::default();
        let single = found(DisruptionMethod::SingleNodeConsolidation, &["b"]);
        let multi = found(DisruptionMethod::MultiNodeConsolidation, &["a", "b"]);
        sightings.note(std::slice::from_ref(&single), at(0));
        assert!(sightings.note(&[multi.clone(), single.clone()], at(10)).is_empty());
        assert!(sightings.note(&[multi.clone(), single], at(25)).is_empty());
        assert_eq!(judged(sightings.judge(multi.clone(), never_quiet, at(25))), Ok(multi.candidates));
    }

    #[test]
    fn drift_is_made_at_once() {
        let drifted = found(DisruptionMethod::Drift, &["a"]);
        let verdict = Sightings::default().judge(drifted, never_quiet, at(0));
        assert_eq!(judged(verdict), Ok(vec!["a".into()]));
    }
}
