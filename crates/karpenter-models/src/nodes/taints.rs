//! Which taints a node's conditions call for: pure.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// Conditions, the status that is bad, and the taint that says so.
const BY_CONDITION: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
];

/// Returns the node's taints as they should be, or `None` if they are so already.
///
/// A node without a `Ready` condition keeps the taint it was created with.
pub(super) fn wanted_taints(node: &Node, now: Timestamp) -> Option<Vec<Taint>> {
    let held = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    let mut taints = held.clone();
    let unschedulable = node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false);
    set(&mut taints, UNSCHEDULABLE, "NoSchedule", unschedulable, now);
    for (type_, bad, key) in BY_CONDITION {
        let Some(status) = condition(node, type_) else { continue };
        set(&mut taints, key, "NoSchedule", status == bad, now);
        if type_ == "Ready" {
            set(&mut taints, key, "NoExecute", status == bad, now);
        }
    }
    (taints != held).then_some(taints)
}

/// Returns the status of a condition.
pub(super) fn condition<'a>(node: &'a Node, type_: &str) -> Option<&'a str> {
    let mut conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.find(|condition| condition.type_ == type_).map(|condition| condition.status.as_str())
}

fn set(taints: &mut Vec<Taint>, key: &str, effect: &str, wanted: bool, now: Timestamp) {
    let is_it = |taint: &Taint| taint.key == key && taint.effect == effect;
    if !wanted {
        taints.retain(|taint| !is_it(taint));
    } else if !taints.iter().any(is_it) {
        taints.push(Taint {
            key: key.to_owned(),
            effect: effect.to_owned(),
            time_added: Some(Time(now)),
            value: None,
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn taints(node: Value) -> Option<Vec<String>> {
        let node: Node = serde_json::from_value(node).unwrap();
        let wanted = wanted_taints(&node, Timestamp::UNIX_EPOCH)?;
        Some(wanted.iter().map(|taint| format!("{}:{}", taint.key, taint.effect)).collect())
    }

    fn node(ready: &str, taints: Value) -> Value {
        json!({"spec": {"taints": taints}, "status": {"conditions": [{"type": "Ready", "status": ready}]}})
    }

    #[test]
    fn a_ready_node_loses_the_taint_it_was_created_with_and_keeps_all_others() {
        let others =
            json!([{"key": NOT_READY, "effect": "NoSchedule"}, {"key": "startup", "effect": "NoExecute"}]);
        assert_eq!(taints(node("True", others)), Some(vec!["startup:NoExecute".to_owned()]));
        assert_eq!(taints(node("True", json!([]))), None);
    }

    #[test]
    fn a_silent_node_is_tainted_against_new_and_running_pods() {
        let both = ["NoSchedule", "NoExecute"].map(|effect| format!("{UNREACHABLE}:{effect}"));
        assert_eq!(taints(node("Unknown", json!([]))), Some(both.to_vec()));
    }

    #[test]
    fn a_cordoned_node_is_tainted() {
        let cordoned = json!({"spec": {"unschedulable": true}});
        assert_eq!(taints(cordoned), Some(vec![format!("{UNSCHEDULABLE}:NoSchedule")]));
    }
}
