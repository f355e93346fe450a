//! Pools against what can be bought: is anything left, and may a single one be launched.

use karpenter_api::NodePool;

use crate::finding::{Finding, Object};
use crate::requirements::Line;
use crate::{Facts, limits, requirements};

pub(crate) fn check(facts: &Facts<'_>, pool: &NodePool, object: &Object) -> Vec<Finding> {
    let Ok(read) = karpenter_kube::node_pool::node_pool(pool, facts.rules) else { return Vec::new() };
    let lines = Line::all(pool, &read, facts.rules);
    let mut findings = requirements::contradictions(&lines, object);
    findings.extend(limits::of_static(pool, &read, object));
    // Without a list of machines only the lines themselves can be compared.
    let Some(types) = facts.catalog.by_pool.get(&read.name).filter(|types| !types.is_empty()) else {
        return findings;
    };
    findings.extend(requirements::spelling(&lines, types, facts.rules, object));
    if findings.iter().any(|finding| finding.severity == crate::Severity::Error) {
        return findings;
    }
    match requirements::left(&lines, types, object) {
        Ok(left) => {
            findings.extend(requirements::min_values(&lines, &left, object));
            findings.extend(limits::check(&read, &left, object));
        }
        Err(impossible) => findings.extend(impossible),
    }
    findings
}
