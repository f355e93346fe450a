//! How many nodes of each pool were launched lately, for pools that say how many may be.

use std::collections::{BTreeMap, VecDeque};

use jiff::{SignedDuration, Timestamp};
use karpenter_api::NodePool;
use karpenter_kube::knobs::launches_per_minute;

/// What `launches-per-minute` counts over.
const WINDOW: SignedDuration = SignedDuration::from_mins(1);

/// When claims of limited pools were created lately, by pool.
#[derive(Debug, Default)]
pub(crate) struct Launched(BTreeMap<String, VecDeque<Timestamp>>);

impl Launched {
    /// How many more nodes of the pool may be launched now.
    pub(crate) fn room(&mut self, pool: &NodePool, now: Timestamp) -> usize {
        let Some(most) = launches_per_minute(pool) else { return usize::MAX };
        let name = pool.metadata.name.as_deref().unwrap_or_default();
        let lately = self.0.get_mut(name).map_or(0, |times| {
            times.retain(|at| now.duration_since(*at) < WINDOW);
            times.len()
        });
        (most as usize).saturating_sub(lately)
    }

    /// Takes note of a launch.
    pub(crate) fn note(&mut self, pool: &NodePool, now: Timestamp) {
        if launches_per_minute(pool).is_some() {
            let name = pool.metadata.name.clone().unwrap_or_default();
            self.0.entry(name).or_default().push_back(now);
        }
    }
}
