//! Keeping new nodes within the limits of their pools, whatever type each becomes.
//!
//! A node may become any type it lists, so the largest of them is what it can cost its pool. Where these add up to more than the
//! limits leave, the lists are cut: no type more than so many times the size of the node's cheapest, as generously as the limits allow.

use std::sync::Arc;

use super::bin::{self, Bin};
use super::bits::Bits;
use super::resources::Amounts;
use super::templates::Template;
use super::world::World;

/// How many times the size of the cheapest type is tried, from the most generous cut to the tightest.
const CUTS: [i64; 8] = [i64::MAX, 64, 32, 16, 8, 4, 2, 1];

/// Cuts lists where that is needed; false when even the tightest cut exceeds a limit.
pub(crate) fn keep(world: &mut World<'_>) -> bool {
    (0..world.problem.templates.len()).all(|template| keep_template(world, template))
}

fn keep_template(world: &mut World<'_>, id: usize) -> bool {
    let template = &world.problem.templates[id];
    if !template.is_limited() {
        return true;
    }
    let bins: Vec<usize> =
        (0..world.bins.len()).filter(|bin| world.bins[*bin].template as usize == id).collect();
    if template.nodes_remaining.is_some_and(|left| bins.len() as i64 > left) {
        return false;
    }
    let totals = totals(world, template, &bins);
    let within = |total: &Vec<i128>| {
        total.iter().zip(&template.remaining).all(|(sum, (_, left))| *sum <= i128::from(*left))
    };
    match totals.iter().position(within) {
        Some(0) => true,
        Some(cut) if template.min_values.is_empty() => {
            for bin in bins {
                let kept = kept(world, template, &world.bins[bin], CUTS[cut]);
                world.bins[bin].allowed = Some(Arc::new(kept));
            }
            true
        }
        _ => false,
    }
}

/// For every cut, what the nodes can cost the pool at most, per limited resource.
fn totals(world: &World<'_>, template: &Template, bins: &[usize]) -> Vec<Vec<i128>> {
    let mut totals = vec![vec![0; template.remaining.len()]; CUTS.len()];
    let mut last: Option<(&Bin, Vec<Vec<i64>>)> = None;
    for bin in bins.iter().map(|bin| &world.bins[*bin]) {
        // Nodes filled alike stand next to each other.
        let alike =
            |known: &Bin| known.state == bin.state && known.load == bin.load && known.allowed == bin.allowed;
        let largest = match last.take() {
            Some((known, largest)) if alike(known) => largest,
            _ => largest(world, template, bin),
        };
        for (total, largest) in totals.iter_mut().zip(&largest) {
            total.iter_mut().zip(largest).for_each(|(total, largest)| *total += i128::from(*largest));
        }
        last = Some((bin, largest));
    }
    totals
}

/// For every cut, the largest type a node may become, per limited resource.
fn largest(world: &World<'_>, template: &Template, bin: &Bin) -> Vec<Vec<i64>> {
    let mut largest = vec![vec![0; template.remaining.len()]; CUTS.len()];
    let mut cheapest: Option<&Amounts> = None;
    for (_, column) in
        bin::carrying(world.problem, world.states.get(bin.state), bin.allowed.as_deref(), &bin.load)
    {
        let capacity = &world.problem.columns.capacity[column as usize];
        let cheapest = *cheapest.get_or_insert(capacity);
        for (cut, largest) in CUTS.iter().zip(&mut largest) {
            if !close(template, capacity, cheapest, *cut) {
                break;
            }
            for ((resource, _), largest) in template.remaining.iter().zip(largest) {
                *largest = (*largest).max(capacity[*resource]);
            }
        }
    }
    largest
}

/// The columns a node keeps under a cut.
fn kept(world: &World<'_>, template: &Template, bin: &Bin, cut: i64) -> Bits {
    let mut kept = Bits::none(world.problem.columns.len());
    let mut cheapest: Option<&Amounts> = None;
    for (_, column) in
        bin::carrying(world.problem, world.states.get(bin.state), bin.allowed.as_deref(), &bin.load)
    {
        let capacity = &world.problem.columns.capacity[column as usize];
        if close(template, capacity, cheapest.get_or_insert(capacity), cut) {
            kept.insert(column as usize);
        }
    }
    kept
}

/// Whether a type is at most `cut` times as large as the cheapest in everything the pool limits.
fn close(template: &Template, capacity: &Amounts, cheapest: &Amounts, cut: i64) -> bool {
    // A cheapest type that has none of a resource is no measure for it: without a cut, everything is admitted.
    let admitted =
        |(resource, _): &(usize, i64)| capacity[*resource] <= cheapest[*resource].saturating_mul(cut);
    cut == i64::MAX || template.remaining.iter().all(admitted)
}
