//! How long pods wait for a plan, and for what it planned for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

/// The wait of one pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waited {
    /// When a plan first took note of it.
    pub(crate) since: Timestamp,
    /// When a plan first said something about it.
    pub(crate) decided: Option<Timestamp>,
    /// When a plan first had a place for it.
    pub(crate) placed: Option<Timestamp>,
}

/// The waits of pods that plans take note of, by UID, until they are ready or gone.
#[derive(Debug, Default)]
pub(crate) struct Waits(BTreeMap<Arc<str>, Waited>);

impl Waits {
    /// A plan takes note of a pod.
    pub(crate) fn begin(&mut self, pod: &Arc<str>, now: Timestamp) {
        self.0.entry(pod.clone()).or_insert(Waited { since: now, decided: None, placed: None });
    }

    /// A plan says something about a pod. Returns since when it has waited for that, the first time.
    pub(crate) fn decide(&mut self, pod: &str, placed: bool, now: Timestamp) -> Option<Timestamp> {
        let waited = self.0.get_mut(pod)?;
        if placed {
            waited.placed.get_or_insert(now);
        }
        let first = waited.decided.is_none();
        waited.decided.get_or_insert(now);
        first.then_some(waited.since)
    }

    /// The wait of a pod.
    pub(crate) fn of(&self, pod: &str) -> Option<Waited> {
        self.0.get(pod).copied()
    }

    /// The pod waits no longer.
    pub(crate) fn end(&mut self, pod: &str) {
        self.0.remove(pod);
    }
}
