//! A node under construction: what it may still become, what it carries, and its cheapest instance type.

use std::collections::BTreeSet;
use std::sync::Arc;

use smallvec::SmallVec;

use super::bits::Bits;
use super::classes::{Class, ClassId};
use super::columns::ColumnId;
use super::label_sets::KeyId;
use super::problem::Problem;
use super::reservations::Held;
use super::resources::{Amounts, add, within};
use super::states::{State, StateId, States, TemplateId};
use super::topology::CounterId;
use super::volumes::Attachment;
use crate::cluster::HostPort;

/// Keys with `minValues` and how many values are needed.
pub(crate) type MinValues = SmallVec<[(KeyId, u32); 2]>;

/// Pods of one class on a node, placed at one step of relaxation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) class: ClassId,
    pub(crate) level: u8,
    pub(crate) count: u32,
}

/// A node under construction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bin {
    pub(crate) template: TemplateId,
    pub(crate) state: StateId,
    pub(crate) load: Amounts,
    pub(crate) pods: u32,
    /// Where in the state's price order the cheapest fitting column is.
    pub(crate) position: u32,
    pub(crate) price: f64,
    /// Columns left by limits, host ports and volume limits; all when `None`.
    pub(crate) allowed: Option<Arc<Bits>>,
    pub(crate) shares: SmallVec<[Share; 4]>,
    /// Pods counted on this node, per host-level counter.
    pub(crate) counts: SmallVec<[(CounterId, u32); 4]>,
    pub(crate) ports: Vec<HostPort>,
    pub(crate) attached: BTreeSet<Attachment>,
    /// `minValues` still in force; lowered from the pool's where the policy allows.
    pub(crate) min_values: MinValues,
    pub(crate) min_values_relaxed: bool,
    /// Reservations of which the node holds a slot.
    pub(crate) reserved: Held,
}

/// Where a load fits: position in the price order, and price.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fit {
    pub(crate) position: u32,
    pub(crate) price: f64,
}

impl Bin {
    /// An empty node of a template.
    pub(crate) fn new(problem: &Problem<'_>, template: TemplateId) -> Self {
        let of = &problem.templates[template as usize];
        Self {
            template,
            state: of.base,
            load: Amounts::from_elem(0, problem.resources.len()),
            pods: 0,
            position: 0,
            price: 0.0,
            allowed: None,
            shares: SmallVec::new(),
            counts: SmallVec::new(),
            ports: Vec::new(),
            attached: BTreeSet::new(),
            min_values: of.min_values.iter().copied().collect(),
            min_values_relaxed: false,
            reserved: Held::new(),
        }
    }

    pub(crate) fn count(&self, counter: CounterId) -> u32 {
        self.counts.iter().find(|(id, _)| *id == counter).map_or(0, |(_, count)| *count)
    }

    pub(crate) fn add_count(&mut self, counter: CounterId, times: u32) {
        match self.counts.iter_mut().find(|(id, _)| *id == counter) {
            Some((_, count)) => *count += times,
            None => self.counts.push((counter, times)),
        }
    }

    /// Puts pods of a class on the node, whose new state and fit have been found.
    pub(crate) fn put(
        &mut self,
        id: ClassId,
        class: &Class,
        level: u8,
        count: u32,
        host: impl Fn(CounterId) -> bool,
    ) {
        add(&mut self.load, &class.amounts, i64::from(count));
        self.pods += count;
        match self.shares.iter_mut().find(|share| share.class == id && share.level == level) {
            Some(share) => share.count += count,
            None => self.shares.push(Share { class: id, level, count }),
        }
        for counter in class.counted_by.iter().chain(&class.refuses).filter(|counter| host(**counter)) {
            self.add_count(*counter, count);
        }
        self.ports.extend(class.spec.host_ports.iter().cloned());
        self.attached.extend(class.attachments.iter().cloned());
    }

    /// Whether a host port of the class is already taken.
    pub(crate) fn port_taken(&self, class: &Class) -> bool {
        class.spec.host_ports.iter().any(|port| self.ports.iter().any(|taken| taken.conflicts(port)))
    }
}

/// The cheapest column, from `from` on in the price order, that carries `load` and `more`.
pub(crate) fn cheapest(
    problem: &Problem<'_>,
    state: &State,
    allowed: Option<&Bits>,
    load: &[i64],
    more: &[i64],
    from: u32,
) -> Option<Fit> {
    let needed: Amounts = load.iter().zip(more).map(|(load, more)| load + more).collect();
    let carries = carries(problem, state, allowed, &needed);
    for (begin, stretch) in state.order.large_enough(&needed, from) {
        if let Some(offset) = stretch.iter().position(|(_, column)| carries(*column)) {
            return Some(Fit { position: begin + offset as u32, price: stretch[offset].0 });
        }
    }
    None
}

/// Every column that carries `load`, cheapest first.
pub(crate) fn carrying<'a>(
    problem: &'a Problem<'_>,
    state: &'a State,
    allowed: Option<&'a Bits>,
    load: &'a [i64],
) -> impl Iterator<Item = (f64, ColumnId)> + 'a {
    let columns = state.order.large_enough(load, 0).flat_map(|(_, stretch)| stretch);
    let carries = carries(problem, state, allowed, load);
    columns.copied().filter(move |(_, column)| carries(*column))
}

/// Whether a column may be bought in a state and carries `load`.
fn carries<'a>(
    problem: &'a Problem<'_>,
    state: &'a State,
    allowed: Option<&'a Bits>,
    load: &'a [i64],
) -> impl Fn(ColumnId) -> bool + 'a {
    let room = &problem.templates[state.template as usize].room;
    move |column| {
        let index = column as usize;
        state.columns.contains(index)
            && allowed.is_none_or(|allowed| allowed.contains(index))
            && within(load, &room[index])
    }
}

/// How many distinct values of `key` the columns offer, counting only values the state accepts.
pub(crate) fn distinct_values(
    problem: &Problem<'_>,
    states: &States,
    state: StateId,
    key: KeyId,
    columns: impl Iterator<Item = ColumnId>,
) -> u32 {
    let wanted = states.get(state).set(key);
    let name = problem.labels.name(key);
    let mut seen = Bits::none(problem.labels.value_count(key));
    for column in columns {
        let Some(set) = problem.columns.instance_type(column).requirements.get(name) else { continue };
        for value in set.values().into_iter().flatten() {
            let Some(id) = problem.labels.value(key, value) else { continue };
            if wanted.is_none_or(|wanted| wanted.bits.contains(id as usize)) {
                seen.insert(id as usize);
            }
        }
    }
    seen.count() as u32
}
