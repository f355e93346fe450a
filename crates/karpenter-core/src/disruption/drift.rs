//! Drift: the node that has not matched its NodePool for longest goes first, whatever its replacement costs.

use super::Outlooks;
use super::moves::{Draft, Failure, Field};
use super::outlook;
use super::plan::{DisruptionCommand, DisruptionMethod};
use crate::solver::{Trial, Way};

pub(crate) fn plan(field: &Field<'_>, outlooks: &mut Outlooks) -> Option<DisruptionCommand> {
    let mut drifted: Vec<usize> = (0..field.found.all.len())
        .filter(|number| field.candidate(*number).node.life.drifted.is_some())
        .collect();
    drifted.sort_by_key(|number| {
        let candidate = field.candidate(*number);
        (!candidate.moving.is_empty(), candidate.node.life.drifted, candidate.node.name.clone())
    });
    let mut trial = field.settled.trial();
    for number in drifted {
        let candidate = field.candidate(number);
        if field.budget(number) == 0 {
            let allowance = field.allowances.get(&candidate.pool.name).copied();
            outlooks.insert(candidate.node.name.clone(), outlook::over_budget(field.reason, allowance));
            continue;
        }
        let before = trial.point();
        if gone(field, &mut trial, number) {
            let placed = trial.written();
            let price: f64 = placed.claims.iter().map(|claim| claim.cheapest.price).sum();
            let draft = Draft { nodes: vec![number], savings: candidate.price - price, placed };
            return Some(field.command(DisruptionMethod::Drift, draft));
        }
        trial.return_to(&before);
        outlooks.insert(candidate.node.name.clone(), Failure::NoPlace.outlook(candidate));
    }
    None
}

/// Whether every pod of the node finds a place.
fn gone(field: &Field<'_>, trial: &mut Trial<'_, '_>, number: usize) -> bool {
    field.remove(trial, number);
    placed_anyhow(trial)
}

/// Whether the pods that wait find places one way or another, whatever that costs.
pub(crate) fn placed_anyhow(trial: &mut Trial<'_, '_>) -> bool {
    let removed = trial.point();
    for way in [Way::Existing, Way::LeastIncrease, Way::FewestPods] {
        trial.return_to(&removed);
        if trial.place(way) {
            return true;
        }
    }
    false
}
