//! What is wrong with a kubelet's configuration before any machine has seen it.

use std::collections::BTreeSet;

use karpenter_quantity::Quantity;
use serde_json::{Map, Value};

use super::fields::{CONFIGURATION, Shape, misfit};

/// What is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct KubeletError(String);

const SIGNALS: &[&str] = &[
    "imagefs.available",
    "imagefs.inodesFree",
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "pid.available",
];
const RESERVABLE: &[&str] = &["cpu", "ephemeral-storage", "memory", "pid"];
const PATH: &str = "spec.kubelet";

/// Judges a configuration: its fields, their types and their ranges. Expressions are judged elsewhere.
///
/// # Errors
/// The first thing that is wrong, with its path.
pub fn validate(fields: &Map<String, Value>) -> Result<(), KubeletError> {
    let problem = refused(fields)
        .or_else(|| structure(fields))
        .or_else(|| eviction(fields))
        .or_else(|| reserved(fields))
        .or_else(|| numbers(fields));
    problem.map_or(Ok(()), |problem| Err(KubeletError(problem)))
}

fn refused(fields: &Map<String, Value>) -> Option<String> {
    fields.contains_key("registerWithTaints").then(|| {
        format!("{PATH}.registerWithTaints cannot be set; set spec.template.spec.taints of the NodePool")
    })
}

fn structure(fields: &Map<String, Value>) -> Option<String> {
    let mut fields = fields.clone();
    if let Some(value) = fields.get_mut("maxPods")
        && value.is_string()
    {
        *value = 0.into();
    }
    misfit(PATH, &Value::Object(fields), Shape::Object(CONFIGURATION))
}

fn entries<'f>(fields: &'f Map<String, Value>, name: &str) -> impl Iterator<Item = (&'f str, &'f str)> {
    let map = fields.get(name).and_then(Value::as_object);
    map.into_iter().flatten().filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
}

fn eviction(fields: &Map<String, Value>) -> Option<String> {
    for name in ["evictionHard", "evictionSoft", "evictionSoftGracePeriod", "evictionMinimumReclaim"] {
        for (signal, value) in entries(fields, name) {
            let path = format!("{PATH}.{name}[{signal}]");
            if !SIGNALS.contains(&signal) {
                return Some(format!("{path} is no eviction signal; use one of {}", SIGNALS.join(", ")));
            }
            if name == "evictionSoftGracePeriod" {
                if !is_grace_period(value) {
                    return Some(format!("{path} is {value:?}; write a duration such as \"1m30s\""));
                }
            } else if let Some(problem) = threshold(value) {
                return Some(format!("{path} is {value:?}; {problem}"));
            }
        }
    }
    let signals = |name| entries(fields, name).map(|(signal, _)| signal).collect::<BTreeSet<_>>();
    let (soft, periods) = (signals("evictionSoft"), signals("evictionSoftGracePeriod"));
    let lone = soft.symmetric_difference(&periods).next()?;
    let (there, missing) = if soft.contains(lone) {
        ("evictionSoft", "evictionSoftGracePeriod")
    } else {
        ("evictionSoftGracePeriod", "evictionSoft")
    };
    Some(format!("{PATH}.{there} has {lone}, {PATH}.{missing} does not; a soft threshold needs both"))
}

fn is_grace_period(value: &str) -> bool {
    karpenter_api::duration::parse_duration(value).is_ok_and(|duration| !duration.is_negative())
}

/// A threshold is a percentage or an amount.
fn threshold(value: &str) -> Option<&'static str> {
    if let Some(percentage) = value.strip_suffix('%') {
        let fits = percentage.parse::<f64>().is_ok_and(|share| (0.0..=100.0).contains(&share));
        return (!fits).then_some("a percentage is between 0% and 100%");
    }
    match value.parse::<Quantity>() {
        Err(_) => Some("write a percentage such as \"5%\" or an amount such as \"100Mi\""),
        Ok(_) if value.starts_with('-') => Some("it must not be negative"),
        Ok(_) => None,
    }
}

fn reserved(fields: &Map<String, Value>) -> Option<String> {
    ["kubeReserved", "systemReserved"].into_iter().find_map(|name| {
        entries(fields, name).find_map(|(resource, value)| {
            let path = format!("{PATH}.{name}[{resource}]");
            if !RESERVABLE.contains(&resource) {
                return Some(format!("{path} cannot be reserved; use {}", RESERVABLE.join(", ")));
            }
            value.trim().starts_with('-').then(|| format!("{path} is {value:?}; it must not be negative"))
        })
    })
}

fn numbers(fields: &Map<String, Value>) -> Option<String> {
    let number = |name: &str| fields.get(name).and_then(Value::as_i64);
    for name in ["podsPerCore", "evictionMaxPodGracePeriod", "maxPods"] {
        if number(name).is_some_and(|value| value < 0) {
            return Some(format!("{PATH}.{name} must not be negative"));
        }
    }
    let (high, low) = (number("imageGCHighThresholdPercent"), number("imageGCLowThresholdPercent"));
    for (name, value) in [("imageGCHighThresholdPercent", high), ("imageGCLowThresholdPercent", low)] {
        if value.is_some_and(|value| !(0..=100).contains(&value)) {
            return Some(format!("{PATH}.{name} is a percentage between 0 and 100"));
        }
    }
    (high? <= low?).then(|| {
        format!("{PATH}.imageGCHighThresholdPercent must be greater than {PATH}.imageGCLowThresholdPercent")
    })
}
