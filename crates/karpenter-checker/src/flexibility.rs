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
/// Only scenarios to which every upstream run gave the same claims can be compared. Where several claims carry the same pods, they are paired
/// so that as many as possible lack nothing; those left over are compared with the closest.
pub fn flexibility(expected: &Expected, scenario: &Scenario, result: &PlanResult) -> Flexibility {
    let world = World::new(scenario);
    let mut groups: BTreeMap<Carried<'_>, Group<'_>> = BTreeMap::new();
    for claim in expected.claims.iter().flatten() {
        let carried = (claim.node_pool.as_str(), claim.pods_by_group.clone());
        groups.entry(carried).or_default().upstreams.push(claim);
    }
    for (index, claim) in result.new_node_claims.iter().enumerate() {
        let carried = (claim.node_pool.as_str(), pods_by_group(claim, &world));
        if let Some(group) = groups.get_mut(&carried) {
            group.ours.push((index, claim));
        }
    }
    let pairs: Vec<(usize, Vec<String>)> = groups.values().flat_map(Group::pairs).collect();
    let lacking = pairs.iter().filter(|(_, types)| !types.is_empty());
    let mut missing: Vec<MissingTypes> =
        lacking.map(|(claim, types)| MissingTypes { claim: *claim, types: types.clone() }).collect();
    missing.sort_by_key(|missing| missing.claim);
    Flexibility { compared: pairs.len(), missing }
}

/// A node pool and the pods a claim carries.
type Carried<'a> = (&'a str, BTreeMap<String, usize>);

/// Claims that carry the same pods.
#[derive(Default)]
struct Group<'a> {
    ours: Vec<(usize, &'a PlannedClaim)>,
    upstreams: Vec<&'a ExpectedClaim>,
}

impl Group<'_> {
    /// Pairs claims with upstream's; returns the place in the plan of each paired claim and what it lacks.
    fn pairs(&self) -> Vec<(usize, Vec<String>)> {
        let lacks = |own: usize, other: usize| missing(self.upstreams[other], self.ours[own].1);
        let suits: Vec<Vec<bool>> = (0..self.ours.len())
            .map(|own| (0..self.upstreams.len()).map(|other| lacks(own, other).is_empty()).collect())
            .collect();
        let mut partners = vec![None; self.upstreams.len()];
        for own in 0..self.ours.len() {
            paired(own, &suits, &mut partners, &mut vec![false; suits[own].len()]);
        }
        let mut pairs: Vec<(usize, Vec<String>)> =
            partners.iter().flatten().map(|own| (self.ours[*own].0, Vec::new())).collect();
        let mut left: Vec<usize> = (0..partners.len()).filter(|other| partners[*other].is_none()).collect();
        for own in (0..self.ours.len()).filter(|own| !partners.contains(&Some(*own))) {
            let distances = left.iter().map(|other| lacks(own, *other)).enumerate();
            if let Some((position, types)) = distances.min_by_key(|(_, types)| types.len()) {
                left.remove(position);
                pairs.push((self.ours[own].0, types));
            }
        }
        pairs
    }
}

/// Finds a partner for `own`, moving others to partners that suit them as well: one step of a largest matching.
fn paired(own: usize, suits: &[Vec<bool>], partners: &mut [Option<usize>], tried: &mut [bool]) -> bool {
    for other in 0..partners.len() {
        if !suits[own][other] || std::mem::replace(&mut tried[other], true) {
            continue;
        }
        if partners[other].is_none_or(|present| paired(present, suits, partners, tried)) {
            partners[other] = Some(own);
            return true;
        }
    }
    false
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

#[cfg(test)]
mod tests {
    use super::*;

    fn group(ours: &[&[&str]], upstreams: &[&[&str]]) -> Vec<(usize, Vec<String>)> {
        let names = |types: &[&str]| types.iter().map(ToString::to_string).collect();
        let planned: Vec<PlannedClaim> = ours
            .iter()
            .map(|types| PlannedClaim { instance_types: names(types), ..PlannedClaim::default() })
            .collect();
        let expected: Vec<ExpectedClaim> = upstreams
            .iter()
            .map(|types| ExpectedClaim { instance_types: names(types), ..ExpectedClaim::default() })
            .collect();
        Group { ours: planned.iter().enumerate().collect(), upstreams: expected.iter().collect() }.pairs()
    }

    fn lacking(pairs: &[(usize, Vec<String>)]) -> Vec<(usize, usize)> {
        pairs.iter().filter(|(_, types)| !types.is_empty()).map(|(own, types)| (*own, types.len())).collect()
    }

    #[test]
    fn a_rich_claim_leaves_the_poor_one_its_only_match() {
        let pairs = group(&[&["a", "b"], &["a"]], &[&["a"], &["a", "b"]]);
        assert_eq!((pairs.len(), lacking(&pairs)), (2, Vec::new()));
    }

    #[test]
    fn what_no_pairing_can_mend_is_reported_once() {
        let pairs = group(&[&["a"], &["b"], &["b"]], &[&["b"], &["a", "c"]]);
        assert_eq!((pairs.len(), lacking(&pairs)), (2, vec![(0, 1)]));
    }
}
