//! Trying several strategies on one problem and keeping the best plan, within a budget counted in steps.
//!
//! The queue's run with upstream's rules is the reference where it can be afforded: another plan is kept only if no class of pods has more
//! members without a place. Among those, the plan that places most pods wins, then the cheapest, then the one with the fewest
//! nodes (the other way round where users ask for it), then the earliest; of that one the smallest nodes are joined where it costs next to nothing. Runs come in batches of fixed size, so the plan is the same with one thread or many.

use std::cmp::Ordering;

use rayon::iter::{IntoParallelRefIterator, ParallelIterator};

use super::bin::Share;
use super::packing::{self, Filling, Tactics};
use super::problem::Problem;
use super::queue::{self, Join, Policy};
use super::states::States;
use super::templates::Template;
use super::world::{Tuning, World};
use super::{limits, lots, merging};
use crate::plan::PackingPolicy;

/// A solved world and the pods that found no place.
pub(crate) struct Outcome<'p> {
    pub(crate) world: World<'p>,
    pub(crate) left: Vec<Share>,
}

/// One way to solve the problem.
#[derive(Clone, Copy, Debug)]
enum Run {
    Pack(Tuning, Tactics),
    Queue(Policy),
}

/// Runs per batch: the budget is looked at between batches only.
const BATCH: usize = 6;

/// How many choices among equally good domains are tried.
const DOMAIN_TURNS: u32 = 6;

/// Prices closer than this are equal: sums of the same prices in another order differ by rounding.
const PRICE_TOLERANCE: f64 = 1e-8;

/// Upstream's own rules.
const REFERENCE: Policy = Policy {
    join: Join::FewestPods,
    tuning: Tuning {
        limit_slack: None,
        domain_turn: 0,
        cheapest_domain: false,
        settles_doubt: false,
        cheapest_pool: false,
    },
    rotation: 0,
};

/// Ways of packing, with or without taking the cheapest domain a spread allows.
const TACTICS: [(Tactics, bool); 6] = [
    (Tactics { filling: Filling::Largest, sizes: 40, share: 1.0 }, false),
    (Tactics { filling: Filling::Balanced, sizes: 40, share: 1.4 }, false),
    (Tactics { filling: Filling::Balanced, sizes: 40, share: 1.0 }, true),
    (Tactics { filling: Filling::Largest, sizes: 40, share: 2.0 }, true),
    (Tactics { filling: Filling::Balanced, sizes: 10, share: 1.0 }, false),
    (Tactics { filling: Filling::Largest, sizes: 40, share: 4.0 }, true),
];

/// The best plan found within the budget.
pub(crate) fn best<'p>(problem: &'p Problem<'p>, states: &States) -> Outcome<'p> {
    let mut search = Search { problem, states, best: None, reference: None, steps: 0, run_steps: 0 };
    let packings: Vec<Run> = if lots::packable(problem) { packings().collect() } else { Vec::new() };
    search.batch(&packings[..packings.len().min(1)]);
    let limited = if search.queue_affordable() { search.refer() } else { None };
    let mut rest: Vec<Run> = packings.into_iter().skip(1).collect();
    rest.extend(limited.into_iter().flat_map(alternatives));
    for batch in rest.chunks(BATCH) {
        if !search.budget_left(batch.len()) {
            break;
        }
        search.batch(batch);
    }
    let mut best = search.best.expect("the queue answers where packing does not");
    merging::join_remainder(&mut best.world);
    best
}

struct Search<'a, 'p> {
    problem: &'p Problem<'p>,
    states: &'a States,
    best: Option<Outcome<'p>>,
    /// Pods without a place per class in the reference.
    reference: Option<Vec<u32>>,
    steps: u64,
    /// What the dearest run so far cost: the next is expected to cost as much.
    run_steps: u64,
}

