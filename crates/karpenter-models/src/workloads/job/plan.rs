//! What a job needs next: pure.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{Job, JobSpec};
use karpenter_runtime::Key;

use super::indexes;
use crate::pod::{Phase, PodFacts};

/// The finalizer that keeps a pod until the job has counted it.
pub(super) const TRACKING: &str = "batch.kubernetes.io/job-tracking";
/// The label and annotation with a pod's number.
pub(super) const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// New pods wait this long after the first failure, twice as long after the next.
const BACK_OFF: SignedDuration = SignedDuration::from_secs(10);
const BACK_OFF_MAX: SignedDuration = SignedDuration::from_mins(10);

type Pods<'a> = Vec<(&'a Key, &'a PodFacts)>;

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    Complete,
    Failed { reason: &'static str, message: String },
}

/// A job at a moment.
pub(super) struct Plan<'a> {
    /// Pods made: their numbers, for indexed jobs.
    pub(super) create: Vec<Option<i32>>,
    pub(super) delete: Pods<'a>,
    /// Pods that are counted now and may go.
    pub(super) counted: Pods<'a>,
    /// Uids counted before whose pods are still held.
    pub(super) uncounted: Vec<(String, bool)>,
    pub(super) succeeded: i32,
    pub(super) failed: i32,
    pub(super) active: i32,
    pub(super) ready: i32,
    pub(super) terminating: i32,
    pub(super) completed_indexes: Option<String>,
    pub(super) end: Option<End>,
    pub(super) again: Option<Duration>,
}

/// Looks at a job that has not ended.
pub(super) fn plan<'a>(job: &Job, pods: &Pods<'a>, now: Timestamp) -> Plan<'a> {
    let none = JobSpec::default();
    let spec = job.spec.as_ref().unwrap_or(&none);
    let status = job.status.clone().unwrap_or_default();
    let noted = status.uncounted_terminated_pods.clone().unwrap_or_default();
    let known: BTreeSet<String> = noted.succeeded.into_iter().chain(noted.failed).flatten().collect();
    let is_tracked = |pod: &PodFacts| pod.finalizers().iter().any(|name| name == TRACKING);
    let counted: Pods<'a> =
        pods.iter().copied().filter(|(_, pod)| pod.is_finished() && is_tracked(pod)).collect();
    let fresh = || counted.iter().filter(|(_, pod)| !known.contains(pod.uid()));
    let count =
        |phase: Phase| i32::try_from(fresh().filter(|(_, pod)| pod.phase == phase).count()).unwrap_or(0);
    let active: Pods<'a> = pods.iter().copied().filter(|(_, pod)| pod.is_active()).collect();
    let mut plan = Plan {
        create: Vec::new(),
        delete: Vec::new(),
        uncounted: counted
            .iter()
            .map(|(_, pod)| (pod.uid().to_owned(), pod.phase == Phase::Succeeded))
            .collect(),
        succeeded: status.succeeded.unwrap_or(0) + count(Phase::Succeeded),
        failed: status.failed.unwrap_or(0) + count(Phase::Failed),
        active: i32::try_from(active.len()).unwrap_or(i32::MAX),
        ready: i32::try_from(active.iter().filter(|(_, pod)| pod.is_ready()).count()).unwrap_or(i32::MAX),
        terminating: i32::try_from(
            pods.iter().filter(|(_, pod)| pod.is_terminating() && !pod.is_finished()).count(),
        )
        .unwrap_or(i32::MAX),
        completed_indexes: None,
        counted,
        end: None,
        again: None,
    };
    let done = is_indexed(spec).then(|| completed(&status, pods));
    if let Some(done) = &done {
        plan.succeeded = i32::try_from(done.len()).unwrap_or(i32::MAX);
        plan.completed_indexes = Some(indexes::print(done));
    }
    plan.end = end(spec, &status, &plan, &active, now);
    plan.size(spec, &active, done.as_ref(), pods, now);
    plan.watch_deadline(spec, &status, now);
    plan
}

