//! Which instance types a launch may become: those that fit, less those that nobody would want, at most sixty.
//!
//! The filters are upstream's, in its order. Where one leaves nothing, nothing can be had.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_api::labels::aws::{
    CAPACITY_RESERVATION_INTERRUPTIBLE, CAPACITY_RESERVATION_TYPE, INSTANCE_SIZE, INSTANCE_TENANCY,
};
use karpenter_core::catalog::{CAPACITY_TYPE, InstanceType, ON_DEMAND, Offering, RESERVED, SPOT};
use karpenter_core::requirements::{Requirement, RequirementSet};
use karpenter_quantity::ResourceList;

/// More types than this are not sent to EC2.
const MOST_TYPES: usize = 60;
/// Resources of machines that are too dear to be launched for pods that do not ask for them.
const ACCELERATORS: [&str; 5] = [
    "nvidia.com/gpu",
    "amd.com/gpu",
    "habana.ai/gaudi",
    "aws.amazon.com/neuron",
    "aws.amazon.com/neuroncore",
];

/// A type that a claim may become, with the offerings that are left.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) instance_type: Arc<InstanceType>,
    pub(crate) offerings: Vec<Offering>,
}

impl Candidate {
    fn cheapest(&self) -> f64 {
        self.offerings.iter().map(|offering| offering.price).fold(f64::INFINITY, f64::min)
    }
}

/// What a claim asks for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) requirements: RequirementSet,
    /// How many values of a label there must be to choose from.
    pub(crate) min_values: BTreeMap<Arc<str>, usize>,
    pub(crate) requests: ResourceList,
}

impl Wanted {
    /// Reads lines of requirements.
    pub(crate) fn new(lines: &[Requirement], requests: ResourceList) -> Self {
        let min_values = lines.iter().filter_map(|line| Some((line.key.clone(), line.min_values? as usize)));
        Self { requirements: lines.iter().collect(), min_values: min_values.collect(), requests }
    }

    fn allows(&self, capacity_type: &str) -> bool {
        self.requirements.get(CAPACITY_TYPE).is_none_or(|set| set.contains(capacity_type))
    }
}

/// How a launch is bought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purchase {
    OnDemand,
    Spot,
    /// From a reservation.
    Reserved,
    /// From a reservation that may be taken back.
    Interruptible,
    /// From a block of capacity for some days.
    CapacityBlock,
}

impl Purchase {
    /// Its value of the label.
    pub(crate) fn capacity_type(self) -> &'static str {
        match self {
            Self::OnDemand => ON_DEMAND,
            Self::Spot => SPOT,
            Self::Reserved | Self::Interruptible | Self::CapacityBlock => RESERVED,
        }
    }

    pub(crate) fn is_reserved(self) -> bool {
        self.capacity_type() == RESERVED
    }
}

/// What a launch may become and how it is bought.
#[derive(Clone, Debug)]
pub(crate) struct Selection {
    pub(crate) candidates: Vec<Candidate>,
    pub(crate) purchase: Purchase,
    /// Whether machines share their hosts: as far as the claim lets us, they do.
    pub(crate) tenancy: &'static str,
}

/// Why nothing can be launched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Nothing {
    #[error("no instance type that meets the requirements and has room for the pods can be had now")]
    Available,
    #[error("minValues asks for {wanted} values of {key}, and what can be had now has {found}")]
    MinValues { key: Arc<str>, wanted: usize, found: usize },
}

/// Selects what is sent to EC2. With `best_effort`, minimums of choice that cannot be had are overlooked.
pub(crate) fn select(
    types: &[Arc<InstanceType>],
    wanted: &Wanted,
    best_effort: bool,
) -> Result<Selection, Nothing> {
    let candidates = compatible(types, wanted);
    let candidates = one_kind_of_reservation(candidates, wanted);
    let candidates = cheapest_block(candidates);
    let candidates = roomiest_reservations(candidates, wanted);
    let candidates = without_exotic(candidates, wanted);
    let candidates = without_dear_spot(candidates, wanted);
    let candidates = cheapest_types(candidates, wanted);
    let purchase = purchase(&candidates, wanted).ok_or(Nothing::Available)?;
    if !best_effort {
        meets_min_values(&candidates, wanted)?;
    }
    let shared = wanted.requirements.get(INSTANCE_TENANCY).is_none_or(|set| set.contains("default"));
    Ok(Selection {
        candidates: only(candidates, purchase.capacity_type()),
        purchase,
        tenancy: if shared { "default" } else { "dedicated" },
    })
}

/// Whether there are as many values to choose from as the claim asks for.
fn meets_min_values(candidates: &[Candidate], wanted: &Wanted) -> Result<(), Nothing> {
    for (key, least) in &wanted.min_values {
        let values = candidates.iter().filter_map(|candidate| {
            let offered = candidate.instance_type.requirements.get(key)?;
            let allowed = wanted.requirements.get(key);
            let values = offered.values()?.filter(move |value| allowed.is_none_or(|set| set.contains(value)));
            Some(values.collect::<Vec<_>>())
        });
        let found = values.flatten().collect::<BTreeSet<_>>().len();
        if found < *least {
            return Err(Nothing::MinValues { key: Arc::clone(key), wanted: *least, found });
        }
    }
    Ok(())
}

