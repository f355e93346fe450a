//! Deletes pods that do not tolerate a `NoExecute` taint of their node, at once or when their patience ends.

use std::convert::Infallible;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter_runtime::{Caches, Change, Controller, Key, Outcome, View, Wakes, Watches, Write};
use serde_json::json;

use crate::config::EventDetail;
use crate::event::{About, Happening, event, time};
use crate::index::PodsByNode;
use crate::pod::{PodFacts, watch_pods};
use crate::scheduler::{TaintEffect, Toleration, read_taints};

const COMPONENT: &str = "taint-eviction-controller";

/// Evicts from tainted nodes.
pub struct TaintEviction {
    events: EventDetail,
    by_node: PodsByNode,
}

impl TaintEviction {
    /// Returns a model that has evicted nobody.
    pub fn new(events: EventDetail) -> Self {
        Self { events, by_node: PodsByNode::default() }
    }
}

impl Controller for TaintEviction {
    type Request = Infallible;
    type Reply = Infallible;

    fn name(&self) -> &'static str {
        "model-taint-eviction"
    }

    fn watches(&self, watches: &mut Watches) {
        watches.add::<Node>();
        watch_pods(watches);
    }

    fn wake(&mut self, change: &Change, caches: &Caches, wakes: &mut Wakes) {
        if let Some(delta) = change.of::<PodFacts>() {
            let came = self.by_node.observe(change.key(), &delta);
            let name = delta.new.and_then(|pod| pod.node.as_deref());
            let node = name.and_then(|name| caches.of::<Node>().get(&Key::cluster(name)));
            if came && node.is_some_and(|node| has_evicting_taint(node)) {
                wakes.wake(change.key().clone());
            }
        } else if let Some(delta) = change.of::<Node>() {
            let taints = |node: Option<&Node>| node.and_then(|node| node.spec.as_ref()?.taints.clone());
            if taints(delta.old) != taints(delta.new) && delta.new.is_some_and(has_evicting_taint) {
                for pod in self.by_node.on(change.key().name()) {
                    wakes.wake(pod.clone());
                }
            }
        }
    }

    fn reconcile(&mut self, key: &Key, view: &View<'_>) -> Outcome<Infallible> {
        let Some(pod) = view.caches.of::<PodFacts>().get(key).filter(|pod| pod.is_active()) else {
            return Outcome::done();
        };
        let node = pod.node.as_ref().and_then(|name| view.caches.of::<Node>().get(&Key::cluster(name)));
        let Some(leaves_at) = node.and_then(|node| leaves_at(pod, node, view.now)) else {
            return Outcome::done();
        };
        let wait = Duration::try_from(leaves_at.duration_since(view.now)).unwrap_or_default();
        if !wait.is_zero() {
            return Outcome::after(wait);
        }
        let condition = json!({
            "type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint",
            "lastProbeTime": null, "lastTransitionTime": time(view.now),
        });
        let mark = Write::strategic_patch::<Pod>(key, json!({"status": {"conditions": [condition]}}));
        let told = self.events.tells(false).then(|| {
            let message = format!("Marking for deletion Pod {key}");
            let about = About::new::<Pod>(key, pod.uid());
            event(&about, &Happening::normal("TaintManagerEviction", message), COMPONENT, view)
        });
        Outcome::done()
            .then_all(told)
            .then(mark.status().if_uid(pod.uid()).tolerating(404).tolerating(409))
            .then(Write::delete::<Pod>(key).if_uid(pod.uid()).tolerating(404).tolerating(409))
    }
}

fn has_evicting_taint(node: &Node) -> bool {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints.into_iter().any(|taint| taint.effect == "NoExecute")
}

/// Returns when a pod must leave its node; `None` if it may stay.
fn leaves_at(pod: &PodFacts, node: &Node, now: Timestamp) -> Option<Timestamp> {
    let tolerations = Toleration::of(&pod.template.spec);
    let times = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten()).map(|taint| &taint.time_added);
    let evicting =
        read_taints(node).into_iter().zip(times).filter(|(taint, _)| taint.effect == TaintEffect::NoExecute);
    let mut deadline: Option<Timestamp> = None;
    for (taint, added) in evicting {
        let covering: Vec<&Toleration> = tolerations.iter().filter(|one| one.tolerates(&taint)).collect();
        if covering.is_empty() {
            return Some(now);
        }
        // The shortest patience counts; whoever has none to lose stays for good.
        let patience = covering.iter().filter_map(|toleration| toleration.seconds).min();
        if let Some(seconds) = patience {
            let since = added.as_ref().map_or(now, |time| time.0);
            let end =
                since.saturating_add(SignedDuration::from_secs(seconds.max(0))).unwrap_or(Timestamp::MAX);
            deadline = Some(deadline.map_or(end, |sooner| sooner.min(end)));
        }
    }
    deadline
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::pod::Templates;

    #[track_caller]
    fn check(tolerations: Value, expected: Option<i64>) {
        let node: Node = serde_json::from_value(json!({"spec": {"taints": [
            {"key": "a", "effect": "NoExecute", "timeAdded": "1970-01-01T00:00:10Z"},
            {"key": "b", "effect": "NoSchedule"},
        ]}}))
        .unwrap();
        let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [], "tolerations": tolerations}});
        let pod = Templates::default().keep(serde_json::from_value(pod).unwrap());
        let expected = expected.map(|second| Timestamp::from_second(second).unwrap());
        assert_eq!(leaves_at(&pod, &node, Timestamp::from_second(20).unwrap()), expected);
    }

    #[test]
    fn pods_leave_at_once_after_a_while_or_never() {
        check(json!([]), Some(20));
        check(json!([{"key": "a", "operator": "Exists", "tolerationSeconds": 300}]), Some(310));
        check(json!([{"key": "a", "operator": "Exists"}]), None);
    }
}
