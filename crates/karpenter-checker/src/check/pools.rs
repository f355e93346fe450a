//! Node pools: a claim may only narrow what its pool allows, keep its `minValues`, and fit its limits.

use std::collections::{BTreeMap, BTreeSet};

use super::Examination;
use crate::claim::ClaimView;
use crate::labels::{Labelled, Present, States, current_key};
use crate::quantity::Quantity;
use crate::resources::amount;
use crate::violation::{Violation, ViolationKind};
use crate::world::{PoolFacts, World};

pub(super) fn violations(examination: &Examination<'_>) -> Vec<Violation> {
    let world = examination.world;
    let mut violations = Vec::new();
    for view in examination.claims {
        violations.extend(widened(view, world));
        violations.extend(undefined_labels(view, world));
        violations.extend(min_values(view, world));
    }
    for (name, pool) in &world.pools {
        let claims: Vec<&ClaimView<'_>> =
            examination.claims.iter().copied().filter(|v| v.claim.node_pool == *name).collect();
        violations.extend(limits(name, pool, &claims, world));
    }
    violations
}

/// Every node the claim may become must be one the pool allows.
fn widened(view: &ClaimView<'_>, world: &World<'_>) -> Option<Violation> {
    let report = |message: String| Some(Violation::new(ViolationKind::PoolRequirement, &view.name, message));
    for (key, pool) in &view.pool.permitted {
        if view.permitted.get(key).is_some_and(|claim| !claim.intersects(pool)) {
            return report(format!("the claim's `{key}` requirement contradicts the node pool's"));
        }
        let offending =
            view.outcomes().find(|o| !o.label(key).is_within_printed(pool) && !is_label(view.pool, key));
        if let Some(outcome) = offending {
            return report(format!(
                "the claim may become {}, which the node pool's `{key}` forbids",
                outcome.describe()
            ));
        }
    }
    let open = view.pool.permitted.keys().find(|key| {
        let from_type = view.types.iter().all(|t| t.facts.labels.contains_key(key.as_str()));
        !from_type
            && !is_label(view.pool, key)
            && !view.permitted.contains_key(*key)
            && !world.well_known.contains(key.as_str())
    })?;
    report(format!("the claim drops the node pool's `{open}` requirement"))
}

fn is_label(pool: &PoolFacts<'_>, key: &str) -> bool {
    pool.labels.contains_key(key)
}

/// A custom label appears on a node only if the pool defines it.
fn undefined_labels(view: &ClaimView<'_>, world: &World<'_>) -> Option<Violation> {
    let undefined = view.permitted.iter().find(|(key, permitted)| {
        !permitted.absent
            && !view.pool.permitted.contains_key(*key)
            && !world.well_known.contains(key.as_str())
            && !view.types.iter().any(|t| t.facts.labels.contains_key(key.as_str()))
    });
    let (key, _) = undefined?;
    let message = format!(
        "the claim requires label `{key}`, which node pool `{}` does not define",
        view.claim.node_pool
    );
    Some(Violation::new(ViolationKind::UndefinedLabel, &view.name, message))
}

fn min_values(view: &ClaimView<'_>, world: &World<'_>) -> Vec<Violation> {
    let best_effort = world.scenario.options.min_values_policy == "BestEffort";
    let asked = highest_min_values(&view.pool.pool.spec.template.spec.requirements);
    let printed = highest_min_values(&view.claim.requirements);
    let report = |message: String| Violation::new(ViolationKind::MinValues, &view.name, message);
    let mut violations = Vec::new();
    for (key, wanted) in asked {
        let kept = printed.get(key).copied();
        if !best_effort && kept.is_some_and(|kept| kept < wanted) {
            violations
                .push(report(format!("minValues of `{key}` was lowered although the policy is strict")));
        }
        let floor = if best_effort { kept.unwrap_or(0) } else { wanted };
        let values = distinct_values(view, key);
        if values.len() < floor {
            let message =
                format!("minValues of `{key}` is {floor} but the listed types offer {}", values.len());
            violations.push(report(message));
        }
    }
    violations
}

fn highest_min_values(requirements: &[crate::pod::Requirement]) -> BTreeMap<&str, usize> {
    let mut highest: BTreeMap<&str, usize> = BTreeMap::new();
    for requirement in requirements {
        if let Some(min_values) = requirement.min_values {
            let entry = highest.entry(current_key(&requirement.key)).or_default();
            *entry = (*entry).max(min_values);
        }
    }
    highest
}

/// Counts only what the claim still allows: a zone it has excluded is no choice any more.
fn distinct_values<'v>(view: &'v ClaimView<'_>, key: &str) -> BTreeSet<&'v String> {
    let allowed = |value: &&String| view.permitted.get(key).is_none_or(|p| p.has_value(value));
    let of_type = |states: &'v States| match &states.present {
        Present::Only(values) => values.iter().filter(allowed).collect::<Vec<_>>(),
        Present::AllBut { .. } => Vec::new(),
    };
    view.types.iter().filter_map(|t| t.facts.labels.get(key)).flat_map(of_type).collect()
}

/// Any listed type may be launched, so the largest of each claim counts.
fn limits(name: &str, pool: &PoolFacts<'_>, claims: &[&ClaimView<'_>], world: &World<'_>) -> Vec<Violation> {
    if claims.is_empty() {
        return Vec::new();
    }
    let nodes = || world.nodes.iter().filter(|n| n.node.node_pool == name && !n.node.deleting);
    let mut violations = Vec::new();
    for (resource, limit) in &pool.pool.spec.limits {
        let used: Quantity = if resource == "nodes" {
            Quantity::whole(1).times(nodes().count() + claims.len())
        } else {
            let there: Quantity = nodes().map(|n| amount(&n.capacity, resource)).sum();
            there + claims.iter().map(|view| largest(view, resource)).sum()
        };
        if used > *limit {
            let message = format!("`{resource}` could reach {used}, the limit is {limit}");
            violations.push(Violation::new(ViolationKind::Limits, name, message));
        }
    }
    violations
}

fn largest(view: &ClaimView<'_>, resource: &str) -> Quantity {
    view.types.iter().map(|t| amount(t.facts.capacity, resource)).max().unwrap_or_default()
}
