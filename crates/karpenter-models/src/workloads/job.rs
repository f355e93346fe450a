//! Jobs: pods that run until enough of them have succeeded.

mod indexes;
mod plan;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::Pod;
use karpenter_runtime::{Caches, Change, Controller, Key, Outcome, View, Wakes, Watches, Write};
use serde_json::{Value, json};

use super::pod_template::{generated_name, pod_from};
use crate::config::EventDetail;
use crate::event::{About, Happening, event, time};
use crate::index::PodsByOwner;
use crate::json::status_patch;
use crate::pod::{PodFacts, watch_pods};
use plan::{End, INDEX, Plan, TRACKING, is_indexed, plan};

const KIND: &str = "Job";
const COMPONENT: &str = "job-controller";
/// Pods made or deleted at a time.
const BURST: usize = 500;

/// Runs jobs.
pub struct Jobs {
    events: EventDetail,
    pods: PodsByOwner,
    /// Pods whose job is gone but that still wait to be counted, by the key of the job.
    forgotten: BTreeMap<Key, BTreeSet<Key>>,
}

impl Jobs {
    /// Returns a controller that has made nothing.
    pub fn new(events: EventDetail) -> Self {
        Self { events, pods: PodsByOwner::default(), forgotten: BTreeMap::new() }
    }

    fn release_forgotten(&mut self, key: &Key, view: &View<'_>) -> Outcome<Infallible> {
        let pods = self.forgotten.remove(key).unwrap_or_default();
        let cache = view.caches.of::<PodFacts>();
        let held = pods.iter().filter_map(|key| Some((key, cache.get(key)?)));
        let jobs = view.caches.of::<Job>();
        let orphaned = held.filter(|(_, pod)| !has_job(pod, jobs.get(key).map(|job| &**job)));
        Outcome::done().then_all(orphaned.filter_map(|(key, pod)| untrack(key, pod)).collect::<Vec<_>>())
    }

    fn run(&self, job: &Job, key: &Key, plan: &Plan<'_>, view: &View<'_>) -> Outcome<Infallible> {
        let (mut writes, mut told) = (Vec::new(), Vec::new());
        let about = About::object(job);
        let mut tell = |happening: Happening<'_>| {
            if self.events.tells(happening.is_warning) {
                told.push(event(&about, &happening, COMPONENT, view));
            }
        };
        for index in plan.create.iter().take(BURST) {
            let pod = make_pod(job, *index, view);
            let name = pod.metadata.name.as_deref().unwrap_or_default();
            tell(Happening::normal("SuccessfulCreate", format!("Created pod: {name}")));
            writes.push(Write::create(&pod));
        }
        for (key, pod) in plan.delete.iter().take(BURST) {
            tell(Happening::normal("SuccessfulDelete", format!("Deleted pod: {}", key.name())));
            writes.push(Write::delete::<Pod>(key).if_uid(pod.uid()).tolerating(404).tolerating(409));
        }
        let ends = plan.end.as_ref().filter(|_| plan.active == 0 && plan.terminating == 0);
        match ends {
            Some(End::Complete) => tell(Happening::normal("Completed", "Job completed".to_owned())),
            Some(End::Failed { reason, message }) => tell(Happening::warning(reason, message.clone())),
            None => {}
        }
        let patch =
            status_patch(job.status.as_ref(), status(job, plan, ends, view.now), &["ready", "terminating"]);
        let version = job.metadata.resource_version.as_deref().unwrap_or_default();
        let patch = patch.map(|patch| Write::merge_patch::<Job>(key, patch).status().if_version(version));
        let released = plan.counted.iter().filter_map(|(key, pod)| untrack(key, pod));
        let outcome = Outcome::done()
            .then_all(patch)
            .then_all(released.collect::<Vec<_>>())
            .then_all(writes)
            .then_all(told);
        match plan.again {
            Some(wait) => outcome.again(wait),
            None => outcome,
        }
    }
}