/// Types that meet the requirements and have room, with the offerings that can be had.
fn compatible(types: &[Arc<InstanceType>], wanted: &Wanted) -> Vec<Candidate> {
    let meets = |offered: &RequirementSet| {
        offered.iter().all(|(key, set)| wanted.requirements.get(key).is_none_or(|other| set.meets(other)))
    };
    let fits = |instance_type: &InstanceType, offering: &Offering| {
        let capacity = offering.capacity_override.as_ref().unwrap_or(&instance_type.capacity);
        let overhead = offering.overhead_override.as_ref().unwrap_or(&instance_type.overhead);
        let mut left = capacity.clone();
        left.subtract(overhead);
        wanted.requests.fits_within(&left)
    };
    let candidates = types.iter().filter(|instance_type| meets(&instance_type.requirements));
    let candidates = candidates.filter_map(|instance_type| {
        let plain = wanted.requests.fits_within(&instance_type.allocatable());
        let offerings: Vec<Offering> = instance_type
            .offerings
            .iter()
            .filter(|offering| offering.is_launchable() && meets(&offering.requirements))
            .filter(|offering| {
                let overridden = offering.capacity_override.is_some() || offering.overhead_override.is_some();
                if overridden { fits(instance_type, offering) } else { plain }
            })
            .cloned()
            .collect();
        let instance_type = Arc::clone(instance_type);
        (!offerings.is_empty()).then_some(Candidate { instance_type, offerings })
    });
    candidates.collect()
}

fn is(offering: &Offering, capacity_type: &str) -> bool {
    offering.capacity_type().is_some_and(|found| &**found == capacity_type)
}

fn value<'o>(offering: &'o Offering, key: &str) -> Option<&'o str> {
    offering.requirements.get(key).and_then(|set| set.single()).map(|value| &**value)
}

fn is_block(offering: &Offering) -> bool {
    value(offering, CAPACITY_RESERVATION_TYPE) == Some("capacity-block")
}

fn is_interruptible(offering: &Offering) -> bool {
    value(offering, CAPACITY_RESERVATION_INTERRUPTIBLE) == Some("true")
}

/// Which kind of reservation comes first where prices are equal: plain, block, interruptible.
fn kind_of_reservation(offering: &Offering) -> u8 {
    if is_interruptible(offering) { 2 } else { u8::from(is_block(offering)) }
}

fn retain(candidates: Vec<Candidate>, keep: impl Fn(&Candidate, &Offering) -> bool) -> Vec<Candidate> {
    let kept = candidates.into_iter().map(|candidate| {
        let offerings =
            candidate.offerings.iter().filter(|offering| keep(&candidate, offering)).cloned().collect();
        Candidate { offerings, ..candidate }
    });
    kept.filter(|candidate| !candidate.offerings.is_empty()).collect()
}

/// Different kinds of reservations need different requests: only the kind with the cheapest offering stays.
fn one_kind_of_reservation(candidates: Vec<Candidate>, wanted: &Wanted) -> Vec<Candidate> {
    if !wanted.allows(RESERVED) {
        return candidates;
    }
    let reserved = candidates.iter().flat_map(|candidate| &candidate.offerings).filter(|o| is(o, RESERVED));
    let cheapest = reserved.min_by(|a, b| {
        a.price.total_cmp(&b.price).then_with(|| kind_of_reservation(a).cmp(&kind_of_reservation(b)))
    });
    let Some(kind) = cheapest.map(kind_of_reservation) else { return candidates };
    retain(candidates, |_, offering| !is(offering, RESERVED) || kind_of_reservation(offering) == kind)
}

/// A launch takes one block: the cheapest.
fn cheapest_block(candidates: Vec<Candidate>) -> Vec<Candidate> {
    let blocks = candidates.iter().flat_map(|candidate| {
        candidate.offerings.iter().filter(|offering| is_block(offering)).map(move |o| (candidate, o))
    });
    let cheapest = blocks.min_by(|(a, left), (b, right)| {
        left.price.total_cmp(&right.price).then_with(|| a.instance_type.name.cmp(&b.instance_type.name))
    });
    let Some((name, id)) = cheapest.map(|(candidate, offering)| {
        (candidate.instance_type.name.clone(), offering.reservation.as_ref().map(|found| found.id.clone()))
    }) else {
        return candidates;
    };
    retain(candidates, |candidate, offering| {
        !is_block(offering)
            || (candidate.instance_type.name == name
                && offering.reservation.as_ref().map(|found| &found.id) == id.as_ref())
    })
}

