//! The spread constraints that kube-scheduler gives pods which have none of their own, where it was configured to.
//!
//! Such a constraint counts the pods that are selected by whatever selects the pod itself: the Services of its namespace and the
//! controller that made it. A pod nobody selects gets none.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{ReplicationController, Service, TopologySpreadConstraint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use karpenter_core::cluster::{Pod, Selector, SpreadConstraint};
use karpenter_kube::Interner;
use karpenter_kube::pod::spread_constraint;
use karpenter_kube::selector::selector;
use karpenter_runtime::{Change, Key, Watches};

use crate::observed::{ObservedPod, owner_path};

/// See the module.
#[derive(Default)]
pub(crate) struct SpreadDefaults {
    constraints: Vec<SpreadConstraint>,
    services: BTreeMap<Key, Selector>,
    /// By the path of the controller in the API.
    owners: BTreeMap<String, Selector>,
}

impl SpreadDefaults {
    /// The defaults with these constraints; a constraint that cannot be read is left out.
    pub(crate) fn new(constraints: &[TopologySpreadConstraint]) -> Self {
        let readable = |constraint| {
            let read = spread_constraint(constraint);
            read.map_err(|error| tracing::warn!("a default spread constraint is left out: {error}")).ok()
        };
        Self { constraints: constraints.iter().filter_map(readable).collect(), ..Self::default() }
    }

    /// Whether pods get any constraints.
    pub(crate) fn is_empty(&self) -> bool {
        self.constraints.is_empty()
    }

    /// Watches what selects pods, beside ReplicaSets and StatefulSets.
    pub(crate) fn watch(watches: &mut Watches) {
        watches.add_as(|mut service: Service| {
            service.status = None;
            service.metadata.annotations = None;
            service
        });
        watches.add_as(|mut owner: ReplicationController| {
            owner.status = None;
            owner.metadata.annotations = None;
            if let Some(spec) = &mut owner.spec {
                spec.template = None;
            }
            owner
        });
    }

    /// Takes note of a change of what selects pods; returns whether pods of its namespace may be selected otherwise now.
    pub(crate) fn apply(&mut self, change: &Change) -> bool {
        let key = change.key();
        if let Some(delta) = change.of::<Service>() {
            let selected = delta.new.and_then(|service| service.spec.as_ref()?.selector.as_ref());
            let labels = selected.filter(|labels| !labels.is_empty()).cloned();
            return put(&mut self.services, key.clone(), labels.and_then(|labels| of_labels(&labels)));
        }
        let (path, found) = if let Some(delta) = change.of::<ReplicaSet>() {
            let spec = delta.new.and_then(|owner| owner.spec.as_ref());
            (path("apps/v1", "ReplicaSet", key), spec.and_then(|spec| selector(&spec.selector).ok()))
        } else if let Some(delta) = change.of::<StatefulSet>() {
            let spec = delta.new.and_then(|owner| owner.spec.as_ref());
            (path("apps/v1", "StatefulSet", key), spec.and_then(|spec| selector(&spec.selector).ok()))
        } else if let Some(delta) = change.of::<ReplicationController>() {
            let labels = delta.new.and_then(|owner| owner.spec.as_ref()?.selector.as_ref());
            (path("v1", "ReplicationController", key), labels.and_then(of_labels))
        } else {
            return false;
        };
        put(&mut self.owners, path, found)
    }

    /// The pod as kube-scheduler sees it.
    pub(crate) fn applied(
        &self,
        observed: &ObservedPod,
        pod: &Arc<Pod>,
        interner: &mut Interner,
    ) -> Arc<Pod> {
        if self.is_empty() || !pod.spec.spread.is_empty() {
            return Arc::clone(pod);
        }
        let selector = self.selector(observed, pod);
        if selector.expressions.is_empty() {
            return Arc::clone(pod);
        }
        let mut spec = karpenter_core::cluster::PodSpec::clone(&pod.spec);
        let with_selector = |constraint: &SpreadConstraint| SpreadConstraint {
            selector: Some(selector.clone()),
            ..constraint.clone()
        };
        spec.spread = self.constraints.iter().map(with_selector).collect();
        Arc::new(Pod { spec: interner.spec(spec), ..Pod::clone(pod) })
    }

    /// Everything that selects a pod, taken together.
    fn selector(&self, observed: &ObservedPod, pod: &Pod) -> Selector {
        let namespace = observed.names().0;
        let services = self.services.iter().filter(|(key, _)| key.namespace() == Some(namespace));
        let selecting = services.map(|(_, selector)| selector).filter(|found| found.matches(&pod.labels));
        let owner = observed.owner.as_ref().and_then(|path| self.owners.get(&**path));
        let expressions = selecting.chain(owner).flat_map(|found| found.expressions.iter().cloned());
        Selector { expressions: expressions.collect() }
    }
}

fn of_labels(labels: &BTreeMap<String, String>) -> Option<Selector> {
    selector(&LabelSelector { match_labels: Some(labels.clone()), match_expressions: None }).ok()
}

fn path(api_version: &str, kind: &str, key: &Key) -> String {
    owner_path(api_version, kind, key.namespace().unwrap_or_default(), key.name())
}

fn put<K: Ord>(map: &mut BTreeMap<K, Selector>, key: K, found: Option<Selector>) -> bool {
    if map.get(&key) == found.as_ref() {
        return false;
    }
    match found {
        Some(selector) => drop(map.insert(key, selector)),
        None => drop(map.remove(&key)),
    }
    true
}
