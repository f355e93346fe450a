//! Choosing domains: which zones (or other label values) topology rules leave open, and which of them is taken.

use smallvec::SmallVec;

use super::bin::{self, Bin};
use super::bits::Bits;
use super::classes::{Class, Level};
use super::label_sets::{KeyId, LabelSets, ValueId};
use super::packing;
use super::states::{ConditionsId, StateId};
use super::topology::{CounterId, Rule, RuleKind, Topology};
use super::world::{Tally, World};

/// The pod and node a domain is chosen for.
pub(crate) struct Probe<'a> {
    pub(crate) class: &'a Class,
    pub(crate) level: &'a Level,
    pub(crate) bin: &'a Bin,
    pub(crate) allowed: Option<&'a Bits>,
}

/// The state after every label-level rule has taken its domains, or nothing when one has none left.
pub(crate) fn narrow(world: &mut World<'_>, probe: &Probe<'_>, mut state: StateId) -> Option<StateId> {
    for rule in &probe.level.rules {
        let Topology::Label(key) = rule.topology else { continue };
        let open = candidates(world, state, key);
        state = match &rule.kind {
            RuleKind::Spread { domains, soft, .. } => {
                spread(world, probe, state, key, rule, (&open.and(domains), *soft))?
            }
            RuleKind::Affinity { domains, .. } => {
                affinity(world, probe, state, key, rule, &open.and(domains))?
            }
            RuleKind::AntiAffinity { required } => {
                if undefined(world, state, key) {
                    continue;
                }
                let empty = keep(&open, |value| permits(world, rule, value));
                // A preference is not worth giving up zones for; pods that must be apart would block each other otherwise.
                let others =
                    *required && world.population[rule.counter as usize] > u32::from(rule.selects_itself);
                if others {
                    take_one(world, probe, state, (key, rule.counter), &empty, |_, _| 0)?
                } else {
                    take_all(world, state, key, &empty)?
                }
            }
        };
    }
    for counter in &probe.class.counted_by {
        state = sought(world, probe, state, *counter);
    }
    if world.tuning.settles_doubt {
        for counter in &probe.class.counted_by {
            state = beyond_doubt(world, probe, state, *counter);
        }
    }
    for counter in &probe.class.refused_by {
        if let Topology::Label(key) = world.problem.counters.get(*counter).topology
            && !undefined(world, state, key)
        {
            state = refused(world, probe, state, key, *counter)?;
        }
    }
    Some(state)
}

/// The domain of a spread pod: the one with the fewest pods, or with that tuning the cheapest of those the skew allows.
fn spread(
    world: &mut World<'_>,
    probe: &Probe<'_>,
    state: StateId,
    key: KeyId,
    rule: &Rule,
    (open, soft): (&Bits, bool),
) -> Option<StateId> {
    let valid = keep(open, |value| permits(world, rule, value));
    let counter = rule.counter as usize;
    if world.tuning.cheapest_domain {
        return take_one(world, probe, state, (key, rule.counter), &valid, |_, _| 0);
    }
    if soft {
        let least = valid.iter().map(|value| world.counts[counter][value]).min()?;
        let emptiest = keep(&valid, |value| world.counts[counter][value as usize] == least);
        if emptiest.iter().any(|value| in_domain(world, probe, state, key, value).is_none()) {
            return None;
        }
    }
    take_one(world, probe, state, (key, rule.counter), &valid, |world, value| {
        world.counts[counter][value as usize]
    })
}

/// The state in one domain and the price of the node there, if it is possible.
fn in_domain(
    world: &mut World<'_>,
    probe: &Probe<'_>,
    state: StateId,
    key: KeyId,
    value: usize,
) -> Option<(f64, StateId)> {
    let conditions = only(world, key, [value].into_iter());
    let next = world.states.narrow(state, conditions, &world.problem.columns)?;
    let of = world.states.get(next);
    let fit = bin::cheapest(world.problem, of, probe.allowed, &probe.bin.load, &probe.class.amounts, 0)?;
    // Many pods will follow the first: what counts is what a pod costs there, not what the smallest machine for one costs.
    let price = if world.tuning.cheapest_domain {
        packing::worth(world, next, &probe.class.amounts)
    } else {
        fit.price
    };
    Some((price, next))
}

/// Domains without pods that refuse this one. While such pods are still waiting, the pod keeps to a single domain, preferably one its
/// likes already spoil, so that the refusing pods find the others empty.
fn refused(
    world: &mut World<'_>,
    probe: &Probe<'_>,
    state: StateId,
    key: KeyId,
    counter: CounterId,
) -> Option<StateId> {
    let open = candidates(world, state, key);
    let free = keep(&open, |value| world.possible[counter as usize][value as usize] == 0);
    // The pod itself may be the only one that refuses its kind.
    let itself = u32::from(probe.class.refuses.contains(&counter));
    if world.population[counter as usize] <= itself {
        return take_all(world, state, key, &free);
    }
    let counted_by = probe.class.counted_by.clone();
    take_one(world, probe, state, (key, counter), &free, |world, value| {
        let spoiled = counted_by.iter().any(|id| {
            world.problem.counters.get(*id).topology == Topology::Label(key)
                && world.possible[*id as usize][value as usize] > 0
        });
        u32::from(!spoiled)
    })
}

