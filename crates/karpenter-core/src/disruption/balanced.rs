//! The Balanced policy: a move must save a share of the pool's cost worth the share of the pool it disturbs.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::candidate::{Candidate, Totals};

/// How small the saving's share may be beside the disturbance's share.
pub(crate) const THRESHOLD: f64 = 0.5;

/// The lowest score over the Balanced pools a move takes nodes from; infinite when there is none.
pub(crate) fn score<'c, 'a: 'c>(
    candidates: impl Iterator<Item = &'c Candidate<'a>>,
    savings: f64,
    totals: &BTreeMap<Arc<str>, Totals>,
) -> f64 {
    scores(candidates, savings, totals).into_iter().map(|(_, score)| score).fold(f64::INFINITY, f64::min)
}

/// The score in every Balanced pool a move takes nodes from.
pub(crate) fn scores<'c, 'a: 'c>(
    candidates: impl Iterator<Item = &'c Candidate<'a>>,
    savings: f64,
    totals: &BTreeMap<Arc<str>, Totals>,
) -> Vec<(&'c str, f64)> {
    let mut by_pool: BTreeMap<&str, (f64, f64, bool)> = BTreeMap::new();
    let mut source = 0.0;
    for candidate in candidates {
        let (price, cost, balanced) = by_pool.entry(&candidate.pool.name).or_default();
        *price += candidate.price;
        *cost += candidate.cost;
        *balanced = candidate.is_balanced();
        source += candidate.price;
    }
    let pools = by_pool.len();
    let of_pool = |(name, (price, cost, _)): (&&str, &(f64, f64, bool))| {
        let share = if source > 0.0 && pools > 1 { savings * (price / source) } else { savings };
        let total = totals.get(*name).copied().unwrap_or_default();
        if total.price <= 0.0 || total.cost <= 0.0 || share <= 0.0 {
            return 0.0;
        }
        (share / total.price) / (cost / total.cost)
    };
    let balanced = by_pool.iter().filter(|(_, (_, _, balanced))| *balanced);
    balanced.map(|(name, sums)| (*name, of_pool((name, sums)))).collect()
}
