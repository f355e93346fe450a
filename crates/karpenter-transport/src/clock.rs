//! The clock of the other end, as far as we know it: signatures count by that one.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use http::{HeaderMap, header};
use jiff::{SignedDuration, Timestamp};
use karpenter_environment::Environment;

/// Our clock, corrected by what answers say.
pub struct RemoteClock {
    environment: Arc<dyn Environment>,
    /// How far off a clock may be that needs no correction.
    tolerated: SignedDuration,
    /// How far theirs is ahead of ours, in seconds; zero until a signature was refused for it.
    skew: AtomicI64,
}

impl RemoteClock {
    /// A clock that agrees with ours until it hears otherwise.
    pub fn new(environment: Arc<dyn Environment>, tolerated: SignedDuration) -> Self {
        Self { environment, tolerated, skew: AtomicI64::new(0) }
    }

    /// The time there.
    pub fn now(&self) -> Timestamp {
        let skew = SignedDuration::from_secs(self.skew.load(Ordering::Relaxed));
        self.environment.now().saturating_add(skew).unwrap_or(Timestamp::MAX)
    }

    /// Sets itself by the date of an answer; whether it was off by more than is tolerated.
    pub fn correct(&self, answer: &HeaderMap) -> bool {
        let date = answer.get(header::DATE).and_then(|date| date.to_str().ok());
        let Some(theirs) = date.and_then(|date| jiff::fmt::rfc2822::parse(date).ok()) else { return false };
        let theirs = theirs.timestamp();
        if theirs.duration_since(self.now()).abs() <= self.tolerated {
            return false;
        }
        self.skew.store(theirs.duration_since(self.environment.now()).as_secs(), Ordering::Relaxed);
        true
    }
}

#[cfg(test)]
mod tests {
    use karpenter_environment::SeededEnvironment;

    use super::*;

    #[test]
    fn it_follows_answers_that_are_further_off_than_is_tolerated() {
        let ours = Timestamp::UNIX_EPOCH;
        let clock = RemoteClock::new(Arc::new(SeededEnvironment::new(1, ours)), SignedDuration::from_mins(4));
        let said = |date: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::DATE, date.parse().expect("text"));
            clock.correct(&headers)
        };
        assert!(!clock.correct(&HeaderMap::new()) && !said("yesterday"));
        assert!(!said("Thu, 01 Jan 1970 00:03:00 GMT"));
        assert_eq!(clock.now(), ours);
        assert!(said("Thu, 01 Jan 1970 01:00:00 GMT"));
        assert_eq!(clock.now(), ours + SignedDuration::from_hours(1));
        assert!(!said("Thu, 01 Jan 1970 01:00:30 GMT"), "it is right by now");
        assert!(said("Thu, 01 Jan 1970 00:00:00 GMT"));
        assert_eq!(clock.now(), ours);
    }
}
