//! Which zones a pod can be in, by what it asks for itself and by where its volumes are.

use std::sync::Arc;

use super::volumes;
use crate::catalog::ZONE;
use crate::cluster::{ClusterSnapshot, Pod};
use crate::requirements::{Operator, RequirementSet, ValueSet};

/// Those of the `known` zones that the pod can be in.
pub fn possible_zones<'z>(
    pod: &Pod,
    snapshot: &ClusterSnapshot,
    known: impl IntoIterator<Item = &'z Arc<str>>,
) -> Vec<&'z Arc<str>> {
    let terms: Vec<RequirementSet> =
        pod.spec.required_terms.iter().map(|term| term.iter().collect()).collect();
    let volumes = volumes::alternatives(pod, snapshot);
    let selected = pod.spec.node_selector.get(ZONE);
    let selected = selected.map(|zone| ValueSet::of(Operator::In, std::slice::from_ref(zone)));
    let accepts =
        |set: &RequirementSet, zone: &str| set.get(ZONE).is_none_or(|zones| zones.accepts(Some(zone)));
    let one_accepts =
        |sets: &[RequirementSet], zone: &str| sets.is_empty() || sets.iter().any(|set| accepts(set, zone));
    let possible = |zone: &&Arc<str>| {
        selected.as_ref().is_none_or(|selected| selected.accepts(Some(zone)))
            && one_accepts(&terms, zone)
            && one_accepts(&volumes, zone)
    };
    known.into_iter().filter(possible).collect()
}
