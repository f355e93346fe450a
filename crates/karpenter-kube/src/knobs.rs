//! Annotations of NodePools that only we understand: off unless set. What cannot be read allows nothing, and [`mistakes`] says so.

use jiff::SignedDuration;
use karpenter_api::NodePool;
use karpenter_api::annotations::{
    DISRUPTION_PAUSED, DRIFT_BACKOFF, DRIFT_CANARY, DRIFT_HALT_AFTER, DRIFT_WAVE, DRIFT_WAVE_PAUSE,
    LAUNCHES_PER_MINUTE, MINIMUM_SAVING, POD_RESIDENCY, ROTATE_AFTER, ROTATION_JITTER, UNHEALTHY_TOLERATED,
};
use karpenter_api::duration::parse_duration;
use karpenter_core::disruption::{
    Budget, BudgetNodes, BudgetWindow, MinimumSaving, PoolDisruption, Rollout, Rotation,
};

/// Where nothing is said, rotation is spread over so much of the age it begins at.
const JITTER_SHARE: i32 = 10;

/// How an annotation is checked, and what to write instead of what cannot be read.
type Check = (&'static str, fn(&str) -> bool, &'static str);

const CHECKS: &[Check] = &[
    (DISRUPTION_PAUSED, |text| matches!(text, "true" | "false"), "\"true\" or \"false\""),
    (
        MINIMUM_SAVING,
        |text| MinimumSaving::parse(text).is_some(),
        "a percentage or a price per hour, such as \"10%\" or \"0.05\"",
    ),
    (POD_RESIDENCY, is_duration, "a duration such as \"1h\""),
    (UNHEALTHY_TOLERATED, |text| percent(text).is_some(), "a percentage such as \"40%\""),
    (ROTATE_AFTER, is_duration, "a duration such as \"168h\""),
    (ROTATION_JITTER, is_duration, "a duration such as \"24h\""),
    (DRIFT_BACKOFF, is_duration, "a duration such as \"10m\""),
    (DRIFT_CANARY, is_count, "a number of nodes such as \"1\""),
    (DRIFT_WAVE, |text| nodes(text).is_some(), "a number of nodes or a percentage, such as \"5\" or \"10%\""),
    (DRIFT_WAVE_PAUSE, is_duration, "a duration such as \"15m\""),
    (DRIFT_HALT_AFTER, is_count, "a number of failures such as \"2\""),
    (LAUNCHES_PER_MINUTE, is_count, "a number of nodes such as \"10\""),
];

/// Annotations of the pool that cannot be read, each as a sentence that says what to write.
pub fn mistakes(pool: &NodePool) -> Vec<String> {
    let wrong = CHECKS.iter().filter_map(|(key, reads, instead)| {
        let written = annotation(pool, key).filter(|written| !reads(written))?;
        Some(format!("Annotation {key} is {written:?}; nothing is allowed until it is {instead}"))
    });
    wrong.collect()
}

/// Adds what the annotations say to how a pool's nodes may be disrupted.
pub(crate) fn add(pool: &NodePool, disruption: &mut PoolDisruption) {
    if annotation(pool, DISRUPTION_PAUSED).is_some_and(|value| value != "false") {
        let closed = Budget { reasons: None, nodes: BudgetNodes::Count(0), window: BudgetWindow::Always };
        disruption.budgets.push(closed);
    }
    disruption.minimum_saving = annotation(pool, MINIMUM_SAVING)
        .map(|written| MinimumSaving::parse(written).unwrap_or(MinimumSaving::PerHour(f64::INFINITY)));
    disruption.pod_residency =
        annotation(pool, POD_RESIDENCY).map(|written| duration(written).unwrap_or(SignedDuration::MAX));
    disruption.rotation = rotation(pool);
    disruption.rollout = rollout(pool);
}

fn rotation(pool: &NodePool) -> Option<Rotation> {
    let after = duration(annotation(pool, ROTATE_AFTER)?)?;
    let jitter = annotation(pool, ROTATION_JITTER).map_or(Some(after / JITTER_SHARE), duration)?;
    Some(Rotation { after, jitter })
}

fn rollout(pool: &NodePool) -> Rollout {
    let keys = [DRIFT_BACKOFF, DRIFT_CANARY, DRIFT_WAVE, DRIFT_WAVE_PAUSE, DRIFT_HALT_AFTER];
    let unreadable = CHECKS
        .iter()
        .filter(|(key, ..)| keys.contains(key))
        .any(|(key, reads, _)| annotation(pool, key).is_some_and(|written| !reads(written)));
    let count = |key: &str| annotation(pool, key).and_then(|written| written.parse().ok());
    Rollout {
        canary: count(DRIFT_CANARY),
        wave: annotation(pool, DRIFT_WAVE).and_then(nodes),
        pause: annotation(pool, DRIFT_WAVE_PAUSE).and_then(duration),
        backoff: annotation(pool, DRIFT_BACKOFF).and_then(duration),
        halt_after: count(DRIFT_HALT_AFTER),
        unreadable,
    }
}

/// How much of the pool may be broken before repairs stop, in percent, if the pool says so itself.
pub fn unhealthy_tolerated(pool: &NodePool) -> Option<u32> {
    annotation(pool, UNHEALTHY_TOLERATED).map(|written| percent(written).unwrap_or(0))
}

