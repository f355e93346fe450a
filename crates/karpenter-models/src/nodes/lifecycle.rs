//! Notices nodes that fall silent, keeps taints in step with conditions, and marks pods on failed nodes as not ready.

use std::convert::Infallible;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter_runtime::{Caches, Change, Controller, Key, Outcome, View, Wakes, Watches, Write};
use serde_json::{Value, json};

use super::taints::{condition, wanted_taints};
use crate::event::time;
use crate::index::PodsByNode;
use crate::pod::{PodFacts, watch_pods};

const LEASES: &str = "kube-node-lease";
/// How long a node may be silent.
const GRACE: SignedDuration = SignedDuration::from_secs(50);
/// How long a new node may be silent.
const STARTUP_GRACE: SignedDuration = SignedDuration::from_secs(60);

/// Watches over nodes.
#[derive(Default)]
pub struct NodeLifecycle {
    by_node: PodsByNode,
}

impl NodeLifecycle {
    /// Returns a watch over nodes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Marks pods of a node that is not ready as not ready; their own kubelet is not heard.
    fn unready_pods(&self, name: &str, view: &View<'_>) -> Vec<Write> {
        let pods = self.by_node.on(name);
        let ready =
            pods.filter(|key| view.caches.of::<PodFacts>().get(key).is_some_and(|pod| pod.is_ready()));
        ready
            .map(|key| {
                let patch = json!({"status": {"conditions": [{
                    "type": "Ready", "status": "False", "lastProbeTime": null, "lastTransitionTime": time(view.now),
                }]}});
                Write::strategic_patch::<Pod>(key, patch).status().tolerating(404)
            })
            .collect()
    }
}

impl Controller for NodeLifecycle {
    type Request = Infallible;
    type Reply = Infallible;

    fn name(&self) -> &'static str {
        "model-node-lifecycle"
    }

    fn watches(&self, watches: &mut Watches) {
        watches.add::<Node>();
        watches.add::<Lease>();
        watch_pods(watches);
    }

    fn wake(&mut self, change: &Change, _: &Caches, wakes: &mut Wakes) {
        if let Some(delta) = change.of::<PodFacts>() {
            self.by_node.observe(change.key(), &delta);
        } else if change.of::<Lease>().is_some() {
            if change.key().namespace() == Some(LEASES) {
                wakes.wake(Key::cluster(change.key().name()));
            }
        } else {
            wakes.wake(change.key().clone());
        }
    }

    fn reconcile(&mut self, key: &Key, view: &View<'_>) -> Outcome<Infallible> {
        let Some(node) = view.caches.of::<Node>().get(key) else { return Outcome::done() };
        let lease = view.caches.of::<Lease>().get(&Key::namespaced(LEASES, key.name()));
        let deadline = silent_at(node, lease.map(|lease| &**lease));
        if view.now >= deadline && condition(node, "Ready") != Some("Unknown") {
            let status = Write::strategic_patch::<Node>(key, unknown(node, view.now)).status();
            return Outcome::done().then(status.tolerating(404));
        }
        let mut outcome = Outcome::done();
        if let Some(taints) = wanted_taints(node, view.now) {
            let version = node.metadata.resource_version.as_deref().unwrap_or_default();
            let patch = json!({"spec": {"taints": taints}});
            outcome = outcome.then(Write::merge_patch::<Node>(key, patch).if_version(version));
        }
        if matches!(condition(node, "Ready"), Some("False" | "Unknown")) {
            outcome = outcome.then_all(self.unready_pods(key.name(), view));
        }
        let wait = Duration::try_from(deadline.duration_since(view.now)).unwrap_or_default();
        if wait.is_zero() { outcome } else { outcome.again(wait) }
    }
}

/// Returns when a node counts as silent. A lease that lasts longer than usual is trusted for as long.
fn silent_at(node: &Node, lease: Option<&Lease>) -> Timestamp {
    let spec = lease.and_then(|lease| lease.spec.as_ref());
    let renewed = spec.and_then(|spec| spec.renew_time.as_ref()).map(|time| time.0);
    let lasting = spec.and_then(|spec| spec.lease_duration_seconds).unwrap_or(0);
    let lasting = SignedDuration::from_secs(i64::from(lasting)).max(GRACE);
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let posted = conditions
        .filter(|condition| condition.type_ == "Ready" && condition.status != "Unknown")
        .filter_map(|condition| condition.last_heartbeat_time.as_ref())
        .map(|time| time.0 + GRACE)
        .max();
    let created = node.metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    let heard = renewed.map(|renewed| renewed + lasting).into_iter().chain(posted).max();
    heard.unwrap_or(created + STARTUP_GRACE)
}

/// Returns conditions that nobody knows the status of.
fn unknown(node: &Node, now: Timestamp) -> Value {
    let conditions: Vec<Value> = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"]
        .into_iter()
        .map(|type_| {
            let (reason, message) = if condition(node, type_).is_some() {
                ("NodeStatusUnknown", "Kubelet stopped posting node status.")
            } else {
                ("NodeStatusNeverUpdated", "Kubelet never posted node status.")
            };
            json!({"type": type_, "status": "Unknown", "reason": reason, "message": message,
                "lastTransitionTime": time(now)})
        })
        .collect();
    json!({"status": {"conditions": conditions}})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_long_lease_is_trusted_and_a_short_one_is_not() {
        let node: Node =
            serde_json::from_value(json!({"metadata": {"creationTimestamp": "1970-01-01T00:00:00Z"}}))
                .unwrap();
        let lease = |seconds: i32| -> Lease {
            serde_json::from_value(json!({"spec": {"leaseDurationSeconds": seconds, "renewTime": "1970-01-01T00:01:40.000000Z"}})).unwrap()
        };
        assert_eq!(silent_at(&node, None), at(60));
        assert_eq!(silent_at(&node, Some(&lease(40))), at(150));
        assert_eq!(silent_at(&node, Some(&lease(600))), at(700));
    }
}
