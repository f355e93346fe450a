//! Volumes: a pod must land where each of its volumes can be reached.

use std::collections::HashMap;

use super::{Certainty, Examination, Place};
use crate::labels::{Condition, HOSTNAME, NodeConditions, term_conditions};
use crate::scenario::{PersistentVolume, PersistentVolumeClaim, Scenario, StorageClass};
use crate::violation::{Violation, ViolationKind};
use crate::world::PodClass;

pub(super) fn violations(examination: &Examination<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut reach: HashMap<usize, Vec<NodeConditions>> = HashMap::new();
    for site in &examination.sites {
        for class_index in site.placed.keys() {
            let class = &examination.world.classes[*class_index];
            let conditions = reach
                .entry(*class_index)
                .or_insert_with(|| volume_conditions(class, examination.world.scenario));
            if conditions.iter().any(|c| site.place.meets(c) != Certainty::Always) {
                let place =
                    if matches!(site.place, Place::Claim(..)) { "the claim may land" } else { "the node is" };
                let message = format!("{place} where a volume of {} cannot be reached", class.group);
                violations.push(Violation::new(ViolationKind::Volume, site.name, message));
            }
        }
    }
    violations
}

/// Returns one set of conditions per volume that is bound to a place.
fn volume_conditions(class: &PodClass<'_>, scenario: &Scenario) -> Vec<NodeConditions> {
    claims_of(class, scenario)
        .flatten()
        .filter_map(|claim| {
            let terms = if claim.spec.volume_name.is_empty() {
                storage_class(scenario, &claim.spec.storage_class_name).map(allowed_topologies)
            } else {
                volume(scenario, &claim.spec.volume_name).map(reachable_from)
            };
            terms.filter(|t| !t.is_empty()).map(|any_term| NodeConditions { all: Vec::new(), any_term })
        })
        .collect()
}

/// Returns the claims of a pod's volumes, nothing in the place of one that does not exist.
pub(super) fn claims_of<'s>(
    class: &'s PodClass<'_>,
    scenario: &'s Scenario,
) -> impl Iterator<Item = Option<&'s PersistentVolumeClaim>> {
    class.pod.spec.volumes.iter().filter_map(move |volume| {
        // An ephemeral claim is named after the pod; pods of a group share the group's name as prefix.
        let is_named = |claim: &PersistentVolumeClaim| {
            let name = &claim.metadata.name;
            if let Some(source) = &volume.persistent_volume_claim {
                *name == source.claim_name
            } else {
                name.starts_with(&class.pod.metadata.name) && name.ends_with(&format!("-{}", volume.name))
            }
        };
        let wanted = volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some();
        wanted.then(|| {
            let here = |c: &&PersistentVolumeClaim| c.metadata.namespace_or_default() == class.namespace;
            scenario.persistent_volume_claims.iter().filter(here).find(|c| is_named(c))
        })
    })
}

pub(super) fn storage_class<'s>(scenario: &'s Scenario, name: &str) -> Option<&'s StorageClass> {
    scenario.storage_classes.iter().find(|c| c.metadata.name == name)
}

pub(super) fn volume<'s>(scenario: &'s Scenario, name: &str) -> Option<&'s PersistentVolume> {
    scenario.persistent_volumes.iter().find(|v| v.metadata.name == name)
}

fn allowed_topologies(class: &StorageClass) -> Vec<Vec<Condition>> {
    let terms = class.allowed_topologies.iter().filter(|t| !t.match_label_expressions.is_empty());
    terms
        .map(|term| {
            let condition = |e: &crate::scenario::TopologySelectorExpression| {
                Condition::from_requirement(&crate::pod::Requirement {
                    key: e.key.clone(),
                    operator: "In".to_owned(),
                    values: e.values.clone(),
                    min_values: None,
                })
            };
            term.match_label_expressions.iter().map(condition).collect()
        })
        .collect()
}

/// A local volume is recreated with its pod, so the host it was on does not matter.
fn reachable_from(volume: &PersistentVolume) -> Vec<Vec<Condition>> {
    let local = volume.spec.local.is_some() || volume.spec.host_path.is_some();
    let affinity = volume.spec.node_affinity.as_ref().and_then(|a| a.required.as_ref());
    let terms = affinity.map(|a| a.node_selector_terms.as_slice()).unwrap_or_default();
    let mut alternatives = Vec::new();
    for term in terms.iter().filter(|t| !t.match_expressions.is_empty()) {
        let mut conditions = term_conditions(term);
        if local {
            conditions.retain(|c| c.key != HOSTNAME);
        }
        alternatives.push(conditions);
    }
    alternatives
}
