//! The examination of a plan: start at [`check`].
//!
//! Every rule is asked of the plan as printed; nothing is recomputed the way a solver would compute it. A claim
//! must be right for every node it may become (see `claim`), and for rules that depend on the order in which pods
//! arrive a plan is accepted when some order would have been accepted.

mod admission;
mod affinity;
mod claims;
mod coverage;
mod daemons;
mod domains;
mod labels;
mod load;
mod pools;
mod spread;
mod volumes;

use std::collections::{BTreeMap, HashMap};

use crate::claim::{ClaimView, DomainSet};
use crate::labels::{Labelled, NodeConditions};
use crate::plan::PlanResult;
use crate::pod::Taint;
use crate::scenario::Scenario;
use crate::violation::Violation;
use crate::world::{NodeFacts, World};

/// Returns every rule the plan breaks; an empty list means the plan is feasible.
pub fn check(scenario: &Scenario, result: &PlanResult) -> Vec<Violation> {
    let world = World::new(scenario);
    let views: Vec<Option<ClaimView<'_>>> =
        result.new_node_claims.iter().enumerate().map(|(i, c)| ClaimView::new(i, c, &world)).collect();
    let claims: Vec<&ClaimView<'_>> = views.iter().flatten().collect();
    let examination = Examination::new(&world, result, &claims);
    let mut violations = coverage::violations(&world, result);
    violations.extend(admission::violations(&world, result));
    violations.extend(claims::violations(&examination));
    violations.extend(pools::violations(&examination));
    violations.extend(labels::violations(&examination));
    violations.extend(load::violations(&examination));
    violations.extend(volumes::violations(&examination));
    violations.extend(spread::violations(&examination));
    violations.extend(affinity::violations(&examination));
    violations
}

/// The plan joined with the scenario: every node there is or will be, with the pods on it.
pub(crate) struct Examination<'w> {
    pub(crate) world: &'w World<'w>,
    pub(crate) claims: &'w [&'w ClaimView<'w>],
    pub(crate) sites: Vec<Site<'w>>,
    /// For each claim the number of its equivalence class: claims that may become the same nodes share it.
    pub(crate) shapes: Vec<usize>,
}

/// A node of the cluster after the plan, and its pods.
pub(crate) struct Site<'w> {
    pub(crate) name: &'w str,
    pub(crate) place: Place<'w>,
    /// Pods the plan puts here, as class and count.
    pub(crate) placed: BTreeMap<usize, usize>,
    /// Pods that are here already and stay.
    pub(crate) bound: &'w [(usize, usize)],
}

#[derive(Clone, Copy)]
pub(crate) enum Place<'w> {
    /// The claim with this position in [`Examination::claims`].
    Claim(&'w ClaimView<'w>, usize),
    Node(&'w NodeFacts<'w>),
}

/// How sure it is that something holds for the node a site becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Certainty {
    Always,
    Sometimes,
    Never,
}

impl Place<'_> {
    pub(crate) fn taints(&self) -> &[Taint] {
        match self {
            Place::Claim(view, _) => view.pool.taints,
            Place::Node(node) => &node.taints,
        }
    }

    /// Returns the domains of a topology key the node may be in.
    pub(crate) fn domains(&self, key: &str) -> DomainSet {
        match self {
            Place::Claim(view, _) => view.domains(key),
            Place::Node(node) => {
                let mut domains = DomainSet::default();
                domains.include(node.label(key));
                domains
            }
        }
    }

    pub(crate) fn meets(&self, conditions: &NodeConditions) -> Certainty {
        if conditions.all.is_empty() && conditions.any_term.is_empty() {
            return Certainty::Always;
        }
        let (mut always, mut sometimes) = (true, false);
        let mut weigh = |holds: bool, may_hold: bool| {
            always &= holds;
            sometimes |= may_hold;
        };
        match self {
            Place::Node(node) => weigh(conditions.hold(*node), conditions.may_hold(*node)),
            Place::Claim(view, _) => {
                view.outcomes().for_each(|o| weigh(conditions.hold(&o), conditions.may_hold(&o)));
            }
        }
        match (always, sometimes) {
            (true, _) => Certainty::Always,
            (false, true) => Certainty::Sometimes,
            (false, false) => Certainty::Never,
        }
    }
}

impl<'w> Examination<'w> {
    fn new(world: &'w World<'w>, result: &'w PlanResult, claims: &'w [&'w ClaimView<'w>]) -> Self {
        let placed_on = |pods: &[String]| {
            let mut placed = BTreeMap::new();
            for class in pods.iter().filter_map(|pod| world.pending.get(pod)) {
                *placed.entry(*class).or_insert(0) += 1;
            }
            placed
        };
        let mut by_node: HashMap<&str, BTreeMap<usize, usize>> = HashMap::new();
        for assignment in &result.existing_nodes {
            let total = by_node.entry(&assignment.name).or_default();
            for (class, count) in placed_on(&assignment.pods) {
                *total.entry(class).or_insert(0) += count;
            }
        }
        let new = claims.iter().enumerate().map(|(i, view)| Site {
            name: &view.name,
            place: Place::Claim(view, i),
            placed: placed_on(&view.claim.pods),
            bound: &[],
        });
        let existing = world.nodes.iter().map(|node| Site {
            name: &node.name,
            place: Place::Node(node),
            placed: by_node.remove(node.name.as_str()).unwrap_or_default(),
            bound: &node.bound,
        });
        let sites = new.chain(existing).collect();
        Examination { world, claims, sites, shapes: shapes(claims) }
    }
}

fn shapes(claims: &[&ClaimView<'_>]) -> Vec<usize> {
    let mut known: HashMap<String, usize> = HashMap::new();
    let shape = |view: &&ClaimView<'_>| {
        let text = format!("{}|{:?}|{:?}", view.claim.node_pool, view.permitted, view.claim.instance_types);
        let next = known.len();
        *known.entry(text).or_insert(next)
    };
    claims.iter().map(shape).collect()
}
