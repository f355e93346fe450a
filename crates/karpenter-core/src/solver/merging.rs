//! Joining nodes afterwards: two nodes become one where a machine for both costs no more than the two together.

use super::bin::{self, Bin};
use super::packing::quota;
use super::resources::Amounts;
use super::states::meet;
use super::topology::Topology;
use super::world::World;

/// With more nodes than this, comparing every pair is not worth the work.
const NODES_MAX: usize = 120;

/// Joins nodes of the same pool as long as that saves money, or nodes at the same price.
pub(crate) fn merge(world: &mut World<'_>) {
    if world.bins.len() > NODES_MAX || !world.problem.reservations.slots.is_empty() {
        return;
    }
    let mut first = 0;
    while first < world.bins.len() {
        let joined =
            (first + 1..world.bins.len()).find_map(|second| Some((second, united(world, first, second)?)));
        match joined {
            Some((second, bin)) => {
                world.bins[first] = bin;
                world.bins.remove(second);
            }
            None => first += 1,
        }
    }
}

/// One node instead of two, if it costs no more.
fn united(world: &mut World<'_>, first: usize, second: usize) -> Option<Bin> {
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
    let sets = meet(&world.states.get(one.state).sets, &world.states.get(other.state).sets)?;
    let (mut bin, other) = (one.clone(), other.clone());
    let budget = bin.price + other.price;
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
