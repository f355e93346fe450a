//! Which subnet of a zone a launch goes to: the one with most free addresses, those counted that launches under way will take.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::node_class::ResolvedSubnet;

/// What launches under way are about to take. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Addresses {
    known: Arc<Mutex<BTreeMap<String, Known>>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// What the last look found.
    seen: u32,
    /// What is expected to be taken since.
    promised: u32,
}

/// Addresses promised to a launch, by subnet.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Promise {
    subnets: BTreeMap<String, (u32, u32)>,
}

impl Addresses {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Chooses one subnet per zone, and promises it as many addresses as `wanted` says for the zone.
    pub(crate) fn choose<'a>(
        &self,
        subnets: &'a [ResolvedSubnet],
        wanted: &BTreeMap<Arc<str>, u32>,
    ) -> (BTreeMap<Arc<str>, &'a ResolvedSubnet>, Promise) {
        let mut known = self.lock();
        let mut free = |subnet: &ResolvedSubnet| {
            let entry = known.entry(subnet.id.clone()).or_default();
            if entry.seen != subnet.free_addresses {
                // A fresh look knows what was taken.
                *entry = Known { seen: subnet.free_addresses, promised: 0 };
            }
            entry.seen.saturating_sub(entry.promised)
        };
        let mut chosen: BTreeMap<Arc<str>, (&ResolvedSubnet, u32)> = BTreeMap::new();
        for subnet in subnets {
            let Some((zone, _)) = wanted.get_key_value(subnet.zone.as_str()) else { continue };
            let free = free(subnet);
            // Of equals the first stays, which is the smaller id.
            if chosen.get(zone).is_none_or(|(_, most)| free > *most) {
                chosen.insert(Arc::clone(zone), (subnet, free));
            }
        }
        let mut promise = Promise::default();
        for (zone, (subnet, _)) in &chosen {
            let taken = wanted.get(zone).copied().unwrap_or_default();
            let entry = known.entry(subnet.id.clone()).or_default();
            entry.promised = entry.promised.saturating_add(taken);
            promise.subnets.insert(subnet.id.clone(), (taken, entry.seen));
        }
        (chosen.into_iter().map(|(zone, (subnet, _))| (zone, subnet)).collect(), promise)
    }

    /// Gives back what was promised to subnets other than the one that was used.
    pub(crate) fn settle(&self, promise: Promise, used: Option<&str>) {
        let mut known = self.lock();
        for (id, (taken, seen)) in promise.subnets {
            if Some(id.as_str()) == used {
                continue;
            }
            if let Some(entry) = known.get_mut(&id).filter(|entry| entry.seen == seen) {
                entry.promised = entry.promised.saturating_sub(taken);
            }
        }
    }

    /// Notes that a subnet has none left.
    pub(crate) fn exhaust(&self, subnet: &str) {
        if let Some(entry) = self.lock().get_mut(subnet) {
            entry.promised = entry.seen;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subnet(id: &str, zone: &str, free_addresses: u32) -> ResolvedSubnet {
        ResolvedSubnet { id: id.into(), zone: zone.into(), zone_id: None, free_addresses }
    }

    fn chosen(addresses: &Addresses, subnets: &[ResolvedSubnet]) -> (String, Promise) {
        let (chosen, promise) = addresses.choose(subnets, &BTreeMap::from([("a".into(), 10)]));
        (chosen["a"].id.clone(), promise)
    }

    #[test]
    fn the_emptiest_subnet_of_a_zone_is_taken_until_launches_fill_it() {
        let addresses = Addresses::default();
        let subnets = [subnet("s-1", "a", 105), subnet("s-2", "a", 100), subnet("s-3", "b", 500)];
        assert_eq!(chosen(&addresses, &subnets).0, "s-1");
        assert_eq!(chosen(&addresses, &subnets).0, "s-2");
        assert_eq!(chosen(&addresses, &subnets).0, "s-1");
    }

    #[test]
    fn what_was_not_used_is_given_back_and_a_fresh_look_begins_anew() {
        let addresses = Addresses::default();
        let mut subnets = [subnet("s-1", "a", 105), subnet("s-2", "a", 100)];
        let (_, promise) = chosen(&addresses, &subnets);
        addresses.settle(promise, Some("s-9"));
        let (first, promise) = chosen(&addresses, &subnets);
        assert_eq!(first, "s-1");
        addresses.settle(promise, Some("s-1"));
        assert_eq!(chosen(&addresses, &subnets).0, "s-2");
        subnets[0].free_addresses = 104;
        assert_eq!(chosen(&addresses, &subnets).0, "s-1");
    }

    #[test]
    fn a_subnet_that_turned_out_to_be_full_is_the_last_choice() {
        let addresses = Addresses::default();
        let subnets = [subnet("s-1", "a", 105), subnet("s-2", "a", 20)];
        let _ = chosen(&addresses, &subnets);
        addresses.exhaust("s-1");
        assert_eq!(chosen(&addresses, &subnets).0, "s-2");
    }
}
