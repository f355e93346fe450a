//! Remembers which offerings the cloud refused, so that the next plan does not ask for them again at once.
//!
//! Each refusal in a row doubles the time an offering is left alone; after a quiet time the count starts anew.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

/// An offering that may be refused.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OfferingKey {
    /// The instance type.
    pub instance_type: Arc<str>,
    /// The zone.
    pub zone: Arc<str>,
    /// The capacity type.
    pub capacity_type: Arc<str>,
}

/// What was refused: offerings, unless a cloud also refuses by something else.
#[derive(Clone, Debug)]
pub struct Unavailable<K = OfferingKey> {
    refused: BTreeMap<K, Refusal>,
    first: SignedDuration,
    longest: SignedDuration,
}

#[derive(Clone, Copy, Debug)]
struct Refusal {
    until: Timestamp,
    wait: SignedDuration,
}

impl<K: Ord> Unavailable<K> {
    /// Leaves a refused offering alone for `first`, then twice as long, at most `longest`.
    pub fn new(first: SignedDuration, longest: SignedDuration) -> Self {
        Self { refused: BTreeMap::new(), first, longest }
    }

    /// Notes a refusal at `now`. What was under way when something was refused says nothing new about it.
    pub fn refuse(&mut self, key: K, now: Timestamp) {
        let wait = match self.refused.get(&key) {
            Some(before) if now < before.until => return,
            Some(before) if before.remembered_at(now) => (before.wait * 2).min(self.longest),
            _ => self.first,
        };
        self.refused.insert(key, Refusal { until: now.saturating_add(wait).unwrap_or(Timestamp::MAX), wait });
    }

    /// Returns whether the offering is to be left alone at `now`.
    pub fn is_refused(&self, key: &K, now: Timestamp) -> bool {
        self.refused.get(key).is_some_and(|refusal| now < refusal.until)
    }

    /// Returns everything that is to be left alone at `now`.
    pub fn all(&self, now: Timestamp) -> impl Iterator<Item = &K> {
        self.refused.iter().filter(move |(_, refusal)| now < refusal.until).map(|(key, _)| key)
    }

    /// Notes that the offering could be had.
    pub fn accept(&mut self, key: &K) {
        self.refused.remove(key);
    }

    /// Forgets refusals that no longer matter.
    pub fn forget_old(&mut self, now: Timestamp) {
        self.refused.retain(|_, refusal| refusal.remembered_at(now));
    }

    /// When the next offering may be tried again, after `now`.
    pub fn next_change(&self, now: Timestamp) -> Option<Timestamp> {
        self.refused.values().map(|refusal| refusal.until).filter(|until| *until > now).min()
    }
}

impl Refusal {
    /// A refusal counts for as long again as it lasted.
    fn remembered_at(&self, now: Timestamp) -> bool {
        now < self.until.saturating_add(self.wait).unwrap_or(Timestamp::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> OfferingKey {
        OfferingKey { instance_type: "c-1x".into(), zone: "a".into(), capacity_type: "spot".into() }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn refused_for(memory: &Unavailable, since: i64) -> i64 {
        (since..since + 1000).take_while(|second| memory.is_refused(&key(), at(*second))).count() as i64
    }

    #[test]
    fn refusals_in_a_row_last_longer_and_longer() {
        let mut memory = Unavailable::new(SignedDuration::from_secs(60), SignedDuration::from_secs(200));
        memory.refuse(key(), at(0));
        assert_eq!(refused_for(&memory, 0), 60);
        memory.refuse(key(), at(61));
        assert_eq!(refused_for(&memory, 61), 120);
        memory.refuse(key(), at(200));
        assert_eq!(refused_for(&memory, 200), 200);
    }

    #[test]
    fn refusals_at_the_same_time_are_one() {
        let mut memory = Unavailable::new(SignedDuration::from_secs(60), SignedDuration::from_secs(200));
        (0..10).for_each(|second| memory.refuse(key(), at(second)));
        assert_eq!(refused_for(&memory, 0), 60);
        assert_eq!((memory.all(at(59)).count(), memory.all(at(60)).count()), (1, 0));
    }

    #[test]
    fn a_quiet_time_starts_the_count_anew() {
        let mut memory = Unavailable::new(SignedDuration::from_secs(60), SignedDuration::from_secs(200));
        memory.refuse(key(), at(0));
        memory.refuse(key(), at(300));
        assert_eq!(refused_for(&memory, 300), 60);
        memory.accept(&key());
        assert_eq!(refused_for(&memory, 300), 0);
    }
}