impl Controller for Jobs {
    type Request = Infallible;
    type Reply = Infallible;

    fn name(&self) -> &'static str {
        "model-jobs"
    }

    fn watches(&self, watches: &mut Watches) {
        watches.add::<Job>();
        watch_pods(watches);
    }

    fn wake(&mut self, change: &Change, caches: &Caches, wakes: &mut Wakes) {
        let Some(delta) = change.of::<PodFacts>() else {
            if let Some(job) = change.of::<Job>().and_then(|delta| delta.old.filter(|_| delta.new.is_none()))
            {
                let uid = job.metadata.uid.as_deref().unwrap_or_default();
                let pods = self.pods.of(uid, caches);
                let pods = pods.iter().map(|(key, _)| (*key).clone()).collect();
                self.forgotten.insert(change.key().clone(), pods);
            }
            wakes.wake(change.key().clone());
            return;
        };
        self.pods.observe(change.key(), &delta, KIND, wakes);
        let owner = delta.new.and_then(|pod| Some((pod, pod.template.owner.as_ref()?)));
        if let Some((pod, owner)) = owner.filter(|(_, owner)| owner.kind == KIND) {
            let key = Key::namespaced(pod.namespace(), &owner.name);
            if pod.has_finalizers() && !has_job(pod, caches.of::<Job>().get(&key).map(|job| &**job)) {
                self.forgotten.entry(key).or_default().insert(change.key().clone());
            }
        }
    }

    fn reconcile(&mut self, key: &Key, view: &View<'_>) -> Outcome<Infallible> {
        if self.forgotten.contains_key(key) {
            return self.release_forgotten(key, view).again(Duration::ZERO);
        }
        let Some(job) = view.caches.of::<Job>().get(key) else { return Outcome::done() };
        let uid = job.metadata.uid.as_deref().unwrap_or_default();
        let pods = self.pods.of(uid, view.caches);
        if job.metadata.deletion_timestamp.is_some() || ended(job).is_some() {
            let finished = pods.iter().filter(|(_, pod)| pod.is_finished());
            let released = finished.filter_map(|(key, pod)| untrack(key, pod)).collect::<Vec<_>>();
            return expire(job, key, view.now, Outcome::done().then_all(released));
        }
        let plan = plan(job, &pods, view.now);
        self.run(job, key, &plan, view)
    }
}

fn has_job(pod: &PodFacts, job: Option<&Job>) -> bool {
    let owner = pod.template.owner.as_ref();
    job.is_some_and(|job| owner.is_some_and(|owner| Some(&owner.uid) == job.metadata.uid.as_ref()))
}

/// Returns the write that lets a pod go once it is counted.
fn untrack(key: &Key, pod: &PodFacts) -> Option<Write> {
    let left: Vec<&String> = pod.finalizers().iter().filter(|name| *name != TRACKING).collect();
    if left.len() == pod.finalizers().len() {
        return None;
    }
    let left: Value = if left.is_empty() { Value::Null } else { json!(left) };
    let patch = json!({"metadata": {"finalizers": left}});
    Some(Write::merge_patch::<Pod>(key, patch).if_uid(pod.uid()).tolerating(404).tolerating(409))
}

/// Returns when a job ended.
fn ended(job: &Job) -> Option<Timestamp> {
    let mut conditions = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let end = conditions.find(|condition| {
        matches!(condition.type_.as_str(), "Complete" | "Failed") && condition.status == "True"
    })?;
    end.last_transition_time.as_ref().map(|time| time.0)
}

/// Deletes a job that ended long enough ago.
fn expire(job: &Job, key: &Key, now: Timestamp, outcome: Outcome<Infallible>) -> Outcome<Infallible> {
    let seconds = job.spec.as_ref().and_then(|spec| spec.ttl_seconds_after_finished);
    let (Some(seconds), Some(ended)) = (seconds, ended(job)) else { return outcome };
    if job.metadata.deletion_timestamp.is_some() {
        return outcome;
    }
    let left = SignedDuration::from_secs(i64::from(seconds)) - now.duration_since(ended);
    match Duration::try_from(left).ok().filter(|left| !left.is_zero()) {
        Some(wait) => outcome.again(wait),
        None => outcome.then(Write::delete::<Job>(key).propagation("Background").tolerating(404)),
    }
}

