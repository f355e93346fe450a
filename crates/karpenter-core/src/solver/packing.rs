//! The second half of packing: lots become nodes, one well-filled node at a time.
//!
//! A pod is worth what it would cost on the machine that suits it best. For the next pod in line, several sizes of machine are filled on
//! trial and the one that carries most worth per price is kept, as often as there are pods to repeat it. A pod that would make
//! a node dearer than the pod is worth is left for another node: that is how on-demand pods stay off spot nodes. Where pods must be alone
//! of their kind on a node, so many nodes are needed anyway; then no node is made larger than an even share of what is left.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::bin::{self, Bin};
use super::classes::{Class, Level};
use super::columns::ColumnId;
use super::lots::Lot;
use super::resources::{Amounts, times, within};
use super::states::StateId;
use super::topology::{CounterId, RuleKind, Topology};
use super::world::World;

/// How a node is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filling {
    /// The largest pods first.
    Largest,
    /// The pods that match the shape of the free room first.
    Balanced,
}

/// The settings of one packing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tactics {
    pub(crate) filling: Filling,
    /// Sizes of machine tried per node.
    pub(crate) sizes: usize,
    /// How many times an even share of what is left a node may be, where pods must be apart.
    pub(crate) share: f64,
}

/// With more distinct request vectors than this, matching shapes costs too much.
const BALANCED_VECTORS_MAX: usize = 80;

/// More work than this per node is not worth it.
const SIZES_TIMES_VECTORS_MAX: usize = 20_000;
const SIZES_MIN: usize = 5;

/// Pods with equal requests.
struct Vector {
    amounts: Amounts,
    /// Lots that still have pods.
    lots: Vec<u32>,
    worth: f64,
}

/// A node filled on trial.
struct Trial {
    bin: Bin,
    taken: SmallVec<[(u32, u32); 8]>,
    worth: f64,
    price: f64,
}

/// Turns all lots into nodes of the world.
pub(crate) fn pack(world: &mut World<'_>, lots: Vec<Lot>, tactics: Tactics) {
    let mut packer = Packer::new(world, lots, tactics);
    for lead in packer.leads() {
        while packer.lots[lead].count > 0 {
            packer.use_free_room(lead);
            if packer.lots[lead].count > 0 {
                packer.open_nodes(lead);
            }
        }
    }
}

struct Packer<'w, 'p> {
    world: &'w mut World<'p>,
    lots: Vec<Lot>,
    worth: Vec<f64>,
    vectors: Vec<Vector>,
    /// The least anybody asks of each resource.
    smallest: Amounts,
    tactics: Tactics,
    /// Worth of all pods without a node.
    worth_left: f64,
    /// Pods without a node per group that keeps apart, and how many of them may share a node.
    apart: FxHashMap<Apart, (u32, u32)>,
    /// The groups each lot belongs to.
    groups: Vec<SmallVec<[(Apart, u32); 1]>>,
    /// Open nodes each lot has already been offered.
    offered: Vec<u32>,
    sizes: FxHashMap<StateId, Arc<Vec<(f64, ColumnId)>>>,
}

impl<'w, 'p> Packer<'w, 'p> {
    fn new(world: &'w mut World<'p>, lots: Vec<Lot>, tactics: Tactics) -> Self {
        let worth: Vec<f64> = worths(world, &lots);
        let vectors = vectors(world, &lots, &worth);
        let worth_left = lots.iter().zip(&worth).map(|(lot, worth)| f64::from(lot.count) * worth).sum();
        let groups: Vec<_> = lots.iter().map(|lot| keeps_apart(world.class(lot.class), lot.level)).collect();
        let mut apart: FxHashMap<Apart, (u32, u32)> = FxHashMap::default();
        for (lot, groups) in lots.iter().zip(&groups) {
            for (group, quota) in groups {
                let entry = apart.entry(group.clone()).or_insert((0, *quota));
                *entry = (entry.0 + lot.count, entry.1.min(*quota));
            }
        }
        let offered = vec![0; lots.len()];
        let filling = if vectors.len() > BALANCED_VECTORS_MAX { Filling::Largest } else { tactics.filling };
        // With very many different pods every trial is long, so fewer sizes are tried.
        let sizes = tactics.sizes.min((SIZES_TIMES_VECTORS_MAX / vectors.len().max(1)).max(SIZES_MIN));
        let tactics = Tactics { filling, sizes, ..tactics };
        let smallest = smallest(&vectors);
        Self {
            world,
            lots,
            worth,
            vectors,
            smallest,
            tactics,
            worth_left,
            apart,
            groups,
            offered,
            sizes: FxHashMap::default(),
        }
    }

