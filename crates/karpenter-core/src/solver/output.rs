//! From a solved world to a plan: concrete pods, requirements written out, every instance type that carries the claim.

use std::sync::Arc;

use karpenter_quantity::{Quantity, ResourceList};

use super::bin::{self, Bin, Share};
use super::problem::Problem;
use super::templates::LIFECYCLE_LABELS;
use super::world::World;
use crate::catalog::{HOSTNAME, InstanceType};
use crate::plan::{ClaimPlan, INSTANCE_TYPES_MAX, Launch, PodIndex, ProvisioningPlan};
use crate::requirements::{Requirement, RequirementSet};

/// Hands out the pods of each class in queue order.
pub(crate) struct PodSupply<'p> {
    problem: &'p Problem<'p>,
    next: Vec<usize>,
}

impl<'p> PodSupply<'p> {
    pub(crate) fn new(problem: &'p Problem<'p>) -> Self {
        Self { problem, next: vec![0; problem.classes.len()] }
    }

    pub(crate) fn take(&mut self, share: Share) -> &'p [PodIndex] {
        let first = self.next[share.class as usize];
        let end = first + share.count as usize;
        self.next[share.class as usize] = end;
        &self.problem.classes[share.class as usize].pods[first..end]
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

fn claim(world: &World<'_>, bin: &Bin, supply: &mut PodSupply<'_>) -> ClaimPlan {
    let problem = world.problem;
    let template = &problem.templates[bin.template as usize];
    let state = world.states.get(bin.state);
    let carrying: Vec<(f64, u32)> =
        bin::carrying(problem, state, bin.allowed.as_deref(), &bin.load).collect();
    let mut left = super::bits::Bits::none(problem.columns.len());
    carrying.iter().for_each(|(_, column)| left.insert(*column as usize));
    let mut requests = template.smallest_overhead(&left);
    for share in &bin.shares {
        requests.merge_add(&times(&problem.classes[share.class as usize].spec.requests, share.count));
    }
    let pods = bin.shares.iter().flat_map(|share| supply.take(*share).to_vec()).collect();
    ClaimPlan {
        node_pool: template.pool.name.clone(),
        requirements: requirements(world, bin),
        requests,
        instance_types: instance_types(problem, &carrying),
        cheapest: launch(world, bin, carrying.first().copied()),
        pods,
        min_values_relaxed: bin.min_values_relaxed,
        reservations: Vec::new(),
    }
}

fn times(requests: &ResourceList, count: u32) -> ResourceList {
    let times = |quantity: Quantity| {
        Quantity::from_nano(quantity.as_nano().saturating_mul(i128::from(count)), quantity.format())
    };
    requests.iter().map(|(name, quantity)| (name, times(quantity))).collect()
}

/// The types behind the columns, each once, cheapest first.
fn instance_types(problem: &Problem<'_>, carrying: &[(f64, u32)]) -> Vec<Arc<InstanceType>> {
    let mut seen = super::bits::Bits::none(problem.columns.types.len());
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

fn launch(world: &World<'_>, bin: &Bin, cheapest: Option<(f64, u32)>) -> Launch {
    let columns = &world.problem.columns;
    let (price, column) = cheapest.expect("an open node always has a column that carries it");
    let offerings = &world.states.get(bin.state).offerings;
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
        zone: label(crate::catalog::ZONE),
        capacity_type: label(crate::catalog::CAPACITY_TYPE),
        price,
    }
}

fn requirements(world: &World<'_>, bin: &Bin) -> Vec<Requirement> {
    let labels = &world.problem.labels;
    let mut set = RequirementSet::default();
    for (key, values) in &world.states.get(bin.state).sets {
        let name = labels.name(*key);
        if &**name != HOSTNAME && !LIFECYCLE_LABELS.contains(&&**name) {
            set.add(name.clone(), &labels.to_value_set(*key, values));
        }
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
