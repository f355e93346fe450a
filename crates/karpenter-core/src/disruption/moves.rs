//! Trying moves: some nodes leave, their pods find places, and the result is priced.

use std::collections::BTreeMap;
use std::sync::Arc;

use rayon::iter::{IntoParallelRefIterator, ParallelIterator};

use super::balanced;
use super::budget::{Allowance, DisruptionReason};
use super::candidate::{Candidate, Candidates};
use super::outlook::Outlook;
use super::plan::{DisruptionCommand, DisruptionMethod, DisruptionOptions};
use crate::catalog::Catalog;
use crate::cluster::ClusterSnapshot;
use crate::plan::SolverOptions;
use crate::solver::{Placed, PriceRule, Refusal, Settled, SpotRule, Stage, Trial, Way};

/// How many cheaper spot types there have to be before one spot node replaces another.
pub(crate) const SPOT_TYPES_MIN: usize = 15;

/// Savings closer than this are equal: sums of the same prices in another order differ by rounding.
pub(crate) const TOLERANCE: f64 = 1e-9;

/// The share of what the leaving nodes cost that must be saved when several new nodes take their place. That many pods are not moved for less,
/// and whoever does it again and again shuffles machines rather than saving.
const SHARE_SAVED_MIN: f64 = 0.05;

/// The ground moves are tried on.
pub(crate) struct Field<'f> {
    pub(crate) settled: Settled<'f>,
    pub(crate) stage: &'f Stage<'f>,
    /// The numbers of each candidate's pods.
    pub(crate) numbers: &'f [Vec<u32>],
    pub(crate) found: &'f Candidates<'f>,
    pub(crate) allowances: BTreeMap<Arc<str>, Allowance>,
    pub(crate) options: &'f DisruptionOptions,
    pub(crate) reason: DisruptionReason,
    /// What the stage was compiled from.
    pub(crate) ground: (&'f ClusterSnapshot, &'f Catalog, &'f SolverOptions),
}

/// Why a move is not made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Failure {
    /// Some pods have no place.
    NoPlace,
    /// More new nodes than nodes leave.
    NewNodes(usize),
    Refused(Refusal),
    /// A Balanced pool says no.
    NotWorthIt(f64),
    /// A pool asks for a larger saving.
    TooSmall {
        savings: f64,
        needed: f64,
    },
}

impl Failure {
    pub(crate) fn outlook(self, candidate: &Candidate<'_>) -> Outlook {
        match self {
            Self::NoPlace => Outlook::NoPlace { pod: None },
            Self::NewNodes(nodes) => Outlook::SeveralNewNodes { nodes },
            Self::Refused(Refusal::NoCheaper) => Outlook::NoCheaper { price: candidate.price },
            Self::Refused(Refusal::MinValues) => Outlook::MinValues,
            Self::Refused(Refusal::SpotToSpot) => Outlook::SpotToSpotOff,
            Self::Refused(Refusal::TooFewTypes(found)) => {
                Outlook::TooFewSpotTypes { needed: SPOT_TYPES_MIN, found }
            }
            Self::TooSmall { savings, needed } => Outlook::SavingTooSmall { savings, needed },
            Self::NotWorthIt(score) => Outlook::NotWorthIt { score, threshold: balanced::THRESHOLD },
        }
    }
}

/// A move that works, written down.
pub(crate) struct Draft {
    pub(crate) nodes: Vec<usize>,
    pub(crate) savings: f64,
    pub(crate) placed: Placed,
}

impl<'f> Field<'f> {
    pub(crate) fn candidate(&self, number: usize) -> &'f Candidate<'f> {
        &self.found.all[number]
    }

    /// Numbers of the candidates consolidation looks at, those that save most per disturbance first.
    pub(crate) fn consolidatable(&self) -> Vec<usize> {
        let looked_at = |number: &usize| {
            let candidate = self.candidate(*number);
            candidate.unconsolidatable.is_none() && !candidate.is_empty()
        };
        (0..self.found.all.len()).filter(looked_at).collect()
    }

    /// Nodes of a pool that may be disrupted now.
    pub(crate) fn budget(&self, number: usize) -> u32 {
        let pool = &self.candidate(number).pool.name;
        self.allowances.get(pool).map_or(0, Allowance::remaining)
    }

    /// Takes a candidate away.
    pub(crate) fn remove(&self, trial: &mut Trial<'_, '_>, number: usize) {
        let place = self.stage.place(self.candidate(number).node).expect("candidates are nodes that stay");
        trial.remove(place, &self.numbers[number]);
    }

    pub(crate) fn source(&self, nodes: &[usize]) -> f64 {
        nodes.iter().map(|number| self.candidate(*number).price).sum()
    }

    /// Prices what a trial came to, with these nodes gone and every pod in a place: the saving, unless there is none.
    pub(crate) fn priced(&self, trial: &mut Trial<'_, '_>, nodes: &[usize]) -> Result<f64, Failure> {
        let source = self.source(nodes);
        let mut price = 0.0;
        if trial.new_nodes() > 0 {
            let same_type = if nodes.len() > 1 { self.types_of(nodes) } else { Vec::new() };
            let spot = self.spot_rule(nodes, trial.new_nodes());
            let rule = PriceRule { source, spot, same_type: &same_type };
            price = trial.restrict(&rule).map_err(Failure::Refused)?;
        }
        let savings = source - price;
        let needed = if trial.new_nodes() > 1 { source * SHARE_SAVED_MIN } else { 0.0 };
        if savings < needed {
            return Err(Failure::TooSmall { savings, needed });
        }
        self.worth_it(nodes, savings)?;
        Ok(savings)
    }

