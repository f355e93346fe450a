//! How drifted nodes of a pool are replaced in stages: a few first, then in waves, more slowly after failures, and not at all after too many.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::budget::BudgetNodes;
use crate::cluster::{Node, NodeStage};

/// How long a stage is looked at before the next begins, where nothing is said.
const PAUSE: SignedDuration = SignedDuration::from_mins(5);
/// A back-off is doubled at most this often.
const DOUBLINGS: u32 = 6;

/// How a pool wants its drifted nodes to be replaced; anything goes where nothing is said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rollout {
    /// How many nodes are replaced first.
    pub canary: Option<u32>,
    /// How many nodes each stage after that replaces.
    pub wave: Option<BudgetNodes>,
    /// How long a stage is looked at before the next begins.
    pub pause: Option<SignedDuration>,
    /// How long nothing is replaced after a failure; twice as long after each further one.
    pub backoff: Option<SignedDuration>,
    /// After how many failures nothing is replaced any more.
    pub halt_after: Option<u32>,
    /// Whether something of this cannot be read, so that nothing is replaced.
    pub unreadable: bool,
}

/// Why a pool's roll-out makes a drifted node wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all_fields = "camelCase")]
pub enum RolloutPause {
    /// An annotation of the pool cannot be read.
    Unreadable,
    /// Too many replacements failed.
    Halted {
        /// How many.
        failures: u32,
    },
    /// A replacement failed a short while ago.
    BackingOff {
        /// When the next is tried.
        until: Timestamp,
    },
    /// The nodes replaced last are looked at first.
    Stage {
        /// When the next stage may begin, if that is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
    },
}

impl fmt::Display for RolloutPause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable => f.write_str(
                ": an annotation for the roll-out of its NodePool cannot be read; see the NodePool's events",
            ),
            Self::Halted { failures } => write!(
                f,
                ": {failures} replacements in its NodePool failed; change the NodePool's template to begin again"
            ),
            Self::BackingOff { until } => {
                write!(f, ": a replacement in its NodePool failed; the next is tried at {until}")
            }
            Self::Stage { until: Some(until) } => {
                write!(f, ": the next wave of its NodePool begins at {until}")
            }
            Self::Stage { until: None } => {
                f.write_str(" until the nodes that were replaced last in its NodePool are well")
            }
        }
    }
}

/// How far a roll-out is. It is written down, so that a new process goes on where the last one ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RolloutProgress {
    /// Stages that are complete.
    stages: u32,
    /// Nodes of this stage whose replacement was begun.
    taken: u32,
    /// Replacements under way.
    #[serde(skip)]
    running: u32,
    /// When the first replacement was begun, and when the last one ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    begun: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended: Option<Timestamp>,
    failures: u32,
    failures_in_a_row: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<Timestamp>,
}

impl RolloutProgress {
    /// A replacement is begun.
    pub fn begin(&mut self, now: Timestamp) {
        self.begun.get_or_insert(now);
        self.taken += 1;
        self.running += 1;
    }

    /// A replacement is over.
    pub fn end(&mut self, went_well: bool, now: Timestamp) {
        self.running = self.running.saturating_sub(1);
        self.ended = Some(now);
        if went_well {
            self.failures_in_a_row = 0;
        } else {
            self.failures += 1;
            self.failures_in_a_row += 1;
            self.failed = Some(now);
        }
    }

    /// What is certain of it, if it has begun. A replacement under way is not: who comes after us does not know of it, and begins it anew.
    pub fn certain(&self) -> Option<Self> {
        self.begun?;
        Some(Self { taken: self.taken.saturating_sub(self.running), running: 0, ..self.clone() })
    }

    /// Whether a node came up since the roll-out began and is not well.
    fn is_doubted(&self, node: &Node) -> bool {
        let new = self.begun.is_some_and(|begun| node.created >= begun) && node.life.drifted.is_none();
        new && !node.deleting && (node.stage != NodeStage::Initialized || !node.life.ready)
    }
}

impl Rollout {
    /// How many more drifted nodes of a pool may be replaced now. `nodes` are all of the pool's.
    ///
    /// # Errors
    ///
    /// Why none may.
    pub fn allowed(
        &self,
        progress: &mut RolloutProgress,
        nodes: &[&Node],
        now: Timestamp,
    ) -> Result<u32, RolloutPause> {
        if self.unreadable {
            return Err(RolloutPause::Unreadable);
        }
        if self.halt_after.is_some_and(|most| progress.failures >= most) {
            return Err(RolloutPause::Halted { failures: progress.failures });
        }
        if let Some(until) = self.backed_off(progress).filter(|until| now < *until) {
            return Err(RolloutPause::BackingOff { until });
        }
        let count = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
        let Some(size) = self.size(progress.stages, count) else { return Ok(u32::MAX) };
        if progress.taken < size {
            return Ok(size - progress.taken);
        }
        if progress.running > 0 || nodes.iter().any(|node| progress.is_doubted(node)) {
            return Err(RolloutPause::Stage { until: None });
        }
        let ended = progress.ended.unwrap_or(now);
        let until = ended.saturating_add(self.pause.unwrap_or(PAUSE)).unwrap_or(Timestamp::MAX);
        if now < until {
            return Err(RolloutPause::Stage { until: Some(until) });
        }
        progress.stages += 1;
        progress.taken = 0;
        Ok(self.size(progress.stages, count).unwrap_or(u32::MAX))
    }

