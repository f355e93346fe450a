//! The changing side of a solve: nodes with their free room, nodes under construction, counts per domain, limits left.
//!
//! [`World::on_place`], [`World::on_bin`] and [`World::on_new`] answer "can one more pod of this class go there, and what would
//! change"; [`World::commit`] makes it so. Every strategy works through these, so every plan obeys the same rules.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::bin::{self, Bin, Fit, MinValues, Share};
use super::bits::Bits;
use super::classes::{Class, ClassId, Level, accepts_taints};
use super::departure::Journal;
use super::domains;
use super::problem::Problem;
use super::reservations::{self, Held, Verdict};
use super::resources::{Amounts, add};
use super::states::{StateId, States, TemplateId};
use super::topology::{CounterId, RuleKind, Topology};
use super::volumes::Attachment;
use crate::cluster::HostPort;
use crate::plan::MinValuesPolicy;
use rustc_hash::FxHashMap;

/// How a strategy departs from the reference behaviour.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tuning {
    /// In a pool with limits, only types up to so many times the cheapest fitting one are kept, so that limits carry more nodes.
    pub(crate) limit_slack: Option<u32>,
    /// Which of several equal domains is taken first.
    pub(crate) domain_turn: u32,
    /// Whether spread pods take the cheapest domain the skew allows, not the emptiest.
    pub(crate) cheapest_domain: bool,
    /// Whether it is settled at once if a pod will count where that is open, the cheaper way.
    pub(crate) settles_doubt: bool,
    /// Whether a new node comes from the cheapest of several pools of equal weight, not from the first by name.
    pub(crate) cheapest_pool: bool,
}

/// The changing part of an existing node.
#[derive(Clone, Debug)]
pub(crate) struct PlaceUse {
    pub(crate) free: Amounts,
    pub(crate) ports: Vec<HostPort>,
    pub(crate) attached: BTreeSet<Attachment>,
    pub(crate) counts: Vec<(CounterId, u32)>,
    pub(crate) shares: Vec<Share>,
}

/// The changing side of a solve.
#[derive(Clone)]
pub(crate) struct World<'p> {
    pub(crate) problem: &'p Problem<'p>,
    pub(crate) states: States,
    pub(crate) places: Vec<PlaceUse>,
    pub(crate) bins: Vec<Bin>,
    /// Pods certain to be in each domain, per counter.
    pub(crate) counts: Vec<Vec<u32>>,
    /// Pods certain to be in each domain if they count at all, because their node may yet fail the counter's filter.
    pub(crate) doubtful: Vec<Vec<u32>>,
    /// Pods that may end up in each domain, per counter.
    pub(crate) possible: Vec<Vec<u32>>,
    pub(crate) host_totals: Vec<u32>,
    pub(super) remaining: Vec<Vec<(usize, i64)>>,
    /// Columns the limits still allow, per template; all when `None`.
    pub(super) within_limits: Vec<Option<Arc<Bits>>>,
    pub(super) nodes_remaining: Vec<Option<i64>>,
    /// Slots left per reservation.
    pub(crate) slots: Vec<u32>,
    /// Whether the last refusal was only because reserved capacity is taken for now.
    pub(crate) waits_for_reserved: bool,
    pub(crate) tuning: Tuning,
    /// Waiting pods each counter will count.
    pub(crate) population: Vec<u32>,
    /// What was changed, where that may have to be undone.
    pub(super) journal: Option<Journal>,
    /// What pods with such requests cost on the machine of a state that suits them best, as far as somebody asked.
    pub(super) worths: FxHashMap<(StateId, Amounts), f64>,
    /// Questions asked so far: the measure of work.
    pub(crate) steps: u64,
}

/// Which counts are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tally {
    Certain,
    Doubtful,
    Possible,
    /// Over all nodes, of host-level counters.
    Hosts,
}

