//! Taking nodes out of a world, and putting everything back as it was.

use std::sync::Arc;

use super::bin::{Bin, Share};
use super::bits::Bits;
use super::classes::ClassId;
use super::topology::{CounterId, Topology};
use super::world::{PlaceUse, Tally, World};

/// What was changed since a world began to be recorded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Journal {
    /// Existing nodes as they were before.
    places: Vec<(usize, PlaceUse)>,
    /// What was added to counts.
    counts: Vec<(Tally, CounterId, usize, i64)>,
}

/// A point to return to: how long the journal was, and everything that is not in it.
pub(crate) struct Mark {
    places: usize,
    counts: usize,
    bins: Vec<Bin>,
    remaining: Vec<Vec<(usize, i64)>>,
    within_limits: Vec<Option<Arc<Bits>>>,
    nodes_remaining: Vec<Option<i64>>,
    slots: Vec<u32>,
}

/// The room on a node that takes no more pods: every pod takes at least itself.
const SHUT: i64 = -1;

impl World<'_> {
    /// Remembers from now on what is changed, so that it can be undone.
    pub(crate) fn record(&mut self) {
        self.journal = Some(Journal::default());
    }

    pub(super) fn remember(&mut self, place: usize) {
        if let Some(journal) = &mut self.journal {
            journal.places.push((place, self.places[place].clone()));
        }
    }

    /// Counts so many pods more (or, negative, fewer).
    pub(crate) fn shift(&mut self, tally: Tally, counter: CounterId, value: usize, times: i64) {
        if let Some(journal) = &mut self.journal {
            journal.counts.push((tally, counter, value, times));
        }
        self.change(tally, counter, value, times);
    }

    fn change(&mut self, tally: Tally, counter: CounterId, value: usize, times: i64) {
        let counter = counter as usize;
        let count = match tally {
            Tally::Certain => &mut self.counts[counter][value],
            Tally::Doubtful => &mut self.doubtful[counter][value],
            Tally::Possible => &mut self.possible[counter][value],
            Tally::Hosts => &mut self.host_totals[counter],
        };
        *count = u32::try_from(i64::from(*count) + times)
            .expect("pods are only taken off where they were counted");
    }

    /// A point [`World::undo`] returns to.
    pub(crate) fn mark(&self) -> Mark {
        let journal = self.journal.as_ref();
        Mark {
            places: journal.map_or(0, |journal| journal.places.len()),
            counts: journal.map_or(0, |journal| journal.counts.len()),
            bins: self.bins.clone(),
            remaining: self.remaining.clone(),
            within_limits: self.within_limits.clone(),
            nodes_remaining: self.nodes_remaining.clone(),
            slots: self.slots.clone(),
        }
    }

    /// Makes everything undone since the mark was taken.
    pub(crate) fn undo(&mut self, mark: &Mark) {
        let Some(mut journal) = self.journal.take() else { return };
        for (place, before) in journal.places.drain(mark.places..).rev() {
            self.places[place] = before;
        }
        for (tally, counter, value, times) in journal.counts.drain(mark.counts..).rev() {
            self.change(tally, counter, value, -times);
        }
        self.journal = Some(journal);
        self.bins.clone_from(&mark.bins);
        self.remaining.clone_from(&mark.remaining);
        self.within_limits.clone_from(&mark.within_limits);
        self.nodes_remaining.clone_from(&mark.nodes_remaining);
        self.slots.clone_from(&mark.slots);
    }

    /// Says which pods are about to be placed.
    pub(crate) fn expect<'q>(&mut self, queue: impl IntoIterator<Item = &'q (ClassId, u32)>) {
        self.population.fill(0);
        for (class, count) in queue {
            let class = self.class(*class);
            for counter in class.counted_by.iter().chain(&class.refuses) {
                self.population[*counter as usize] += count;
            }
        }
    }

    /// Takes the shares off all existing nodes, which keep the pods.
    pub(crate) fn take_shares(&mut self) -> Vec<(usize, Vec<Share>)> {
        let places = self.places.iter_mut().enumerate();
        let taken = places.map(|(id, place)| (id, std::mem::take(&mut place.shares)));
        taken.filter(|(_, shares)| !shares.is_empty()).collect()
    }

    /// Lets no more pods on an existing node.
    pub(crate) fn shut(&mut self, place: usize) {
        self.remember(place);
        self.places[place].free.fill(SHUT);
    }

    /// Takes an existing node away with everything on it; returns the pods that had been placed on it here.
    pub(crate) fn remove_place(&mut self, place: usize) -> Vec<Share> {
        self.shut(place);
        let shares = std::mem::take(&mut self.places[place].shares);
        let fixed = &self.problem.places[place];
        for (counter, count) in std::mem::take(&mut self.places[place].counts) {
            self.shift(Tally::Hosts, counter, 0, -i64::from(count));
        }
        for (counter, count) in &fixed.domain_counts {
            self.uncount(*counter, place, *count);
        }
        for share in &shares {
            let class = self.class(share.class);
            for counter in class.counted_by.iter().chain(&class.refuses) {
                let of = self.problem.counters.get(*counter);
                let admits =
                    |filter: u32| self.problem.filters[filter as usize].admits_place(fixed, &self.states);
                if of.topology != Topology::Host && of.filter.is_none_or(admits) {
                    self.uncount(*counter, place, share.count);
                }
            }
        }
        self.give_back_limits(place);
        shares
    }

    fn uncount(&mut self, counter: CounterId, place: usize, count: u32) {
        let Topology::Label(key) = self.problem.counters.get(counter).topology else { return };
        if let Some(value) = self.problem.places[place].labels[key as usize] {
            self.shift(Tally::Certain, counter, value as usize, -i64::from(count));
            self.shift(Tally::Possible, counter, value as usize, -i64::from(count));
        }
    }

    /// What a node that leaves took of its pool's limits is free again.
    fn give_back_limits(&mut self, place: usize) {
        let node = &self.problem.places[place].node;
        let templates = &self.problem.templates;
        let Some(pool) = &node.node_pool else { return };
        let Some(id) = templates.iter().position(|template| template.pool.name == *pool) else { return };
        if let Some(left) = &mut self.nodes_remaining[id] {
            *left += 1;
        }
        if !self.remaining[id].is_empty() {
            let freed = self.problem.limits.demand(&node.capacity);
            for (resource, left) in &mut self.remaining[id] {
                *left += freed[*resource];
            }
            self.apply_limits(id);
        }
    }
}
