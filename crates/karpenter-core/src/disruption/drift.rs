//! Drift: the node that has not matched its NodePool for longest goes first, whatever its replacement costs.

use super::Outlooks;
use super::moves::{Draft, Failure, Field};
use super::outlook::{self, Outlook};
use super::plan::{DisruptionCommand, DisruptionMethod, TerminateFirst};
use super::rollout::RolloutPause;
use super::terminate_first::placed_in_own_slot;
use crate::solver::{Placed, Trial, Way};

pub(crate) fn plan(field: &Field<'_>, outlooks: &mut Outlooks) -> Option<DisruptionCommand> {
    let mut drifted: Vec<usize> =
        (0..field.found.all.len()).filter(|number| field.candidate(*number).replaceable.is_some()).collect();
    drifted.sort_by_key(|number| {
        let candidate = field.candidate(*number);
        (!candidate.moving.is_empty(), candidate.replaceable, candidate.node.name.clone())
    });
    let mut trial = field.settled.trial();
    for number in drifted {
        let candidate = field.candidate(number);
        if let Some(outlook) = put_off(field, number) {
            outlooks.insert(candidate.node.name.clone(), outlook);
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
        if let Some(command) = given_up_first(field, number) {
            return Some(command);
        }
        outlooks.insert(candidate.node.name.clone(), Failure::NoPlace.outlook(candidate));
    }
    None
}

/// Why a drifted node has to wait although it could go.
fn put_off(field: &Field<'_>, number: usize) -> Option<Outlook> {
    let pool = &field.candidate(number).pool.name;
    if field.budget(number) == 0 {
        return Some(outlook::over_budget(field.reason, field.allowances.get(pool).copied()));
    }
    match field.options.rollout(pool) {
        Ok(0) => Some(Outlook::RolloutPaused { pause: RolloutPause::Stage { until: None } }),
        Ok(_) => None,
        Err(pause) => Some(Outlook::RolloutPaused { pause }),
    }
}

/// The node alone, where only the slot it gives back to its full reservation has room for its pods.
fn given_up_first(field: &Field<'_>, number: usize) -> Option<DisruptionCommand> {
    if !field.options.terminate_first_drift {
        return None;
    }
    let candidate = field.candidate(number);
    let placed = placed_in_own_slot(field.ground, candidate.node, &candidate.moving)?;
    let placed = Placed { claims: Vec::new(), ..placed };
    let draft = Draft { nodes: vec![number], savings: 0.0, placed };
    let command = field.command(DisruptionMethod::Drift, draft);
    Some(DisruptionCommand { terminate_first: Some(TerminateFirst::NoReservedCapacity), ..command })
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
