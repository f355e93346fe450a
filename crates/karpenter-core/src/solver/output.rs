//! From a solved world to a plan: concrete pods, requirements written out, every instance type that carries the claim.

use std::collections::BTreeSet;
use std::sync::Arc;

use karpenter_quantity::{Quantity, ResourceList};

use super::bin::{self, Bin, Share};
use super::bits::Bits;
use super::problem::Problem;
use super::reservations;
use super::templates::LIFECYCLE_LABELS;
use super::world::World;
use crate::catalog::{CAPACITY_TYPE, HOSTNAME, InstanceType, ZONE};
use crate::plan::{ClaimPlan, INSTANCE_TYPES_MAX, Launch, PodIndex, ProvisioningPlan};
use crate::requirements::{Requirement, RequirementSet, ValueSet};

/// Hands out the pods of each class in queue order.
pub(crate) struct PodSupply<'p> {
    /// Pods per class.
    pods: Vec<&'p [PodIndex]>,
    next: Vec<usize>,
}

impl<'p> PodSupply<'p> {
    pub(crate) fn new(problem: &'p Problem<'p>) -> Self {
        Self::of(problem.classes.iter().map(|class| class.pods.as_slice()).collect())
    }

    /// Hands out these pods of each class.
    pub(crate) fn of(pods: Vec<&'p [PodIndex]>) -> Self {
        Self { next: vec![0; pods.len()], pods }
    }

    pub(crate) fn take(&mut self, share: Share) -> &'p [PodIndex] {
        let first = self.next[share.class as usize];
        let end = first + share.count as usize;
        self.next[share.class as usize] = end;
        &self.pods[share.class as usize][first..end]
    }
}

/// Fills the plan's claims and existing nodes from a solved world.
pub(crate) fn write(world: &World<'_>, supply: &mut PodSupply<'_>, plan: &mut ProvisioningPlan) {
    for (place, used) in world.problem.places.iter().zip(&world.places) {
        if !used.shares.is_empty() {
            let pods = used.shares.iter().flat_map(|share| supply.take(*share).to_vec()).collect();
            plan.existing.push((place.node.name.clone(), pods));
        }
    }
    plan.existing.sort_by(|a, b| a.0.cmp(&b.0));
    plan.claims = world.bins.iter().map(|bin| claim(world, bin, supply)).collect();
}

pub(crate) fn claim(world: &World<'_>, bin: &Bin, supply: &mut PodSupply<'_>) -> ClaimPlan {
    let problem = world.problem;
    let template = &problem.templates[bin.template as usize];
    let offerings = reservations::offerings(world, bin);
    let carrying = carrying(world, bin, &offerings);
    let mut left = Bits::none(problem.columns.len());
    carrying.iter().for_each(|(_, column)| left.insert(*column as usize));
    let mut requests = template.smallest_overhead(&left);
    for share in &bin.shares {
        requests.merge_add(&times(&problem.classes[share.class as usize].spec.requests, share.count));
    }
    let pods = bin.shares.iter().flat_map(|share| supply.take(*share).to_vec()).collect();
    ClaimPlan {
        node_pool: template.pool.name.clone(),
        requirements: requirements(world, bin, &offerings),
        requests,
        instance_types: instance_types(problem, &carrying),
        cheapest: launch(world, &offerings, carrying.first().copied()),
        pods,
        min_values_relaxed: bin.min_values_relaxed,
        reservations: bin
            .reserved
            .iter()
            .map(|id| problem.reservations.slots[*id as usize].0.clone())
            .collect(),
    }
}

/// The columns that carry the node through these offerings, cheapest first.
fn carrying(world: &World<'_>, bin: &Bin, offerings: &Bits) -> Vec<(f64, u32)> {
    let problem = world.problem;
    let state = world.states.get(bin.state);
    let carrying = bin::carrying(problem, state, bin.allowed.as_deref(), &bin.load);
    if *offerings == state.offerings {
        return carrying.collect();
    }
    let mut priced: Vec<(f64, u32)> = carrying
        .map(|(_, column)| (problem.columns.price(column, offerings), column))
        .filter(|(price, _)| price.is_finite())
        .collect();
    let rank = |column: u32| problem.columns.name_rank[column as usize];
    priced.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| rank(a.1).cmp(&rank(b.1))));
    priced
}

fn times(requests: &ResourceList, count: u32) -> ResourceList {
    let times = |quantity: Quantity| {
        Quantity::from_nano(quantity.as_nano().saturating_mul(i128::from(count)), quantity.format())
    };
    requests.iter().map(|(name, quantity)| (name, times(quantity))).collect()
}

/// The types behind the columns, each once, cheapest first.
fn instance_types(problem: &Problem<'_>, carrying: &[(f64, u32)]) -> Vec<Arc<InstanceType>> {
    let mut seen = Bits::none(problem.columns.types.len());
    let mut types = Vec::with_capacity(carrying.len().min(INSTANCE_TYPES_MAX));
    for (_, column) in carrying {
        let index = problem.columns.type_of[*column as usize] as usize;
        if !seen.contains(index) && types.len() < INSTANCE_TYPES_MAX {
            seen.insert(index);
            types.push(problem.columns.types[index].clone());
        }
    }
    types
}

fn launch(world: &World<'_>, offerings: &Bits, cheapest: Option<(f64, u32)>) -> Launch {
    let columns = &world.problem.columns;
    let (price, column) = cheapest.expect("an open node always has a column that carries it");
    let class = offerings
        .iter()
        .map(|class| &columns.offerings[class])
        .find(|class| class.price[column as usize] <= price)
        .expect("a column's price comes from one of its offerings");
    let label = |key: &str| {
        class.requirements.get(key).and_then(|set| set.single()).cloned().unwrap_or_else(|| "".into())
    };
    Launch {
        instance_type: columns.instance_type(column).name.clone(),
        zone: label(ZONE),
        capacity_type: label(CAPACITY_TYPE),
        price,
    }
}

fn requirements(world: &World<'_>, bin: &Bin, offerings: &Bits) -> Vec<Requirement> {
    let labels = &world.problem.labels;
    let mut set = RequirementSet::default();
    for (key, values) in &world.states.get(bin.state).sets {
        let name = labels.name(*key);
        if &**name != HOSTNAME && !LIFECYCLE_LABELS.contains(&&**name) {
            set.add(name.clone(), &labels.to_value_set(*key, values));
        }
    }
    if !bin.reserved.is_empty() {
        reserve(world, offerings, &mut set);
    }
    let mut requirements = set.to_requirements();
    for (key, wanted) in &bin.min_values {
        let name = labels.name(*key);
        for requirement in requirements.iter_mut().filter(|requirement| requirement.key == *name) {
            requirement.min_values = Some(*wanted);
        }
    }
    requirements
}

/// Ties a claim to its reservations: the capacity type and whatever else tells the reserved offerings apart, zones left open.
fn reserve(world: &World<'_>, offerings: &Bits, set: &mut RequirementSet) {
    let classes: Vec<_> =
        offerings.iter().map(|class| &*world.problem.columns.offerings[class].requirements).collect();
    let keys: BTreeSet<&Arc<str>> =
        classes.iter().flat_map(|requirements| requirements.iter().map(|(key, _)| key)).collect();
    for key in keys.into_iter().filter(|key| &***key != ZONE) {
        let values = classes.iter().filter_map(|requirements| requirements.get(key)?.single()).cloned();
        set.add(key.clone(), &ValueSet::only(values));
    }
}
