//! How long to collect pods before planning: until none has come for a moment, but not for ever.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// So many pods at once are a crowd.
const CROWD: u32 = 20;

/// The bounds of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchSettings {
    /// Plan once nothing has come for this long.
    pub idle: Duration,
    /// The same for a crowd: whoever makes so many pods may stop for breath, and a plan for all of them is better than two for parts.
    pub idle_in_a_crowd: Duration,
    /// Plan at the latest this long after the first.
    pub longest: Duration,
}

/// What has come since the last plan.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    settings: BatchSettings,
    /// A plan is wanted, and that has not been timed yet.
    opened: bool,
    /// Something came, and that has not been timed yet.
    stirred: bool,
    /// How much came since the last plan.
    came: u32,
    /// When what had no place is to be looked at again, whatever comes.
    again: Option<Timestamp>,
    first: Option<Timestamp>,
    last: Option<Timestamp>,
}

/// What to do about a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Nothing: no plan is wanted.
    Idly,
    /// Look again after this long.
    For(Duration),
    /// Plan.
    NoLonger,
}

impl Batch {
    /// An open batch: the first plan looks at whatever is there.
    pub(crate) fn new(settings: BatchSettings) -> Self {
        Self { settings, opened: true, stirred: true, came: 0, again: None, first: None, last: None }
    }

    /// Something came that more may follow.
    pub(crate) fn stir(&mut self) {
        self.stirred = true;
        self.came = self.came.saturating_add(1);
    }

    /// A plan is wanted; nothing new came that it should wait for.
    pub(crate) fn open(&mut self) {
        self.opened = true;
    }

    /// A plan is wanted, but not before `wait` is over.
    pub(crate) fn open_after(&mut self, now: Timestamp, wait: Duration) {
        let again = until(now, wait);
        self.again = Some(self.again.map_or(again, |sooner| sooner.min(again)));
    }

    /// How long to wait from `now` before planning.
    pub(crate) fn wait(&mut self, now: Timestamp) -> Wait {
        if std::mem::take(&mut self.stirred) {
            self.last = Some(now);
            self.first.get_or_insert(now);
        }
        if std::mem::take(&mut self.opened) {
            self.first.get_or_insert(now);
        }
        let Some(first) = self.first else {
            return self.again.map_or(Wait::Idly, |again| wait_until(now, again));
        };
        let settings = &self.settings;
        let idle = if self.came < CROWD { settings.idle } else { settings.idle_in_a_crowd };
        let quiet = self.last.map_or(now, |last| until(last, idle));
        let end = quiet.min(until(first, self.settings.longest));
        wait_until(now, end)
    }

    /// How long, from `now`, the batch may go on waiting for something else; none if it has waited for `most`.
    pub(crate) fn patience(&self, now: Timestamp, most: Duration) -> Option<Duration> {
        remaining(now, until(self.first?, most))
    }

    /// The plan is being made: what comes now belongs to the next.
    pub(crate) fn close(&mut self) {
        self.first = None;
        self.again = None;
        self.came = 0;
    }
}

fn until(start: Timestamp, wait: Duration) -> Timestamp {
    start
        .saturating_add(SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX))
        .unwrap_or(Timestamp::MAX)
}

fn wait_until(now: Timestamp, end: Timestamp) -> Wait {
    remaining(now, end).map_or(Wait::NoLonger, Wait::For)
}

fn remaining(now: Timestamp, end: Timestamp) -> Option<Duration> {
    Duration::try_from(end.duration_since(now)).ok().filter(|wait| !wait.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(millis).unwrap()
    }

    fn millis(wait: u64) -> Wait {
        Wait::For(Duration::from_millis(wait))
    }

    /// A second of quiet ends a batch, three seconds end it anyway.
    fn settings() -> BatchSettings {
        let idle = Duration::from_secs(1);
        BatchSettings { idle, idle_in_a_crowd: 2 * idle, longest: 3 * idle }
    }

    #[test]
    fn a_crowd_is_given_more_time() {
        let mut batch = Batch::new(settings());
        (0..CROWD).for_each(|_| batch.stir());
        assert_eq!(batch.wait(at(0)), millis(2000));
        assert_eq!(batch.wait(at(2000)), Wait::NoLonger);
        batch.close();
        batch.stir();
        assert_eq!(batch.wait(at(3000)), millis(1000), "one more is no crowd");
    }

    #[test]
    fn a_batch_closes_when_it_is_quiet_or_old() {
        let mut batch = Batch::new(settings());
        assert_eq!(batch.wait(at(0)), millis(1000));
        assert_eq!(batch.wait(at(1000)), Wait::NoLonger, "nothing came for a second");
        batch.close();
        assert_eq!(batch.wait(at(2000)), Wait::Idly, "nothing has come since");
        for now in [5000, 5900, 6800, 7700] {
            batch.stir();
            assert!(matches!(batch.wait(at(now)), Wait::For(_)));
        }
        batch.stir();
        assert_eq!(batch.wait(at(8000)), Wait::NoLonger, "three seconds are enough");
    }

    #[test]
    fn a_plan_that_is_wanted_waits_only_for_what_came_lately() {
        let mut batch = Batch::new(settings());
        assert_eq!(batch.wait(at(0)), millis(1000));
        batch.open();
        assert_eq!(batch.wait(at(600)), millis(400), "wanting a plan does not put it off");
        assert_eq!(batch.wait(at(1000)), Wait::NoLonger);
        batch.close();
        batch.open();
        assert_eq!(batch.wait(at(9000)), Wait::NoLonger, "it has been quiet for long");
    }
}
