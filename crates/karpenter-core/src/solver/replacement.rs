//! Which types a replacement may list: whatever it becomes, it must be cheaper than what it replaces.
//!
//! A new node may be launched as any type it lists, in any zone it allows, so the dearest of these is what counts. Spot and
//! on-demand are not mixed: a launch that falls back to the dearer one would turn the saving into a loss.

use std::sync::Arc;

use super::bin::{self, Bin};
use super::bits::Bits;
use super::columns::ColumnId;
use super::domains;
use super::problem::Problem;
use super::reservations;
use super::resources::Amounts;
use super::simulation::Trial;
use super::world::World;
use crate::catalog::{CAPACITY_TYPE, InstanceType, ON_DEMAND, RESERVED, SPOT};

/// What holds when every node that leaves is a spot node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpotRule {
    /// Some are not: nothing special.
    Mixed,
    /// Spot may not replace spot.
    Forbidden,
    /// Spot replaces spot, with at least so many cheaper types to choose from; of these only the cheapest are listed.
    AtLeast(usize),
    /// Spot replaces spot, however many types there are.
    Free,
}

/// Why there is no replacement that is surely cheaper.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Refusal {
    /// Everything that fits costs at least as much.
    NoCheaper,
    /// Too few different values are left for `minValues`.
    MinValues,
    /// Spot nodes are not replaced by spot nodes.
    SpotToSpot,
    /// Too few cheaper spot types.
    TooFewTypes(usize),
}

/// The price rule of one move.
pub(crate) struct PriceRule<'r> {
    /// What the leaving nodes cost.
    pub(crate) source: f64,
    pub(crate) spot: SpotRule,
    /// Types of leaving nodes with the cheapest price paid for each: a single new node of such a type must be cheaper than the old, or one could
    /// simply have kept it. Where several nodes are packed anew no old one could have been kept as it was.
    pub(crate) same_type: &'r [(Arc<str>, f64)],
}

/// A type a node may become: cheapest and dearest launch.
#[derive(Clone, Copy, Debug)]
struct Launchable {
    column: ColumnId,
    price: f64,
    worst: f64,
}

/// What a node may become when launched with one capacity type, cheapest first.
struct Choice {
    capacity_type: &'static str,
    types: Vec<Launchable>,
}

impl Trial<'_, '_> {
    /// Cuts the lists of all new nodes to what is surely cheaper than the leaving nodes; returns the price at the cheapest.
    pub(crate) fn restrict(&mut self, rule: &PriceRule<'_>) -> Result<f64, Refusal> {
        let world = &mut self.world;
        let mut choices: Vec<Choice> = Vec::with_capacity(world.bins.len());
        for bin in &world.bins {
            choices.push(cheapest_choice(world, bin, rule)?);
        }
        let least: f64 = choices.iter().map(least_worst).sum();
        let slack = (rule.source - least) / choices.len() as f64;
        if slack <= 0.0 {
            return Err(Refusal::NoCheaper);
        }
        let alone = choices.len() == 1;
        let mut total = 0.0;
        for (index, mut choice) in choices.into_iter().enumerate() {
            let limit = if alone { rule.source } else { least_worst(&choice) + slack };
            choice.types.retain(|launch| launch.worst < limit);
            if alone {
                let limit = same_type_limit(world.problem, &choice, rule.same_type);
                choice.types.retain(|launch| launch.worst < limit);
            }
            let bin = world.bins[index].clone();
            let kept = kept_types(world.problem, world, &bin, &choice, rule.spot)?;
            let narrowed = narrowed(world, &bin, &choice, kept).ok_or(Refusal::NoCheaper)?;
            total += narrowed.price;
            world.bins[index] = narrowed;
        }
        Ok(total)
    }
}

fn least_worst(choice: &Choice) -> f64 {
    choice.types.iter().map(|launch| launch.worst).fold(f64::INFINITY, f64::min)
}

