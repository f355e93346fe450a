//! What a kubelet does about a pod at a moment: pure.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::annotations::{
    EXIT_CODE, KWOK_STOP_AFTER, READY_AFTER, RUN_FOR, STAGE, START_AFTER, STOP_AFTER, duration, number,
};
use crate::config::KubeletConfig;
use crate::pod::{Phase, PodFacts};

/// What is to be done about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing, until something changes.
    Rest,
    /// Nothing before this much time has passed.
    Wait(Duration),
    /// Start the containers; they are ready at once if `ready`.
    Start {
        /// Whether the pod is ready at once.
        ready: bool,
    },
    /// The containers are ready now.
    BecomeReady,
    /// The containers ended by themselves.
    End {
        /// With this code.
        exit_code: i32,
    },
    /// The containers ended by themselves and start again.
    Restart {
        /// After they ended with this code.
        exit_code: i32,
    },
    /// The containers were stopped: say so, if the pod must be kept for others, and remove the pod.
    Remove {
        /// Whether somebody waits for the pod's last word.
        say_so: bool,
    },
}

/// Decides about a pod that is bound to a working node.
pub(crate) fn next_step(pod: &PodFacts, config: &KubeletConfig, has_volumes: bool, now: Timestamp) -> Step {
    if let Some(deadline) = pod.deletion() {
        return stop(pod, config, deadline, now);
    }
    match pod.phase {
        Phase::Succeeded | Phase::Failed => Step::Rest,
        Phase::Pending if !has_volumes => Step::Rest,
        Phase::Pending => {
            let delay = duration(pod.annotations.as_ref(), START_AFTER).unwrap_or(config.pod_start_after);
            let begun = pod.scheduled.unwrap_or_else(|| pod.created());
            match left(begun, delay, now) {
                Some(wait) => Step::Wait(wait),
                None => Step::Start { ready: ready_delay(pod).is_some_and(|delay| delay.is_zero()) },
            }
        }
        Phase::Running => run(pod, now),
    }
}

fn run(pod: &PodFacts, now: Timestamp) -> Step {
    let running = pod.running_since.unwrap_or_else(|| pod.created());
    let end = run_time(pod).map(|time| left(running, time, now));
    if end == Some(None) {
        let exit_code = number(pod.annotations.as_ref(), EXIT_CODE).unwrap_or(0);
        let restarts = match pod.template.spec.restart_policy.as_deref() {
            Some("Never") => false,
            Some("OnFailure") => exit_code != 0,
            _ => true,
        };
        return if restarts { Step::Restart { exit_code } } else { Step::End { exit_code } };
    }
    let ready = ready_delay(pod).filter(|_| !pod.is_ready()).map(|delay| left(running, delay, now));
    if ready == Some(None) {
        return Step::BecomeReady;
    }
    match ready.flatten().into_iter().chain(end.flatten()).min() {
        Some(wait) => Step::Wait(wait),
        None => Step::Rest,
    }
}

/// Pods that were never told to end run for ever, except those of jobs.
fn run_time(pod: &PodFacts) -> Option<Duration> {
    let is_of_job = || pod.template.owner.as_ref().is_some_and(|owner| owner.kind == "Job");
    duration(pod.annotations.as_ref(), RUN_FOR).or_else(|| is_of_job().then_some(Duration::ZERO))
}

/// How long after its start a pod is ready; `None` if it never is.
fn ready_delay(pod: &PodFacts) -> Option<Duration> {
    let (label, value) = STAGE;
    let is_ever = pod.label(label) != Some(value);
    is_ever.then(|| duration(pod.annotations.as_ref(), READY_AFTER).unwrap_or_default())
}

fn stop(pod: &PodFacts, config: &KubeletConfig, deadline: Timestamp, now: Timestamp) -> Step {
    let grace = Duration::from_secs(u64::try_from(pod.grace_seconds()).unwrap_or(0));
    let asked = deadline - SignedDuration::try_from(grace).unwrap_or_default();
    let told = [STOP_AFTER, KWOK_STOP_AFTER].iter().find_map(|name| duration(pod.annotations.as_ref(), name));
    let delay = told.unwrap_or(config.pod_stop_after);
    let is_running = pod.phase == Phase::Running;
    let delay = if is_running { delay.min(grace) } else { Duration::ZERO };
    match left(asked, delay, now) {
        Some(wait) => Step::Wait(wait),
        None => Step::Remove { say_so: !pod.is_finished() && pod.has_finalizers() },
    }
}