pub(super) fn is_indexed(spec: &JobSpec) -> bool {
    spec.completion_mode.as_deref() == Some("Indexed")
}

fn index_of(pod: &PodFacts) -> Option<i32> {
    pod.annotation(INDEX).and_then(|text| text.parse().ok())
}

fn completed(status: &k8s_openapi::api::batch::v1::JobStatus, pods: &Pods<'_>) -> BTreeSet<i32> {
    let mut done = indexes::parse(status.completed_indexes.as_deref().unwrap_or_default());
    let succeeded = pods.iter().filter(|(_, pod)| pod.phase == Phase::Succeeded);
    done.extend(succeeded.filter_map(|(_, pod)| index_of(pod)));
    done
}

fn end(
    spec: &JobSpec,
    status: &k8s_openapi::api::batch::v1::JobStatus,
    plan: &Plan<'_>,
    active: &Pods<'_>,
    now: Timestamp,
) -> Option<End> {
    let limit = spec.backoff_limit.unwrap_or(6);
    let restarts: i32 = active.iter().map(|(_, pod)| pod.restarts).sum();
    if plan.failed > limit || (restarts > 0 && restarts >= limit.max(1)) {
        let message = "Job has reached the specified backoff limit".to_owned();
        return Some(End::Failed { reason: "BackoffLimitExceeded", message });
    }
    let started = status.start_time.as_ref().map(|time| time.0);
    let deadline = spec.active_deadline_seconds.zip(started);
    if deadline.is_some_and(|(seconds, since)| now.duration_since(since).as_secs() >= seconds) {
        let message = "Job was active longer than specified deadline".to_owned();
        return Some(End::Failed { reason: "DeadlineExceeded", message });
    }
    let is_complete = match spec.completions {
        Some(wanted) => plan.succeeded >= wanted,
        None => plan.succeeded > 0 && active.is_empty(),
    };
    is_complete.then_some(End::Complete)
}

impl<'a> Plan<'a> {
    /// Decides how many pods to make or delete.
    fn size(
        &mut self,
        spec: &JobSpec,
        active: &Pods<'a>,
        done: Option<&BTreeSet<i32>>,
        pods: &Pods<'a>,
        now: Timestamp,
    ) {
        let parallelism = spec.parallelism.unwrap_or(1);
        let wanted = match (self.end.is_some() || spec.suspend == Some(true), spec.completions) {
            (true, _) => 0,
            (false, Some(completions)) => parallelism.min((completions - self.succeeded).max(0)),
            (false, None) if self.succeeded > 0 => self.active,
            (false, None) => parallelism,
        };
        let mut kept = active.clone();
        if let Some(done) = done {
            // A number is worked on by one pod only, and not again once it is done.
            let mut taken = done.clone();
            let (fine, surplus): (Pods<'_>, Pods<'_>) = active
                .iter()
                .copied()
                .partition(|(_, pod)| index_of(pod).is_some_and(|index| taken.insert(index)));
            self.delete.extend(surplus);
            kept = fine;
        }
        let wanted = usize::try_from(wanted).unwrap_or(0);
        if kept.len() > wanted {
            kept.sort_by_key(|(key, pod)| {
                (pod.is_ready(), std::cmp::Reverse(pod.created()), key.name().to_owned())
            });
            self.delete.extend(kept.iter().take(kept.len() - wanted).copied());
            return;
        }
        let missing = wanted - kept.len();
        if missing == 0 {
            return;
        }
        if let Some(wait) = back_off(self.failed, pods, now) {
            self.again = Some(wait);
            return;
        }
        match done {
            None => self.create = vec![None; missing],
            Some(done) => {
                let taken: BTreeSet<i32> = kept.iter().filter_map(|(_, pod)| index_of(pod)).collect();
                let free = (0..spec.completions.unwrap_or(0))
                    .filter(|index| !done.contains(index) && !taken.contains(index));
                self.create = free.take(missing).map(Some).collect();
            }
        }
    }

