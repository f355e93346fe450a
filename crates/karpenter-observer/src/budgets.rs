//! What budgets of NodePools and PodDisruptionBudgets allow.

use jiff::Timestamp;
use serde_json::Value;

use crate::fields::{duration, label, text};

/// How many of so many nodes a pool lets be disrupted at once for a reason; nothing if no budget speaks of it.
pub(crate) fn allowed(pool: &Value, reason: &str, nodes: u64, now: Timestamp) -> Result<Option<u64>, String> {
    let mut least = None;
    for budget in pool["spec"]["disruption"]["budgets"].as_array().into_iter().flatten() {
        if !is_in_force(budget, reason, now)? {
            continue;
        }
        let written = text(&budget["nodes"]);
        let count = portion(&budget["nodes"], nodes)
            .ok_or_else(|| format!("the observer cannot read a budget of {written:?} nodes"))?;
        least = Some(least.map_or(count, |least: u64| least.min(count)));
    }
    Ok(least)
}

/// Budgets with a schedule are understood where it is a time of every day.
fn is_in_force(budget: &Value, reason: &str, now: Timestamp) -> Result<bool, String> {
    let reasons = budget["reasons"].as_array();
    if reasons.is_some_and(|reasons| !reasons.iter().any(|listed| text(listed) == reason)) {
        return Ok(false);
    }
    let Some(schedule) = budget["schedule"].as_str() else { return Ok(true) };
    let opens = minute_of_day(schedule).ok_or_else(|| {
        format!("the observer cannot read the schedule {schedule:?}: write it as M H * * *")
    })?;
    let lasts = duration(text(&budget["duration"])).unwrap_or_default().as_secs() / 60;
    let minute = now.as_second().rem_euclid(86_400) / 60;
    Ok((minute - opens).rem_euclid(24 * 60) < lasts)
}

fn minute_of_day(schedule: &str) -> Option<i64> {
    if schedule == "@daily" {
        return Some(0);
    }
    let fields: Vec<&str> = schedule.split(' ').collect();
    let [minute, hour, "*", "*", "*"] = fields[..] else { return None };
    Some(hour.parse::<i64>().ok()? * 60 + minute.parse::<i64>().ok()?)
}

/// How many pods a PodDisruptionBudget wants healthy if so many are expected.
pub(crate) fn desired_healthy(budget: &Value, expected: u64) -> u64 {
    let spec = &budget["spec"];
    match (portion(&spec["maxUnavailable"], expected), portion(&spec["minAvailable"], expected)) {
        (Some(unavailable), _) => expected.saturating_sub(unavailable),
        (None, Some(available)) => available,
        (None, None) => 0,
    }
}

/// A number, or a percentage of the whole, rounded up.
fn portion(written: &Value, whole: u64) -> Option<u64> {
    if let Some(count) = written.as_u64() {
        return Some(count);
    }
    match written.as_str()?.split_once('%') {
        Some((percent, "")) => Some((whole * percent.parse::<u64>().ok()?).div_ceil(100)),
        Some(_) => None,
        None => written.as_str()?.parse().ok(),
    }
}

/// Whether a PodDisruptionBudget speaks of a pod. An empty selector speaks of all.
pub(crate) fn selects(budget: &Value, pod: &Value) -> bool {
    let selector = &budget["spec"]["selector"];
    let labels = selector["matchLabels"].as_object();
    let expressions = selector["matchExpressions"].as_array();
    budget["metadata"]["namespace"] == pod["metadata"]["namespace"]
        && !selector.is_null()
        && labels.into_iter().flatten().all(|(key, value)| label(pod, key) == value.as_str())
        && expressions.into_iter().flatten().all(|expression| holds(expression, pod))
}

fn holds(expression: &Value, pod: &Value) -> bool {
    let found = label(pod, text(&expression["key"]));
    let listed = || {
        let values = expression["values"].as_array();
        found.is_some_and(|found| values.into_iter().flatten().any(|value| text(value) == found))
    };
    match text(&expression["operator"]) {
        "In" => listed(),
        "NotIn" => !listed(),
        "Exists" => found.is_some(),
        _ => found.is_none(),
    }
}
