//! The observer sees what it must see: each rule broken once.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::observer::{Seen, violations};

const NOW: &str = "2026-01-01T12:00:00Z";

fn seen(kind: &'static str, object: Value) -> Seen {
    Seen { version: 0, at: NOW.parse::<Timestamp>().unwrap(), kind, object, gone: false }
}

fn pool(budgets: &Value) -> Seen {
    seen("NodePool", json!({"metadata": {"name": "p"}, "spec": {"disruption": {"budgets": budgets}}}))
}

fn node(name: &str) -> Seen {
    let labels = json!({"karpenter.sh/nodepool": "p", "karpenter.sh/initialized": "true"});
    let ready = json!([{"type": "Ready", "status": "True", "reason": "KubeletReady"}]);
    seen("Node", json!({"metadata": {"name": name, "labels": labels}, "status": {"conditions": ready}}))
}

fn claim(name: &str, reason: Option<&str>) -> Seen {
    let conditions: Vec<Value> = reason
        .map(|reason| json!({"type": "DisruptionReason", "status": "True", "reason": reason}))
        .into_iter()
        .collect();
    seen(
        "NodeClaim",
        json!({
            "metadata": {"name": name, "labels": {"karpenter.sh/nodepool": "p"}},
            "status": {"nodeName": name, "conditions": conditions},
        }),
    )
}

fn pod(name: &str, node: &str, extra: &Value) -> Seen {
    let mut object = json!({
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "a"}},
        "spec": {"nodeName": node}, "status": {"phase": "Running", "startTime": "2026-01-01T11:00:00Z"},
    });
    merge(&mut object, extra);
    seen("Pod", object)
}

fn merge(object: &mut Value, extra: &Value) {
    match (object, extra) {
        (Value::Object(object), Value::Object(extra)) => {
            for (key, value) in extra {
                merge(object.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (object, extra) => *object = extra.clone(),
    }
}

fn refusing(value: &str) -> Value {
    json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": value}}})
}

fn budget(allowed: u64) -> Seen {
    seen(
        "PodDisruptionBudget",
        json!({
            "metadata": {"name": "pdb", "namespace": "default"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}},
            "status": {"disruptionsAllowed": allowed},
        }),
    )
}

/// What is found when claim `a` is disrupted for `reason` in a pool of two with this budget and these other things.
fn found(budgets: &Value, others: Vec<Seen>, reason: &str) -> usize {
    let mut events = vec![pool(budgets), node("a"), node("b"), claim("a", None), claim("b", None)];
    events.extend(others);
    events.push(claim("a", Some(reason)));
    violations(&events).len()
}

#[test]
fn more_nodes_than_the_budget_allows() {
    let all = json!([{"nodes": "100%"}]);
    assert_eq!(found(&all, vec![], "Empty"), 0);
    assert_eq!(found(&json!([{"nodes": "0"}]), vec![], "Empty"), 1);
    assert_eq!(found(&json!([{"nodes": "0", "reasons": ["Drifted"]}]), vec![], "Empty"), 0);
    assert_eq!(found(&json!([{"nodes": "1"}]), vec![claim("b", Some("Empty"))], "Empty"), 1);
    assert_eq!(found(&json!([{"nodes": "50%"}]), vec![], "Empty"), 0);
    let daily = |schedule: &str| json!([{"nodes": "0", "schedule": schedule, "duration": "2h"}]);
    assert_eq!(found(&daily("0 11 * * *"), vec![], "Empty"), 1);
    assert_eq!(found(&daily("0 9 * * *"), vec![], "Empty"), 0);
}

#[test]
fn a_pod_or_node_that_says_no() {
    let all = json!([{"nodes": "100%"}]);
    assert_eq!(found(&all, vec![pod("x", "a", &refusing("true"))], "Underutilized"), 1);
    assert_eq!(found(&all, vec![pod("x", "b", &refusing("true"))], "Underutilized"), 0);
    assert_eq!(found(&all, vec![pod("x", "a", &refusing("2h"))], "Underutilized"), 1);
    assert_eq!(found(&all, vec![pod("x", "a", &refusing("30m"))], "Underutilized"), 0);
    let mut refuses = node("a");
    merge(&mut refuses.object, &refusing("true"));
    assert_eq!(found(&all, vec![refuses.clone()], "Empty"), 1);
    assert_eq!(found(&all, vec![refuses], "Unhealthy"), 0, "repair may");
}

#[test]
fn a_pod_that_its_budget_does_not_let_go() {
    let all = json!([{"nodes": "100%"}]);
    assert_eq!(found(&all, vec![pod("x", "a", &json!({})), budget(0)], "Drifted"), 1);
    assert_eq!(found(&all, vec![pod("x", "a", &json!({})), budget(1)], "Drifted"), 0);
    let evicted = json!({
        "metadata": {"deletionTimestamp": NOW},
        "status": {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]},
    });
    let alone = [claim("a", None), budget(1), pod("x", "a", &json!({})), pod("x", "a", &evicted)];
    assert_eq!(violations(&alone).len(), 1, "one must be left");
    let mut two = alone.to_vec();
    two.insert(0, pod("y", "b", &json!({})));
    assert_eq!(violations(&two).len(), 0);
    let mut refusing_evicted = evicted;
    merge(&mut refusing_evicted, &refusing("true"));
    let against_its_will =
        [claim("a", None), pod("x", "a", &refusing("true")), pod("x", "a", &refusing_evicted)];
    assert_eq!(violations(&against_its_will).len(), 1);
}