impl<'p> Search<'_, 'p> {
    fn budget_left(&self, runs: usize) -> bool {
        self.steps + self.run_steps * runs as u64 <= self.problem.options.improvement_steps
    }

    /// Whether asking every open node for every pod stays within the budget, or nothing else has answered.
    fn queue_affordable(&self) -> bool {
        let Some(best) = &self.best else { return true };
        let pods: u64 = self.problem.queue.iter().map(|(_, count)| u64::from(*count)).sum();
        pods * (1 + best.world.bins.len() as u64) <= self.problem.options.improvement_steps
    }

    /// Makes the reference run; says whether limits left pods without a place.
    fn refer(&mut self) -> Option<bool> {
        let reference = solve(self.problem, self.states, Run::Queue(REFERENCE))?;
        let counts = reference.unplaced_by_class();
        let limited = !reference.left.is_empty() && self.problem.templates.iter().any(Template::is_limited);
        if self.best.as_ref().is_some_and(|best| !best.serves_all_of(&counts)) {
            self.best = None;
        }
        self.reference = Some(counts);
        self.offer(reference);
        Some(limited)
    }

    fn batch(&mut self, runs: &[Run]) {
        let (problem, states) = (self.problem, self.states);
        let outcomes: Vec<Option<Outcome<'p>>> = if problem.options.parallel {
            runs.par_iter().map(|run| solve(problem, states, *run)).collect()
        } else {
            runs.iter().map(|run| solve(problem, states, *run)).collect()
        };
        outcomes.into_iter().flatten().for_each(|outcome| self.offer(outcome));
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

    /// Whether this plan is better than another: more pods, then what the policy puts first, a lower price or fewer nodes.
    fn beats(&self, other: &Self) -> bool {
        let (price, other_price) = (self.price(), other.price());
        let by_price = if (price - other_price).abs() <= PRICE_TOLERANCE {
            Ordering::Equal
        } else {
            price.total_cmp(&other_price)
        };
        let by_nodes = self.world.bins.len().cmp(&other.world.bins.len());
        let by_policy = match self.world.problem.options.packing {
            PackingPolicy::Cheapest => by_price.then(by_nodes),
            PackingPolicy::FewestNodes => by_nodes.then(by_price),
        };
        self.unplaced().cmp(&other.unplaced()).then(by_policy).is_lt()
    }
}

fn packings() -> impl Iterator<Item = Run> {
    (0..DOMAIN_TURNS).flat_map(|domain_turn| {
        TACTICS.into_iter().map(move |(tactics, cheapest_domain)| {
            Run::Pack(
                Tuning {
                    domain_turn,
                    cheapest_domain,
                    // Settled first, because then more pods find a place; left open every other time, which may be cheaper.
                    settles_doubt: domain_turn % 2 == 0,
                    cheapest_pool: true,
                    ..Tuning::default()
                },
                tactics,
            )
        })
    })
}

/// Queue runs that differ from the reference. Keeping fewer types per node is only worth it where limits leave pods without a place.
fn alternatives(limited: bool) -> impl Iterator<Item = Run> {
    let joins = [Join::LeastIncrease, Join::FewestPods];
    let slacks: &[Option<u32>] = if limited { &[None, Some(1), Some(2), Some(4)] } else { &[None] };
    (0..6).flat_map(move |turn| {
        joins.into_iter().flat_map(move |join| {
            slacks.iter().map(move |limit_slack| {
                let tuning = Tuning {
                    limit_slack: *limit_slack,
                    domain_turn: turn / 2,
                    cheapest_domain: turn % 2 == 1,
                    settles_doubt: false,
                    cheapest_pool: join == Join::LeastIncrease,
                };
                Run::Queue(Policy { join, tuning, rotation: turn })
            })
        })
    })
}

/// Makes one run; nothing when it cannot answer within the limits of the pools.
fn solve<'p>(problem: &'p Problem<'p>, states: &States, run: Run) -> Option<Outcome<'p>> {
    match run {
        Run::Pack(tuning, tactics) => {
            let beside = lots::beside_others(problem);
            let mut first = packed(problem, states, (tuning, tactics), &beside);
            if limits::keep(&mut first.world) {
                return Some(first);
            }
            // Who gets the last of a limit is the queue's business; everybody else can still be packed.
            let bound = with_limited(&first, beside);
            let mut second = packed(problem, states, (tuning, tactics), &bound);
            limits::keep(&mut second.world).then_some(second)
        }
        Run::Queue(policy) => {
            let mut world = World::new(problem, states.clone(), policy.tuning);
            let left = queue::drain(&mut world, policy.join, queue::rotated(problem, policy.rotation));
            if policy.join == Join::LeastIncrease {
                merging::merge(&mut world);
            }
            Some(Outcome { world, left })
        }
    }
}

/// A world in which the bound classes took the queue and all others were packed around them.
fn packed<'p>(
    problem: &'p Problem<'p>,
    states: &States,
    (tuning, tactics): (Tuning, Tactics),
    bound: &[bool],
) -> Outcome<'p> {
    let mut world = World::new(problem, states.clone(), tuning);
    let (first, rest) = problem.queue.iter().copied().partition(|(class, _)| bound[*class as usize]);
    let join = if tactics.share > 1.0 { Join::FewestPods } else { Join::LeastIncrease };
    let mut left = queue::drain(&mut world, join, first);
    let (lots, unassigned) = lots::assign(&mut world, rest);
    packing::pack(&mut world, lots, tactics);
    merging::merge(&mut world);
    left.extend(unassigned);
    Outcome { world, left }
}

/// The bound classes and those on nodes of pools with limits.
fn with_limited(outcome: &Outcome<'_>, mut bound: Vec<bool>) -> Vec<bool> {
    let templates = &outcome.world.problem.templates;
    for bin in outcome.world.bins.iter().filter(|bin| templates[bin.template as usize].is_limited()) {
        bin.shares.iter().for_each(|share| bound[share.class as usize] = true);
    }
    bound
}