fn affinity(
    world: &mut World<'_>,
    probe: &Probe<'_>,
    state: StateId,
    key: KeyId,
    rule: &Rule,
    open: &Bits,
) -> Option<StateId> {
    let counts = &world.counts[rule.counter as usize];
    let populated = keep(open, |value| counts[value as usize] > 0);
    if !populated.is_empty() {
        return take_all(world, state, key, &populated);
    }
    if !starts(world, rule) {
        return None;
    }
    take_one(world, probe, state, (key, rule.counter), open, |_, _| 0)
}

/// Whether a pod may be the first of its kind: no pod it wants to be near is, or for a requirement even may be, within its reach.
fn starts(world: &World<'_>, rule: &Rule) -> bool {
    let RuleKind::Affinity { required, domains } = &rule.kind else { return false };
    let counts = if *required { &world.possible } else { &world.counts };
    let counts = &counts[rule.counter as usize];
    rule.selects_itself && domains.iter().all(|value| counts[value] == 0)
}

/// Pods that others must join, or else start a domain of their own, settle in a domain unless such a pod already has: nobody could tell
/// otherwise which domain to join.
fn sought(world: &mut World<'_>, probe: &Probe<'_>, state: StateId, counter: CounterId) -> StateId {
    let Topology::Label(key) = world.problem.counters.get(counter).topology else { return state };
    let counts = &world.counts[counter as usize];
    let unsettled = |domains: &&Bits| domains.iter().all(|value| counts[value] == 0);
    let Some(wanted) = world.problem.sought[counter as usize].iter().find(unsettled) else { return state };
    if undefined(world, state, key) {
        return state;
    }
    let open = candidates(world, state, key);
    let settled = world.states.get(state).set(key).is_some_and(|set| set.single().is_some());
    if settled || open.and(wanted).is_empty() {
        return state;
    }
    let rank = |_: &World<'_>, value: ValueId| u32::from(!wanted.contains(value as usize));
    take_one(world, probe, state, (key, counter), &open, rank).unwrap_or(state)
}

/// Whether the rule allows a pod in this domain now.
pub(crate) fn permits(world: &World<'_>, rule: &Rule, value: ValueId) -> bool {
    let counts = &world.counts[rule.counter as usize];
    let here = counts[value as usize];
    match &rule.kind {
        RuleKind::Spread { max_skew, min_domains, domains, .. } => {
            if !domains.contains(value as usize) {
                return false;
            }
            let enough = domains.count() >= *min_domains as usize;
            let least =
                if enough { domains.iter().map(|domain| counts[domain]).min().unwrap_or(0) } else { 0 };
            let doubtful = world.doubtful[rule.counter as usize].get(value as usize).copied().unwrap_or(0);
            here + doubtful + u32::from(rule.selects_itself) <= least + max_skew
        }
        RuleKind::Affinity { .. } => here > 0 || starts(world, rule),
        RuleKind::AntiAffinity { .. } => world.possible[rule.counter as usize][value as usize] == 0,
    }
}

/// Known domains of `key` that the state still accepts.
fn candidates(world: &World<'_>, state: StateId, key: KeyId) -> Bits {
    let known = world.problem.domains.get(&key).cloned().unwrap_or_default();
    match world.states.get(state).set(key) {
        Some(set) => known.and(&set.bits),
        None => known,
    }
}

/// Whether nodes of this state never carry the label: then they are in no domain of it.
pub(crate) fn undefined(world: &World<'_>, state: StateId, key: KeyId) -> bool {
    let of = world.states.get(state);
    !world.states.definable(of.template, key)
        || of.set(key).is_some_and(|set| set.absent && set.bits.is_empty() && !set.open)
}

fn keep(bits: &Bits, holds: impl Fn(ValueId) -> bool) -> Bits {
    let mut kept = bits.clone();
    for value in bits.iter() {
        if !holds(value as ValueId) {
            kept.remove(value);
        }
    }
    kept
}

fn take_all(world: &mut World<'_>, state: StateId, key: KeyId, domains: &Bits) -> Option<StateId> {
    if domains.is_empty() {
        return None;
    }
    let conditions = only(world, key, domains.iter());
    world.states.narrow(state, conditions, &world.problem.columns)
}

/// Which of the equally good domains comes first: each counter takes turns of its own, so that groups are tried in different domains.
fn turn(domain_turn: u32, counter: CounterId) -> usize {
    let mixed = domain_turn
        .wrapping_mul(0x9E37_79B1)
        .wrapping_add(domain_turn.wrapping_mul(counter).wrapping_mul(0x85EB_CA6B));
    (mixed >> 16) as usize
}

