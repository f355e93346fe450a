//! Trying several strategies on one problem and keeping the best plan, within a budget counted in steps.
//!
//! The first run is the reference. Another plan replaces it only if no class of pods has more members without a place; among
//! those, the one that places most pods wins, then the cheapest, then the one with the fewest nodes, then the earliest.

use super::bin::Share;
use super::lots;
use super::merging;
use super::packing::{self, Filling, Tactics};
use super::problem::Problem;
use super::queue::{self, Join, Policy};
use super::states::States;
use super::templates::Template;
use super::world::{Tuning, World};

/// A solved world and the pods that found no place.
pub(crate) struct Outcome<'p> {
    pub(crate) world: World<'p>,
    pub(crate) left: Vec<Share>,
}

impl Outcome<'_> {
    fn price(&self) -> f64 {
        self.world.bins.iter().map(|bin| bin.price).sum()
    }

    fn unplaced(&self) -> u32 {
        self.left.iter().map(|share| share.count).sum()
    }

    fn unplaced_by_class(&self) -> Vec<u32> {
        let mut counts = vec![0; self.world.problem.classes.len()];
        for share in &self.left {
            counts[share.class as usize] += share.count;
        }
        counts
    }

    /// Whether no class has more pods without a place than in `reference`.
    fn serves_all_of(&self, reference: &[u32]) -> bool {
        self.unplaced_by_class().iter().zip(reference).all(|(own, other)| own <= other)
    }

    /// Whether this plan is better than another: more pods, then a lower price, then fewer nodes.
    fn beats(&self, other: &Self) -> bool {
        let (own_price, other_price) = (self.price(), other.price());
        let same_price = (own_price - other_price).abs() <= PRICE_TOLERANCE;
        self.unplaced()
            .cmp(&other.unplaced())
            .then_with(
                || if same_price { std::cmp::Ordering::Equal } else { own_price.total_cmp(&other_price) },
            )
            .then_with(|| self.world.bins.len().cmp(&other.world.bins.len()))
            .is_lt()
    }
}

/// Prices closer than this are equal: sums of the same prices in another order differ by rounding.
const PRICE_TOLERANCE: f64 = 1e-8;

/// The best plan found within the budget.
pub(crate) fn best<'p>(problem: &'p Problem<'p>, states: &States) -> Outcome<'p> {
    let mut search = Search { problem, states, best: None, reference: None, steps: 0, run_steps: 0 };
    search.pack();
    if search.queue_affordable() {
        search.queue();
    }
    search.best.expect("the queue answers where packing does not")
}

struct Search<'a, 'p> {
    problem: &'p Problem<'p>,
    states: &'a States,
    best: Option<Outcome<'p>>,
    reference: Option<Vec<u32>>,
    steps: u64,
    /// What the dearest run so far cost: the next is expected to cost as much.
    run_steps: u64,
}

impl<'p> Search<'_, 'p> {
    fn budget_left(&self) -> bool {
        self.steps + self.run_steps <= self.problem.options.improvement_steps
    }

    fn pack(&mut self) {
        if !lots::packable(self.problem) {
            return;
        }
        for domain_turn in 0..DOMAIN_TURNS {
            for (tactics, cheapest_domain) in TACTICS {
                if self.budget_left() {
                    self.pack_with(Tuning { limit_slack: None, domain_turn, cheapest_domain }, tactics);
                }
            }
        }
    }

    fn pack_with(&mut self, tuning: Tuning, tactics: Tactics) {
        let mut world = World::new(self.problem, self.states.clone(), tuning);
        let (lots, left) = lots::assign(&mut world);
        packing::pack(&mut world, lots, tactics);
        merging::merge(&mut world);
        if world.limits_hold() {
            self.offer(Outcome { world, left });
        }
    }

    /// Whether asking every open node for every pod stays within the budget.
    fn queue_affordable(&self) -> bool {
        let Some(best) = &self.best else { return true };
        let pods: u64 = self.problem.queue.iter().map(|(_, count)| u64::from(*count)).sum();
        pods * (1 + best.world.bins.len() as u64) <= self.problem.options.improvement_steps
    }

    fn queue(&mut self) {
        let reference = solve(self.problem, self.states, REFERENCE);
        let counts = reference.unplaced_by_class();
        if self.best.as_ref().is_some_and(|best| !best.serves_all_of(&counts)) {
            self.best = None;
        }
        let limited = !reference.left.is_empty() && self.problem.templates.iter().any(Template::is_limited);
        self.reference = Some(counts);
        self.offer(reference);
        for policy in alternatives(limited) {
            if !self.budget_left() {
                break;
            }
            let outcome = solve(self.problem, self.states, policy);
            self.offer(outcome);
        }
    }

    fn offer(&mut self, outcome: Outcome<'p>) {
        self.steps += outcome.world.steps;
        self.run_steps = self.run_steps.max(outcome.world.steps);
        let serves = self.reference.as_ref().is_none_or(|reference| outcome.serves_all_of(reference));
        if serves && self.best.as_ref().is_none_or(|best| outcome.beats(best)) {
            self.best = Some(outcome);
        }
    }
}

/// How many choices among equally good domains are tried.
const DOMAIN_TURNS: u32 = 4;

/// Ways of packing, with or without taking the cheapest domain a spread allows.
const TACTICS: [(Tactics, bool); 6] = [
    (Tactics { filling: Filling::Balanced, sizes: 10, share: 1.0 }, false),
    (Tactics { filling: Filling::Largest, sizes: 40, share: 1.0 }, false),
    (Tactics { filling: Filling::Balanced, sizes: 40, share: 1.4 }, false),
    (Tactics { filling: Filling::Largest, sizes: 40, share: 2.0 }, true),
    (Tactics { filling: Filling::Balanced, sizes: 40, share: 1.0 }, true),
    (Tactics { filling: Filling::Balanced, sizes: 40, share: f64::INFINITY }, true),
];

const REFERENCE: Policy = Policy {
    join: Join::FewestPods,
    tuning: Tuning { limit_slack: None, domain_turn: 0, cheapest_domain: false },
    rotation: 0,
};

/// Runs that differ from the reference. Keeping fewer types per node is only worth it where limits leave pods without a place.
fn alternatives(limited: bool) -> impl Iterator<Item = Policy> {
    let joins = [Join::LeastIncrease, Join::FewestPods];
    let slacks: &[Option<u32>] = if limited { &[None, Some(1), Some(2), Some(4)] } else { &[None] };
    (0..6).flat_map(move |turn| {
        joins.into_iter().flat_map(move |join| {
            slacks.iter().map(move |limit_slack| {
                let tuning = Tuning {
                    limit_slack: *limit_slack,
                    domain_turn: turn / 2,
                    cheapest_domain: turn % 2 == 1,
                };
                Policy { join, tuning, rotation: turn }
            })
        })
    })
}

fn solve<'p>(problem: &'p Problem<'p>, states: &States, policy: Policy) -> Outcome<'p> {
    let (mut world, left) = queue::run(problem, states.clone(), policy);
    if policy.join == Join::LeastIncrease {
        merging::merge(&mut world);
    }
    Outcome { world, left }
}