    /// How many nodes a stage takes; any number where nothing is said.
    fn size(&self, stage: u32, nodes: u32) -> Option<u32> {
        let wave = self.wave.map(|wave| wave.of(nodes));
        if stage == 0 { self.canary.or(wave) } else { wave }
    }

    fn backed_off(&self, progress: &RolloutProgress) -> Option<Timestamp> {
        let doublings = progress.failures_in_a_row.checked_sub(1)?.min(DOUBLINGS);
        progress.failed?.checked_add(self.backoff? * (1 << doublings)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minutes: i64) -> Timestamp {
        "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_mins(minutes)
    }

    fn staged() -> Rollout {
        Rollout {
            canary: Some(1),
            wave: Some(BudgetNodes::Count(3)),
            pause: Some(SignedDuration::from_mins(10)),
            ..Rollout::default()
        }
    }

    #[test]
    fn a_pool_that_says_nothing_may_replace_any_number() {
        assert_eq!(Rollout::default().allowed(&mut RolloutProgress::default(), &[], at(0)), Ok(u32::MAX));
    }

    #[test]
    fn the_canary_is_looked_at_before_the_waves_begin() {
        let (rollout, mut progress) = (staged(), RolloutProgress::default());
        assert_eq!(rollout.allowed(&mut progress, &[], at(0)), Ok(1));
        progress.begin(at(0));
        assert_eq!(rollout.allowed(&mut progress, &[], at(60)), Err(RolloutPause::Stage { until: None }));
        progress.end(true, at(60));
        let until = Some(at(70));
        assert_eq!(rollout.allowed(&mut progress, &[], at(69)), Err(RolloutPause::Stage { until }));
        assert_eq!(rollout.allowed(&mut progress, &[], at(70)), Ok(3));
        progress.begin(at(70));
        progress.begin(at(70));
        assert_eq!(rollout.allowed(&mut progress, &[], at(70)), Ok(1), "a wave may begin bit by bit");
    }

    #[test]
    fn a_new_node_that_is_not_well_holds_up_the_next_stage() {
        let (rollout, mut progress) = (staged(), RolloutProgress::default());
        progress.begin(at(0));
        progress.end(true, at(5));
        let mut node = Node::sample("new", at(1));
        node.life.ready = false;
        assert_eq!(
            rollout.allowed(&mut progress, &[&node], at(60)),
            Err(RolloutPause::Stage { until: None })
        );
        node.created = at(-1);
        assert_eq!(rollout.allowed(&mut progress, &[&node], at(60)), Ok(3), "it was there before");
    }

    #[test]
    fn failures_make_it_slower_and_then_stop_it() {
        let rollout = Rollout {
            backoff: Some(SignedDuration::from_mins(10)),
            halt_after: Some(3),
            ..Rollout::default()
        };
        let mut progress = RolloutProgress::default();
        progress.begin(at(0));
        progress.end(false, at(0));
        let until = at(10);
        assert_eq!(rollout.allowed(&mut progress, &[], at(9)), Err(RolloutPause::BackingOff { until }));
        assert_eq!(rollout.allowed(&mut progress, &[], at(10)), Ok(u32::MAX));
        progress.begin(at(10));
        progress.end(false, at(10));
        let until = at(30);
        assert_eq!(rollout.allowed(&mut progress, &[], at(29)), Err(RolloutPause::BackingOff { until }));
        progress.begin(at(30));
        progress.end(false, at(30));
        assert_eq!(rollout.allowed(&mut progress, &[], at(9999)), Err(RolloutPause::Halted { failures: 3 }));
    }

    #[test]
    fn what_is_certain_goes_on_where_it_ended() {
        let (rollout, mut progress) = (staged(), RolloutProgress::default());
        assert_eq!(progress.certain(), None, "nothing has begun");
        progress.begin(at(0));
        let mut next = progress.certain().unwrap();
        assert_eq!(rollout.allowed(&mut next, &[], at(5)), Ok(1), "a canary nobody knows of is begun anew");
        progress.end(true, at(5));
        let mut next = progress.certain().unwrap();
        let until = Some(at(15));
        assert_eq!(rollout.allowed(&mut next, &[], at(6)), Err(RolloutPause::Stage { until }));
        assert_eq!(rollout.allowed(&mut next, &[], at(15)), Ok(3));
        next.begin(at(15));
        next.begin(at(15));
        next.end(true, at(16));
        let mut last = next.certain().unwrap();
        assert_eq!(rollout.allowed(&mut last, &[], at(17)), Ok(2), "one of three is done");
    }

    #[test]
    fn what_cannot_be_read_allows_nothing() {
        let rollout = Rollout { unreadable: true, ..Rollout::default() };
        assert_eq!(
            rollout.allowed(&mut RolloutProgress::default(), &[], at(0)),
            Err(RolloutPause::Unreadable)
        );
    }
}
