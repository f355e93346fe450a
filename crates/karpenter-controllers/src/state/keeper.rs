//! The controller behind the state: says what is watched, and lets every change enter.

use std::convert::Infallible;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{DaemonSet, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{
    Namespace, Node, PersistentVolume, PersistentVolumeClaim, TopologySpreadConstraint,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use karpenter_api::{LabelRules, NodeClaim, NodePool};
use karpenter_runtime::{Caches, Change, Controller, Key, Outcome, View, Wakes, Watches};

use super::Shared;
use crate::observed::PodObserver;
use crate::spread_defaults::SpreadDefaults;

/// Keeps the state: must be the first controller of its runtime, so that the others find it up to date.
pub(crate) struct StateKeeper {
    state: Shared,
    observer: PodObserver,
    /// Whether ReplicaSets and StatefulSets are watched.
    workloads: bool,
}

impl StateKeeper {
    /// A keeper of `state`. Where deletion costs are our own doing, they say nothing about pods.
    pub(crate) fn new(state: Shared, rules: &LabelRules, manages_deletion_costs: bool) -> Self {
        let observer = PodObserver::new(Arc::new(rules.clone()), manages_deletion_costs);
        Self { state, observer, workloads: false }
    }

    /// The same; pods without spread constraints get these.
    pub(crate) fn with_spread(self, constraints: &[TopologySpreadConstraint]) -> Self {
        let spread = SpreadDefaults::new(constraints);
        let workloads = self.workloads || !spread.is_empty();
        self.state.lock().spread = spread;
        Self { workloads, ..self }
    }

    /// The same; others read ReplicaSets and StatefulSets.
    pub(crate) fn with_workloads(self, read: bool) -> Self {
        Self { workloads: self.workloads || read, ..self }
    }
}

impl Controller for StateKeeper {
    type Request = Infallible;
    type Reply = Infallible;

    fn name(&self) -> &'static str {
        "state"
    }

    fn watches(&self, watches: &mut Watches) {
        let observer = self.observer.clone();
        watches.add_as(move |pod| observer.observe(pod));
        watches.add_as(lean_node);
        watches.add::<NodeClaim>();
        watches.add::<NodePool>();
        watches.add::<CSINode>();
        watches.add::<Namespace>();
        watches.add::<PersistentVolumeClaim>();
        watches.add::<PersistentVolume>();
        watches.add::<StorageClass>();
        watches.add::<DaemonSet>();
        watches.add::<PodDisruptionBudget>();
        if self.workloads {
            watches.add_as(|workload: ReplicaSet| ReplicaSet { status: None, ..workload });
            watches.add_as(|workload: StatefulSet| StatefulSet { status: None, ..workload });
        }
        if !self.state.lock().spread.is_empty() {
            SpreadDefaults::watch(watches);
        }
    }

    fn begin(&mut self, _: &Caches, _: &mut Wakes) {
        self.state.lock().unsynced = None;
    }

    fn wake(&mut self, change: &Change, caches: &Caches, _: &mut Wakes) {
        self.state.lock().apply(change, caches);
    }

    fn reconcile(&mut self, _: &Key, _: &View<'_>) -> Outcome<Infallible> {
        Outcome::done()
    }
}

/// A node without the lists nobody reads here; images alone can be most of a node.
fn lean_node(mut node: Node) -> Node {
    if let Some(status) = &mut node.status {
        status.images = None;
        status.volumes_attached = None;
        status.volumes_in_use = None;
    }
    node
}