/// A node under construction as it would be with one more pod.
#[derive(Clone, Debug)]
pub(crate) struct Addition {
    pub(crate) state: StateId,
    pub(crate) fit: Fit,
    allowed: Option<Arc<Bits>>,
    lowered: Option<MinValues>,
    reserved: Held,
}

/// No instance type is left.
pub(crate) struct NothingLeft;

/// Where a pod goes.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    Place(usize),
    Bin(usize, Addition),
    New(TemplateId, Addition),
}

impl<'p> World<'p> {
    pub(crate) fn new(problem: &'p Problem<'p>, states: States, tuning: Tuning) -> Self {
        let places = problem
            .places
            .iter()
            .map(|place| PlaceUse {
                free: place.free.clone(),
                ports: place.ports.clone(),
                attached: place.attached.clone(),
                counts: place.counts.clone(),
                shares: Vec::new(),
            })
            .collect();
        let mut world = Self {
            problem,
            states,
            places,
            bins: Vec::new(),
            counts: problem.counts.clone(),
            doubtful: problem.nothing_doubtful(),
            possible: problem.counts.clone(),
            host_totals: problem.host_totals.clone(),
            remaining: problem.templates.iter().map(|template| template.remaining.clone()).collect(),
            within_limits: vec![None; problem.templates.len()],
            nodes_remaining: problem.templates.iter().map(|template| template.nodes_remaining).collect(),
            slots: problem.reservations.slots.iter().map(|(_, left)| *left).collect(),
            waits_for_reserved: false,
            tuning,
            population: problem.population.clone(),
            journal: None,
            worths: FxHashMap::default(),
            steps: 0,
        };
        for template in 0..problem.templates.len() {
            world.apply_limits(template);
        }
        world
    }

