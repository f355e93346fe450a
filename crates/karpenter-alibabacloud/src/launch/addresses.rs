//! Counts the addresses that launches have taken since the cloud last counted them.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::node_class::VSwitch;

/// After this long a class has been resolved anew, and its counts include the launch.
const COUNTED_AFTER: SignedDuration = SignedDuration::from_mins(5);

/// Addresses promised to machines on their way.
#[derive(Clone, Debug, Default)]
pub struct Addresses {
    promised: BTreeMap<Arc<str>, Vec<Promise>>,
}

#[derive(Clone, Debug)]
struct Promise {
    launch: Arc<str>,
    until: Timestamp,
}

impl Addresses {
    /// Promises an address of a vSwitch to a launch.
    pub fn promise(&mut self, v_switch: &Arc<str>, launch: &Arc<str>, now: Timestamp) {
        let until = now.saturating_add(COUNTED_AFTER).unwrap_or(Timestamp::MAX);
        self.promised.entry(v_switch.clone()).or_default().push(Promise { launch: launch.clone(), until });
    }

    /// Gives back what a launch was promised and did not take.
    pub fn release(&mut self, v_switch: &str, launch: &str) {
        if let Some(promises) = self.promised.get_mut(v_switch)
            && let Some(place) = promises.iter().position(|promise| &*promise.launch == launch)
        {
            promises.remove(place);
        }
    }

    /// The addresses that are free, as far as is known.
    pub fn free(&self, v_switch: &VSwitch, now: Timestamp) -> u64 {
        let promises = self.promised.get(&v_switch.id).into_iter().flatten();
        let taken = promises.filter(|promise| now < promise.until).count() as u64;
        v_switch.free_addresses.saturating_sub(taken)
    }

    /// Forgets promises the cloud has counted by now.
    pub fn forget_old(&mut self, now: Timestamp) {
        self.promised.retain(|_, promises| {
            promises.retain(|promise| now < promise.until);
            !promises.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promises_count_until_they_are_released_or_counted_by_the_cloud() {
        let v_switch = VSwitch { id: "vsw-1".into(), zone: "z".into(), vpc: "vpc".into(), free_addresses: 3 };
        let now = Timestamp::UNIX_EPOCH;
        let mut addresses = Addresses::default();
        for launch in ["a", "b"] {
            addresses.promise(&v_switch.id, &launch.into(), now);
        }
        assert_eq!(addresses.free(&v_switch, now), 1);
        addresses.release("vsw-1", "a");
        addresses.release("vsw-1", "nobody");
        assert_eq!(addresses.free(&v_switch, now), 2);
        let later = now + COUNTED_AFTER;
        assert_eq!(addresses.free(&v_switch, later), 3);
        addresses.forget_old(later);
        assert!(addresses.promised.is_empty());
    }
}
