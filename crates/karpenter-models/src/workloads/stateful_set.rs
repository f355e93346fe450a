//! Stateful sets: pods with names and volumes that stay, made and replaced in order.

mod identity;
mod plan;

use std::convert::Infallible;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet, StatefulSetSpec};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use karpenter_runtime::{Caches, Change, Controller, Key, Outcome, View, Wakes, Watches, Write};
use serde_json::{Value, json};

use super::pod_template::adopt;
use super::revisions::{History, REVISION_HASH, wake_owner};
use crate::config::EventDetail;
use crate::event::{About, Happening, event};
use crate::index::PodsByOwner;
use crate::json::status_patch;
use crate::pod::{PodFacts, watch_pods};
use crate::selector::Selector;
use identity::{claims_of, ordinal_of, pod_of};
use plan::{Act, Member, Rules, next_acts};

const KIND: &str = "StatefulSet";
const COMPONENT: &str = "statefulset-controller";

/// Runs stateful sets.
pub struct StatefulSets {
    events: EventDetail,
    pods: PodsByOwner,
}

impl StatefulSets {
    /// Returns a controller that has made nothing.
    pub fn new(events: EventDetail) -> Self {
        Self { events, pods: PodsByOwner::default() }
    }

    fn perform(
        &self,
        set: &StatefulSet,
        acts: &[Act],
        members: &[Member<'_>],
        history: &History<'_>,
        view: &View<'_>,
    ) -> Outcome<Infallible> {
        let about = About::object(set);
        let set_name = set.metadata.name.as_deref().unwrap_or_default();
        let (mut claims, mut writes, mut told) = (Vec::new(), Vec::new(), Vec::new());
        let mut tell = |reason: &str, message: String| {
            if self.events.tells(false) {
                told.push(event(&about, &Happening::normal(reason, message), COMPONENT, view));
            }
        };
        for act in acts {
            match act {
                Act::Create { ordinal, is_updated } => {
                    let revision =
                        if *is_updated { history.name.as_str() } else { current_revision(set, history) };
                    let pod = pod_of(set, *ordinal, revision, history);
                    for (_, claim) in claims_of(set, *ordinal) {
                        if view.caches.of::<PersistentVolumeClaim>().get(&Key::of(&claim)).is_none() {
                            claims.push(Write::create(&claim).tolerating(409));
                        }
                    }
                    let name = pod.metadata.name.clone().unwrap_or_default();
                    tell(
                        "SuccessfulCreate",
                        format!("create Pod {name} in StatefulSet {set_name} successful"),
                    );
                    writes.push(Write::create(&pod).tolerating(409));
                }
                Act::Delete { ordinal } => {
                    for member in members.iter().filter(|member| member.ordinal == *ordinal) {
                        let name = member.key.name();
                        tell(
                            "SuccessfulDelete",
                            format!("delete Pod {name} in StatefulSet {set_name} successful"),
                        );
                        let delete = Write::delete::<Pod>(member.key).if_uid(member.pod.uid());
                        writes.push(delete.tolerating(404).tolerating(409));
                    }
                }
            }
        }
        Outcome::done().then_all(claims).then_all(writes).then_all(told)
    }
}

impl Controller for StatefulSets {
    type Request = Infallible;
    type Reply = Infallible;

    fn name(&self) -> &'static str {
        "model-stateful-sets"
    }

    fn watches(&self, watches: &mut Watches) {
        watches.add::<StatefulSet>();
        watches.add::<ControllerRevision>();
        watches.add::<PersistentVolumeClaim>();
        watch_pods(watches);
    }

    fn wake(&mut self, change: &Change, caches: &Caches, wakes: &mut Wakes) {
        if let Some(delta) = change.of::<PodFacts>() {
            let orphan = self.pods.observe(change.key(), &delta, KIND, wakes);
            if let Some((name, _)) = orphan.and_then(|pod| pod.name().rsplit_once('-')) {
                let owner = Key::namespaced(change.key().namespace().unwrap_or_default(), name);
                if caches.of::<StatefulSet>().get(&owner).is_some() {
                    wakes.wake(owner);
                }
            }
        } else if change.of::<StatefulSet>().is_some() {
            wakes.wake(change.key().clone());
        } else {
            wake_owner(change, KIND, wakes);
        }
    }

