//! Counts what can be seen from outside: claims and nodes that come and go, pods that are bound and get ready.

use std::convert::Infallible;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use karpenter_api::condition::nodeclaim::{DRAINED, INSTANCE_TERMINATING, REGISTERED};
use karpenter_api::labels::{CAPACITY_TYPE, NODEPOOL, ZONE};
use karpenter_api::{NodeClaim, NodePool};
use karpenter_environment::Environment;
use karpenter_runtime::{Caches, Change, Controller, Delta, Key, Outcome, View, Wakes, Watches};
use kube::Resource;

use super::{Metrics, ObjectLabels};
use crate::nodeclaim::condition;
use crate::observed::ObservedPod;
use crate::state::Shared;

/// Counts; decides nothing.
pub(crate) struct Observer {
    metrics: Metrics,
    state: Shared,
    labels: ObjectLabels,
    environment: Arc<dyn Environment>,
    /// What is there at the beginning is no news.
    begun: bool,
}

impl Observer {
    pub(crate) fn new(
        metrics: Metrics,
        state: Shared,
        labels: ObjectLabels,
        environment: Arc<dyn Environment>,
    ) -> Self {
        Self { metrics, state, labels, environment, begun: false }
    }

    fn see_claim(&self, delta: &Delta<'_, NodeClaim>) {
        let pool = || label(delta.latest(), NODEPOOL);
        let zone = || label(delta.latest(), ZONE);
        let became = |type_: &str| {
            let is = |claim: &NodeClaim| condition(claim, type_).is_some_and(|found| found.status == "True");
            delta.new.is_some_and(is) && !delta.old.is_some_and(is)
        };
        if became(REGISTERED) {
            self.metrics.nodes_created.of(&[("nodepool", pool()), ("zone", zone())]).inc();
        }
        if became(DRAINED) {
            self.metrics.nodes_drained.of(&[("nodepool", pool())]).inc();
        }
        let (Some(gone), None) = (delta.old, delta.new) else { return };
        let capacity_type = ("capacity_type", label(gone, CAPACITY_TYPE));
        self.metrics.nodeclaims_terminated.of(&[("nodepool", pool()), capacity_type, ("zone", zone())]).inc();
        let now = self.environment.now();
        if let Some(deleted) = &gone.metadata.deletion_timestamp {
            let family = &self.metrics.nodeclaims_termination;
            family.of(&[("nodepool", pool())]).observe(seconds(deleted.0, now));
        }
        if let Some(stopping) = condition(gone, INSTANCE_TERMINATING) {
            let family = &self.metrics.instance_termination;
            let took = seconds(stopping.last_transition_time.0, now);
            family.of(&[("nodepool", pool())]).observe(took);
        }
    }

    fn see_node(&self, delta: &Delta<'_, Node>) {
        let (Some(gone), None) = (delta.old, delta.new) else { return };
        let pool = label(gone, NODEPOOL);
        if pool.is_empty() {
            return;
        }
        let now = self.environment.now();
        let of_pool = [("nodepool", pool.clone())];
        if let Some(deleted) = &gone.metadata.deletion_timestamp {
            self.metrics.nodes_termination.observe(&of_pool, seconds(deleted.0, now));
        }
        if let Some(created) = &gone.metadata.creation_timestamp {
            self.metrics.nodes_lifetime.of(&of_pool).observe(seconds(created.0, now));
        }
        let [of_pool] = of_pool;
        self.metrics.nodes_terminated.of(&[of_pool, ("zone", label(gone, ZONE))]).inc();
    }

    fn see_pod(&self, delta: &Delta<'_, ObservedPod>) {
        let Some(new) = delta.new else { return };
        let Ok(pod) = &new.pod else { return };
        let mut state = self.state.lock();
        let placed = state.waited(new.uid()).and_then(|waited| waited.placed);
        if let (Some(bound), None) = (new.bound, delta.old.and_then(|old| old.bound)) {
            let dynamic = [("dynamic_resources", pod.spec.uses_dynamic_resources.to_string())];
            self.metrics.pods_bound.of(&dynamic).observe(seconds(pod.created, bound));
            if let Some(placed) = placed {
                self.metrics.pods_provisioning_bound.of(&dynamic).observe(seconds(placed, bound));
            }
        }
        if let (Some(ready), None) = (new.ready, delta.old.and_then(|old| old.ready)) {
            self.metrics.pods_startup.observe(&[], seconds(pod.created, ready));
            if let Some(placed) = placed {
                self.metrics.pods_provisioning_startup.of(&[]).observe(seconds(placed, ready));
            }
            state.waits().end(new.uid());
        }
    }
}

impl Controller for Observer {
    type Request = Infallible;
    type Reply = Infallible;

    fn name(&self) -> &'static str {
        "metrics"
    }

    fn watches(&self, watches: &mut Watches) {
        watches.reads::<ObservedPod>();
        watches.reads::<NodeClaim>();
        watches.reads::<Node>();
        watches.reads::<NodePool>();
    }

    fn begin(&mut self, _: &Caches, _: &mut Wakes) {
        self.begun = true;
    }

    fn wake(&mut self, change: &Change, _: &Caches, _: &mut Wakes) {
        if !self.begun {
            return;
        }
        let now = self.environment.now();
        let transitions = &self.metrics.transitions;
        if let Some(delta) = change.of::<NodeClaim>() {
            transitions.see(delta.old, delta.new, &self.labels, now);
            self.see_claim(&delta);
        } else if let Some(delta) = change.of::<Node>() {
            transitions.see(delta.old, delta.new, &self.labels, now);
            self.see_node(&delta);
        } else if let Some(delta) = change.of::<NodePool>() {
            transitions.see(delta.old, delta.new, &self.labels, now);
        } else if let Some(delta) = change.of::<ObservedPod>() {
            self.see_pod(&delta);
        }
    }

    fn reconcile(&mut self, _: &Key, _: &View<'_>) -> Outcome<Infallible> {
        Outcome::done()
    }
}

fn label<K: Resource>(object: &K, key: &str) -> String {
    object.meta().labels.as_ref().and_then(|labels| labels.get(key)).cloned().unwrap_or_default()
}

fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64().max(0.0)
}
