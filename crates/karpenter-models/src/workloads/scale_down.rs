//! Which pods of a set go first when there are too many: pure.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use jiff::Timestamp;
use karpenter_runtime::Key;

use crate::pod::PodFacts;

const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Returns the `count` pods that are missed least.
///
/// In this order: without a node, not running, not ready, cheap to delete, sharing their node with others of the set, ready or
/// created for a shorter time (compared by order of magnitude), restarted more often.
pub(crate) fn least_missed<'a>(
    pods: &[(&'a Key, &'a PodFacts)],
    count: usize,
    now: Timestamp,
) -> Vec<(&'a Key, &'a PodFacts)> {
    let mut crowd: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, pod) in pods.iter().filter(|(_, pod)| pod.is_ready()) {
        *crowd.entry(pod.node.as_deref().unwrap_or_default()).or_default() += 1;
    }
    let mut pods = pods.to_vec();
    pods.sort_by_cached_key(|(_, pod)| {
        let cost: i64 = pod.annotation(DELETION_COST).and_then(|cost| cost.parse().ok()).unwrap_or(0);
        let crowd = crowd.get(pod.node.as_deref().unwrap_or_default()).copied().unwrap_or(0);
        (
            pod.node.is_some(),
            pod.phase,
            pod.is_ready(),
            cost,
            Reverse(crowd),
            magnitude(pod.ready_since, now),
            Reverse(pod.restarts),
            magnitude(Some(pod.created()), now),
            pod.uid().to_owned(),
        )
    });
    pods.truncate(count);
    pods
}

/// The order of magnitude of a time span, so that pods started together are equal.
fn magnitude(since: Option<Timestamp>, now: Timestamp) -> u32 {
    since.map_or(0, |since| now.duration_since(since).as_secs().max(1).ilog2())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::pod::Templates;

    fn pod(name: &str, extra: Value) -> (Key, PodFacts) {
        let mut pod = json!({"metadata": {"name": name, "uid": name}, "spec": {"containers": [], "nodeName": name},
            "status": {"phase": "Running", "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": "1970-01-01T00:00:00Z"}]}});
        crate::json::merge(&mut pod, extra);
        (Key::namespaced("default", name), Templates::default().keep(serde_json::from_value(pod).unwrap()))
    }

    #[track_caller]
    fn check(pods: &[(Key, PodFacts)], expected: &[&str]) {
        let pods: Vec<_> = pods.iter().map(|(key, pod)| (key, pod)).collect();
        let now = Timestamp::from_second(1000).unwrap();
        let order: Vec<&str> =
            least_missed(&pods, pods.len(), now).iter().map(|(key, _)| key.name()).collect();
        assert_eq!(order, expected);
    }

    #[test]
    fn pods_that_do_least_go_first() {
        let unready = json!({"status": {"conditions": []}});
        let pending = json!({"status": {"phase": "Pending", "conditions": []}});
        let unbound = json!({"spec": {"nodeName": ""}, "status": {"phase": "Pending", "conditions": []}});
        check(
            &[
                pod("ready", json!({})),
                pod("unready", unready),
                pod("pending", pending),
                pod("unbound", unbound),
            ],
            &["unbound", "pending", "unready", "ready"],
        );
    }

    #[test]
    fn cheap_pods_then_crowded_ones_then_young_ones_go_first() {
        let cheap = json!({"metadata": {"annotations": {DELETION_COST: "-5"}}});
        let shared = json!({"spec": {"nodeName": "shared"}});
        let young = json!({"status": {"conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "1970-01-01T00:16:00Z"}]}});
        check(
            &[
                pod("old", json!({})),
                pod("young", young),
                pod("a", shared.clone()),
                pod("b", shared),
                pod("cheap", cheap),
            ],
            &["cheap", "a", "b", "young", "old"],
        );
    }
}
