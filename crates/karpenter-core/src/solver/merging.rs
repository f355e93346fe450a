//! Joining nodes afterwards: two nodes become one where a machine for both costs no more than the two together, or next to
//! nothing more seen against the whole plan.

use super::bin::{self, Bin};
use super::packing::quota;
use super::resources::{Amounts, fits};
use super::states::meet;
use super::topology::Topology;
use super::world::World;

/// With more nodes than this, comparing every pair is not worth the work.
const NODES_MAX: usize = 120;

/// What part of a plan's price may be spent on one node less, and on fewer nodes altogether. A large plan ends in a few small nodes
/// that carry what did not fill a large one, in every zone its pods are spread over; every node costs its owner attention, and
/// agents that no price list shows.
const SPENT_ON_ONE_LESS: f64 = 0.005;
const SPENT_ON_FEWER: f64 = 0.015;

/// The remainder of a plan is in its cheapest nodes: no more than these are looked at.
const REMAINDER_MAX: usize = 24;

/// Joins nodes of the same pool as long as that saves money, or nodes at the same price.
pub(crate) fn merge(world: &mut World<'_>) {
    if world.bins.len() > NODES_MAX || !world.problem.reservations.slots.is_empty() {
        return;
    }
    let mut first = 0;
    while first < world.bins.len() {
        let joined = (first + 1..world.bins.len())
            .find_map(|second| Some((second, united(world, first, second, 0.0)?)));
        match joined {
            Some((second, bin)) => {
                world.bins[first] = bin;
                world.bins.remove(second);
            }
            None => first += 1,
        }
    }
}

/// Joins the small nodes at the end of a large plan, for as much as that may cost.
pub(crate) fn join_remainder(world: &mut World<'_>) {
    if !world.problem.reservations.slots.is_empty() {
        return;
    }
    let total: f64 = world.bins.iter().map(|bin| bin.price).sum();
    let mut left = total * SPENT_ON_FEWER;
    while let Some((first, second, bin)) = joined_remainder(world, left.min(total * SPENT_ON_ONE_LESS)) {
        left -= bin.price - world.bins[first].price - world.bins[second].price;
        world.bins[first] = bin;
        world.bins.remove(second);
    }
}

/// Two of the cheapest nodes, the one before the other, and the node that replaces both.
fn joined_remainder(world: &mut World<'_>, extra: f64) -> Option<(usize, usize, Bin)> {
    let problem = world.problem;
    let is_free = |index: &usize| !problem.templates[world.bins[*index].template as usize].is_limited();
    let mut cheapest: Vec<usize> = (0..world.bins.len()).filter(is_free).collect();
    cheapest.sort_by(|one, other| world.bins[*one].price.total_cmp(&world.bins[*other].price));
    cheapest.truncate(REMAINDER_MAX);
    for (position, one) in cheapest.iter().enumerate() {
        for other in &cheapest[position + 1..] {
            let (first, second) = (*one.min(other), *one.max(other));
            if let Some(bin) = united(world, first, second, extra) {
                return Some((first, second, bin));
            }
        }
    }
    None
}

/// One node instead of two, if it costs at most `extra` more.
fn united(world: &mut World<'_>, first: usize, second: usize, extra: f64) -> Option<Bin> {
    world.steps += 1;
    let problem = world.problem;
    let (one, other) = (&world.bins[first], &world.bins[second]);
    if one.template != other.template
        || !one.min_values.is_empty()
        || one.allowed.is_some()
        || other.allowed.is_some()
    {
        return None;
    }
    // Two nodes that are large already fit no machine together, and most are.
    if !fits(&one.load, &other.load, &problem.templates[one.template as usize].most_room) {
        return None;
    }
    let sets = meet(&world.states.get(one.state).sets, &world.states.get(other.state).sets)?;
    let (mut bin, other) = (one.clone(), other.clone());
    let budget = bin.price + other.price + extra;
    let types = &problem.templates[bin.template as usize].types;
    bin.state = world.states.base(bin.template, sets, types, &problem.columns);
    for share in &other.shares {
        let class = world.class(share.class);
        if quota(world, class, &class.levels[share.level as usize], &bin, 0) < share.count {
            return None;
        }
        bin.put(share.class, class, share.level, share.count, |counter| {
            problem.counters.get(counter).topology == Topology::Host
        });
    }
    let none = Amounts::from_elem(0, problem.resources.len());
    let fit = bin::cheapest(problem, world.states.get(bin.state), None, &bin.load, &none, 0)?;
    bin.position = fit.position;
    bin.price = fit.price;
    (fit.price <= budget).then_some(bin)
}