/// Returns how much of `delay` after `since` is left.
fn left(since: Timestamp, delay: Duration, now: Timestamp) -> Option<Duration> {
    let delay = SignedDuration::try_from(delay).unwrap_or(SignedDuration::MAX);
    let left = delay - now.duration_since(since);
    Duration::try_from(left).ok().filter(|left| !left.is_zero())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::pod::Templates;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[track_caller]
    fn check(annotations: Value, pod: Value, second: i64, expected: &Step) {
        let mut object = json!({
            "metadata": {"name": "p", "annotations": annotations, "creationTimestamp": "1970-01-01T00:00:00Z"},
            "spec": {"containers": [], "restartPolicy": "Never", "terminationGracePeriodSeconds": 30},
            "status": {"phase": "Pending"},
        });
        crate::json::merge(&mut object, pod);
        let pod = Templates::default().keep(serde_json::from_value(object).unwrap());
        assert_eq!(next_step(&pod, &KubeletConfig::default(), true, at(second)), *expected);
    }

    fn running() -> Value {
        json!({"status": {"phase": "Running", "containerStatuses": [{"name": "c", "image": "", "imageID": "",
            "ready": true, "restartCount": 0, "state": {"running": {"startedAt": "1970-01-01T00:00:10Z"}}}]}})
    }

    #[test]
    fn a_pod_starts_after_its_delay_and_is_ready_after_another() {
        let slow = json!({START_AFTER: "5s", READY_AFTER: "3s"});
        check(slow.clone(), json!({}), 2, &Step::Wait(Duration::from_secs(3)));
        check(slow.clone(), json!({}), 5, &Step::Start { ready: false });
        check(slow.clone(), running(), 12, &Step::Wait(Duration::from_secs(1)));
        check(slow, running(), 13, &Step::BecomeReady);
        check(json!({}), json!({}), 0, &Step::Start { ready: true });
    }

    #[test]
    fn a_pod_that_is_called_unhealthy_runs_and_is_never_ready() {
        let mut pod = json!({"metadata": {"labels": {"kwok.x-k8s.io/stage": "unhealthy"}}});
        check(json!({}), pod.clone(), 0, &Step::Start { ready: false });
        crate::json::merge(&mut pod, running());
        check(json!({}), pod, 100, &Step::Rest);
    }

    #[test]
    fn a_pod_that_ends_by_itself_ends_as_told() {
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        let mut pod = running();
        crate::json::merge(&mut pod, ready);
        let fails = json!({RUN_FOR: "1m", EXIT_CODE: "2"});
        check(fails.clone(), pod.clone(), 40, &Step::Wait(Duration::from_secs(30)));
        check(fails.clone(), pod.clone(), 70, &Step::End { exit_code: 2 });
        crate::json::merge(&mut pod, json!({"spec": {"restartPolicy": "OnFailure"}}));
        check(fails, pod.clone(), 70, &Step::Restart { exit_code: 2 });
        check(json!({RUN_FOR: "1m"}), pod, 70, &Step::End { exit_code: 0 });
    }

    #[test]
    fn a_stopping_pod_takes_its_time_within_the_grace_period() {
        let mut pod = running();
        crate::json::merge(
            &mut pod,
            json!({"metadata": {
            "deletionTimestamp": "1970-01-01T00:01:00Z", "deletionGracePeriodSeconds": 30}}),
        );
        let slow = json!({STOP_AFTER: "10s"});
        check(slow.clone(), pod.clone(), 35, &Step::Wait(Duration::from_secs(5)));
        check(slow, pod.clone(), 40, &Step::Remove { say_so: false });
        check(json!({STOP_AFTER: "2h"}), pod.clone(), 50, &Step::Wait(Duration::from_secs(10)));
        check(json!({KWOK_STOP_AFTER: "2h"}), pod.clone(), 50, &Step::Wait(Duration::from_secs(10)));
        crate::json::merge(&mut pod, json!({"metadata": {"finalizers": ["example.com/wait"]}}));
        check(json!({}), pod, 30, &Step::Remove { say_so: true });
    }
}
