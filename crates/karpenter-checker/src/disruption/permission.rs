//! Who may be disrupted: conditions of nodes and pools, pods that refuse, PodDisruptionBudgets, and budgets of pools.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Command;
use crate::scenario::Metadata;
use crate::selector::selects;

const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
const MINUTES_PER_DAY: u64 = 24 * 60;

pub(super) fn violations(scenario: &Value, command: &Command) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut by_pool: BTreeMap<&str, u64> = BTreeMap::new();
    for name in &command.candidates {
        let Some(node) = list(scenario, "nodes").iter().find(|node| node["name"] == **name) else {
            complaints.push(format!("there is no node {name}"));
            continue;
        };
        let pool = node["nodePool"].as_str().unwrap_or_default();
        *by_pool.entry(pool).or_default() += 1;
        complaints.extend(refusals(scenario, node, command).into_iter().map(|why| format!("{name} {why}")));
    }
    for (pool, count) in by_pool {
        let allowed = allowed(scenario, pool, &command.reason);
        if count > allowed {
            complaints.push(format!("{count} nodes of {pool} leave, its budgets allow {allowed}"));
        }
    }
    complaints
}

fn list<'v>(value: &'v Value, field: &str) -> &'v [Value] {
    value[field].as_array().map_or(&[], Vec::as_slice)
}

fn pool_of<'v>(scenario: &'v Value, name: &str) -> &'v Value {
    let pools = list(scenario, "nodePools");
    pools.iter().find(|pool| pool["metadata"]["name"] == name).unwrap_or(&Value::Null)
}

/// Why a node must stay.
fn refusals(scenario: &Value, node: &Value, command: &Command) -> Vec<String> {
    let mut why = Vec::new();
    let state = node["state"].as_str().unwrap_or_default();
    if !(state.is_empty() || state == "initialized") || node["deleting"] == true {
        why.push("is not up, or already leaving".to_owned());
    }
    if node["annotations"][DO_NOT_DISRUPT] == "true" {
        why.push("carries do-not-disrupt".to_owned());
    }
    let settings = &pool_of(scenario, node["nodePool"].as_str().unwrap_or_default())["spec"]["disruption"];
    match settings["consolidateAfter"].as_str().and_then(seconds) {
        Some(after) if quiet_seconds(node) >= after => {}
        _ => why.push("is not consolidatable yet".to_owned()),
    }
    let pods = || list(node, "podGroups").iter().map(|group| &group["pod"]);
    let moved = pods().any(|pod| !is_daemon(pod) && eviction_cost(pod) > 0.0);
    if (command.reason == "Empty") == moved {
        why.push("is empty for one method and not for the other".to_owned());
    }
    if moved && settings["consolidationPolicy"] == "WhenEmpty" {
        why.push("is not empty, as its pool demands".to_owned());
    }
    why.extend(pods().filter_map(|pod| pod_refusal(scenario, pod)));
    why
}

fn is_daemon(pod: &Value) -> bool {
    list(&pod["metadata"], "ownerReferences").iter().any(|owner| owner["kind"] == "DaemonSet")
}

/// `1 + annotation / 2^27 + priority / 2^25`.
fn eviction_cost(pod: &Value) -> f64 {
    let annotations = &pod["metadata"]["annotations"];
    let own = &annotations["karpenter.sh/disruption-cost"];
    let value = if own.is_null() { &annotations["controller.kubernetes.io/pod-deletion-cost"] } else { own };
    let by_annotation: i32 = value.as_str().and_then(|text| text.parse().ok()).unwrap_or(0);
    let priority = pod["spec"]["priority"].as_f64().unwrap_or(0.0);
    1.0 + f64::from(by_annotation) / 134_217_728.0 + priority / 33_554_432.0
}

fn pod_refusal(scenario: &Value, pod: &Value) -> Option<String> {
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    if pod["metadata"]["annotations"][DO_NOT_DISRUPT] == "true" {
        return Some(format!("runs {name}, which carries do-not-disrupt"));
    }
    let metadata: Metadata = serde_json::from_value(pod["metadata"].clone()).expect("pods have metadata");
    let namespace = |value: &Value| value["metadata"]["namespace"].as_str().unwrap_or("default").to_owned();
    let covers = |budget: &&Value| {
        let selector = serde_json::from_value(budget["spec"]["selector"].clone()).ok();
        namespace(budget) == namespace(pod) && selects(selector.as_ref(), &metadata.labels)
    };
    let covering: Vec<&Value> = list(scenario, "podDisruptionBudgets").iter().filter(covers).collect();
    let shut =
        covering.iter().any(|budget| budget["status"]["disruptionsAllowed"].as_u64().unwrap_or(0) == 0);
    (covering.len() > 1 || shut).then(|| format!("runs {name}, which a PodDisruptionBudget keeps"))
}

/// Seconds since pods last came or went, or since the node is there.
fn quiet_seconds(node: &Value) -> u64 {
    let of = |field: &str| node[field].as_u64().filter(|seconds| *seconds > 0);
    of("lastPodEventSeconds").or_else(|| of("ageSeconds")).unwrap_or(3600)
}

/// A duration of one unit, as scenarios write them; nothing for `Never`.
fn seconds(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let factor = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return None,
    };
    Some(number.parse::<u64>().ok()? * factor)
}

/// How many nodes of a pool may leave for a reason.
fn allowed(scenario: &Value, pool: &str, reason: &str) -> u64 {
    let in_pool = |node: &&Value| {
        let state = node["state"].as_str().unwrap_or_default();
        node["nodePool"] == pool && (state.is_empty() || state == "initialized")
    };
    let nodes = list(scenario, "nodes").iter().filter(in_pool).count() as u64;
    let leaving =
        list(scenario, "nodes").iter().filter(in_pool).filter(|node| node["deleting"] == true).count();
    let budgets = list(&pool_of(scenario, pool)["spec"]["disruption"], "budgets").iter();
    let applies = |budget: &&Value| {
        let reasons = &budget["reasons"];
        (reasons.is_null() || list(budget, "reasons").iter().any(|word| word == reason))
            && in_force(scenario, budget)
    };
    let count = |budget: &Value| {
        let text = budget["nodes"].as_str().unwrap_or("10%");
        match text.strip_suffix('%') {
            Some(percent) => (nodes * percent.parse::<u64>().unwrap_or(0)).div_ceil(100),
            None => text.parse().unwrap_or(0),
        }
    };
    let allowed = budgets.filter(applies).map(count).min().unwrap_or(u64::MAX);
    allowed.saturating_sub(leaving as u64)
}

/// Whether one of the last minutes is one at which the budget opens. Only daily schedules are understood.
fn in_force(scenario: &Value, budget: &Value) -> bool {
    let Some(schedule) = budget["schedule"].as_str() else { return true };
    let fields: Vec<&str> = schedule.split(' ').collect();
    let [minute, hour, "*", "*", "*"] = fields[..] else { panic!("{schedule:?} is not a daily schedule") };
    let minute_of_day = |hour: &str, minute: &str| {
        let number = |text: &str| text.parse::<u64>().expect("hours and minutes are numbers");
        number(hour) * 60 + number(minute)
    };
    let now = scenario["now"].as_str().unwrap_or("2026-01-01T12:00:00Z");
    let now = minute_of_day(&now[11..13], &now[14..16]);
    let opens = minute_of_day(hour, minute);
    let since = (now + MINUTES_PER_DAY - opens) % MINUTES_PER_DAY;
    since * 60 < budget["duration"].as_str().and_then(seconds).unwrap_or(0)
}
