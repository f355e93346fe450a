//! The first half of packing: every pod gets an existing node, or the domains of the new node it will run on.
//!
//! Deciding zones before nodes is what makes packing free: once a spread pod knows its zone, any node in that zone will do, and the
//! order in which nodes are filled no longer matters. A [`Lot`] is a number of pods that will go to interchangeable new nodes.

use std::collections::{BTreeSet, VecDeque};

use rustc_hash::{FxHashMap, FxHashSet};

use super::bin::Share;
use super::classes::{Class, ClassId, Level};
use super::domains;
use super::existing::{Finder, Suited};
use super::label_sets::{KeyId, LabelSets};
use super::problem::Problem;
use super::states::{ConditionsId, StateId, TemplateId, meet};
use super::topology::{CounterId, RuleKind, Topology};
use super::world::{Addition, Tally, Target, World};
use crate::catalog::NODE_POOL;
use crate::plan::MinValuesPolicy;

/// Pods of one class that go to new nodes with the same conditions.
#[derive(Clone, Debug)]
pub(crate) struct Lot {
    pub(crate) class: ClassId,
    pub(crate) level: u8,
    /// The pool a new node for them comes from.
    pub(crate) template: TemplateId,
    /// The state of a new node with one of them.
    pub(crate) state: StateId,
    /// What they ask of any node, their domains included.
    pub(crate) conditions: ConditionsId,
    pub(crate) count: u32,
}

/// Whether packing understands every rule of the problem. Reserved capacity and lowered `minValues` need the queue.
pub(crate) fn packable(problem: &Problem<'_>) -> bool {
    problem.reservations.slots.is_empty()
        && (problem.options.min_values == MinValuesPolicy::Strict
            || problem.templates.iter().all(|template| template.min_values.is_empty()))
}

/// Classes that must share nodes with others, and those they must share nodes with: which node they get decides, so they come first.
pub(crate) fn beside_others(problem: &Problem<'_>) -> Vec<bool> {
    let counters = |class: &Class| -> Vec<CounterId> {
        let rules = class.levels.iter().flat_map(|level| &level.rules);
        let beside = rules
            .filter(|rule| rule.topology == Topology::Host && matches!(rule.kind, RuleKind::Affinity { .. }));
        beside.map(|rule| rule.counter).collect()
    };
    let wanted: FxHashSet<CounterId> = problem.classes.iter().flat_map(counters).collect();
    let bound = |class: &Class| {
        !counters(class).is_empty() || class.counted_by.iter().any(|counter| wanted.contains(counter))
    };
    problem.classes.iter().map(bound).collect()
}

/// Assigns every pod of a queue; returns the lots and the pods left over.
pub(crate) fn assign(world: &mut World<'_>, queue: VecDeque<(ClassId, u32)>) -> (Vec<Lot>, Vec<Share>) {
    let finder = Finder::Own(Suited::new(world));
    assign_with(world, queue, finder)
}

/// The same, with nodes looked up by `finder`.
pub(crate) fn assign_with(
    world: &mut World<'_>,
    mut queue: VecDeque<(ClassId, u32)>,
    finder: Finder<'_>,
) -> (Vec<Lot>, Vec<Share>) {
    let mut assigner = Assigner { finder, lots: Vec::new(), ids: FxHashMap::default() };
    let mut stuck = 0;
    while let Some((class, count)) = queue.pop_front() {
        let left = assigner.assign(world, class, count);
        stuck = if left < count { 0 } else { stuck + 1 };
        if left > 0 {
            queue.push_back((class, left));
        }
        if stuck > 0 && stuck >= queue.len() {
            break;
        }
    }
    let left = queue.into_iter().map(|(class, count)| Share { class, level: 0, count }).collect();
    (assigner.lots, left)
}

struct Assigner<'f> {
    finder: Finder<'f>,
    lots: Vec<Lot>,
    ids: FxHashMap<(ClassId, u8, StateId), usize>,
}

