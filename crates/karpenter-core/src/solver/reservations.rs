//! Reserved capacity: who holds a slot of which reservation, and what happens when all slots are taken.
//!
//! A node holds one slot of every reservation it might still be launched from. With the strict policy a pod that could use reserved capacity
//! waits for the next round rather than being given spot or on-demand capacity because the slots are held by other nodes of this round.

use std::sync::Arc;

use smallvec::SmallVec;

use super::bin::{self, Bin};
use super::bits::Bits;
use super::classes::Class;
use super::columns::Columns;
use super::resources::add;
use super::states::StateId;
use super::world::World;
use crate::plan::ReservedPolicy;

/// Index of a reservation.
pub(crate) type ReservationId = u16;

/// Reservations a node holds a slot of.
pub(crate) type Held = SmallVec<[ReservationId; 2]>;

/// The reservations of a catalog: id and slots left, the smallest number anybody reports.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reservations {
    pub(crate) slots: Vec<(Arc<str>, u32)>,
}

impl Reservations {
    pub(crate) fn new(columns: &Columns) -> Self {
        let mut slots: Vec<(Arc<str>, u32)> = Vec::new();
        let offerings = columns.types.iter().flat_map(|instance_type| &instance_type.offerings);
        for reservation in offerings
            .filter(|offering| offering.available)
            .filter_map(|offering| offering.reservation.as_ref())
        {
            match slots.iter_mut().find(|(id, _)| *id == reservation.id) {
                Some((_, left)) => *left = (*left).min(reservation.remaining),
                None => slots.push((reservation.id.clone(), reservation.remaining)),
            }
        }
        Self { slots }
    }

    fn find(&self, id: &str) -> Option<ReservationId> {
        self.slots.iter().position(|(known, _)| &**known == id).map(|index| index as ReservationId)
    }
}

/// What reserved capacity says about a node with one more pod.
pub(crate) enum Verdict {
    /// It may go on, holding these.
    Holds(Held),
    /// Reserved capacity fits, but every slot is taken: wait.
    Wait,
}

/// The reservations a node would hold with one more pod of a class.
pub(crate) fn verdict(
    world: &World<'_>,
    class: &Class,
    bin: &Bin,
    state: StateId,
    allowed: Option<&Bits>,
) -> Verdict {
    let problem = world.problem;
    let Some(policy) = problem.options.reserved.filter(|_| !problem.reservations.slots.is_empty()) else {
        return Verdict::Holds(Held::new());
    };
    let mut load = bin.load.clone();
    add(&mut load, &class.amounts, 1);
    let usable = usable(world, state, allowed, &load);
    let free = |id: &ReservationId| bin.reserved.contains(id) || world.slots[*id as usize] > 0;
    let held: Held = usable.iter().copied().filter(free).collect();
    if !held.is_empty() {
        return Verdict::Holds(held);
    }
    let misses_some = !bin.reserved.is_empty() || !usable.is_empty();
    let strict = policy == ReservedPolicy::Strict;
    if (misses_some && strict) || !has_unreserved(world, state, allowed, &load) {
        Verdict::Wait
    } else {
        Verdict::Holds(held)
    }
}

/// Whether the load can be launched without a reservation.
fn has_unreserved(world: &World<'_>, state: StateId, allowed: Option<&Bits>, load: &[i64]) -> bool {
    let of = world.states.get(state);
    let classes = &world.problem.columns.offerings;
    let unreserved = |column: u32| {
        of.offerings.iter().any(|class| {
            classes[class].reservation.is_none() && classes[class].price[column as usize].is_finite()
        })
    };
    bin::carrying(world.problem, of, allowed, load).any(|(_, column)| unreserved(column))
}

/// Reservations with slots in this problem from which the load can be launched.
fn usable(world: &World<'_>, state: StateId, allowed: Option<&Bits>, load: &[i64]) -> Held {
    let problem = world.problem;
    let of = world.states.get(state);
    let mut carrying = Bits::none(problem.columns.len());
    bin::carrying(problem, of, allowed, load).for_each(|(_, column)| carrying.insert(column as usize));
    let mut usable = Held::new();
    for class in of.offerings.iter().map(|class| &problem.columns.offerings[class]) {
        let Some(id) = class.reservation.as_ref().and_then(|id| problem.reservations.find(id)) else {
            continue;
        };
        let launchable = carrying.iter().any(|column| class.price[column].is_finite());
        if launchable && !usable.contains(&id) {
            usable.push(id);
        }
    }
    usable
}

/// Moves slots from what a node held to what it holds now.
pub(crate) fn hold(slots: &mut [u32], before: &Held, after: &Held) {
    for id in before.iter().filter(|id| !after.contains(id)) {
        slots[*id as usize] += 1;
    }
    for id in after.iter().filter(|id| !before.contains(id)) {
        slots[*id as usize] -= 1;
    }
}

/// The offering classes a node may be launched from: those of its reservations, or those without one.
pub(crate) fn offerings(world: &World<'_>, bin: &Bin) -> Bits {
    let problem = world.problem;
    let mut offerings = world.states.get(bin.state).offerings.clone();
    if problem.reservations.slots.is_empty() || problem.options.reserved.is_none() {
        return offerings;
    }
    for class in offerings.clone().iter() {
        let reservation = problem.columns.offerings[class]
            .reservation
            .as_ref()
            .and_then(|id| problem.reservations.find(id));
        let kept = match reservation {
            Some(id) => bin.reserved.contains(&id),
            None => bin.reserved.is_empty(),
        };
        if !kept {
            offerings.remove(class);
        }
    }
    offerings
}