    /// Whether the pools of the nodes think the saving worth it: those with a minimum, and those that weigh it against the disturbance.
    pub(crate) fn worth_it(&self, nodes: &[usize], savings: f64) -> Result<(), Failure> {
        let source = self.source(nodes);
        let minimum = |number: &usize| self.candidate(*number).pool.disruption.minimum_saving;
        let needed = nodes.iter().filter_map(minimum).map(|minimum| minimum.of(source)).fold(0.0, f64::max);
        if savings < needed - TOLERANCE {
            return Err(Failure::TooSmall { savings, needed });
        }
        let candidates = nodes.iter().map(|number| self.candidate(*number));
        let score = balanced::score(candidates, savings, &self.found.totals);
        if score >= balanced::THRESHOLD { Ok(()) } else { Err(Failure::NotWorthIt(score)) }
    }

    /// How the Balanced pools of the nodes weigh the saving.
    fn scores(&self, nodes: &[usize], savings: f64) -> Vec<(Arc<str>, f64)> {
        let candidates = nodes.iter().map(|number| self.candidate(*number));
        balanced::scores(candidates, savings, &self.found.totals)
            .into_iter()
            .map(|(pool, score)| (Arc::from(pool), score))
            .collect()
    }

    fn spot_rule(&self, nodes: &[usize], new: usize) -> SpotRule {
        if nodes.iter().any(|number| !self.candidate(*number).is_spot()) {
            SpotRule::Mixed
        } else if !self.options.spot_to_spot {
            SpotRule::Forbidden
        } else if nodes.len() > new {
            SpotRule::Free
        } else {
            SpotRule::AtLeast(SPOT_TYPES_MIN)
        }
    }

    fn types_of(&self, nodes: &[usize]) -> Vec<(Arc<str>, f64)> {
        let mut cheapest: BTreeMap<&Arc<str>, f64> = BTreeMap::new();
        for candidate in nodes.iter().map(|number| self.candidate(*number)) {
            if let Some(known) = candidate.instance_type {
                let price = cheapest.entry(&known.name).or_insert(f64::INFINITY);
                *price = price.min(candidate.price);
            }
        }
        cheapest.into_iter().map(|(name, price)| (name.clone(), price)).collect()
    }

    /// Takes the nodes away together and places their pods one way.
    pub(crate) fn attempt(
        &self,
        trial: &mut Trial<'_, '_>,
        nodes: &[usize],
        way: Way,
    ) -> Result<f64, Failure> {
        nodes.iter().for_each(|number| self.remove(trial, *number));
        self.settle_pods(trial, nodes, way)
    }

    /// Places the pods that wait one way and prices the result.
    pub(crate) fn settle_pods(
        &self,
        trial: &mut Trial<'_, '_>,
        nodes: &[usize],
        way: Way,
    ) -> Result<f64, Failure> {
        if !trial.place(way) {
            return Err(Failure::NoPlace);
        }
        if trial.new_nodes() > 1 && way != Way::FewestPods {
            trial.join_new_nodes();
        }
        if trial.new_nodes() > 1 && nodes.len() == 1 {
            return Err(Failure::NewNodes(trial.new_nodes()));
        }
        self.priced(trial, nodes)
    }

    /// Does something for every item on all cores; the answers come in the items' order.
    pub(crate) fn for_each<T: Sync, R: Send>(
        &self,
        items: &[T],
        act: impl Fn(&mut Trial<'_, 'f>, &T) -> R + Sync + Send,
    ) -> Vec<R> {
        if self.options.solver.parallel && items.len() > 1 {
            let each = items.par_iter();
            each.map_init(|| self.settled.trial(), |trial, item| act(trial, item)).collect()
        } else {
            let mut trial = self.settled.trial();
            items.iter().map(|item| act(&mut trial, item)).collect()
        }
    }

    /// The command of a draft.
    pub(crate) fn command(&self, method: DisruptionMethod, draft: Draft) -> DisruptionCommand {
        DisruptionCommand {
            method,
            reason: self.reason,
            candidates: names(draft.nodes.iter().map(|number| self.candidate(*number))),
            replacements: draft.placed.claims,
            template_replacements: Vec::new(),
            existing: draft.placed.existing,
            repair: None,
            terminate_first: None,
            prices: Vec::new(),
            scores: self.scores(&draft.nodes, draft.savings),
            source_cost: self.source(&draft.nodes),
            savings: draft.savings,
        }
    }
}

/// The names of candidates, in order.
pub(crate) fn names<'c, 'a: 'c>(candidates: impl Iterator<Item = &'c Candidate<'a>>) -> Vec<Arc<str>> {
    let mut names: Vec<Arc<str>> = candidates.map(|candidate| candidate.node.name.clone()).collect();
    names.sort();
    names
}
