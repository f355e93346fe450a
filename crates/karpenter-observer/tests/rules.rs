//! The observer sees what it must see: each rule kept, and broken once.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use karpenter_observer::{History, Rule, Seen};
use serde_json::{Value, json};

const NOW: &str = "2026-01-01T12:00:00Z";

fn time(text: &str) -> Timestamp {
    text.parse().expect("an instant")
}

fn seen(kind: &'static str, object: Value) -> Seen {
    Seen { version: 0, at: time(NOW), kind, object: Arc::new(object), gone: false }
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

fn with(seen: &Seen, extra: &Value) -> Seen {
    let mut object = (*seen.object).clone();
    merge(&mut object, extra);
    Seen { object: Arc::new(object), ..seen.clone() }
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

fn budget(spec: &Value, allowed: u64) -> Seen {
    let mut spec = spec.clone();
    merge(&mut spec, &json!({"selector": {"matchLabels": {"app": "a"}}}));
    let metadata = json!({"name": "pdb", "namespace": "default"});
    let status = json!({"disruptionsAllowed": allowed});
    seen("PodDisruptionBudget", json!({"metadata": metadata, "spec": spec, "status": status}))
}

fn leaving() -> Value {
    json!({"metadata": {"deletionTimestamp": NOW}})
}

fn evicted() -> Value {
    let condition = json!({"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"});
    json!({"metadata": {"deletionTimestamp": NOW}, "status": {"conditions": [condition]}})
}

fn broken_by(events: &[Seen], lag: SignedDuration) -> Vec<Rule> {
    let mut history = History::new(lag);
    events.iter().cloned().for_each(|event| history.push(event));
    let found = history.violations();
    assert_eq!(history.verdict().is_err(), !found.is_empty());
    found.into_iter().map(|violation| violation.rule).collect()
}

fn broken(events: &[Seen]) -> Vec<Rule> {
    broken_by(events, SignedDuration::ZERO)
}

/// What is broken when claim `a` is disrupted for `reason` in a pool of two with this budget and these other things.
fn found(budgets: &Value, others: Vec<Seen>, reason: &str) -> Vec<Rule> {
    let mut events = vec![pool(budgets), node("a"), node("b"), claim("a", None), claim("b", None)];
    events.extend(others);
    events.push(claim("a", Some(reason)));
    broken(&events)
}

#[test]
fn more_nodes_than_the_budget_allows() {
    let all = json!([{"nodes": "100%"}]);
    assert_eq!(found(&all, vec![], "Empty"), []);
    assert_eq!(found(&json!([{"nodes": "0"}]), vec![], "Empty"), [Rule::Budget]);
    assert_eq!(found(&json!([{"nodes": "0", "reasons": ["Drifted"]}]), vec![], "Empty"), []);
    assert_eq!(found(&json!([{"nodes": "1"}]), vec![claim("b", Some("Empty"))], "Empty"), [Rule::Budget]);
    assert_eq!(found(&json!([{"nodes": "50%"}]), vec![], "Empty"), []);
    let unready = with(&node("b"), &json!({"status": {"conditions": []}}));
    assert_eq!(found(&json!([{"nodes": "1"}]), vec![unready.clone()], "Empty"), [Rule::Budget]);
    assert_eq!(found(&json!([{"nodes": "1"}]), vec![unready], "Unhealthy"), [], "repair is for such nodes");
    let deleted = with(&claim("b", None), &leaving());
    assert_eq!(found(&json!([{"nodes": "1"}]), vec![deleted], "Empty"), [Rule::Budget]);
}

#[test]
fn a_budget_counts_while_its_window_is_open() {
    let daily = |schedule: &str| json!([{"nodes": "0", "schedule": schedule, "duration": "2h"}]);
    assert_eq!(found(&daily("0 11 * * *"), vec![], "Empty"), [Rule::Budget]);
    assert_eq!(found(&daily("0 9 * * *"), vec![], "Empty"), []);
    assert_eq!(found(&daily("@daily"), vec![], "Empty"), []);
    assert_eq!(
        found(&daily("0 9 * * mon"), vec![], "Empty"),
        [Rule::Budget],
        "what it cannot read it does not pass"
    );
}

#[test]
fn a_pod_or_node_that_says_no() {
    let all = json!([{"nodes": "100%"}]);
    assert_eq!(found(&all, vec![pod("x", "a", &refusing("true"))], "Underutilized"), [Rule::PodSaysNo]);
    assert_eq!(found(&all, vec![pod("x", "b", &refusing("true"))], "Underutilized"), []);
    assert_eq!(found(&all, vec![pod("x", "a", &refusing("2h"))], "Underutilized"), [Rule::PodSaysNo]);
    assert_eq!(found(&all, vec![pod("x", "a", &refusing("30m"))], "Underutilized"), []);
    let refuses = with(&node("a"), &refusing("true"));
    assert_eq!(found(&all, vec![refuses.clone()], "Empty"), [Rule::NodeSaysNo]);
    assert_eq!(found(&all, vec![refuses], "Unhealthy"), [], "repair may");
}

#[test]
fn a_node_whose_pod_is_held_by_its_budget() {
    let all = json!([{"nodes": "100%"}]);
    let one = json!({"minAvailable": 1});
    let held = |extra: Value| vec![pod("x", "a", &extra), budget(&one, 0)];
    assert_eq!(found(&all, held(json!({})), "Drifted"), [Rule::PodDisruptionBudget]);
    assert_eq!(found(&all, vec![pod("x", "a", &json!({})), budget(&one, 1)], "Drifted"), []);
    let everybody = with(&budget(&one, 0), &json!({"spec": {"selector": {"matchLabels": null}}}));
    assert_eq!(
        found(&all, vec![pod("x", "a", &json!({})), everybody], "Drifted"),
        [Rule::PodDisruptionBudget],
        "an empty selector speaks of all"
    );
    let mirrored =
        json!({"metadata": {"ownerReferences": [{"kind": "Node", "name": "a", "controller": true}]}});
    assert_eq!(found(&all, held(mirrored), "Drifted"), [], "a mirror pod goes down with its node");
    let tolerates = json!({"spec": {"tolerations": [{"operator": "Exists"}]}});
    assert_eq!(found(&all, held(tolerates), "Drifted"), []);
}

/// Pod `x` is evicted while so many others are healthy and so many are not.
fn evict_beside(spec: &Value, healthy: usize, unhealthy: usize) -> Vec<Rule> {
    let mut events = vec![claim("a", None), budget(spec, 1), pod("x", "a", &json!({}))];
    events.extend((0..healthy).map(|index| pod(&format!("y{index}"), "b", &json!({}))));
    let waiting = json!({"spec": {"nodeName": null}, "status": {"phase": "Pending"}});
    events.extend((0..unhealthy).map(|index| pod(&format!("z{index}"), "b", &waiting)));
    events.push(pod("x", "a", &evicted()));
    broken(&events)
}

#[test]
fn a_pod_evicted_against_its_budget() {
    let against = [Rule::PodDisruptionBudget];
    assert_eq!(evict_beside(&json!({"minAvailable": 1}), 0, 0), against);
    assert_eq!(evict_beside(&json!({"minAvailable": 1}), 1, 0), []);
    assert_eq!(evict_beside(&json!({"minAvailable": 1}), 0, 1), against, "one that waits does no work");
    assert_eq!(evict_beside(&json!({"minAvailable": "50%"}), 1, 1), against, "two of three");
    assert_eq!(evict_beside(&json!({"minAvailable": "50%"}), 2, 0), []);
    assert_eq!(evict_beside(&json!({"maxUnavailable": 0}), 5, 0), against);
    assert_eq!(evict_beside(&json!({"maxUnavailable": 1}), 5, 0), []);
    assert_eq!(evict_beside(&json!({"maxUnavailable": 1}), 4, 1), against);
    assert_eq!(evict_beside(&json!({"maxUnavailable": "20%"}), 5, 0), []);
}

#[test]
fn a_pod_evicted_against_its_will() {
    let refusing_evicted = with(&pod("x", "a", &refusing("true")), &evicted());
    let events = [claim("a", None), pod("x", "a", &refusing("true")), refusing_evicted.clone()];
    assert_eq!(broken(&events), [Rule::PodSaysNo]);
    let annotations = json!({"karpenter.sh/nodeclaim-termination-timestamp": NOW});
    let ending = with(&claim("a", None), &json!({"metadata": {"annotations": annotations}}));
    assert_eq!(
        broken(&[ending, pod("x", "a", &refusing("true")), refusing_evicted]),
        [],
        "its node's time is up"
    );
}

#[test]
fn a_pod_deleted_instead_of_evicted() {
    let owned =
        json!({"metadata": {"ownerReferences": [{"kind": "ReplicaSet", "name": "r", "controller": true}]}});
    let wanting = |replicas: u64| {
        let metadata = json!({"name": "r", "namespace": "default"});
        seen("ReplicaSet", json!({"metadata": metadata, "spec": {"replicas": replicas}}))
    };
    let events = |claim: Seen, replicas: u64| {
        let pods = [pod("x", "a", &owned), pod("y", "b", &owned)];
        let gone = with(&pods[0], &leaving());
        let [x, y] = pods;
        [node("a"), claim, wanting(replicas), budget(&json!({"maxUnavailable": 1}), 1), x, y, gone]
    };
    let going = with(&claim("a", None), &leaving());
    assert_eq!(broken(&events(going.clone(), 2)), [Rule::Eviction]);
    assert_eq!(broken(&events(going.clone(), 1)), [], "its ReplicaSet wants fewer");
    assert_eq!(broken(&events(claim("a", None), 2)), [], "its node stays: somebody else deleted it");
    let annotations = json!({"karpenter.sh/nodeclaim-termination-timestamp": NOW});
    let late = with(&going, &json!({"metadata": {"annotations": annotations}}));
    assert_eq!(broken(&events(late, 2)), [], "its node's time is up");
}

#[test]
fn what_nobody_could_know_yet_is_forgiven_but_own_deeds_are_not() {
    let at = |seen: Seen, second: i64| Seen { at: time(NOW) + SignedDuration::from_secs(second), ..seen };
    let lag = SignedDuration::from_secs(2);
    let start = [pool(&json!([{"nodes": "1"}])), node("a"), node("b"), claim("a", None), claim("b", None)];
    let after = |refusal: i64| {
        let mut events = start.to_vec();
        events.push(at(pod("x", "a", &refusing("true")), refusal));
        events.push(at(claim("a", Some("Underutilized")), 10));
        broken_by(&events, lag)
    };
    assert_eq!(after(9), []);
    assert_eq!(after(7), [Rule::PodSaysNo]);
    let mut both = start.to_vec();
    both.push(at(claim("a", Some("Underutilized")), 10));
    both.push(at(claim("b", Some("Underutilized")), 10));
    assert_eq!(broken_by(&both, lag), [Rule::Budget]);
}

#[test]
fn a_history_says_what_began_and_what_left() {
    let mut history = History::default();
    assert!(history.verdict().is_err(), "whoever saw nothing passes nothing");
    let mut gone = pod("y", "a", &json!({}));
    gone.gone = true;
    for event in [node("a"), claim("a", None), claim("a", Some("Empty")), claim("a", Some("Empty"))] {
        history.push(event);
    }
    for event in [pod("x", "a", &json!({})), pod("x", "a", &evicted()), gone] {
        history.push(event);
    }
    let disruptions = history.disruptions();
    assert_eq!(disruptions.len(), 1);
    assert_eq!((disruptions[0].claim.as_str(), disruptions[0].reason.as_str()), ("a", "Empty"));
    assert_eq!(history.evictions(), 1);
    assert_eq!(history.departures("Pod").len(), 2);
    assert_eq!(history.departures("NodeClaim").len(), 0);
    assert_eq!(history.verdict().unwrap(), "observed: 7 events, 1 disruptions, 1 evictions, 0 broken rules");
}