/// Where reservations can be used, nothing else is: per type and zone the one with most room.
fn roomiest_reservations(candidates: Vec<Candidate>, wanted: &Wanted) -> Vec<Candidate> {
    if !wanted.allows(RESERVED) {
        return candidates;
    }
    let reserved = retain(candidates.clone(), |_, offering| is(offering, RESERVED));
    if reserved.is_empty() {
        return candidates;
    }
    let roomiest = reserved.into_iter().map(|candidate| {
        let mut by_zone: BTreeMap<Option<Arc<str>>, Offering> = BTreeMap::new();
        for offering in &candidate.offerings {
            let room = |offering: &Offering| offering.reservation.as_ref().map_or(0, |found| found.remaining);
            let zone = offering.zone().cloned();
            if by_zone.get(&zone).is_none_or(|known| room(offering) > room(known)) {
                by_zone.insert(zone, offering.clone());
            }
        }
        Candidate { offerings: by_zone.into_values().collect(), ..candidate }
    });
    roomiest.collect()
}

/// Bare metal and accelerators are for those who ask; they stay if there is nothing else.
fn without_exotic(candidates: Vec<Candidate>, wanted: &Wanted) -> Vec<Candidate> {
    if !wanted.min_values.is_empty() {
        return candidates;
    }
    let exotic = |candidate: &Candidate| {
        let size = candidate.instance_type.requirements.get(INSTANCE_SIZE).and_then(|set| set.single());
        let metal = size.is_some_and(|size| size.contains("metal"));
        let capacity = &candidate.instance_type.capacity;
        metal || ACCELERATORS.iter().any(|name| !capacity.get(name).is_zero())
    };
    let plain: Vec<Candidate> = candidates.iter().filter(|candidate| !exotic(candidate)).cloned().collect();
    if plain.is_empty() { candidates } else { plain }
}

/// Spot that costs more than the cheapest machine on demand is no bargain.
fn without_dear_spot(candidates: Vec<Candidate>, wanted: &Wanted) -> Vec<Candidate> {
    if !wanted.min_values.is_empty() || !wanted.allows(SPOT) || !wanted.allows(ON_DEMAND) {
        return candidates;
    }
    let prices = candidates.iter().flat_map(|candidate| &candidate.offerings);
    let cheapest = prices.filter(|o| is(o, ON_DEMAND)).map(|o| o.price).fold(f64::INFINITY, f64::min);
    retain(candidates, |_, offering| !is(offering, SPOT) || offering.price <= cheapest)
}

/// The cheapest types, and of dearer ones as many as minimums of choice need.
fn cheapest_types(mut candidates: Vec<Candidate>, wanted: &Wanted) -> Vec<Candidate> {
    candidates.sort_by(|a, b| {
        let by_price = a.cheapest().total_cmp(&b.cheapest());
        by_price.then_with(|| a.instance_type.name.cmp(&b.instance_type.name))
    });
    if candidates.len() <= MOST_TYPES {
        return candidates;
    }
    let mut needed = vec![false; candidates.len()];
    for (key, least) in &wanted.min_values {
        let mut values: BTreeSet<Arc<str>> = BTreeSet::new();
        for (index, candidate) in candidates.iter().enumerate() {
            if values.len() >= *least {
                break;
            }
            let offered = candidate.instance_type.requirements.get(key).and_then(|set| set.values());
            let before = values.len();
            values.extend(offered.into_iter().flatten().cloned());
            needed[index] |= values.len() > before;
        }
    }
    let mut room = MOST_TYPES.saturating_sub(needed.iter().filter(|needed| **needed).count());
    let mut needed = needed.into_iter();
    candidates.retain(|_| {
        let needed = needed.next().unwrap_or_default();
        let taken = needed || room > 0;
        room -= usize::from(!needed && taken);
        taken
    });
    candidates
}

/// Reservations first, for they are paid for; then spot; then on demand.
fn purchase(candidates: &[Candidate], wanted: &Wanted) -> Option<Purchase> {
    let offerings = || candidates.iter().flat_map(|candidate| &candidate.offerings);
    let any = |capacity_type| wanted.allows(capacity_type) && offerings().any(|o| is(o, capacity_type));
    if any(RESERVED) {
        let reserved = offerings().find(|o| is(o, RESERVED))?;
        return Some(match kind_of_reservation(reserved).cmp(&1) {
            Ordering::Less => Purchase::Reserved,
            Ordering::Equal => Purchase::CapacityBlock,
            Ordering::Greater => Purchase::Interruptible,
        });
    }
    if any(SPOT) {
        return Some(Purchase::Spot);
    }
    any(ON_DEMAND).then_some(Purchase::OnDemand)
}

fn only(candidates: Vec<Candidate>, capacity_type: &str) -> Vec<Candidate> {
    retain(candidates, |_, offering| is(offering, capacity_type))
}

#[cfg(test)]
#[path = "candidates_tests.rs"]
mod tests;
