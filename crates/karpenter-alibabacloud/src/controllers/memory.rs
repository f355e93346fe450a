//! What the cloud said about classes, and when it is to be asked again.
//!
//! One memory serves the classes of every group: the same question is asked once, however many classes ask it. While answers hold and
//! nothing is wrong, nothing is asked.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::question::{Answer, Question, Trouble};

/// How soon a question is asked again that failed or whose answer was wanting: doubled each time, up to the longest.
const AGAIN_FIRST: SignedDuration = SignedDuration::from_secs(15);
const AGAIN_LONGEST: SignedDuration = SignedDuration::from_mins(5);
/// A question without a reply for this long was asked by a process or a leader that is no more.
const LOST_AFTER: SignedDuration = SignedDuration::from_mins(2);
/// How long an answer is kept that nobody asks for.
const KEPT: SignedDuration = SignedDuration::from_hours(1);

/// Questions and what is known about them.
#[derive(Debug, Default)]
pub(super) struct Memory {
    known: BTreeMap<Question, Known>,
}

#[derive(Debug)]
struct Known {
    answer: Option<Arc<Answer>>,
    trouble: Option<Trouble>,
    /// When it was asked, until the reply comes.
    asked: Option<Timestamp>,
    due: Timestamp,
    failures: u32,
    used: Timestamp,
}

/// What is known about a question.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Look {
    /// The last answer, unless it was taken back.
    pub(super) answer: Option<Arc<Answer>>,
    /// Why there is no newer one.
    pub(super) trouble: Option<Trouble>,
    /// Whether to ask now.
    pub(super) ask: bool,
    /// When to look again.
    pub(super) wait: Duration,
}

impl Memory {
    /// Returns what is known, and notes that it is asked if it is to be.
    pub(super) fn look(&mut self, question: &Question, now: Timestamp) -> Look {
        let known = self.known.entry(question.clone()).or_insert_with(|| Known {
            answer: None,
            trouble: None,
            asked: None,
            due: now,
            failures: 0,
            used: now,
        });
        known.used = now;
        let under_way = known.asked.is_some_and(|asked| now.duration_since(asked) < LOST_AFTER);
        let ask = !under_way && known.due <= now;
        if ask {
            known.asked = Some(now);
        }
        // Somebody else's question: its reply does not wake this class.
        let wait = if under_way || ask { Duration::from_secs(1) } else { until(known.due, now) };
        Look { answer: known.answer.clone(), trouble: known.trouble.clone(), ask, wait }
    }

    /// Takes in a reply.
    pub(super) fn hear(&mut self, question: &Question, reply: Result<Answer, Trouble>, now: Timestamp) {
        let Some(known) = self.known.get_mut(question) else { return };
        known.asked = None;
        let period = SignedDuration::try_from(question.period()).unwrap_or(AGAIN_LONGEST);
        let wanting = reply.as_ref().map_or(true, Answer::is_wanting);
        let wait = if wanting {
            known.failures = known.failures.saturating_add(1);
            (AGAIN_FIRST * 2_i32.saturating_pow(known.failures - 1).min(1 << 10)).min(AGAIN_LONGEST)
        } else {
            known.failures = 0;
            period
        };
        known.due = now.saturating_add(wait).unwrap_or(Timestamp::MAX);
        match reply {
            Ok(answer) => {
                known.trouble = None;
                // Launches hold on to what they were given; an equal answer need not be a new one.
                if known.answer.as_deref() != Some(&answer) {
                    known.answer = Some(Arc::new(answer));
                }
            }
            Err(trouble) => {
                // What exists no longer must not be launched with; any other trouble leaves what is known as it is.
                if trouble.kind == karpenter_alibabacloud_client::ErrorKind::NotFound {
                    known.answer = None;
                }
                known.trouble = Some(trouble);
            }
        }
        self.known.retain(|_, known| now.duration_since(known.used) < KEPT);
    }
}

fn until(due: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(due.duration_since(now)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use karpenter_alibabacloud_client::ErrorKind;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn role() -> Question {
        Question::Role("r".to_owned())
    }

    fn throttled() -> Trouble {
        Trouble { kind: ErrorKind::Throttled, message: "slow down".to_owned() }
    }

    const GOOD: Answer = Answer::Role { trusts_ecs: true };

    #[test]
    fn a_question_is_asked_once_and_again_when_its_answer_is_old() {
        let mut memory = Memory::default();
        assert!(memory.look(&role(), at(0)).ask);
        assert!(!memory.look(&role(), at(1)).ask, "another class waits for the same reply");
        memory.hear(&role(), Ok(GOOD), at(2));
        let asked: Vec<i64> =
            (2..4000).filter(|second| memory.look(&role(), at(*second)).ask).take(1).collect();
        assert_eq!(asked, [2 + 30 * 60]);
    }

    #[test]
    fn trouble_keeps_what_is_known_and_is_tried_again_less_and_less_often() {
        let mut memory = Memory::default();
        memory.look(&role(), at(0));
        memory.hear(&role(), Ok(GOOD), at(0));
        let mut now = 30 * 60;
        let mut waits = Vec::new();
        for _ in 0..7 {
            assert!(memory.look(&role(), at(now)).ask);
            memory.hear(&role(), Err(throttled()), at(now));
            let look = memory.look(&role(), at(now));
            assert_eq!(look.answer.as_deref(), Some(&GOOD));
            assert!(look.trouble.is_some());
            waits.push(look.wait.as_secs());
            now += look.wait.as_secs() as i64;
        }
        assert_eq!(waits, [15, 30, 60, 120, 240, 300, 300]);
        memory.look(&role(), at(now));
        memory.hear(&role(), Ok(GOOD), at(now));
        assert_eq!(memory.look(&role(), at(now)).trouble, None, "it mends by itself");
    }

    #[test]
    fn what_exists_no_longer_is_forgotten() {
        let mut memory = Memory::default();
        memory.look(&role(), at(0));
        memory.hear(&role(), Ok(GOOD), at(0));
        let gone = Trouble { kind: ErrorKind::NotFound, message: "no such role".to_owned() };
        memory.hear(&role(), Err(gone), at(1));
        assert_eq!(memory.look(&role(), at(1)).answer, None);
    }

    #[test]
    fn a_lost_question_is_asked_again_and_an_unused_answer_is_forgotten() {
        let mut memory = Memory::default();
        assert!(memory.look(&role(), at(0)).ask);
        assert!(memory.look(&role(), at(121)).ask);
        memory.hear(&role(), Ok(GOOD), at(122));
        let other = Question::Cluster("c".to_owned());
        memory.look(&other, at(8000));
        memory.hear(&other, Err(throttled()), at(8000));
        assert_eq!(memory.known.len(), 1);
    }
}