impl Assigner<'_> {
    /// Assigns pods of one class; returns how many found nothing.
    fn assign(&mut self, world: &mut World<'_>, id: ClassId, count: u32) -> u32 {
        let class = world.class(id);
        let mut left = count;
        while left > 0 {
            let Some(taken) = self.assign_some(world, id, class, left) else { break };
            left -= taken;
        }
        left
    }

    /// Assigns at least one pod, or finds that none can be.
    fn assign_some(&mut self, world: &mut World<'_>, id: ClassId, class: &Class, count: u32) -> Option<u32> {
        for (number, level) in class.levels.iter().enumerate().filter(|(_, level)| level.conditions.is_some())
        {
            if let Some(place) = self.finder.first(world, id, number) {
                world.commit(id, number as u8, Target::Place(place));
                return Some(1);
            }
            if let Some((template, addition)) = world.new_node(class, level) {
                let many = if chooses_domains(world.problem, class, level) { 1 } else { count };
                self.add(world, (id, number as u8), template, &addition, many);
                return Some(many);
            }
        }
        None
    }

    fn add(
        &mut self,
        world: &mut World<'_>,
        (id, level): (ClassId, u8),
        template: TemplateId,
        addition: &Addition,
        count: u32,
    ) {
        let class = world.class(id);
        for counter in class.counted_by.iter().chain(&class.refuses) {
            match world.problem.counters.get(*counter).topology {
                Topology::Host => world.shift(Tally::Hosts, *counter, 0, i64::from(count)),
                Topology::Label(_) => {
                    domains::count(world, class, *counter, addition.state, i64::from(count));
                }
            }
        }
        let next = self.lots.len();
        let index = *self.ids.entry((id, level, addition.state)).or_insert(next);
        if index == next {
            let conditions = conditions(world, class, level, addition.state);
            self.lots.push(Lot { class: id, level, template, state: addition.state, conditions, count: 0 });
        }
        self.lots[index].count += count;
    }
}

/// Whether each pod of the class may end up in another domain than the last.
fn chooses_domains(problem: &Problem<'_>, class: &Class, level: &Level) -> bool {
    level.rules.iter().any(|rule| rule.topology != Topology::Host)
        || class.refused_by.iter().any(|counter| problem.counters.get(*counter).topology != Topology::Host)
        || class.counted_by.iter().any(|counter| !problem.sought[*counter as usize].is_empty())
}

/// The level's own conditions, with the domains and volume places found for it. Whatever made counters count the pods must stay true
/// wherever they go.
fn conditions(world: &mut World<'_>, class: &Class, level: u8, state: StateId) -> ConditionsId {
    let level = &class.levels[level as usize];
    let of_level = level.conditions.expect("only possible levels are assigned");
    let keys = settled_keys(world, class, level, state);
    if keys.is_empty() {
        return of_level;
    }
    let chosen: LabelSets = keys
        .into_iter()
        .filter_map(|key| world.states.get(state).set(key).map(|set| (key, set.clone())))
        .collect();
    let met =
        meet(world.states.conditions(of_level), &chosen).expect("the state satisfies the level's conditions");
    world.states.intern_conditions(met)
}

/// Labels on which topology rules, counters and volumes depend once a lot has its place. Where the pool decides, that is the pool's label.
fn settled_keys(world: &World<'_>, class: &Class, level: &Level, state: StateId) -> BTreeSet<KeyId> {
    let problem = world.problem;
    let counters = || class.refused_by.iter().chain(&class.counted_by).map(|id| problem.counters.get(*id));
    let topologies = level.rules.iter().map(|rule| rule.topology).chain(counters().map(|of| of.topology));
    let mut keys: BTreeSet<KeyId> = topologies
        .filter_map(|topology| match topology {
            Topology::Host => None,
            Topology::Label(key) => Some(key),
        })
        .collect();
    let mut by_pool = keys.iter().any(|key| domains::undefined(world, state, *key));
    let mut conditions: Vec<ConditionsId> = class.volume_alternatives.clone();
    for filter in counters().filter_map(|of| of.filter) {
        let filter = &problem.filters[filter as usize];
        conditions.extend(filter.alternatives.iter().map(|alternative| alternative.conditions));
        by_pool |= filter.tolerations.is_some();
    }
    for id in conditions {
        keys.extend(world.states.conditions(id).iter().map(|(key, _)| *key));
    }
    if by_pool {
        keys.extend(problem.labels.key(NODE_POOL));
    }
    keys
}