/// The state in the best single domain: smallest rank, then lowest price. The tuning's turn takes the next best of equal rank instead.
fn take_one(
    world: &mut World<'_>,
    probe: &Probe<'_>,
    state: StateId,
    (key, counter): (KeyId, CounterId),
    domains: &Bits,
    rank: impl Fn(&World<'_>, ValueId) -> u32,
) -> Option<StateId> {
    let mut ordered: SmallVec<[(u32, usize); 8]> =
        domains.iter().map(|value| (rank(world, value as ValueId), value)).collect();
    ordered.sort_unstable();
    let turn = turn(world.tuning.domain_turn, counter);
    for equals in ordered.chunk_by(|a, b| a.0 == b.0) {
        let mut possible: SmallVec<[(f64, StateId); 8]> =
            equals.iter().filter_map(|(_, value)| in_domain(world, probe, state, key, *value)).collect();
        possible.sort_by(|a, b| a.0.total_cmp(&b.0));
        if !possible.is_empty() {
            return Some(possible[turn % possible.len()].1);
        }
    }
    None
}

pub(crate) fn only(world: &mut World<'_>, key: KeyId, values: impl Iterator<Item = usize>) -> ConditionsId {
    let set = world.problem.labels.only(key, values.map(|value| value as ValueId));
    world.states.intern_conditions(LabelSets::from_iter([(key, set)]))
}

/// How sure it is that pods on a node count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Certainty {
    Always,
    Perhaps,
    Never,
}

/// Counts `times` pods of a class on a node of this state (negative takes them off again).
pub(crate) fn count(world: &mut World<'_>, class: &Class, counter: CounterId, state: StateId, times: i64) {
    let of = world.problem.counters.get(counter);
    let Topology::Label(key) = of.topology else { return };
    let certainty = of.filter.map_or(Certainty::Always, |filter| admits(world, filter, class, state));
    if certainty == Certainty::Never || undefined(world, state, key) {
        return;
    }
    let Some(set) = world.states.get(state).set(key) else {
        let known = world.problem.domains.get(&key).cloned().unwrap_or_default();
        known.iter().for_each(|value| world.shift(Tally::Possible, counter, value, times));
        return;
    };
    let (single, possible) = (set.single(), set.bits.clone());
    if let Some(value) = single {
        let tally = if certainty == Certainty::Always { Tally::Certain } else { Tally::Doubtful };
        world.shift(tally, counter, value as usize, times);
    }
    possible.iter().for_each(|value| world.shift(Tally::Possible, counter, value, times));
}

/// The cheapest state in which the pod surely counts or surely does not. Of several ways to pass the filter nobody asks which fails.
fn beyond_doubt(world: &mut World<'_>, probe: &Probe<'_>, state: StateId, counter: CounterId) -> StateId {
    let problem = world.problem;
    let Some(filter) = problem.counters.get(counter).filter else { return state };
    if admits(world, filter, probe.class, state) != Certainty::Perhaps {
        return state;
    }
    let alternatives = &problem.filters[filter as usize].alternatives;
    let failing = alternatives.iter().filter(|_| alternatives.len() == 1).flat_map(|only| &only.failing);
    let ways = alternatives.iter().map(|alternative| &alternative.conditions).chain(failing);
    let (load, more) = (&probe.bin.load, &probe.class.amounts);
    let priced = ways.filter_map(|conditions| {
        let state = world.states.narrow(state, *conditions, &problem.columns)?;
        let fit = bin::cheapest(problem, world.states.get(state), probe.allowed, load, more, 0)?;
        Some((fit.price, state))
    });
    priced.min_by(|a, b| a.0.total_cmp(&b.0)).map_or(state, |(_, state)| state)
}

/// Whether pods of a class on a node of this state count for a filter, whatever the node becomes.
fn admits(world: &mut World<'_>, filter: u32, class: &Class, state: StateId) -> Certainty {
    let problem = world.problem;
    let filter = &problem.filters[filter as usize];
    let template = &problem.templates[world.states.get(state).template as usize];
    let tolerated = filter
        .tolerations
        .as_ref()
        .is_none_or(|tolerations| super::classes::accepts_taints(tolerations, &template.pool.taints, true));
    if !tolerated {
        return Certainty::Never;
    }
    if filter.alternatives.is_empty() {
        return Certainty::Always;
    }
    let mut may_be = |conditions| {
        let state = world.states.narrow(state, conditions, &problem.columns)?;
        bin::carrying(problem, world.states.get(state), None, &class.amounts).next()
    };
    let mut certainty = Certainty::Never;
    for alternative in &filter.alternatives {
        if may_be(alternative.conditions).is_some() {
            if alternative.failing.iter().all(|failing| may_be(*failing).is_none()) {
                return Certainty::Always;
            }
            certainty = Certainty::Perhaps;
        }
    }
    certainty
}