    pub(crate) fn class(&self, id: ClassId) -> &'p Class {
        &self.problem.classes[id as usize]
    }

    /// Whether one more pod of the class fits on an existing node, as far as nothing but that node is concerned.
    pub(crate) fn suits_place(&self, class: &Class, level: &Level, place: usize) -> bool {
        let fixed = &self.problem.places[place];
        let Some(conditions) = level.conditions else { return false };
        accepts_taints(&class.spec.tolerations, &fixed.node.taints, level.tolerates_preferences)
            && fixed.satisfies(self.states.conditions(conditions))
            && (class.volume_alternatives.is_empty()
                || class
                    .volume_alternatives
                    .iter()
                    .any(|sets| fixed.satisfies(self.states.conditions(*sets))))
    }

    /// Whether an existing node has the resources for one more pod.
    pub(crate) fn has_room(&self, class: &Class, place: usize) -> bool {
        class.amounts.iter().zip(&self.places[place].free).all(|(more, free)| more <= free)
    }

    /// Whether one more pod of the class fits on an existing node that suits it.
    pub(crate) fn on_place(&self, class: &Class, level: &Level, place: usize) -> bool {
        let used = &self.places[place];
        let fixed = &self.problem.places[place];
        self.has_room(class, place)
            && !class.spec.host_ports.iter().any(|port| used.ports.iter().any(|taken| taken.conflicts(port)))
            && (fixed.node.volume_limits.is_empty() || attaches(fixed, &used.attached, &class.attachments))
            && self.host_rules_hold(class, level, |counter| {
                used.counts.iter().find(|(id, _)| *id == counter).map_or(0, |(_, count)| *count)
            })
            && self.label_rules_hold(class, level, place)
    }

    fn label_rules_hold(&self, class: &Class, level: &Level, place: usize) -> bool {
        let labels = &self.problem.places[place].labels;
        let of_rules = level.rules.iter().all(|rule| match rule.topology {
            Topology::Host => true,
            Topology::Label(key) => match labels[key as usize] {
                Some(value) => domains::permits(self, rule, value),
                None => matches!(rule.kind, RuleKind::AntiAffinity { .. }),
            },
        });
        of_rules
            && class.refused_by.iter().all(|counter| match self.problem.counters.get(*counter).topology {
                Topology::Host => true,
                Topology::Label(key) => labels[key as usize]
                    .is_none_or(|value| self.possible[*counter as usize][value as usize] == 0),
            })
    }

    /// Rules whose domain is the node itself.
    fn host_rules_hold(&self, class: &Class, level: &Level, count: impl Fn(CounterId) -> u32) -> bool {
        let refused = class.refused_by.iter().any(|counter| {
            self.problem.counters.get(*counter).topology == Topology::Host && count(*counter) > 0
        });
        !refused
            && level.rules.iter().filter(|rule| rule.topology == Topology::Host).all(|rule| {
                let here = count(rule.counter);
                match rule.kind {
                    RuleKind::Spread { max_skew, .. } => here + u32::from(rule.selects_itself) <= max_skew,
                    RuleKind::AntiAffinity { .. } => here == 0,
                    RuleKind::Affinity { .. } => {
                        here > 0 || (rule.selects_itself && self.host_totals[rule.counter as usize] == 0)
                    }
                }
            })
    }

    /// What an open node would become with one more pod; `Err(true)` when it can never take one again.
    pub(crate) fn on_bin(&mut self, class: &Class, level: &Level, index: usize) -> Result<Addition, bool> {
        self.steps += 1;
        let bin = &self.bins[index];
        if !level.templates.contains(bin.template as usize) || bin.port_taken(class) {
            return Err(true);
        }
        if !self.host_rules_hold(class, level, |counter| bin.count(counter)) {
            return Err(!has_host_affinity(level));
        }
        let (state, position, load) = (bin.state, bin.position, bin.load.clone());
        let biggest = &self.states.get(state);
        // The state only narrows, so a load that no column of the present state carries never fits again.
        if bin::cheapest(self.problem, biggest, bin.allowed.as_deref(), &load, &class.amounts, position)
            .is_none()
        {
            return Err(true);
        }
        self.grow(class, level, index).ok_or(false)
    }

    fn grow(&mut self, class: &Class, level: &Level, index: usize) -> Option<Addition> {
        // Lent for the while: nobody looks at it through the list, and a copy for every question would cost more than the answers.
        let bin = std::mem::take(&mut self.bins[index]);
        let addition = self.extended(class, level, &bin);
        self.bins[index] = bin;
        addition
    }

    /// What a new node of a template would become with its first pod.
    pub(crate) fn on_new(&mut self, class: &Class, level: &Level, template: TemplateId) -> Option<Addition> {
        self.steps += 1;
        if !level.templates.contains(template as usize)
            || self.nodes_remaining[template as usize].is_some_and(|left| left <= 0)
        {
            return None;
        }
        if !self.host_rules_hold(class, level, |_| 0) {
            return None;
        }
        let mut bin = Bin::new(self.problem, template);
        bin.allowed = self.within_limits(template);
        let addition = self.extended(class, level, &bin)?;
        let Some(tight) = self.tightened(class, template, &addition) else { return Some(addition) };
        bin.allowed = Some(tight);
        self.extended(class, level, &bin)
    }

    /// A new node for one pod of the class, from the first pool that can make one.
    pub(crate) fn new_node(&mut self, class: &Class, level: &Level) -> Option<(TemplateId, Addition)> {
        let templates = &self.problem.templates;
        let mut best: Option<(TemplateId, Addition)> = None;
        for template in 0..templates.len() as TemplateId {
            let weight = templates[template as usize].pool.weight;
            let settled = |(known, _): &(TemplateId, Addition)| {
                !self.tuning.cheapest_pool || templates[*known as usize].pool.weight > weight
            };
            if best.as_ref().is_some_and(settled) {
                break;
            }
            if let Some(addition) = self.on_new(class, level, template)
                && best.as_ref().is_none_or(|(_, known)| addition.fit.price < known.fit.price)
            {
                best = Some((template, addition));
            }
            // Lighter pools are no substitute for reserved capacity that frees up soon.
            if self.waits_for_reserved {
                break;
            }
        }
        best
    }

    /// Columns whose capacity the pool's limits still allow; all when `None`.
    pub(crate) fn within_limits(&self, template: TemplateId) -> Option<Arc<Bits>> {
        self.within_limits[template as usize].clone()
    }

    /// What is left of `limits.nodes`.
    pub(crate) fn nodes_left(&self, template: TemplateId) -> Option<i64> {
        self.nodes_remaining[template as usize]
    }

    /// Limited resources and what is left of them.
    pub(crate) fn limits_left(&self, template: TemplateId) -> &[(usize, i64)] {
        &self.remaining[template as usize]
    }

    /// Finds the columns the limits of a template still allow.
    pub(super) fn apply_limits(&mut self, template: usize) {
        let left = &self.remaining[template];
        let types = &self.problem.templates[template].types;
        let capacity = &self.problem.columns.capacity;
        let exceeds =
            |column: &usize| left.iter().any(|(resource, left)| capacity[*column][*resource] > *left);
        let excluded: Vec<usize> = types.iter().filter(exceeds).collect();
        self.within_limits[template] = (!excluded.is_empty()).then(|| {
            let mut allowed = types.clone();
            excluded.into_iter().for_each(|column| allowed.remove(column));
            Arc::new(allowed)
        });
    }

    /// With a limited pool and tuning that says so: only types about the size of the cheapest fitting one.
    fn tightened(&self, class: &Class, template: TemplateId, addition: &Addition) -> Option<Arc<Bits>> {
        let slack = i64::from(self.tuning.limit_slack?);
        let limited = &self.remaining[template as usize];
        let state = self.states.get(addition.state);
        let capacity = |column: u32| &self.problem.columns.capacity[column as usize];
        let cheapest = capacity(state.order.columns[addition.fit.position as usize].1);
        let mut allowed = Bits::none(self.problem.columns.len());
        for (_, column) in bin::carrying(self.problem, state, addition.allowed.as_deref(), &class.amounts) {
            let close = |(resource, _): &(usize, i64)| {
                capacity(column)[*resource] <= cheapest[*resource].saturating_mul(slack)
            };
            if limited.iter().all(close) {
                allowed.insert(column as usize);
            }
        }
        (!limited.is_empty()).then(|| Arc::new(allowed))
    }

    /// A node as it would be with one more pod.
    fn extended(&mut self, class: &Class, level: &Level, bin: &Bin) -> Option<Addition> {
        let problem = self.problem;
        let base = self.states.narrow(bin.state, level.conditions?, &problem.columns)?;
        if class.volume_alternatives.is_empty() {
            return self.settled(class, level, bin, base);
        }
        class.volume_alternatives.iter().find_map(|alternative| {
            let state = self.states.narrow(base, *alternative, &problem.columns)?;
            self.settled(class, level, bin, state)
        })
    }

    /// Applies topology rules, column restrictions, resources and `minValues`.
    fn settled(&mut self, class: &Class, level: &Level, bin: &Bin, state: StateId) -> Option<Addition> {
        let allowed = self.columns_left(class, bin).ok()?;
        let probe = domains::Probe { class, level, bin, allowed: allowed.as_deref() };
        let state = domains::narrow(self, &probe, state)?;
        let of = self.states.get(state);
        let before = self.states.get(bin.state);
        let from = if Arc::ptr_eq(&of.order, &before.order) { bin.position } else { 0 };
        let fit = bin::cheapest(self.problem, of, allowed.as_deref(), &bin.load, &class.amounts, from)?;
        let lowered = self.min_values(class, bin, state, allowed.as_deref()).ok()?;
        match reservations::verdict(self, class, bin, state, allowed.as_deref()) {
            Verdict::Holds(reserved) => Some(Addition { state, fit, allowed, lowered, reserved }),
            Verdict::Wait => {
                self.waits_for_reserved = true;
                None
            }
        }
    }

    /// Columns left after the pod's host ports and volumes are taken into account.
    pub(crate) fn columns_left(&self, class: &Class, bin: &Bin) -> Result<Option<Arc<Bits>>, NothingLeft> {
        let mut allowed = bin.allowed.clone();
        if !class.spec.host_ports.is_empty() {
            let template = &self.problem.templates[bin.template as usize];
            let mut free =
                template.columns_with_free_ports(&class.spec.host_ports, self.problem.columns.len());
            if let Some(present) = &allowed {
                free.and_with(present);
            }
            allowed = Some(Arc::new(free));
        }
        if !class.attachments.is_empty() {
            let attached: BTreeSet<Attachment> = bin.attached.union(&class.attachments).cloned().collect();
            let mut able =
                allowed.as_deref().cloned().unwrap_or_else(|| Bits::all(self.problem.columns.len()));
            for column in 0..self.problem.columns.len() {
                let limits = &self.problem.columns.instance_type(column as u32).volume_limits;
                let over = |(driver, limit): (&Arc<str>, &u32)| {
                    attached.iter().filter(|(name, _)| name == driver).count() > *limit as usize
                };
                if limits.iter().any(over) {
                    able.remove(column);
                }
            }
            allowed = Some(Arc::new(able));
        }
        match &allowed {
            Some(columns) if columns.is_empty() => Err(NothingLeft),
            _ => Ok(allowed),
        }
    }

    /// Checks `minValues`; the numbers come back lowered where that is needed and allowed.
    fn min_values(
        &self,
        class: &Class,
        bin: &Bin,
        state: StateId,
        allowed: Option<&Bits>,
    ) -> Result<Option<MinValues>, NothingLeft> {
        if bin.min_values.is_empty() {
            return Ok(None);
        }
        let mut load = bin.load.clone();
        add(&mut load, &class.amounts, 1);
        let of = self.states.get(state);
        let mut lowered = bin.min_values.clone();
        for (key, wanted) in &mut lowered {
            let columns = bin::carrying(self.problem, of, allowed, &load).map(|(_, column)| column);
            let found = bin::distinct_values(self.problem, &self.states, state, *key, columns);
            if found < *wanted {
                if self.problem.options.min_values == MinValuesPolicy::Strict || bin.pods > 0 {
                    return Err(NothingLeft);
                }
                *wanted = found;
            }
        }
        Ok((lowered != bin.min_values).then_some(lowered))
    }

    /// Puts one pod of the class on the target.
    pub(crate) fn commit(&mut self, id: ClassId, level: u8, target: Target) {
        match target {
            Target::Place(place) => self.commit_place(id, level, place),
            Target::Bin(index, addition) => self.commit_bin(id, level, index, addition),
            Target::New(template, addition) => {
                let bin = Bin::new(self.problem, template);
                self.bins.push(bin);
                self.charge(self.class(id), template, &addition);
                self.commit_bin(id, level, self.bins.len() - 1, addition);
            }
        }
    }

    /// Takes a new node off the pool's limits, at the size of the largest type it may become.
    fn charge(&mut self, class: &Class, template: TemplateId, addition: &Addition) {
        if let Some(left) = &mut self.nodes_remaining[template as usize] {
            *left -= 1;
        }
        if self.remaining[template as usize].is_empty() {
            return;
        }
        let state = self.states.get(addition.state);
        let columns: Vec<u32> =
            bin::carrying(self.problem, state, addition.allowed.as_deref(), &class.amounts)
                .map(|(_, column)| column)
                .collect();
        for (resource, left) in &mut self.remaining[template as usize] {
            let largest =
                columns.iter().map(|column| self.problem.columns.capacity[*column as usize][*resource]).max();
            *left -= largest.unwrap_or(0);
        }
        self.apply_limits(template as usize);
    }

    fn commit_place(&mut self, id: ClassId, level: u8, place: usize) {
        let class = self.class(id);
        self.remember(place);
        let used = &mut self.places[place];
        add(&mut used.free, &class.amounts, -1);
        used.ports.extend(class.spec.host_ports.iter().cloned());
        used.attached.extend(class.attachments.iter().cloned());
        match used.shares.iter_mut().find(|share| share.class == id && share.level == level) {
            Some(share) => share.count += 1,
            None => used.shares.push(Share { class: id, level, count: 1 }),
        }
        for counter in class.counted_by.iter().chain(&class.refuses) {
            self.count_on_place(*counter, place);
        }
    }

    fn count_on_place(&mut self, counter: CounterId, place: usize) {
        let of = self.problem.counters.get(counter);
        let fixed = &self.problem.places[place];
        if of
            .filter
            .is_some_and(|filter| !self.problem.filters[filter as usize].admits_place(fixed, &self.states))
        {
            return;
        }
        match of.topology {
            Topology::Host => {
                self.shift(Tally::Hosts, counter, 0, 1);
                let counts = &mut self.places[place].counts;
                match counts.iter_mut().find(|(known, _)| *known == counter) {
                    Some((_, count)) => *count += 1,
                    None => counts.push((counter, 1)),
                }
            }
            Topology::Label(key) => {
                if let Some(value) = fixed.labels[key as usize] {
                    self.shift(Tally::Certain, counter, value as usize, 1);
                    self.shift(Tally::Possible, counter, value as usize, 1);
                }
            }
        }
    }

    fn commit_bin(&mut self, id: ClassId, level: u8, index: usize, addition: Addition) {
        let class = self.class(id);
        let problem = self.problem;
        let old = self.bins[index].state;
        if old != addition.state {
            self.recount(index, old, addition.state);
        }
        let bin = &mut self.bins[index];
        bin.state = addition.state;
        bin.position = addition.fit.position;
        bin.price = addition.fit.price;
        bin.allowed = addition.allowed;
        reservations::hold(&mut self.slots, &bin.reserved, &addition.reserved);
        bin.reserved = addition.reserved;
        if let Some(lowered) = addition.lowered {
            bin.min_values = lowered;
            bin.min_values_relaxed = true;
        }
        bin.put(id, class, level, 1, |counter| problem.counters.get(counter).topology == Topology::Host);
        for counter in class.counted_by.iter().chain(&class.refuses) {
            match problem.counters.get(*counter).topology {
                Topology::Host => self.shift(Tally::Hosts, *counter, 0, 1),
                Topology::Label(_) => domains::count(self, class, *counter, addition.state, 1),
            }
        }
    }

    /// When a node's future narrows, the pods on it are counted where they can still be.
    fn recount(&mut self, index: usize, old: StateId, new: StateId) {
        let problem = self.problem;
        let shares = self.bins[index].shares.clone();
        for share in &shares {
            let class = self.class(share.class);
            for counter in class.counted_by.iter().chain(&class.refuses) {
                if let Topology::Label(key) = problem.counters.get(*counter).topology {
                    let filtered = problem.counters.get(*counter).filter.is_some();
                    if filtered || self.states.get(old).set(key) != self.states.get(new).set(key) {
                        domains::count(self, class, *counter, old, -i64::from(share.count));
                        domains::count(self, class, *counter, new, i64::from(share.count));
                    }
                }
            }
        }
    }
}

fn has_host_affinity(level: &Level) -> bool {
    level
        .rules
        .iter()
        .any(|rule| rule.topology == Topology::Host && matches!(rule.kind, RuleKind::Affinity { .. }))
}

fn attaches(
    fixed: &super::nodes::Place,
    attached: &BTreeSet<Attachment>,
    more: &BTreeSet<Attachment>,
) -> bool {
    fixed.node.volume_limits.iter().all(|(driver, limit)| {
        let new = more.difference(attached).filter(|(name, _)| name == driver).count();
        new == 0 || attached.iter().filter(|(name, _)| name == driver).count() + new <= *limit as usize
    })
}
