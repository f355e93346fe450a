//! Removes pods that nobody looks after: those of vanished nodes, and deleted ones that never had a node.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter_runtime::{Caches, Change, Controller, Key, Outcome, View, Wakes, Watches, Write};
use serde_json::json;

use crate::event::time;
use crate::index::PodsByNode;
use crate::pod::{PodFacts, watch_pods};

/// A node may be gone for so long and come back, and its pods are still there.
const QUARANTINE: Duration = Duration::from_secs(40);
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// Removes orphaned pods.
#[derive(Default)]
pub struct PodGarbage {
    by_node: PodsByNode,
    /// Since when nodes with pods are missing.
    missing: BTreeMap<String, Timestamp>,
}

impl PodGarbage {
    /// Returns a model that has removed nobody.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Controller for PodGarbage {
    type Request = Infallible;
    type Reply = Infallible;

    fn name(&self) -> &'static str {
        "model-pod-garbage"
    }

    fn watches(&self, watches: &mut Watches) {
        watches.add::<Node>();
        watch_pods(watches);
    }

    fn begin(&mut self, caches: &Caches, wakes: &mut Wakes) {
        for name in self.by_node.nodes() {
            if caches.of::<Node>().get(&Key::cluster(name)).is_none() {
                self.by_node.on(name).for_each(|pod| wakes.wake(pod.clone()));
            }
        }
    }

    fn wake(&mut self, change: &Change, caches: &Caches, wakes: &mut Wakes) {
        if let Some(delta) = change.of::<PodFacts>() {
            self.by_node.observe(change.key(), &delta);
            let Some(pod) = delta.new else { return };
            let is_lost = pod.node.as_ref().is_none_or(|name| {
                let node = caches.of::<Node>().get(&Key::cluster(name));
                node.is_none_or(|node| is_out_of_service(node))
            });
            if is_lost && (pod.is_terminating() || pod.node.is_some()) {
                wakes.wake(change.key().clone());
            }
        } else if let Some(delta) = change.of::<Node>() {
            let name = change.key().name();
            if delta.new.is_some_and(|node| !is_out_of_service(node)) {
                self.missing.remove(name);
                return;
            }
            for pod in self.by_node.on(name) {
                wakes.wake(pod.clone());
            }
        }
    }

    fn reconcile(&mut self, key: &Key, view: &View<'_>) -> Outcome<Infallible> {
        let Some(pod) = view.caches.of::<PodFacts>().get(key) else { return Outcome::done() };
        let remove = || Write::delete::<Pod>(key).grace(0).if_uid(pod.uid()).tolerating(404).tolerating(409);
        let Some(name) = &pod.node else {
            return if pod.is_terminating() { Outcome::done().then(remove()) } else { Outcome::done() };
        };
        if let Some(node) = view.caches.of::<Node>().get(&Key::cluster(name)) {
            self.missing.remove(name);
            let is_lost = is_out_of_service(node) && pod.is_terminating();
            return if is_lost { Outcome::done().then(remove()) } else { Outcome::done() };
        }
        let since = *self.missing.entry(name.clone()).or_insert(view.now);
        let quarantine = SignedDuration::try_from(QUARANTINE).unwrap_or_default();
        let wait = Duration::try_from(quarantine - view.now.duration_since(since)).unwrap_or_default();
        if !wait.is_zero() {
            return Outcome::after(wait);
        }
        let mark = (!pod.is_finished()).then(|| {
            let condition = json!({
                "type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC",
                "message": "PodGC: node no longer exists", "lastProbeTime": null, "lastTransitionTime": time(view.now),
            });
            let patch = json!({"status": {"phase": "Failed", "conditions": [condition]}});
            Write::strategic_patch::<Pod>(key, patch).status().if_uid(pod.uid()).tolerating(404).tolerating(409)
        });
        Outcome::done().then_all(mark).then(remove())
    }
}

fn is_out_of_service(node: &Node) -> bool {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints.into_iter().any(|taint| taint.key == OUT_OF_SERVICE)
}
