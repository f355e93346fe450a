//! How long to collect pods before planning: until none has come for a moment, but not for ever.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// The two bounds of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchSettings {
    /// Plan once nothing has come for this long.
    pub idle: Duration,
    /// Plan at the latest this long after the first.
    pub longest: Duration,
}

/// What has come since the last plan.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    settings: BatchSettings,
    /// Something came, and it has not been timed yet.
    stirred: bool,
    first: Option<Timestamp>,
    last: Option<Timestamp>,
}

impl Batch {
    /// An open batch: the first plan looks at whatever is there.
    pub(crate) fn new(settings: BatchSettings) -> Self {
        Self { settings, stirred: true, first: None, last: None }
    }

    /// Something came.
    pub(crate) fn stir(&mut self) {
        self.stirred = true;
    }

    /// How long to wait from `now` before planning; none if it is time.
    pub(crate) fn wait(&mut self, now: Timestamp) -> Option<Duration> {
        if std::mem::take(&mut self.stirred) {
            self.first.get_or_insert(now);
            self.last = Some(now);
        }
        let idle = until(self.last?, self.settings.idle);
        let longest = until(self.first?, self.settings.longest);
        remaining(now, idle.min(longest))
    }

    /// How long, from `now`, the batch may go on waiting for something else; none if it has waited for `most`.
    pub(crate) fn patience(&self, now: Timestamp, most: Duration) -> Option<Duration> {
        remaining(now, until(self.first?, most))
    }

    /// The plan is being made: what comes now belongs to the next.
    pub(crate) fn close(&mut self) {
        self.first = None;
        self.last = None;
    }
}

fn until(start: Timestamp, wait: Duration) -> Timestamp {
    start
        .saturating_add(SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX))
        .unwrap_or(Timestamp::MAX)
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

    #[test]
    fn a_batch_closes_when_it_is_quiet_or_old() {
        let settings = BatchSettings { idle: Duration::from_secs(1), longest: Duration::from_secs(3) };
        let mut batch = Batch::new(settings);
        assert_eq!(batch.wait(at(0)), Some(Duration::from_secs(1)));
        assert_eq!(batch.wait(at(1000)), None, "nothing came for a second");
        batch.close();
        assert_eq!(batch.wait(at(2000)), None, "nothing has come since");
        for now in [5000, 5900, 6800, 7700] {
            batch.stir();
            assert!(batch.wait(at(now)).is_some());
        }
        batch.stir();
        assert_eq!(batch.wait(at(8000)), None, "three seconds are enough");
    }
}
