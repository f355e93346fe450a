//! Asking pods to leave, again and again but not too often.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use karpenter_runtime::{Key, View, Write};

use crate::observed::ObservedPod;

/// Waits between attempts to evict one pod: doubled each time.
const FIRST_RETRY: SignedDuration = SignedDuration::from_millis(100);
const LONGEST_RETRY: SignedDuration = SignedDuration::from_secs(10);

/// When a pod may be asked again to leave: one refusal, or one acceptance that is not seen yet.
#[derive(Debug, Default)]
pub(crate) struct Evictions(BTreeMap<Key, Attempt>);

#[derive(Clone, Copy, Debug)]
struct Attempt {
    attempts: u32,
    next: Timestamp,
}

impl Evictions {
    /// Evictions of these pods, as far as the last attempt is old enough.
    pub(crate) fn ask(&mut self, pods: &[Key], view: &View<'_>) -> Vec<Write> {
        let mut writes = Vec::new();
        for key in pods {
            if !self.may_ask(key, view.now) {
                continue;
            }
            let known = view.caches.of::<ObservedPod>().get(key);
            let uid = known.map(|pod| pod.uid().to_owned()).unwrap_or_default();
            let eviction = Write::evict(key).if_uid(&uid);
            writes.push(eviction.tolerating(404).tolerating(409).tolerating(429).tolerating(500));
        }
        writes
    }

    /// Notes an attempt, unless the last one is too young.
    pub(crate) fn may_ask(&mut self, key: &Key, now: Timestamp) -> bool {
        let attempts = match self.0.get(key) {
            Some(attempt) if now < attempt.next => return false,
            Some(attempt) => attempt.attempts,
            None => 0,
        };
        let wait = (FIRST_RETRY * 2i32.saturating_pow(attempts.min(10))).min(LONGEST_RETRY);
        let next = now.saturating_add(wait).unwrap_or(Timestamp::MAX);
        self.0.insert(key.clone(), Attempt { attempts: attempts + 1, next });
        true
    }

    /// When the next pod may be asked again.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.0.values().map(|attempt| attempt.next).min()
    }

    /// The pod is leaving, or gone.
    pub(crate) fn forget(&mut self, key: &Key) {
        self.0.remove(key);
    }
}