    /// Lots in the order they open nodes: those that need many nodes anyway, then the most worthy pods.
    fn leads(&self) -> Vec<usize> {
        let mut leads: Vec<usize> = (0..self.lots.len()).collect();
        leads.sort_by(|a, b| {
            let needed = self.nodes_needed(*b).cmp(&self.nodes_needed(*a));
            needed.then_with(|| self.worth[*b].total_cmp(&self.worth[*a])).then_with(|| a.cmp(b))
        });
        leads
    }

    /// How many nodes the pods a lot must be apart from need at least; 0 when it may share nodes freely.
    fn nodes_needed(&self, lot: usize) -> u32 {
        let needed = |(group, _): &(Apart, u32)| {
            let (pods, quota) = self.apart[group];
            pods.div_ceil(quota.max(1))
        };
        self.groups[lot].iter().map(needed).max().unwrap_or(0)
    }

    /// Puts pods of a lot where there is room at no extra price.
    fn use_free_room(&mut self, lead: usize) {
        let problem = self.world.problem;
        for index in self.offered[lead] as usize..self.world.bins.len() {
            if self.lots[lead].count == 0 {
                break;
            }
            self.offered[lead] = index as u32 + 1;
            let bin = &self.world.bins[index];
            let lot = &self.lots[lead];
            let class = self.world.class(lot.class);
            let column = self.world.states.get(bin.state).order.columns[bin.position as usize].1;
            let room = &problem.templates[bin.template as usize].room[column as usize];
            let many = times(&bin.load, &class.amounts, room, lot.count);
            if many == 0 {
                continue;
            }
            let many = many.min(quota(self.world, class, &class.levels[lot.level as usize], bin, column));
            let (from, price_now) = (bin.state, bin.price);
            let Some((state, price)) = joined(self.world, (from, price_now), lot, column, many) else {
                continue;
            };
            if price > price_now {
                continue;
            }
            let mut bin = self.world.bins[index].clone();
            bin.state = state;
            put(self.world, &mut bin, &self.lots[lead], many);
            if self.has_min_values(&bin) {
                self.remove(lead, many);
                self.seal(&mut bin);
                self.world.bins[index] = bin;
            }
        }
    }

    /// Opens the best node for the next pod of the lot, as often as there are pods to repeat it.
    fn open_nodes(&mut self, lead: usize) {
        let sizes = self.sizes_for(lead);
        let mut best: Option<Trial> = None;
        for (_, column) in &sizes {
            let Some(trial) = self.fill(lead, *column) else { continue };
            let better =
                |known: &Trial| trial.worth * known.price > known.worth * trial.price * (1.0 + 1e-12);
            if best.as_ref().is_none_or(better) {
                best = Some(trial);
            }
        }
        let Trial { bin, taken, .. } = best.unwrap_or_else(|| self.alone(lead));
        let repeats =
            taken.iter().map(|(lot, count)| self.lots[*lot as usize].count / count).min().unwrap_or(1);
        let mut sealed = bin;
        self.seal(&mut sealed);
        for (lot, count) in &taken {
            self.remove(*lot as usize, count * repeats);
        }
        for _ in 0..repeats {
            self.world.bins.push(sealed.clone());
        }
    }

    /// A node for nothing but one pod of the lot: what its assignment was based on.
    fn alone(&self, lead: usize) -> Trial {
        let lot = &self.lots[lead];
        let mut bin = Bin::new(self.world.problem, lot.template);
        bin.allowed = self.world.within_limits(lot.template);
        bin.state = lot.state;
        put(self.world, &mut bin, lot, 1);
        Trial { bin, taken: SmallVec::from_slice(&[(lead as u32, 1)]), worth: self.worth[lead], price: 0.0 }
    }

