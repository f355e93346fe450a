//! Single-node consolidation: every candidate is tried alone, and the one that saves most goes.

use super::Outlooks;
use super::moves::{Draft, Failure, Field, TOLERANCE};
use super::outlook::{self, Outlook};
use super::plan::{DisruptionCommand, DisruptionMethod};
use crate::solver::{Trial, Way};

/// What came of trying one candidate.
type Tried = Result<(f64, Way), Failure>;

/// A candidate tried, and a pod that had no place in the end.
type Answer = (Tried, Option<u32>);

pub(crate) fn plan(field: &Field<'_>, outlooks: &mut Outlooks) -> Option<DisruptionCommand> {
    let (within, over): (Vec<usize>, Vec<usize>) =
        field.consolidatable().into_iter().partition(|number| field.budget(*number) > 0);
    for number in over {
        let candidate = field.candidate(number);
        let allowance = field.allowances.get(&candidate.pool.name).copied();
        outlooks.insert(candidate.node.name.clone(), outlook::over_budget(field.reason, allowance));
    }
    let tried = field.for_each(&within, |trial, number| alone(field, trial, *number));
    let mut best: Option<(f64, usize, Way)> = None;
    for (number, (tried, stuck)) in within.iter().zip(&tried) {
        let candidate = field.candidate(*number);
        let outlook = match tried {
            Ok((savings, way)) => {
                // Candidates come with the best saving per disturbance first, so the first of equals stays.
                if best.as_ref().is_none_or(|(most, _, _)| *savings > most + TOLERANCE) {
                    best = Some((*savings, *number, *way));
                }
                Outlook::Next { savings: *savings }
            }
            Err(Failure::NoPlace) => {
                let pod = stuck.map(|pod| field.stage.pods()[pod as usize].key());
                Outlook::NoPlace { pod }
            }
            Err(failure) => failure.outlook(candidate),
        };
        outlooks.insert(candidate.node.name.clone(), outlook);
    }
    let (_, number, way) = best?;
    let mut trial = field.settled.trial();
    let savings = field.attempt(&mut trial, &[number], way).ok()?;
    let draft = Draft { nodes: vec![number], savings, placed: trial.written() };
    Some(field.command(DisruptionMethod::SingleNodeConsolidation, draft))
}

/// The best that can be done about one node, and how.
fn alone(field: &Field<'_>, trial: &mut Trial<'_, '_>, number: usize) -> Answer {
    let nodes = [number];
    let price = field.candidate(number).price;
    // Nothing saves more than deleting the node, so if that is not worth it nothing is.
    if let Err(failure) = field.worth_it(&nodes, price) {
        return (Err(failure), None);
    }
    let before = trial.point();
    field.remove(trial, number);
    let removed = trial.point();
    let mut best = field.settle_pods(trial, &nodes, Way::Existing).map(|savings| (savings, Way::Existing));
    if best.is_err() {
        for way in field.stage.ways() {
            trial.return_to(&removed);
            let tried = field.settle_pods(trial, &nodes, way).map(|savings| (savings, way));
            best = better(best, tried);
            if best.is_ok_and(|(savings, _)| savings >= price - TOLERANCE) {
                break;
            }
        }
    }
    let stuck = trial.stuck(&field.numbers[number]);
    trial.return_to(&before);
    (best, stuck)
}

fn better(known: Tried, tried: Tried) -> Tried {
    match (known, tried) {
        (Ok(known), Ok(tried)) if tried.0 > known.0 + TOLERANCE => Ok(tried),
        (Ok(known), _) => Ok(known),
        (Err(_), Ok(tried)) => Ok(tried),
        // Of two reasons the one that came further says more.
        (Err(Failure::NoPlace), Err(tried)) => Err(tried),
        (Err(known), Err(_)) => Err(known),
    }
}
