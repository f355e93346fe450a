//! What EC2 refused lately: offerings, whole capacity types, subnets without free addresses.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use karpenter_aws_catalogue::{Refused, RefusedOffering};
use karpenter_provider::Unavailable;

/// How long something refused is left alone at first, and at most.
const FIRST: SignedDuration = SignedDuration::from_mins(3);
const LONGEST: SignedDuration = SignedDuration::from_mins(30);

/// Something that EC2 may refuse.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Refusable {
    /// A type in a zone, bought in one way, perhaps in a placement group, perhaps in one of its partitions.
    Offering(RefusedOffering),
    /// Everything that is bought in one way.
    CapacityType(Arc<str>),
    /// A subnet: it has no free addresses.
    Subnet(Arc<str>),
    /// A capacity reservation: it is used up, or taken back.
    Reservation(Arc<str>),
}

/// The memory. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Refusals {
    memory: Arc<Mutex<Memory>>,
}

#[derive(Debug)]
struct Memory {
    refused: Unavailable<Refusable>,
    /// Grows with every change, so that whoever keeps offerings knows when to look again.
    version: u64,
}

impl Default for Refusals {
    fn default() -> Self {
        let memory = Memory { refused: Unavailable::new(FIRST, LONGEST), version: 0 };
        Self { memory: Arc::new(Mutex::new(memory)) }
    }
}

impl Refusals {
    fn lock(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a refusal.
    pub(crate) fn refuse(&self, what: Refusable, now: Timestamp) {
        let mut memory = self.lock();
        memory.refused.refuse(what, now);
        memory.version += 1;
    }

    /// Notes that something could be had, and forgets what no longer matters.
    pub(crate) fn accept(&self, what: &Refusable, now: Timestamp) {
        let mut memory = self.lock();
        memory.refused.accept(what);
        memory.refused.forget_old(now);
    }

    /// A number that changes whenever something was refused, and when the answers change by themselves.
    pub(crate) fn version(&self, now: Timestamp) -> (u64, Option<Timestamp>) {
        let memory = self.lock();
        (memory.version, memory.refused.next_change(now))
    }

    /// Whether a capacity reservation is to be left alone.
    pub(crate) fn refuses_reservation(&self, id: &Arc<str>, now: Timestamp) -> bool {
        self.lock().refused.is_refused(&Refusable::Reservation(Arc::clone(id)), now)
    }

    /// What is to be left alone at `now`.
    pub(crate) fn picture(&self, now: Timestamp) -> Refused {
        let memory = self.lock();
        let mut picture = Refused::default();
        for refused in memory.refused.all(now) {
            match refused {
                Refusable::Offering(offering) => {
                    picture.offerings.insert(offering.clone());
                }
                Refusable::CapacityType(capacity_type) => {
                    picture.capacity_types.insert(Arc::clone(capacity_type));
                }
                Refusable::Subnet(subnet) => {
                    picture.subnets.insert(Arc::clone(subnet));
                }
                Refusable::Reservation(_) => {}
            }
        }
        picture
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minutes: i64) -> Timestamp {
        Timestamp::from_second(minutes * 60).unwrap()
    }

    #[test]
    fn what_was_refused_is_told_while_its_time_lasts() {
        let memory = Refusals::default();
        let offering = RefusedOffering {
            instance_type: "m5.large".into(),
            zone: "a".into(),
            capacity_type: "spot".into(),
            group: Some("pg-1".into()),
            partition: Some("2".into()),
        };
        memory.refuse(Refusable::Offering(offering.clone()), at(0));
        memory.refuse(Refusable::CapacityType("spot".into()), at(0));
        memory.refuse(Refusable::Subnet("subnet-1".into()), at(0));
        memory.refuse(Refusable::Reservation("cr-1".into()), at(0));
        let picture = memory.picture(at(1));
        assert_eq!(picture.offerings, [offering.clone()].into());
        assert_eq!(picture.capacity_types, ["spot".into()].into());
        assert_eq!(picture.subnets, ["subnet-1".into()].into());
        assert!(memory.refuses_reservation(&"cr-1".into(), at(1)));
        assert!(memory.picture(at(4)).is_empty());
        memory.accept(&Refusable::Offering(offering), at(1));
        assert!(memory.picture(at(1)).offerings.is_empty());
    }

    #[test]
    fn the_version_moves_with_refusals_and_tells_when_they_end() {
        let memory = Refusals::default();
        assert_eq!(memory.version(at(0)), (0, None));
        memory.refuse(Refusable::CapacityType("spot".into()), at(0));
        assert_eq!(memory.version(at(0)), (1, Some(at(3))));
        assert_eq!(memory.version(at(4)), (1, None));
    }
}