    /// Marks pods of a lot as placed.
    fn remove(&mut self, lot: usize, count: u32) {
        self.lots[lot].count -= count;
        self.worth_left -= self.worth[lot] * f64::from(count);
        for (group, _) in &self.groups[lot] {
            if let Some((left, _)) = self.apart.get_mut(group) {
                *left -= count;
            }
        }
    }

    /// Settles which columns a filled node may become and which is the cheapest.
    fn seal(&mut self, bin: &mut Bin) {
        let problem = self.world.problem;
        for share in bin.shares.clone() {
            let class = self.world.class(share.class);
            if !class.spec.host_ports.is_empty() || !class.attachments.is_empty() {
                bin.allowed = self
                    .world
                    .columns_left(class, bin)
                    .ok()
                    .expect("the column the node was filled for is left");
            }
        }
        let state = self.world.states.get(bin.state);
        let none = Amounts::from_elem(0, problem.resources.len());
        let fit = bin::cheapest(problem, state, bin.allowed.as_deref(), &bin.load, &none, 0)
            .expect("the column the node was filled for carries it");
        bin.position = fit.position;
        bin.price = fit.price;
    }

    /// The sizes of machine to try for the next pod of a lot.
    fn sizes_for(&mut self, lead: usize) -> Vec<(f64, ColumnId)> {
        let lot = &self.lots[lead];
        let class = self.world.class(lot.class);
        let state = lot.state;
        let template = lot.template;
        let needed = self.nodes_needed(lead);
        let even_share = (needed > 0).then(|| self.tactics.share * self.worth_left / f64::from(needed));
        let allowed = self.world.within_limits(template);
        let frontier = self.frontier(state);
        let room = &self.world.problem.templates[template as usize].room;
        let fitting: Vec<(f64, ColumnId)> = frontier
            .iter()
            .copied()
            .filter(|(_, column)| within(&class.amounts, &room[*column as usize]))
            .filter(|(_, column)| allowed.as_ref().is_none_or(|allowed| allowed.contains(*column as usize)))
            .collect();
        let Some((least, _)) = fitting.first().copied() else { return self.any_size(lead) };
        let most = even_share.unwrap_or(f64::INFINITY).min(self.worth_left * 1.5).max(least);
        let useful: Vec<_> = fitting.into_iter().filter(|(price, _)| *price <= most).collect();
        spaced(&useful, self.tactics.sizes)
    }

    /// Where limits forbid every efficient size, any size that fits will do.
    fn any_size(&mut self, lead: usize) -> Vec<(f64, ColumnId)> {
        let lot = &self.lots[lead];
        let class = self.world.class(lot.class);
        let allowed = self.world.within_limits(lot.template);
        let state = self.world.states.get(lot.state);
        let sizes: Vec<_> =
            bin::carrying(self.world.problem, state, allowed.as_deref(), &class.amounts).take(1).collect();
        sizes
    }

    /// Columns of a state no other column beats in price and room alike, cheapest first.
    fn frontier(&mut self, state: StateId) -> Arc<Vec<(f64, ColumnId)>> {
        if let Some(known) = self.sizes.get(&state) {
            return known.clone();
        }
        let of = self.world.states.get(state);
        let room = &self.world.problem.templates[of.template as usize].room;
        let mut frontier: Vec<(f64, ColumnId)> = Vec::new();
        for (price, column) in
            of.order.columns.iter().filter(|(_, column)| of.columns.contains(*column as usize))
        {
            let beaten = frontier
                .iter()
                .rev()
                .any(|(_, other)| within(&room[*column as usize], &room[*other as usize]));
            if !beaten {
                frontier.push((*price, *column));
            }
        }
        let frontier = Arc::new(frontier);
        self.sizes.insert(state, frontier.clone());
        frontier
    }