    fn watch_deadline(
        &mut self,
        spec: &JobSpec,
        status: &k8s_openapi::api::batch::v1::JobStatus,
        now: Timestamp,
    ) {
        let Some(seconds) = spec.active_deadline_seconds.filter(|_| self.end.is_none()) else { return };
        let since = status.start_time.as_ref().map_or(now, |time| time.0);
        let wait = SignedDuration::from_secs(seconds) - now.duration_since(since);
        if let Ok(wait) = Duration::try_from(wait) {
            self.again = Some(self.again.map_or(wait, |sooner| sooner.min(wait)));
        }
    }
}

/// Returns how long new pods still wait after a failure.
fn back_off(failed: i32, pods: &Pods<'_>, now: Timestamp) -> Option<Duration> {
    if failed <= 0 {
        return None;
    }
    let failures = pods.iter().filter(|(_, pod)| pod.phase == Phase::Failed);
    let last = failures.filter_map(|(_, pod)| pod.finished).max()?;
    let delay = (0..failed.min(10) - 1).fold(BACK_OFF, |delay, _| delay + delay).min(BACK_OFF_MAX);
    let left = delay - now.duration_since(last);
    Duration::try_from(left).ok().filter(|left| !left.is_zero())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::pod::Templates;

    fn job(spec: Value) -> Job {
        serde_json::from_value(json!({"metadata": {"name": "j"}, "spec": spec})).unwrap()
    }

    fn pod(name: &str, phase: &str, index: Option<i32>) -> (Key, PodFacts) {
        let mut pod = json!({
            "metadata": {"name": name, "uid": name, "finalizers": [TRACKING]},
            "spec": {"containers": []}, "status": {"phase": phase},
        });
        if let Some(index) = index {
            pod["metadata"]["annotations"] = json!({INDEX: index.to_string()});
        }
        (Key::namespaced("default", name), Templates::default().keep(serde_json::from_value(pod).unwrap()))
    }

    fn look<'a>(job: &Job, pods: &'a [(Key, PodFacts)]) -> Plan<'a> {
        let pods = pods.iter().map(|(key, pod)| (key, pod)).collect();
        plan(job, &pods, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn no_more_pods_run_than_are_needed() {
        let job = job(json!({"parallelism": 3, "completions": 4, "template": {}}));
        assert_eq!(look(&job, &[]).create.len(), 3);
        let pods = [pod("a", "Succeeded", None), pod("b", "Succeeded", None), pod("c", "Running", None)];
        let found = look(&job, &pods);
        assert_eq!((found.create.len(), found.succeeded, found.counted.len()), (1, 2, 2));
    }

    #[test]
    fn enough_successes_complete_a_job_and_too_many_failures_end_it() {
        let pods = [pod("a", "Succeeded", None), pod("b", "Running", None)];
        let found = look(&job(json!({"parallelism": 2, "completions": 1, "template": {}})), &pods);
        assert_eq!((found.end, found.delete.len()), (Some(End::Complete), 1));
        let pods = [pod("a", "Failed", None)];
        let found = look(&job(json!({"backoffLimit": 0, "completions": 1, "template": {}})), &pods);
        assert!(matches!(found.end, Some(End::Failed { reason: "BackoffLimitExceeded", .. })));
    }

    #[test]
    fn indexed_jobs_work_on_every_number_once() {
        let job =
            job(json!({"parallelism": 5, "completions": 4, "completionMode": "Indexed", "template": {}}));
        let pods =
            [pod("a", "Succeeded", Some(1)), pod("b", "Running", Some(0)), pod("c", "Running", Some(0))];
        let found = look(&job, &pods);
        assert_eq!(found.create, [Some(2), Some(3)]);
        assert_eq!((found.delete.len(), found.completed_indexes.as_deref()), (1, Some("1")));
    }
}
