//! Replica sets: so many pods of a template.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use karpenter_runtime::{
    Caches, Change, Controller, Key, Outcome, Status, View, Wakes, Watches, Write, WriteKind,
};
use serde_json::{Value, json};

use super::pod_template::{adopt, generated_name, pod_from, release};
use super::scale_down::least_missed;
use crate::config::EventDetail;
use crate::event::{About, Happening, event, time};
use crate::index::PodsByOwner;
use crate::json::status_patch;
use crate::pod::{PodFacts, watch_pods};
use crate::selector::Selector;

const KIND: &str = "ReplicaSet";
const COMPONENT: &str = "replicaset-controller";
/// Pods made or deleted at a time.
const BURST: usize = 500;

type Pods<'a> = Vec<(&'a Key, &'a PodFacts)>;

/// Keeps replica sets at their size.
pub struct ReplicaSets {
    events: EventDetail,
    pods: PodsByOwner,
    /// Why the pods of a set could not be made.
    failures: BTreeMap<Key, String>,
}

impl ReplicaSets {
    /// Returns a controller that has made nothing.
    pub fn new(events: EventDetail) -> Self {
        Self { events, pods: PodsByOwner::default(), failures: BTreeMap::new() }
    }

    /// Changes the number of pods towards what is wanted.
    fn resize(&self, set: &ReplicaSet, active: &Pods<'_>, view: &View<'_>) -> Outcome<Infallible> {
        let wanted = usize::try_from(replicas(set)).unwrap_or(0);
        let (mut writes, mut told) = (Vec::new(), Vec::new());
        let about = About::object(set);
        let mut tell = |happening: Happening<'_>| {
            if self.events.tells(happening.is_warning) {
                told.push(event(&about, &happening, COMPONENT, view));
            }
        };
        if let Some(template) = set.spec.as_ref().and_then(|spec| spec.template.as_ref()) {
            for _ in active.len()..wanted.min(active.len() + BURST) {
                let base = set.metadata.name.as_deref().unwrap_or_default();
                let name = generated_name(base, view.environment);
                tell(Happening::normal("SuccessfulCreate", format!("Created pod: {name}")));
                writes.push(Write::create(&pod_from(set, template, name)));
            }
        }
        let excess = active.len().saturating_sub(wanted).min(BURST);
        for (key, pod) in least_missed(active, excess, view.now) {
            tell(Happening::normal("SuccessfulDelete", format!("Deleted pod: {}", key.name())));
            writes.push(Write::delete::<Pod>(key).if_uid(pod.uid()).tolerating(404).tolerating(409));
        }
        Outcome::done().then_all(writes).then_all(told)
    }
}

impl Controller for ReplicaSets {
    type Request = Infallible;
    type Reply = Infallible;