    /// A node of one size, filled with the lead and whatever goes well with it.
    fn fill(&mut self, lead: usize, column: ColumnId) -> Option<Trial> {
        let problem = self.world.problem;
        let mut trial = self.alone(lead);
        let class = self.world.class(self.lots[lead].class);
        let level = &class.levels[self.lots[lead].level as usize];
        let empty = Bin { allowed: trial.bin.allowed.clone(), ..Bin::new(problem, trial.bin.template) };
        if quota(self.world, class, level, &empty, column) == 0 {
            return None;
        }
        trial.bin.price = problem.columns.price(column, &self.world.states.get(trial.bin.state).offerings);
        match self.tactics.filling {
            Filling::Largest => {
                for vector in 0..self.vectors.len() {
                    if self.add_all(&mut trial, vector, column) && self.is_full(&trial.bin, column) {
                        break;
                    }
                }
            }
            Filling::Balanced => self.add_balanced(&mut trial, column),
        }
        trial.price = trial.bin.price;
        self.has_min_values(&trial.bin).then_some(trial)
    }

    fn has_min_values(&self, bin: &Bin) -> bool {
        let problem = self.world.problem;
        bin.min_values.iter().all(|(key, wanted)| {
            let state = self.world.states.get(bin.state);
            let columns =
                bin::carrying(problem, state, bin.allowed.as_deref(), &bin.load).map(|(_, column)| column);
            bin::distinct_values(problem, &self.world.states, bin.state, *key, columns) >= *wanted
        })
    }

    /// Whether not even the smallest pod fits any more.
    fn is_full(&self, bin: &Bin, column: ColumnId) -> bool {
        let room = &self.world.problem.templates[bin.template as usize].room[column as usize];
        times(&bin.load, &self.smallest, room, 1) == 0
    }

    /// Adds as many pods of one vector as fit; says whether any did.
    fn add_all(&mut self, trial: &mut Trial, vector: usize, column: ColumnId) -> bool {
        let problem = self.world.problem;
        let room = &problem.templates[trial.bin.template as usize].room[column as usize];
        let mut many = times(&trial.bin.load, &self.vectors[vector].amounts, room, u32::MAX);
        let before = trial.bin.pods;
        while many > 0 {
            let added = self.add_some(trial, vector, column, many);
            if added == 0 {
                break;
            }
            many -= added;
        }
        trial.bin.pods > before
    }

    /// Adds pods of the vector whose shape matches the free room best, until nothing fits.
    fn add_balanced(&mut self, trial: &mut Trial, column: ColumnId) {
        let problem = self.world.problem;
        let room = &problem.templates[trial.bin.template as usize].room[column as usize];
        let mut open: SmallVec<[u32; 64]> = (0..self.vectors.len() as u32).collect();
        loop {
            let mut best: Option<(f64, usize)> = None;
            let mut position = 0;
            while position < open.len() {
                let vector = &self.vectors[open[position] as usize];
                if vector.lots.is_empty() || times(&trial.bin.load, &vector.amounts, room, 1) == 0 {
                    open.swap_remove(position);
                    continue;
                }
                let match_of_shape = alignment(&trial.bin.load, &vector.amounts, room);
                if best.is_none_or(|(known, _)| match_of_shape > known) {
                    best = Some((match_of_shape, position));
                }
                position += 1;
            }
            let Some((_, position)) = best else { break };
            if self.add_some(trial, open[position] as usize, column, 1) == 0 {
                open.swap_remove(position);
            }
        }
    }

    /// Adds up to `many` pods of one lot of the vector; returns how many.
    fn add_some(&mut self, trial: &mut Trial, vector: usize, column: ColumnId, many: u32) -> u32 {
        self.world.steps += 1;
        let lots = &mut self.vectors[vector].lots;
        let of = &self.lots;
        if lots.first().is_some_and(|lot| of[*lot as usize].count == 0) {
            lots.retain(|lot| of[*lot as usize].count > 0);
        }
        for position in 0..self.vectors[vector].lots.len() {
            let index = self.vectors[vector].lots[position] as usize;
            let taken =
                trial.taken.iter().find(|(lot, _)| *lot as usize == index).map_or(0, |(_, count)| *count);
            let left = self.lots[index].count - taken;
            if left == 0 {
                continue;
            }
            let lot = self.lots[index].clone();
            let class = self.world.class(lot.class);
            let level = &class.levels[lot.level as usize];
            let count = many.min(left).min(quota(self.world, class, level, &trial.bin, column));
            let now = (trial.bin.state, trial.bin.price);
            let Some((state, price)) = joined(self.world, now, &lot, column, count) else { continue };
            let worth = self.worth[index] * f64::from(count);
            if price > trial.bin.price && price - trial.bin.price > worth {
                continue;
            }
            trial.bin.state = state;
            trial.bin.price = price;
            put(self.world, &mut trial.bin, &lot, count);
            trial.worth += worth;
            match trial.taken.iter_mut().find(|(lot, _)| *lot as usize == index) {
                Some((_, taken)) => *taken += count,
                None => trial.taken.push((index as u32, count)),
            }
            return count;
        }
        0
    }
}

