//! Whether claims keep as many machine types as upstream's: choice is worth as much as price when stock runs out.

use std::collections::BTreeMap;

use crate::expected::{Expected, ExpectedClaim};
use crate::plan::{PlanResult, PlannedClaim};
use crate::scenario::Scenario;
use crate::world::World;

/// How a plan's type lists compare with upstream's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flexibility {
    /// Claims that carry the same pods as one of upstream's.
    pub compared: usize,
    /// Those among them that lack types upstream lists.
    pub missing: Vec<MissingTypes>,
}

/// Types upstream lists for the same pods and the plan does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingTypes {
    /// The claim's place in the plan.
    pub claim: usize,
    /// The types, in upstream's order.
    pub types: Vec<String>,
}

/// Compares the type lists of claims that carry the same pods, group by group, in the same node pool.
///
/// Only scenarios to which every upstream run gave the same claims can be compared. Where several of upstream's
/// claims fit, each is used once, the closest first.
pub fn flexibility(expected: &Expected, scenario: &Scenario, result: &PlanResult) -> Flexibility {
    let world = World::new(scenario);
    let mut left: Vec<&ExpectedClaim> = expected.claims.iter().flatten().collect();
    let mut flexibility = Flexibility::default();
    for (index, claim) in result.new_node_claims.iter().enumerate() {
        let pods = pods_by_group(claim, &world);
        let same = |e: &ExpectedClaim| e.node_pool == claim.node_pool && e.pods_by_group == pods;
        let candidates = left.iter().enumerate().filter(|(_, e)| same(e));
        let closest = candidates.map(|(i, e)| (i, missing(e, claim))).min_by_key(|(_, types)| types.len());
        if let Some((position, types)) = closest {
            left.remove(position);
            flexibility.compared += 1;
            if !types.is_empty() {
                flexibility.missing.push(MissingTypes { claim: index, types });
            }
        }
    }
    flexibility
}

fn pods_by_group(claim: &PlannedClaim, world: &World<'_>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for class in claim.pods.iter().filter_map(|pod| world.pending.get(pod)) {
        *counts.entry(world.classes[*class].group.clone()).or_default() += 1;
    }
    counts
}

fn missing(expected: &ExpectedClaim, claim: &PlannedClaim) -> Vec<String> {
    expected.instance_types.iter().filter(|name| !claim.instance_types.contains(name)).cloned().collect()
}