/// How many nodes of the pool may be launched within a minute; any number where nothing is said.
pub fn launches_per_minute(pool: &NodePool) -> Option<u32> {
    annotation(pool, LAUNCHES_PER_MINUTE).map(|written| written.parse().unwrap_or(0))
}

fn annotation<'p>(pool: &'p NodePool, key: &str) -> Option<&'p str> {
    pool.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

fn duration(text: &str) -> Option<SignedDuration> {
    parse_duration(text).ok().filter(|duration| !duration.is_negative())
}

fn is_duration(text: &str) -> bool {
    duration(text).is_some()
}

fn is_count(text: &str) -> bool {
    text.parse::<u32>().is_ok()
}

fn percent(text: &str) -> Option<u32> {
    text.strip_suffix('%')?.parse().ok()
}

fn nodes(text: &str) -> Option<BudgetNodes> {
    Some(BudgetNodes::parse(text)).filter(|nodes| *nodes != BudgetNodes::Unreadable)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pool(annotations: &serde_json::Value) -> NodePool {
        serde_json::from_value(json!({
            "metadata": { "name": "general", "annotations": annotations },
            "spec": { "template": { "spec": {
                "nodeClassRef": { "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default" },
                "requirements": [],
            } } },
        }))
        .unwrap()
    }

    fn read(annotations: &serde_json::Value) -> PoolDisruption {
        let mut disruption = PoolDisruption::default();
        add(&pool(annotations), &mut disruption);
        disruption
    }

    #[test]
    fn everything_is_off_unless_it_is_asked_for() {
        assert_eq!(read(&json!({})), PoolDisruption::default());
        assert_eq!(read(&json!({ DISRUPTION_PAUSED: "false" })), PoolDisruption::default());
        let silent = pool(&json!({}));
        assert_eq!((unhealthy_tolerated(&silent), launches_per_minute(&silent)), (None, None));
        assert!(mistakes(&silent).is_empty());
    }

    #[test]
    fn what_is_asked_for_is_read() {
        assert_eq!(read(&json!({ DISRUPTION_PAUSED: "true" })).budgets[0].nodes, BudgetNodes::Count(0));
        let both = read(&json!({ MINIMUM_SAVING: "10%", POD_RESIDENCY: "1h" }));
        assert_eq!(both.minimum_saving, Some(MinimumSaving::Percent(10.0)));
        assert_eq!(both.pod_residency, Some(SignedDuration::from_hours(1)));
        let hours = SignedDuration::from_hours;
        let rotated = read(&json!({ ROTATE_AFTER: "100h" })).rotation;
        assert_eq!(rotated, Some(Rotation { after: hours(100), jitter: hours(10) }));
        let rotated = read(&json!({ ROTATE_AFTER: "100h", ROTATION_JITTER: "1h" })).rotation;
        assert_eq!(rotated, Some(Rotation { after: hours(100), jitter: hours(1) }));
        let rollout = read(&json!({ DRIFT_CANARY: "1", DRIFT_WAVE: "10%", DRIFT_WAVE_PAUSE: "1h", DRIFT_BACKOFF: "1h", DRIFT_HALT_AFTER: "2" })).rollout;
        let wanted = Rollout {
            canary: Some(1),
            wave: Some(BudgetNodes::Percent(10)),
            pause: Some(hours(1)),
            backoff: Some(hours(1)),
            halt_after: Some(2),
            unreadable: false,
        };
        assert_eq!(rollout, wanted);
        let limited = pool(&json!({ LAUNCHES_PER_MINUTE: "7", UNHEALTHY_TOLERATED: "40%" }));
        assert_eq!((launches_per_minute(&limited), unhealthy_tolerated(&limited)), (Some(7), Some(40)));
        assert!(mistakes(&limited).is_empty());
    }

    #[test]
    fn what_cannot_be_read_allows_nothing_and_is_said() {
        assert_eq!(read(&json!({ DISRUPTION_PAUSED: "maybe" })).budgets[0].nodes, BudgetNodes::Count(0));
        let unreadable = read(&json!({ MINIMUM_SAVING: "much", POD_RESIDENCY: "long" }));
        assert_eq!(unreadable.minimum_saving, Some(MinimumSaving::PerHour(f64::INFINITY)));
        assert_eq!(unreadable.pod_residency, Some(SignedDuration::MAX));
        assert_eq!(read(&json!({ ROTATE_AFTER: "100h", ROTATION_JITTER: "some" })).rotation, None);
        for key in [DRIFT_CANARY, DRIFT_WAVE, DRIFT_WAVE_PAUSE, DRIFT_BACKOFF, DRIFT_HALT_AFTER] {
            assert!(read(&json!({ key: "-1" })).rollout.unreadable, "{key}");
        }
        let wrong = pool(&json!({ LAUNCHES_PER_MINUTE: "few", UNHEALTHY_TOLERATED: "0.4" }));
        assert_eq!((launches_per_minute(&wrong), unhealthy_tolerated(&wrong)), (Some(0), Some(0)));
        for (key, ..) in CHECKS {
            let said = mistakes(&pool(&json!({ *key: "?" })));
            assert_eq!(said.len(), 1, "{key}");
            assert!(said[0].contains(key));
        }
    }
}