/// The state and price of a node's column once pods of a lot have joined, or nothing when they cannot.
fn joined(
    world: &mut World<'_>,
    (from, price): (StateId, f64),
    lot: &Lot,
    column: ColumnId,
    many: u32,
) -> Option<(StateId, f64)> {
    if many == 0 {
        return None;
    }
    let problem = world.problem;
    let state = world.states.narrow(from, lot.conditions, &problem.columns)?;
    if state == from {
        return Some((state, price));
    }
    let of = world.states.get(state);
    of.columns.contains(column as usize).then(|| (state, problem.columns.price(column, &of.offerings)))
}

fn put(world: &World<'_>, bin: &mut Bin, lot: &Lot, count: u32) {
    let problem = world.problem;
    bin.put(lot.class, world.class(lot.class), lot.level, count, |counter| {
        problem.counters.get(counter).topology == Topology::Host
    });
}

/// How many pods of a class a node may take, as far as host-level rules, ports and volumes are concerned.
pub(crate) fn quota(world: &World<'_>, class: &Class, level: &Level, bin: &Bin, column: ColumnId) -> u32 {
    if !level.templates.contains(bin.template as usize) {
        return 0;
    }
    let host = |counter: &&CounterId| world.problem.counters.get(**counter).topology == Topology::Host;
    if class.refused_by.iter().filter(host).any(|counter| bin.count(*counter) > 0) {
        return 0;
    }
    let mut quota = u32::MAX;
    for rule in level.rules.iter().filter(|rule| rule.topology == Topology::Host) {
        let here = bin.count(rule.counter);
        quota = quota.min(match (&rule.kind, rule.selects_itself) {
            (RuleKind::Spread { max_skew, .. }, true) => max_skew.saturating_sub(here),
            (RuleKind::Spread { max_skew, .. }, false) if here <= *max_skew => u32::MAX,
            (RuleKind::AntiAffinity { .. }, true) if here == 0 => 1,
            (RuleKind::AntiAffinity { .. }, false) if here == 0 => u32::MAX,
            _ => 0,
        });
    }
    if !class.spec.host_ports.is_empty() || !class.attachments.is_empty() {
        let left = world
            .columns_left(class, bin)
            .is_ok_and(|left| left.is_none_or(|left| left.contains(column as usize)));
        let free = left && !bin.port_taken(class);
        quota = quota.min(if !free {
            0
        } else if class.spec.host_ports.is_empty() {
            u32::MAX
        } else {
            1
        });
    }
    quota
}

/// What keeps pods apart on nodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Apart {
    /// A rule of theirs.
    Counter(CounterId),
    /// A host port they all open.
    Port(u16, Arc<str>),
}

/// The groups by which pods of a class keep apart on nodes, and how many may share one.
fn keeps_apart(class: &Class, level: u8) -> SmallVec<[(Apart, u32); 1]> {
    let rules = class.levels[level as usize].rules.iter();
    let by_rule =
        rules.filter(|rule| rule.topology == Topology::Host && rule.selects_itself).filter_map(|rule| {
            match rule.kind {
                RuleKind::Spread { max_skew, .. } => Some((Apart::Counter(rule.counter), max_skew)),
                RuleKind::AntiAffinity { .. } => Some((Apart::Counter(rule.counter), 1)),
                RuleKind::Affinity { .. } => None,
            }
        });
    let by_port = class.spec.host_ports.iter().map(|port| (Apart::Port(port.port, port.protocol.clone()), 1));
    by_rule.chain(by_port).collect()
}

/// What a pod of each lot would cost on the machine that suits it best.
fn worths(world: &mut World<'_>, lots: &[Lot]) -> Vec<f64> {
    let problem = world.problem;
    lots.iter().map(|lot| worth(world, lot.state, &problem.classes[lot.class as usize].amounts)).collect()
}

