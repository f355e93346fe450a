//! The dual of the relaxation, solved by linear programming, and its value as a certificate.
//!
//! Weights `w[g][r]` say what a unit of resource `r` is worth in group `g`. They are admissible when no machine is
//! worth more than its price. Then a pod costs at least what its requests are worth in the cheapest group that takes
//! it, and the sum over all pods, less the worth of capacity that is there already, is a lower bound of the price of
//! every plan. [`certified`] computes that sum for any weights, after scaling them to be admissible: neither the
//! linear program's tolerance nor the simplifications below can make the bound wrong, only lower.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use microlp::{ComparisonOp, OptimizationDirection, Problem, Variable};

use super::supply::{Column, Group, Item};

/// Items the linear program sees; more are averaged by size and shape.
const ITEMS_MAX: usize = 120;

/// The best lower bound of the price found for these pods on these machines.
pub(super) fn lower_bound(items: &[Item], groups: &[Group]) -> Result<f64> {
    let Some(first) = items.first() else { return Ok(0.0) };
    let scale = scales(items, first.requests.len());
    let program = Program::new(&averaged(items), groups, &scale);
    let weights = program.solve()?;
    Ok(certified(items, groups, weights))
}

/// The value of any weights, made admissible first.
fn certified(items: &[Item], groups: &[Group], mut weights: Vec<Vec<f64>>) -> f64 {
    let mut reused = 0.0;
    for (group, weights) in groups.iter().zip(&mut weights) {
        for weight in weights.iter_mut() {
            *weight = weight.max(0.0);
        }
        if group.exists() {
            reused += group.columns.iter().map(|column| worth(weights, &column.capacity)).sum::<f64>();
        } else {
            let within =
                |column: &Column| column.price / worth(weights, &column.capacity).max(f64::MIN_POSITIVE);
            let factor = group.columns.iter().map(within).fold(1.0, f64::min);
            for weight in weights.iter_mut() {
                *weight *= factor;
            }
        }
    }
    let cheapest = |item: &Item| {
        let taking = groups.iter().zip(&weights).filter(|(group, _)| group.takes(item));
        taking.map(|(_, weights)| worth(weights, &item.requests)).fold(f64::INFINITY, f64::min)
    };
    let pods: f64 = items.iter().map(|item| item.count * cheapest(item)).sum();
    (pods - reused).max(0.0)
}

fn worth(weights: &[f64], amounts: &[f64]) -> f64 {
    weights.iter().zip(amounts).map(|(weight, amount)| weight * amount).sum()
}

/// The largest request of each resource: numbers near one keep the linear program well conditioned.
fn scales(items: &[Item], resources: usize) -> Vec<f64> {
    let largest = |index: usize| items.iter().map(|item| item.requests[index]).fold(0.0, f64::max);
    (0..resources).map(|index| if largest(index) > 0.0 { largest(index) } else { 1.0 }).collect()
}

/// Place, weight of the pools and sizes of the requests of items that are averaged.
type Neighbourhood = (Option<usize>, Option<i64>, Vec<i64>);

/// At most about [`ITEMS_MAX`] items that stand for all: neighbours in size and shape are averaged, the more coarsely
/// the more items there are.
fn averaged(items: &[Item]) -> Vec<Item> {
    let mut steps_per_octave = 4.0;
    while items.len() > ITEMS_MAX {
        let mut merged: BTreeMap<Neighbourhood, Item> = BTreeMap::new();
        for item in items {
            let bucket = item
                .requests
                .iter()
                .map(|asked| (asked.max(1e-9).log2() * steps_per_octave).floor() as i64)
                .collect();
            let known = merged.entry((item.place, item.weight, bucket)).or_insert_with(|| Item {
                count: 0.0,
                requests: vec![0.0; item.requests.len()],
                ..item.clone()
            });
            known.count += item.count;
            known.requests.iter_mut().zip(&item.requests).for_each(|(sum, asked)| *sum += asked * item.count);
        }
        if merged.len() <= ITEMS_MAX || steps_per_octave < 0.1 {
            let average = |mut item: Item| {
                item.requests.iter_mut().for_each(|sum| *sum /= item.count);
                item
            };
            return merged.into_values().map(average).collect();
        }
        steps_per_octave /= 2.0;
    }
    items.to_vec()
}

/// The linear program over weights per group and the value of each item.
struct Program<'a> {
    problem: Problem,
    weights: Vec<Vec<Variable>>,
    scale: &'a [f64],
}

impl<'a> Program<'a> {
    fn new(items: &[Item], groups: &[Group], scale: &'a [f64]) -> Self {
        let mut problem = Problem::new(OptimizationDirection::Maximize);
        let mut weights = Vec::new();
        for group in groups {
            let variables: Vec<Variable> =
                scale.iter().map(|_| problem.add_var(0.0, (0.0, f64::INFINITY))).collect();
            for column in &group.columns {
                let mut row = scaled(&variables, &column.capacity, scale, 1.0);
                if group.exists() {
                    let reused = problem.add_var(-1.0, (0.0, f64::INFINITY));
                    row.push((reused, -1.0));
                }
                problem.add_constraint(&row, ComparisonOp::Le, column.price);
            }
            weights.push(variables);
        }
        for item in items {
            let value = problem.add_var(item.count, (0.0, f64::INFINITY));
            for (group, variables) in groups.iter().zip(&weights).filter(|(group, _)| group.takes(item)) {
                debug_assert!(!group.columns.is_empty(), "a group is made for its first column");
                let mut row = scaled(variables, &item.requests, scale, -1.0);
                row.push((value, 1.0));
                problem.add_constraint(&row, ComparisonOp::Le, 0.0);
            }
        }
        Self { problem, weights, scale }
    }

    /// The best weights, back in the resources' own units.
    fn solve(self) -> Result<Vec<Vec<f64>>> {
        let outcome = self.problem.solve().context("the linear program of the lower bound has no answer")?;
        let solution =
            outcome.into_solution().ok().context("the linear program of the lower bound was not finished")?;
        let weights = |variables: &Vec<Variable>| {
            variables
                .iter()
                .zip(self.scale)
                .map(|(variable, scale)| solution.var_value(*variable) / scale)
                .collect()
        };
        Ok(self.weights.iter().map(weights).collect())
    }
}

fn scaled(variables: &[Variable], amounts: &[f64], scale: &[f64], sign: f64) -> Vec<(Variable, f64)> {
    let terms = variables.iter().zip(amounts).zip(scale).filter(|((_, amount), _)| **amount != 0.0);
    terms.map(|((variable, amount), scale)| (*variable, sign * amount / scale)).collect()
}