    fn name(&self) -> &'static str {
        "model-replica-sets"
    }

    fn watches(&self, watches: &mut Watches) {
        watches.add::<ReplicaSet>();
        watch_pods(watches);
    }

    fn wake(&mut self, change: &Change, caches: &Caches, wakes: &mut Wakes) {
        let Some(delta) = change.of::<PodFacts>() else {
            wakes.wake(change.key().clone());
            return;
        };
        if let Some(orphan) = self.pods.observe(change.key(), &delta, KIND, wakes) {
            let namespace = change.key().namespace().unwrap_or_default();
            let labels = orphan.labels();
            for set in caches.of::<ReplicaSet>().in_namespace(namespace) {
                if selector(set).matches(&labels) {
                    wakes.wake(Key::of(&**set));
                }
            }
        }
    }

    fn reconcile(&mut self, key: &Key, view: &View<'_>) -> Outcome<Infallible> {
        let Some(set) = view.caches.of::<ReplicaSet>().get(key) else {
            self.failures.remove(key);
            return Outcome::done();
        };
        let selector = selector(set);
        let uid = set.metadata.uid.as_deref().unwrap_or_default();
        let is_going = set.metadata.deletion_timestamp.is_some();
        let (kept, strays): (Pods<'_>, Pods<'_>) =
            self.pods.of(uid, view.caches).into_iter().partition(|(_, pod)| selector.matches(&pod.labels()));
        let orphans = self.pods.orphans(key.namespace().unwrap_or_default(), view.caches);
        let adoptable = orphans
            .into_iter()
            .filter(|(_, pod)| !is_going && pod.is_active() && selector.matches(&pod.labels()));
        let claims: Vec<Write> = adoptable
            .map(|(key, pod)| adopt(&**set, key, pod))
            .chain(strays.into_iter().map(|(key, pod)| release(&**set, key, pod)))
            .collect();
        if !claims.is_empty() {
            return Outcome::done().then_all(claims);
        }
        let active: Pods<'_> = kept.iter().copied().filter(|(_, pod)| pod.is_active()).collect();
        let terminating = kept.iter().filter(|(_, pod)| pod.is_terminating() && !pod.is_finished()).count();
        let status = status(set, &active, terminating, self.failures.get(key), view.now);
        let patch = status.map(|patch| Write::merge_patch::<ReplicaSet>(key, patch).status().tolerating(404));
        let wait = next_available(set, &active, view.now);
        let mut outcome = Outcome::done().then_all(patch);
        if !is_going && active.len() != usize::try_from(replicas(set)).unwrap_or(0) {
            outcome.stages.extend(self.resize(set, &active, view).stages);
        } else {
            self.failures.remove(key);
        }
        match wait {
            Some(wait) => outcome.again(wait),
            None => outcome,
        }
    }

    fn refused(&mut self, key: &Key, write: &Write, status: &Status, _: &View<'_>) {
        if write.kind() == WriteKind::Create && write.body()["kind"] == "Pod" {
            self.failures.insert(key.clone(), status.message.clone());
        }
    }
}

fn selector(set: &ReplicaSet) -> Selector {
    Selector::new(set.spec.as_ref().map(|spec| &spec.selector))
}

fn replicas(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

fn min_ready_seconds(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0)
}

/// Returns the status as it should be, if it is not so already.
fn status(
    set: &ReplicaSet,
    active: &Pods<'_>,
    terminating: usize,
    failure: Option<&String>,
    now: Timestamp,
) -> Option<Value> {
    let template =
        set.spec.as_ref().and_then(|spec| spec.template.as_ref()?.metadata.as_ref()?.labels.as_ref());
    let is_labelled = |pod: &PodFacts| {
        template.into_iter().flatten().all(|(key, value)| pod.label(key) == Some(value.as_str()))
    };
    let count = |test: &dyn Fn(&PodFacts) -> bool| active.iter().filter(|(_, pod)| test(pod)).count();
    let condition = |message: &String| {
        let held = set.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let same = held
            .into_iter()
            .find(|held| held.type_ == "ReplicaFailure" && held.message.as_ref() == Some(message));
        same.map_or_else(
            || {
                json!({"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message,
                    "lastTransitionTime": time(now)})
            },
            |same| json!(same),
        )
    };
    let wanted = json!({
        "replicas": active.len(),
        "fullyLabeledReplicas": count(&is_labelled),
        "readyReplicas": count(&|pod| pod.is_ready()),
        "availableReplicas": count(&|pod| pod.is_available(min_ready_seconds(set), now)),
        "terminatingReplicas": terminating,
        "observedGeneration": set.metadata.generation,
        "conditions": failure.map(|message| [condition(message)]),
    });
    status_patch(set.status.as_ref(), wanted, &["replicas", "terminatingReplicas"])
}

/// Returns when the next ready pod counts as available.
fn next_available(set: &ReplicaSet, active: &Pods<'_>, now: Timestamp) -> Option<Duration> {
    let patience = SignedDuration::from_secs(i64::from(min_ready_seconds(set)));
    let waits = active
        .iter()
        .filter_map(|(_, pod)| pod.ready_since)
        .map(|since| patience - now.duration_since(since));
    waits.filter(SignedDuration::is_positive).min().and_then(|wait| Duration::try_from(wait).ok())
}