    fn reconcile(&mut self, key: &Key, view: &View<'_>) -> Outcome<Infallible> {
        let Some(set) = view.caches.of::<StatefulSet>().get(key) else { return Outcome::done() };
        let Some(spec) = set.spec.as_ref().filter(|_| set.metadata.deletion_timestamp.is_none()) else {
            return Outcome::done();
        };
        let selector = Selector::new(Some(&spec.selector));
        let orphans = self.pods.orphans(key.namespace().unwrap_or_default(), view.caches).into_iter();
        let adoptions: Vec<Write> = orphans
            .filter(|(pod_key, pod)| {
                ordinal_of(key.name(), pod_key.name()).is_some()
                    && pod.is_active()
                    && selector.matches(&pod.labels())
            })
            .map(|(pod_key, pod)| adopt(&**set, pod_key, pod))
            .collect();
        if !adoptions.is_empty() {
            return Outcome::done().then_all(adoptions);
        }
        let history = History::read(&**set, &spec.template, view.caches);
        let labels = spec.selector.match_labels.clone().unwrap_or_default();
        if let Some(write) = history.record(&**set, &spec.template, &labels) {
            return Outcome::done().then(write);
        }
        let uid = set.metadata.uid.as_deref().unwrap_or_default();
        let pods = self.pods.of(uid, view.caches);
        let members: Vec<Member<'_>> = pods
            .iter()
            .filter_map(|(pod_key, pod)| {
                let ordinal = ordinal_of(key.name(), pod_key.name())?;
                Some(Member {
                    ordinal,
                    key: pod_key,
                    pod,
                    is_updated: pod.label(REVISION_HASH) == Some(&history.name),
                })
            })
            .collect();
        let acts = next_acts(&rules(spec), &members, view.now);
        let mut outcome = self.perform(set, &acts, &members, &history, view);
        let current = current_revision(set, &history).to_owned();
        let is_live = |name: &str, _: &str| {
            name == current || members.iter().any(|member| member.pod.label(REVISION_HASH) == Some(name))
        };
        outcome = outcome.then_all(history.trim(spec.revision_history_limit, is_live));
        let wanted = status(set, &members, &history, view.now);
        let patch =
            status_patch(set.status.as_ref(), wanted, &["replicas", "availableReplicas", "collisionCount"]);
        outcome.then_all(
            patch.map(|patch| Write::merge_patch::<StatefulSet>(key, patch).status().tolerating(404)),
        )
    }
}

fn rules(spec: &StatefulSetSpec) -> Rules {
    let strategy = spec.update_strategy.as_ref();
    let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
    Rules {
        first: spec.ordinals.as_ref().and_then(|ordinals| ordinals.start).unwrap_or(0),
        replicas: spec.replicas.unwrap_or(1),
        is_parallel: spec.pod_management_policy.as_deref() == Some("Parallel"),
        updates: strategy.and_then(|strategy| strategy.type_.as_deref()) != Some("OnDelete"),
        partition: rolling.and_then(|rolling| rolling.partition).unwrap_or(0),
        min_ready_seconds: spec.min_ready_seconds.unwrap_or(0),
    }
}

/// Returns the revision pods are of until the update reaches them.
fn current_revision<'a>(set: &'a StatefulSet, history: &'a History<'_>) -> &'a str {
    let held = set.status.as_ref().and_then(|status| status.current_revision.as_deref());
    held.filter(|held| !held.is_empty()).unwrap_or(&history.name)
}

fn status(set: &StatefulSet, members: &[Member<'_>], history: &History<'_>, now: Timestamp) -> Value {
    let spec = set.spec.clone().unwrap_or_default();
    let (wanted, min_ready) = (spec.replicas.unwrap_or(1), spec.min_ready_seconds.unwrap_or(0));
    let count = |test: &dyn Fn(&Member<'_>) -> bool| {
        let alive = members.iter().filter(|member| !member.pod.is_finished());
        i32::try_from(alive.filter(|member| test(member)).count()).unwrap_or(i32::MAX)
    };
    let stays = |member: &Member<'_>| !member.pod.is_terminating();
    let updated = count(&|member| member.is_updated && stays(member));
    let ready = count(&|member| member.pod.is_ready());
    let current = current_revision(set, history);
    // Once every pod is of the new revision and ready, that is the current one.
    let is_done = updated == wanted && ready == wanted && count(&|_| true) == wanted;
    let is_rolling =
        spec.update_strategy.as_ref().and_then(|strategy| strategy.type_.as_deref()) != Some("OnDelete");
    let current = if is_done && is_rolling { history.name.as_str() } else { current };
    json!({
        "replicas": count(&|_| true),
        "readyReplicas": ready,
        "availableReplicas": count(&|member| member.pod.is_available(min_ready, now)),
        "currentReplicas": count(&|member| member.pod.label(REVISION_HASH) == Some(current) && stays(member)),
        "updatedReplicas": updated,
        "currentRevision": current,
        "updateRevision": history.name,
        "collisionCount": 0,
        "observedGeneration": set.metadata.generation,
    })
}