fn make_pod(job: &Job, index: Option<i32>, view: &View<'_>) -> Pod {
    let none = JobSpec::default();
    let spec = job.spec.as_ref().unwrap_or(&none);
    let base = job.metadata.name.as_deref().unwrap_or_default();
    let base = index.map_or_else(|| base.to_owned(), |index| format!("{base}-{index}"));
    let mut pod = pod_from(job, &spec.template, generated_name(&base, view.environment));
    pod.metadata.finalizers.get_or_insert_default().push(TRACKING.to_owned());
    if let Some(index) = index.filter(|_| is_indexed(spec)) {
        pod.metadata.annotations.get_or_insert_default().insert(INDEX.to_owned(), index.to_string());
        pod.metadata.labels.get_or_insert_default().insert(INDEX.to_owned(), index.to_string());
        if let Some(pod_spec) = &mut pod.spec {
            pod_spec.hostname = Some(base);
        }
    }
    pod
}

fn status(job: &Job, plan: &Plan<'_>, ends: Option<&End>, now: Timestamp) -> Value {
    let held = job.status.clone().unwrap_or_default();
    let is_suspended = job.spec.as_ref().and_then(|spec| spec.suspend) == Some(true);
    let started = held.start_time.as_ref().filter(|_| !is_suspended).map(|time| json!(time));
    let uids = |succeeded: bool| -> Value {
        let chosen = plan.uncounted.iter().filter(|(_, well)| *well == succeeded);
        let uids: Vec<&String> = chosen.map(|(uid, _)| uid).collect();
        if uids.is_empty() { Value::Null } else { json!(uids) }
    };
    let noted = held.uncounted_terminated_pods.clone().unwrap_or_default();
    let mut uncounted = json!({});
    for (name, list, was_there) in [
        ("succeeded", uids(true), noted.succeeded.is_some()),
        ("failed", uids(false), noted.failed.is_some()),
    ] {
        // A merge patch takes away only what it names.
        if was_there || !list.is_null() {
            uncounted[name] = list;
        }
    }
    let mut conditions = json!(held.conditions.clone().unwrap_or_default());
    let list = conditions.as_array_mut().expect("a list becomes a list");
    list.retain(|condition| condition["type"] != "Suspended" || is_suspended);
    let is_noted = list.iter().any(|condition| condition["type"] == "Suspended");
    let mut add = |type_: &str, reason: &str, message: &str| {
        list.push(json!({"type": type_, "status": "True", "reason": reason, "message": message,
            "lastProbeTime": time(now), "lastTransitionTime": time(now)}));
    };
    if is_suspended && !is_noted {
        add("Suspended", "JobSuspended", "Job suspended");
    }
    match ends {
        Some(End::Complete) => {
            let message = "Reached expected number of succeeded pods";
            add("SuccessCriteriaMet", "CompletionsReached", message);
            add("Complete", "CompletionsReached", message);
        }
        Some(End::Failed { reason, message }) => {
            add("FailureTarget", reason, message);
            add("Failed", reason, message);
        }
        None => {}
    }
    let is_complete = ends == Some(&End::Complete);
    json!({
        "startTime": if is_suspended { Value::Null } else { started.unwrap_or_else(|| time(now)) },
        "completionTime": if is_complete { time(now) } else { Value::Null },
        "active": plan.active,
        "ready": plan.ready,
        "succeeded": plan.succeeded,
        "failed": plan.failed,
        "terminating": plan.terminating,
        "completedIndexes": plan.completed_indexes,
        "uncountedTerminatedPods": uncounted,
        "conditions": if conditions == json!([]) { Value::Null } else { conditions },
    })
}
