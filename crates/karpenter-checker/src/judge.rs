//! Whether a plan is at least as good as upstream's.
//!
//! Four things count: (a) the plan is feasible; (b) no group has more pods without a place than in upstream's
//! worst run, and no pod is turned away that upstream considers; (c) it costs no more than upstream's best run;
//! (d) it opens no more claims than upstream's worst run. Where upstream's own plan is infeasible only (a)
//! counts.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::check::check;
use crate::expected::Expected;
use crate::plan::PlanResult;
use crate::scenario::Scenario;
use crate::violation::Violation;
use crate::world::World;

/// Prices are sums of decimals; smaller differences are noise.
const PRICE_TOLERANCE: f64 = 1e-6;

/// What is wrong with a plan, if anything.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// Every reason the plan is not right.
    pub failures: Vec<Failure>,
    /// What the plan costs per hour, computed from its type lists.
    pub price: f64,
}

impl Verdict {
    /// Tells whether the plan is right.
    pub fn is_right(&self) -> bool {
        self.failures.is_empty()
    }
}

/// One reason a plan is not right.
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    /// (a) The plan breaks a rule.
    Infeasible(Violation),
    /// (b) More pods of a group have no place than in upstream's worst run.
    MoreWithoutPlace {
        /// `namespace/name` of the pod group.
        group: String,
        /// Pods of the group without a place.
        count: usize,
        /// The same in upstream's worst run.
        upstream: usize,
    },
    /// (b) A pod was turned away that upstream considers.
    IgnoredAlone(String),
    /// (c) The plan costs more than upstream's.
    Dearer {
        /// The plan's price per hour.
        price: f64,
        /// Upstream's price it is held against.
        upstream: f64,
    },
    /// (d) The plan opens more claims than upstream's worst run, without being cheaper than its best.
    MoreClaims {
        /// Claims of the plan.
        count: usize,
        /// The same in upstream's worst run.
        upstream: usize,
    },
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Infeasible(violation) => write!(f, "(a) {violation}"),
            Failure::MoreWithoutPlace { group, count, upstream } => {
                write!(f, "(b) {count} pods of {group} have no place, {upstream} upstream")
            }
            Failure::IgnoredAlone(pod) => write!(f, "(b) {pod} is ignored, upstream considers it"),
            Failure::Dearer { price, upstream } => write!(f, "(c) costs {price:.6}, upstream {upstream:.6}"),
            Failure::MoreClaims { count, upstream } => {
                write!(f, "(d) opens {count} claims, upstream {upstream}")
            }
        }
    }
}

/// Compares a plan with upstream's answers to the same scenario.
pub fn judge(expected: &Expected, scenario: &Scenario, result: &PlanResult) -> Verdict {
    let world = World::new(scenario);
    let price = price_of(result, &world);
    let mut failures: Vec<Failure> = check(scenario, result).into_iter().map(Failure::Infeasible).collect();
    if expected.upstream_violations.is_none() && expected.panics.is_empty() {
        failures.extend(without_place(expected, result, &world));
        failures.extend(ignored_alone(expected, result));
        failures.extend(cost(expected, result, price));
    }
    Verdict { failures, price }
}

fn price_of(result: &PlanResult, world: &World<'_>) -> f64 {
    let views = result.new_node_claims.iter().enumerate();
    let views = views.filter_map(|(i, claim)| crate::claim::ClaimView::new(i, claim, world));
    views.map(|v| v.types.iter().map(crate::claim::ListedType::price).fold(f64::INFINITY, f64::min)).sum()
}

fn without_place(expected: &Expected, result: &PlanResult, world: &World<'_>) -> Vec<Failure> {
    let group_of = |pod: &String| world.pending.get(pod).map(|class| world.classes[*class].group.as_str());
    let count = |pods: &mut dyn Iterator<Item = &String>| {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for group in pods.filter_map(group_of) {
            *counts.entry(group).or_default() += 1;
        }
        counts
    };
    let ours = count(&mut result.errors.keys().chain(result.ignored.keys()));
    let ignored = count(&mut expected.ignored.iter());
    // Pods of deleting nodes have no range of their own, only names.
    let named = count(&mut expected.unschedulable.iter().chain(&expected.sometimes_unschedulable));
    let pending: BTreeSet<&str> =
        world.classes[..world.scenario.pod_groups.len()].iter().map(|c| c.group.as_str()).collect();
    let upstream = |group: &str| {
        let failed = if pending.contains(group) {
            expected.unschedulable_by_group.get(group).map_or(0, |range| range.max as usize)
        } else {
            named.get(group).copied().unwrap_or(0)
        };
        failed + ignored.get(group).copied().unwrap_or(0)
    };
    let failure = |(group, count): (&str, usize)| {
        let upstream = upstream(group);
        (count > upstream).then(|| Failure::MoreWithoutPlace { group: group.to_owned(), count, upstream })
    };
    ours.into_iter().filter_map(failure).collect()
}

fn ignored_alone(expected: &Expected, result: &PlanResult) -> Vec<Failure> {
    let alone = result.ignored.keys().filter(|pod| !expected.ignored.contains(pod));
    alone.map(|pod| Failure::IgnoredAlone(pod.clone())).collect()
}

/// A plan that places more pods than any upstream run may cost more and open more claims.
fn cost(expected: &Expected, result: &PlanResult, price: f64) -> Vec<Failure> {
    let unplaced = result.errors.len() + result.ignored.len();
    let upstream_unplaced = expected.unschedulable_count.min as usize + expected.ignored.len();
    if unplaced < upstream_unplaced {
        return Vec::new();
    }
    let varies = expected.unschedulable_count.min < expected.unschedulable_count.max;
    let bound = if varies { expected.price.max } else { expected.price.min };
    let claims = result.new_node_claims.len();
    let mut failures = Vec::new();
    if price > bound + PRICE_TOLERANCE {
        failures.push(Failure::Dearer { price, upstream: bound });
    }
    if claims > expected.new_node_claims.max as usize && price > expected.price.min - PRICE_TOLERANCE {
        failures.push(Failure::MoreClaims { count: claims, upstream: expected.new_node_claims.max as usize });
    }
    failures
}
