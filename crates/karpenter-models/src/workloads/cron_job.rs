//! Cron jobs: jobs made when the clock says so.

mod schedule;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use karpenter_runtime::{Caches, Change, Controller, Key, Outcome, View, Wakes, Watches, Write};
use serde_json::{Value, json};

use super::pod_template::controller_reference;
use crate::config::EventDetail;
use crate::event::{About, Happening, event, time};
use crate::json::status_patch;
use schedule::Schedule;

const COMPONENT: &str = "cronjob-controller";
const SCHEDULED_AT: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";
/// Runs missed before this long are not made up for.
const LOOK_BACK: SignedDuration = SignedDuration::from_hours(24);

/// Runs cron jobs.
pub struct CronJobs {
    events: EventDetail,
    /// Jobs by the uid of their cron job.
    jobs: BTreeMap<String, BTreeSet<Key>>,
}

impl CronJobs {
    /// Returns a controller that has made nothing.
    pub fn new(events: EventDetail) -> Self {
        Self { events, jobs: BTreeMap::new() }
    }

    fn start(&self, cron: &CronJob, due: Timestamp, active: &[&Job], view: &View<'_>) -> Outcome<Infallible> {
        let policy = cron.spec.concurrency_policy.as_deref();
        let about = About::object(cron);
        let tell = |happening: &Happening<'_>| {
            self.events.tells(happening.is_warning).then(|| event(&about, happening, COMPONENT, view))
        };
        if policy == Some("Forbid") && !active.is_empty() {
            let message =
                "Not starting job because prior execution is running and concurrency policy is Forbid";
            return Outcome::done()
                .then_all(tell(&Happening::normal("JobAlreadyActive", message.to_owned())));
        }
        let replaced: Vec<Write> = if policy == Some("Replace") {
            let doomed = active.iter();
            doomed
                .map(|job| Write::delete::<Job>(&Key::of(*job)).propagation("Background").tolerating(404))
                .collect()
        } else {
            Vec::new()
        };
        let job = job_of(cron, due);
        let name = job.metadata.name.clone().unwrap_or_default();
        let told = tell(&Happening::normal("SuccessfulCreate", format!("Created job {name}")));
        Outcome::done().then_all(replaced).then(Write::create(&job).tolerating(409)).then_all(told)
    }
}

impl Controller for CronJobs {
    type Request = Infallible;
    type Reply = Infallible;

    fn name(&self) -> &'static str {
        "model-cron-jobs"
    }

    fn watches(&self, watches: &mut Watches) {
        watches.add::<CronJob>();
        watches.add::<Job>();
    }

    fn wake(&mut self, change: &Change, _: &Caches, wakes: &mut Wakes) {
        let Some(delta) = change.of::<Job>() else {
            wakes.wake(change.key().clone());
            return;
        };
        let owners = delta.latest().metadata.owner_references.iter().flatten();
        for owner in owners.filter(|owner| owner.kind == "CronJob" && owner.controller == Some(true)) {
            wakes.wake(Key::namespaced(change.key().namespace().unwrap_or_default(), &owner.name));
            let jobs = self.jobs.entry(owner.uid.clone()).or_default();
            if delta.new.is_some() {
                jobs.insert(change.key().clone());
            } else {
                jobs.remove(change.key());
                if jobs.is_empty() {
                    self.jobs.remove(&owner.uid);
                }
            }
        }
    }

    fn reconcile(&mut self, key: &Key, view: &View<'_>) -> Outcome<Infallible> {
        let Some(cron) = view.caches.of::<CronJob>().get(key) else { return Outcome::done() };
        if cron.metadata.deletion_timestamp.is_some() {
            return Outcome::done();
        }
        let spec = &cron.spec;
        let uid = cron.metadata.uid.as_deref().unwrap_or_default();
        let cache = view.caches.of::<Job>();
        let jobs: Vec<&Job> = self
            .jobs
            .get(uid)
            .into_iter()
            .flatten()
            .filter_map(|key| cache.get(key))
            .map(|job| &**job)
            .collect();
        let active: Vec<&Job> = jobs.iter().copied().filter(|job| ended(job).is_none()).collect();
        let zone =
            spec.time_zone.as_deref().and_then(|name| TimeZone::get(name).ok()).unwrap_or(TimeZone::UTC);
        let schedule = Schedule::parse(&spec.schedule).filter(|_| spec.suspend != Some(true));
        let due = schedule.as_ref().and_then(|schedule| last_due(cron, schedule, &zone, view.now));
        let mut outcome = Outcome::done();
        if let Some(due) = due {
            outcome.stages.extend(self.start(cron, due, &active, view).stages);
        }
        outcome = outcome.then_all(beyond_history(cron, &jobs));
        let patch = status_patch(cron.status.as_ref(), status(cron, &jobs, &active, due), &[]);
        outcome = outcome
            .then_all(patch.map(|patch| Write::merge_patch::<CronJob>(key, patch).status().tolerating(404)));
        let next = schedule.and_then(|schedule| schedule.next_after(view.now, &zone));
        match next.and_then(|next| Duration::try_from(next.duration_since(view.now)).ok()) {
            Some(wait) => outcome.again(wait),
            None => outcome,
        }
    }
}

