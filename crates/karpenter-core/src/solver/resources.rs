//! Resources as columns of integers: every quantity of one resource in the same unit, chosen so that nothing is lost.

use std::collections::BTreeMap;

use karpenter_quantity::{Quantity, ResourceList};
use smallvec::SmallVec;

/// Amounts of the resources that matter in this problem, in column order.
pub(crate) type Amounts = SmallVec<[i64; 4]>;

/// The largest amount kept: far from overflow when many are added up.
const AMOUNT_MAX: i128 = (i64::MAX / 1024) as i128;

/// The resources somebody requests, and the unit each is counted in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Resources {
    names: Vec<String>,
    /// Nano units per counted unit.
    unit: Vec<i128>,
}

impl Resources {
    /// Columns for every resource in `demands`; units fine enough for demands and `supplies` alike.
    pub(crate) fn new<'a>(
        demands: impl Iterator<Item = &'a ResourceList>,
        supplies: impl Iterator<Item = &'a ResourceList>,
    ) -> Self {
        let mut units: BTreeMap<&str, i128> = BTreeMap::new();
        for list in demands {
            for (name, quantity) in list {
                let unit = units.entry(name).or_insert(COARSEST);
                *unit = (*unit).min(unit_of(quantity));
            }
        }
        for list in supplies {
            for (name, quantity) in list {
                if let Some(unit) = units.get_mut(name) {
                    *unit = (*unit).min(unit_of(quantity));
                }
            }
        }
        let (names, unit) = units.into_iter().map(|(name, unit)| (name.to_owned(), unit)).unzip();
        Self { names, unit }
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    pub(crate) fn name(&self, index: usize) -> &str {
        &self.names[index]
    }

    /// Requests, rounded up where the unit is too coarse.
    pub(crate) fn demand(&self, list: &ResourceList) -> Amounts {
        self.amounts(list, |nano, unit| nano.div_euclid(unit) + i128::from(nano.rem_euclid(unit) != 0))
    }

    /// What is available, rounded down where the unit is too coarse.
    pub(crate) fn supply(&self, list: &ResourceList) -> Amounts {
        self.amounts(list, i128::div_euclid)
    }

    /// An amount as a quantity again.
    pub(crate) fn quantity(&self, index: usize, amount: i64) -> Quantity {
        let format = if self.names[index] == "memory" {
            karpenter_quantity::Format::BinarySI
        } else {
            karpenter_quantity::Format::DecimalSI
        };
        Quantity::from_nano(i128::from(amount) * self.unit[index], format)
    }

    fn amounts(&self, list: &ResourceList, round: impl Fn(i128, i128) -> i128) -> Amounts {
        let amount = |(name, unit): (&String, &i128)| {
            round(list.get(name).as_nano(), *unit).clamp(-AMOUNT_MAX, AMOUNT_MAX) as i64
        };
        self.names.iter().zip(&self.unit).map(amount).collect()
    }
}

const COARSEST: i128 = 1_000_000_000;

/// The coarsest decimal unit that holds the quantity exactly, but never so fine that it would overflow.
fn unit_of(quantity: Quantity) -> i128 {
    let nano = quantity.as_nano();
    let mut unit = COARSEST;
    while unit > 1 && nano % unit != 0 && nano / (unit / 1000) <= AMOUNT_MAX {
        unit /= 1000;
    }
    unit
}

/// Whether `load` and `more` together stay within `room`.
pub(crate) fn fits(load: &[i64], more: &[i64], room: &[i64]) -> bool {
    load.iter().zip(more).zip(room).all(|((load, more), room)| load + more <= *room)
}

/// Whether `load` stays within `room`.
pub(crate) fn within(load: &[i64], room: &[i64]) -> bool {
    load.iter().zip(room).all(|(load, room)| load <= room)
}

pub(crate) fn add(load: &mut [i64], more: &[i64], times: i64) {
    for (load, more) in load.iter_mut().zip(more) {
        *load = load.saturating_add(more.saturating_mul(times));
    }
}

/// How many times `more` still fits between `load` and `room`, at most `limit`.
pub(crate) fn times(load: &[i64], more: &[i64], room: &[i64], limit: u32) -> u32 {
    let mut most = i64::from(limit);
    for ((load, more), room) in load.iter().zip(more).zip(room) {
        if *more > 0 {
            most = most.min((room - load).div_euclid(*more));
        } else if load > room {
            return 0;
        }
    }
    most.max(0) as u32
}