/// What a pod with these requests costs on the machine of a state that suits it best.
pub(crate) fn worth(world: &mut World<'_>, state: StateId, amounts: &Amounts) -> f64 {
    let key = (state, amounts.clone());
    if let Some(known) = world.worths.get(&key) {
        return *known;
    }
    let worth = lowest_share(world, state, amounts);
    world.worths.insert(key, worth);
    worth
}

fn lowest_share(world: &World<'_>, state: StateId, amounts: &Amounts) -> f64 {
    let state = world.states.get(state);
    let room = &world.problem.templates[state.template as usize].room;
    let columns = bin::carrying(world.problem, state, None, amounts);
    columns
        .map(|(price, column)| price * share(amounts, &room[column as usize]))
        .fold(f64::INFINITY, f64::min)
}

/// The largest part of a machine's resources that the amounts take.
fn share(amounts: &[i64], room: &[i64]) -> f64 {
    amounts
        .iter()
        .zip(room)
        .filter(|(amount, _)| **amount > 0)
        .map(|(amount, room)| *amount as f64 / *room as f64)
        .fold(0.0, f64::max)
}

/// How well amounts match the shape of the room left.
fn alignment(load: &[i64], amounts: &[i64], room: &[i64]) -> f64 {
    let mut sum = 0.0;
    for ((load, amount), room) in load.iter().zip(amounts).zip(room) {
        if *room > 0 {
            let size = *room as f64;
            sum += (*amount as f64 / size) * ((room - load) as f64 / size);
        }
    }
    sum
}

/// Lots grouped by requests, the most worthy first; within a vector, lots tied to domains come before flexible ones.
fn vectors(world: &World<'_>, lots: &[Lot], worth: &[f64]) -> Vec<Vector> {
    let mut ids: FxHashMap<&Amounts, usize> = FxHashMap::default();
    let mut vectors: Vec<Vector> = Vec::new();
    for (index, lot) in lots.iter().enumerate() {
        let amounts = &world.class(lot.class).amounts;
        let next = vectors.len();
        let id = *ids.entry(amounts).or_insert(next);
        if id == next {
            vectors.push(Vector { amounts: amounts.clone(), lots: Vec::new(), worth: 0.0 });
        }
        vectors[id].lots.push(index as u32);
        vectors[id].worth = vectors[id].worth.max(worth[index]);
    }
    for vector in &mut vectors {
        let freedom = |lot: &u32| world.states.get(lots[*lot as usize].state).columns.count();
        vector.lots.sort_by_key(|lot| (freedom(lot), *lot));
    }
    vectors.sort_by(|a, b| b.worth.total_cmp(&a.worth).then_with(|| b.amounts.cmp(&a.amounts)));
    vectors
}

/// The least any vector asks, resource by resource.
fn smallest(vectors: &[Vector]) -> Amounts {
    let mut all = vectors.iter().map(|vector| vector.amounts.clone());
    let first = all.next().unwrap_or_default();
    all.fold(first, |least, amounts| least.iter().zip(&amounts).map(|(a, b)| *a.min(b)).collect())
}

/// At most `count` sizes, from the cheapest to the dearest, evenly spaced in the logarithm of the price.
fn spaced(sizes: &[(f64, ColumnId)], count: usize) -> Vec<(f64, ColumnId)> {
    if sizes.len() <= count {
        return sizes.to_vec();
    }
    let (first, last) =
        (sizes[0].0.max(f64::MIN_POSITIVE).ln(), sizes[sizes.len() - 1].0.max(f64::MIN_POSITIVE).ln());
    let mut picked: Vec<(f64, ColumnId)> = Vec::with_capacity(count);
    let mut next = 0;
    for step in 0..count {
        let wanted = first + (last - first) * step as f64 / (count - 1) as f64;
        while next + 1 < sizes.len() && sizes[next].0.max(f64::MIN_POSITIVE).ln() < wanted - 1e-12 {
            next += 1;
        }
        if picked.last().is_none_or(|known| known.1 != sizes[next].1) {
            picked.push(sizes[next]);
        }
    }
    picked
}
