//! Annotations and labels by which people and tests tell the models what their workloads and machines do.
//!
//! | On | Annotation | Means |
//! |---|---|---|
//! | Pod | `cluster.model/start-after` | how long it takes to start, beyond the configured time |
//! | Pod | `cluster.model/ready-after` | how long after the start it is ready |
//! | Pod | `cluster.model/run-for` | how long it runs until it ends by itself; pods of a Job end at once without it |
//! | Pod | `cluster.model/exit-code` | how it ends; 0 unless given |
//! | Pod | `cluster.model/stop-after` | how long it takes to stop when asked to; the grace period still bounds it |
//! | Node | `cluster.model/kubelet` | `running`, or `unreachable` or `not-ready` to make it fail |
//! | Node | `cluster.model/ready-after` | how long after it was created the node is ready |
//! | Pod | `pod-delete.stage.kwok.x-k8s.io/delay` | the same as `cluster.model/stop-after` |
//! | Pod | label `kwok.x-k8s.io/stage: unhealthy` | it is never ready |
//! | Node | label `kwok.x-k8s.io/stage: unhealthy` | its kubelet lives and says nothing of the node's conditions: they are what others write |
//!
//! The last three are what Karpenter's own suites tell kwok. Durations are written as `90s`, `2m30s` or `500ms`. What cannot be read counts as not said.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::SignedDuration;

/// The common prefix.
pub const PREFIX: &str = "cluster.model/";
/// How long a pod takes to start.
pub const START_AFTER: &str = "cluster.model/start-after";
/// How long after its start a pod, or after its creation a node, is ready.
pub const READY_AFTER: &str = "cluster.model/ready-after";
/// How long a pod runs until it ends by itself.
pub const RUN_FOR: &str = "cluster.model/run-for";
/// The exit code a pod ends with.
pub const EXIT_CODE: &str = "cluster.model/exit-code";
/// How long a pod takes to stop.
pub const STOP_AFTER: &str = "cluster.model/stop-after";
/// Whether and how a node's kubelet runs.
pub const KUBELET: &str = "cluster.model/kubelet";

/// How kwok is told how long a pod takes to stop.
pub const KWOK_STOP_AFTER: &str = "pod-delete.stage.kwok.x-k8s.io/delay";
/// The label, and its value, with which kwok is told that somebody else decides how healthy a pod or node is.
pub const STAGE: (&str, &str) = ("kwok.x-k8s.io/stage", "unhealthy");

/// Annotations of an object.
pub type Annotations = BTreeMap<String, String>;

/// Reads a duration annotation.
pub(crate) fn duration(annotations: Option<&Annotations>, name: &str) -> Option<Duration> {
    let duration: SignedDuration = annotations?.get(name)?.parse().ok()?;
    duration.try_into().ok()
}

/// Reads a number.
pub(crate) fn number(annotations: Option<&Annotations>, name: &str) -> Option<i32> {
    annotations?.get(name)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        let read =
            |text: &str| duration(Some(&Annotations::from([(RUN_FOR.to_owned(), text.to_owned())])), RUN_FOR);
        assert_eq!(read("90s"), Some(Duration::from_secs(90)));
        assert_eq!(read("2m30s"), Some(Duration::from_secs(150)));
        assert_eq!(read("500ms"), Some(Duration::from_millis(500)));
        assert_eq!((read("soon"), read("-5s")), (None, None));
    }
}