/// The capacity type with which the node is cheapest, and the types it may then become.
fn cheapest_choice(world: &World<'_>, bin: &Bin, rule: &PriceRule<'_>) -> Result<Choice, Refusal> {
    let all_spot = rule.spot != SpotRule::Mixed && allows_spot(world, bin);
    if all_spot && rule.spot == SpotRule::Forbidden {
        return Err(Refusal::SpotToSpot);
    }
    let wanted: &[&'static str] = if all_spot { &[SPOT] } else { &[RESERVED, SPOT, ON_DEMAND] };
    let offerings = reservations::offerings(world, bin);
    let choices = wanted.iter().map(|capacity_type| Choice {
        capacity_type,
        types: launches(world, bin, &offerings, capacity_type, rule.source),
    });
    let first = |choice: &Choice| choice.types.first().map_or(f64::INFINITY, |launch| launch.price);
    choices
        .filter(|choice| !choice.types.is_empty())
        .min_by(|a, b| first(a).total_cmp(&first(b)))
        .ok_or(Refusal::NoCheaper)
}

fn allows_spot(world: &World<'_>, bin: &Bin) -> bool {
    let labels = &world.problem.labels;
    let Some(key) = labels.key(CAPACITY_TYPE) else { return false };
    let Some(value) = labels.value(key, SPOT) else { return false };
    world.states.get(bin.state).set(key).is_none_or(|set| set.bits.contains(value as usize))
}

/// The types a node may become when launched with one capacity type, never dearer than `below`, cheapest first.
fn launches(
    world: &World<'_>,
    bin: &Bin,
    offerings: &Bits,
    capacity_type: &str,
    below: f64,
) -> Vec<Launchable> {
    let problem = world.problem;
    let of_type: Vec<usize> = offerings
        .iter()
        .filter(|class| {
            let set = problem.columns.offerings[*class].requirements.get(CAPACITY_TYPE);
            set.and_then(|set| set.single()).is_some_and(|value| &**value == capacity_type)
        })
        .collect();
    let state = world.states.get(bin.state);
    let priced =
        bin::carrying(problem, state, bin.allowed.as_deref(), &bin.load).filter_map(|(_, column)| {
            let prices = || {
                let prices =
                    of_type.iter().map(|class| problem.columns.offerings[*class].price[column as usize]);
                prices.filter(|price| price.is_finite())
            };
            let worst = prices().fold(f64::NEG_INFINITY, f64::max);
            let price = prices().fold(f64::INFINITY, f64::min);
            (price.is_finite() && worst < below).then_some(Launchable { column, price, worst })
        });
    let mut launches: Vec<Launchable> = priced.collect();
    let rank = |launch: &Launchable| problem.columns.name_rank[launch.column as usize];
    launches.sort_by(|a, b| a.price.total_cmp(&b.price).then_with(|| rank(a).cmp(&rank(b))));
    launches
}

/// What a single new node must cost less than, because of the leaving nodes of its own types.
fn same_type_limit(problem: &Problem<'_>, choice: &Choice, same_type: &[(Arc<str>, f64)]) -> f64 {
    let name = |launch: &Launchable| &problem.columns.instance_type(launch.column).name;
    let paid = |launch: &Launchable| {
        same_type.iter().find(|(known, _)| known == name(launch)).map_or(f64::INFINITY, |(_, price)| *price)
    };
    choice.types.iter().map(paid).fold(f64::INFINITY, f64::min)
}

/// The columns that stay listed, after `minValues` and the rule for spot nodes.
fn kept_types(
    problem: &Problem<'_>,
    world: &World<'_>,
    bin: &Bin,
    choice: &Choice,
    spot: SpotRule,
) -> Result<Bits, Refusal> {
    if choice.types.is_empty() {
        return Err(Refusal::NoCheaper);
    }
    let satisfies = |types: &[Launchable]| {
        bin.min_values.iter().all(|(key, wanted)| {
            let columns = types.iter().map(|launch| launch.column);
            bin::distinct_values(problem, &world.states, bin.state, *key, columns) >= *wanted
        })
    };
    if !satisfies(&choice.types) {
        return Err(Refusal::MinValues);
    }
    let mut types = choice.types.as_slice();
    if let SpotRule::AtLeast(least) = spot
        && choice.capacity_type == SPOT
    {
        if distinct(problem, types) < least {
            return Err(Refusal::TooFewTypes(distinct(problem, types)));
        }
        let enough =
            |count: &usize| distinct(problem, &types[..*count]) >= least && satisfies(&types[..*count]);
        let count = (least..=types.len()).find(enough).unwrap_or(types.len());
        types = &types[..count];
    }
    let mut kept = Bits::none(problem.columns.len());
    types.iter().for_each(|launch| kept.insert(launch.column as usize));
    Ok(kept)
}

fn distinct(problem: &Problem<'_>, types: &[Launchable]) -> usize {
    let mut seen = Bits::none(problem.columns.types.len());
    types.iter().for_each(|launch| seen.insert(problem.columns.type_of[launch.column as usize] as usize));
    seen.count()
}

/// The node launched with one capacity type as one of the kept types.
fn narrowed(world: &mut World<'_>, bin: &Bin, choice: &Choice, kept: Bits) -> Option<Bin> {
    let problem = world.problem;
    let key = problem.labels.key(CAPACITY_TYPE)?;
    let value = problem.labels.value(key, choice.capacity_type)?;
    let conditions = domains::only(world, key, std::iter::once(value as usize));
    let state = world.states.narrow(bin.state, conditions, &problem.columns)?;
    let mut narrowed = Bin { state, allowed: Some(Arc::new(kept)), ..bin.clone() };
    let none = Amounts::from_elem(0, problem.resources.len());
    let of = world.states.get(state);
    let fit = bin::cheapest(problem, of, narrowed.allowed.as_deref(), &narrowed.load, &none, 0)?;
    narrowed.position = fit.position;
    narrowed.price = fit.price;
    Some(narrowed)
}

/// The price of a node: that of the first offering in its zone and with its capacity type.
pub(crate) fn offering_price(instance_type: &InstanceType, zone: &str, capacity_type: &str) -> Option<f64> {
    let is = |value: Option<&Arc<str>>, wanted: &str| value.is_some_and(|value| &**value == wanted);
    let found = instance_type
        .offerings
        .iter()
        .find(|offering| is(offering.zone(), zone) && is(offering.capacity_type(), capacity_type));
    found.map(|offering| offering.price)
}