/// Returns the latest time that has come and was not acted on.
fn last_due(cron: &CronJob, schedule: &Schedule, zone: &TimeZone, now: Timestamp) -> Option<Timestamp> {
    let last = cron.status.as_ref().and_then(|status| status.last_schedule_time.as_ref()).map(|time| time.0);
    let created = cron.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
    let deadline = cron.spec.starting_deadline_seconds;
    let patience = deadline.map_or(LOOK_BACK, SignedDuration::from_secs).min(LOOK_BACK);
    let mut time = last.unwrap_or(created).max(now.saturating_sub(patience).unwrap_or(Timestamp::MIN));
    let mut due = None;
    while let Some(next) = schedule.next_after(time, zone).filter(|next| *next <= now) {
        due = Some(next);
        time = next;
    }
    due
}

fn job_of(cron: &CronJob, due: Timestamp) -> Job {
    let name = cron.metadata.name.as_deref().unwrap_or_default();
    let template = cron.spec.job_template.clone();
    let meta = template.metadata.unwrap_or_default();
    let mut annotations = meta.annotations.unwrap_or_default();
    annotations.insert(SCHEDULED_AT.to_owned(), karpenter_environment::format_time(due));
    Job {
        metadata: ObjectMeta {
            // The same time gives the same name, so that a job is made once.
            name: Some(format!("{name}-{}", due.as_second() / 60)),
            namespace: cron.metadata.namespace.clone(),
            labels: meta.labels,
            annotations: Some(annotations),
            owner_references: Some(vec![controller_reference(cron)]),
            ..ObjectMeta::default()
        },
        spec: template.spec,
        status: None,
    }
}

/// Returns whether a job succeeded and when, once it has ended.
fn ended(job: &Job) -> Option<(bool, Timestamp)> {
    let mut conditions = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let end = conditions.find(|condition| {
        matches!(condition.type_.as_str(), "Complete" | "Failed") && condition.status == "True"
    })?;
    let at = end.last_transition_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    Some((end.type_ == "Complete", at))
}

/// Returns writes that delete old jobs beyond what is kept.
fn beyond_history(cron: &CronJob, jobs: &[&Job]) -> Vec<Write> {
    let limits = [
        (true, cron.spec.successful_jobs_history_limit.unwrap_or(3)),
        (false, cron.spec.failed_jobs_history_limit.unwrap_or(1)),
    ];
    let mut writes = Vec::new();
    for (succeeded, limit) in limits {
        let mut past: Vec<(Timestamp, &&Job)> = jobs
            .iter()
            .filter(|job| job.metadata.deletion_timestamp.is_none())
            .filter_map(|job| ended(job).filter(|(well, _)| *well == succeeded).map(|(_, at)| (at, job)))
            .collect();
        past.sort_by_key(|(at, job)| (*at, job.metadata.name.clone()));
        let excess = past.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
        writes.extend(
            past[..excess].iter().map(|(_, job)| {
                Write::delete::<Job>(&Key::of(**job)).propagation("Background").tolerating(404)
            }),
        );
    }
    writes
}

fn status(cron: &CronJob, jobs: &[&Job], active: &[&Job], due: Option<Timestamp>) -> Value {
    let held = cron.status.clone().unwrap_or_default();
    let succeeded =
        jobs.iter().filter_map(|job| ended(job)).filter(|(well, _)| *well).map(|(_, at)| at).max();
    let active: Vec<Value> = active
        .iter()
        .map(|job| {
            json!({"apiVersion": "batch/v1", "kind": "Job", "namespace": job.metadata.namespace,
                "name": job.metadata.name, "uid": job.metadata.uid})
        })
        .collect();
    json!({
        "active": if active.is_empty() { Value::Null } else { active.into() },
        "lastScheduleTime": due.map_or_else(|| json!(held.last_schedule_time), time),
        "lastSuccessfulTime": succeeded.map_or_else(|| json!(held.last_successful_time), time),
    })
}
