//! The spread constraints that a profile gives pods which have none of their own.
//!
//! Such a constraint counts the pods that are selected by whatever selects the pod itself: the Services of its namespace and the
//! controller that made it. A pod that nobody selects gets none.

use std::borrow::Cow;

use k8s_openapi::api::apps::v1::{ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{ReplicationController, Service, TopologySpreadConstraint};
use karpenter_runtime::{Caches, Change, Kept, Key, Watches};

use super::class::{Demand, SpreadRule};
use crate::pod::PodFacts;
use crate::selector::{Labels, Selector};

/// Watches what selects pods.
pub(super) fn watch(watches: &mut Watches) {
    watches.add::<Service>();
    watches.add::<ReplicationController>();
    watches.add::<ReplicaSet>();
    watches.add::<StatefulSet>();
}

/// Returns whether a change may alter what selects the pods of its namespace.
pub(super) fn alters_selectors(change: &Change) -> bool {
    alters(change, of_service)
        || alters(change, of_replication_controller)
        || alters(change, of_replica_set)
        || alters(change, of_stateful_set)
}

fn alters<K: Kept>(change: &Change, selector: impl Fn(&K) -> Option<Selector>) -> bool {
    change.of::<K>().is_some_and(|delta| delta.old.and_then(&selector) != delta.new.and_then(&selector))
}

/// Returns what a pod demands of a profile with these constraints.
pub(super) fn demand<'a>(
    pod: &'a PodFacts,
    constraints: &[TopologySpreadConstraint],
    caches: &Caches,
) -> Cow<'a, Demand> {
    if !pod.demand.spec.spread.is_empty() {
        return Cow::Borrowed(&pod.demand);
    }
    let selector = selector(pod, caches);
    let is_selected = selector != Selector::EVERYTHING;
    let given = constraints.iter().filter(|_| is_selected);
    let rules = given.map(|constraint| SpreadRule::new(constraint, selector.clone()));
    Cow::Owned(pod.demand.spread_by(rules.collect()))
}

/// Returns all that selects a pod, taken together: everything, if nobody does.
fn selector(pod: &PodFacts, caches: &Caches) -> Selector {
    let labels = pod.labels();
    let services = caches.of::<Service>().in_namespace(pod.namespace());
    let selecting = services.filter_map(|service| of_service(service)).filter(|found| found.matches(&labels));
    let mut selector = Selector::EVERYTHING;
    for found in selecting.chain(owner_selector(pod, caches)) {
        selector.narrow(&found);
    }
    selector
}

fn owner_selector(pod: &PodFacts, caches: &Caches) -> Option<Selector> {
    let owner = pod.template.owner.as_ref()?;
    let key = Key::namespaced(pod.namespace(), &owner.name);
    match (owner.api_version.as_str(), owner.kind.as_str()) {
        ("v1", "ReplicationController") => of_replication_controller(caches.of().get(&key)?),
        ("apps/v1", "ReplicaSet") => of_replica_set(caches.of().get(&key)?),
        ("apps/v1", "StatefulSet") => of_stateful_set(caches.of().get(&key)?),
        _ => None,
    }
}

/// A Service without a selector selects nobody.
fn of_service(service: &Service) -> Option<Selector> {
    of_labels(service.spec.as_ref()?.selector.as_ref()?)
}

fn of_replication_controller(owner: &ReplicationController) -> Option<Selector> {
    of_labels(owner.spec.as_ref()?.selector.as_ref()?)
}

fn of_replica_set(owner: &ReplicaSet) -> Option<Selector> {
    Some(Selector::new(Some(&owner.spec.as_ref()?.selector)))
}

fn of_stateful_set(owner: &StatefulSet) -> Option<Selector> {
    Some(Selector::new(Some(&owner.spec.as_ref()?.selector)))
}

fn of_labels(labels: &Labels) -> Option<Selector> {
    (!labels.is_empty()).then(|| Selector::from_labels(labels))
}
