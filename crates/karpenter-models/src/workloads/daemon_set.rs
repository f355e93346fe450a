//! Daemon sets: one pod on every node that suits.

mod placement;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use k8s_openapi::api::core::v1::{Node, Pod, PodTemplateSpec};
use karpenter_runtime::{Caches, Change, Controller, Key, Outcome, View, Wakes, Watches, Write};
use serde_json::{Value, json};

use super::deployment::{Rounding, resolve};
use super::pod_template::{generated_name, pod_from};
use super::revisions::{History, REVISION_HASH, wake_owner};
use crate::config::EventDetail;
use crate::event::{About, Happening, event};
use crate::index::PodsByOwner;
use crate::json::status_patch;
use crate::pod::{Phase, PodFacts, watch_pods};
use placement::{Daemon, Fit, pinned_spec};

const KIND: &str = "DaemonSet";
const COMPONENT: &str = "daemonset-controller";
/// Changes of many nodes within this time are looked at together.
const GATHERED: Duration = Duration::from_millis(100);
/// Pods made or deleted at a time.
const BURST: usize = 250;

type NodePods<'a> = BTreeMap<&'a str, Vec<(&'a Key, &'a PodFacts)>>;

/// Runs daemon sets.
pub struct DaemonSets {
    events: EventDetail,
    pods: PodsByOwner,
}

impl DaemonSets {
    /// Returns a controller that has made nothing.
    pub fn new(events: EventDetail) -> Self {
        Self { events, pods: PodsByOwner::default() }
    }

    fn write(
        &self,
        set: &DaemonSet,
        plan: &Plan<'_>,
        template: &PodTemplateSpec,
        hash: &str,
        view: &View<'_>,
    ) -> Outcome<Infallible> {
        let (mut writes, mut told) = (Vec::new(), Vec::new());
        let about = About::object(set);
        let mut tell = |reason: &str, message: String| {
            if self.events.tells(false) {
                told.push(event(&about, &Happening::normal(reason, message), COMPONENT, view));
            }
        };
        for node in plan.create.iter().take(BURST) {
            let name = generated_name(set.metadata.name.as_deref().unwrap_or_default(), view.environment);
            tell("SuccessfulCreate", format!("Created pod: {name}"));
            let mut pod = pod_from(set, template, name);
            let labels = pod.metadata.labels.get_or_insert_default();
            labels.insert(REVISION_HASH.to_owned(), hash.to_owned());
            labels.insert(
                "pod-template-generation".to_owned(),
                set.metadata.generation.unwrap_or(1).to_string(),
            );
            pod.spec = pod.spec.map(|spec| pinned_spec(spec, node));
            writes.push(Write::create(&pod));
        }
        for (key, pod) in plan.delete.iter().take(BURST) {
            tell("SuccessfulDelete", format!("Deleted pod: {}", key.name()));
            writes.push(Write::delete::<Pod>(key).if_uid(pod.uid()).tolerating(404).tolerating(409));
        }
        Outcome::done().then_all(writes).then_all(told)
    }
}

impl Controller for DaemonSets {
    type Request = Infallible;
    type Reply = Infallible;

    fn name(&self) -> &'static str {
        "model-daemon-sets"
    }

    fn watches(&self, watches: &mut Watches) {
        watches.add::<DaemonSet>();
        watches.add::<ControllerRevision>();
        watches.add::<Node>();
        watch_pods(watches);
    }

    fn wake(&mut self, change: &Change, caches: &Caches, wakes: &mut Wakes) {
        if let Some(delta) = change.of::<PodFacts>() {
            self.pods.observe(change.key(), &delta, KIND, wakes);
        } else if let Some(delta) = change.of::<Node>() {
            if delta.old.map(placement::facts) != delta.new.map(placement::facts) {
                let sets = caches.of::<DaemonSet>().iter();
                sets.for_each(|(key, _)| wakes.wake_after(key.clone(), GATHERED));
            }
        } else if change.of::<DaemonSet>().is_some() {
            wakes.wake(change.key().clone());
        } else {
            wake_owner(change, KIND, wakes);
        }
    }

    fn reconcile(&mut self, key: &Key, view: &View<'_>) -> Outcome<Infallible> {
        let Some(set) = view.caches.of::<DaemonSet>().get(key) else { return Outcome::done() };
        let Some(spec) = set.spec.as_ref().filter(|_| set.metadata.deletion_timestamp.is_none()) else {
            return Outcome::done();
        };
        let history = History::read(&**set, &spec.template, view.caches);
        let labels = spec.selector.match_labels.clone().unwrap_or_default();
        if let Some(write) = history.record(&**set, &spec.template, &labels) {
            return Outcome::done().then(write);
        }
        let uid = set.metadata.uid.as_deref().unwrap_or_default();
        let pods = self.pods.of(uid, view.caches);
        let nodes = view.caches.of::<Node>();
        let mut by_node: NodePods<'_> = BTreeMap::new();
        for (key, pod) in pods {
            let node = pod.node.as_deref().or(pod.demand.pin.as_deref()).unwrap_or_default();
            by_node.entry(node).or_default().push((key, pod));
        }
        let mut plan = Plan::default();
        let daemon = Daemon::new(spec.template.spec.as_ref());
        let mut eligible = BTreeSet::new();
        for (node_key, node) in nodes.iter() {
            let fit = daemon.fit(node);
            if fit == Fit::Run {
                eligible.insert(node_key.name());
            }
            let here = by_node.get(node_key.name()).map(Vec::as_slice).unwrap_or_default();
            plan.look_at(node_key.name(), fit, here);
        }
        if plan.create.is_empty() && plan.delete.is_empty() {
            plan.update(spec.update_strategy.as_ref(), &eligible, &by_node, &history.hash, view.now);
        }
        let mut outcome = self.write(set, &plan, &spec.template, &history.hash, view);
        let is_live = |_: &str, hash: &str| {
            by_node.values().flatten().any(|(_, pod)| pod.label(REVISION_HASH) == Some(hash))
        };
        outcome = outcome.then_all(history.trim(spec.revision_history_limit, is_live));
        let wanted = status(set, &eligible, &by_node, &history.hash, view.now);
        let kept = ["currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"];
        let patch = status_patch(set.status.as_ref(), wanted, &kept);
        outcome
            .then_all(patch.map(|patch| Write::merge_patch::<DaemonSet>(key, patch).status().tolerating(404)))
    }
}

/// What is to be made and deleted.
#[derive(Default)]
struct Plan<'a> {
    create: Vec<String>,
    delete: Vec<(&'a Key, &'a PodFacts)>,
}

impl<'a> Plan<'a> {
    /// One pod runs where it should, none where it should not; failed ones are replaced.
    fn look_at(&mut self, node: &str, fit: Fit, here: &[(&'a Key, &'a PodFacts)]) {
        let present: Vec<&(&Key, &PodFacts)> = here.iter().filter(|(_, pod)| !pod.is_terminating()).collect();
        let (failed, mut running): (Vec<_>, Vec<_>) =
            present.into_iter().partition(|(_, pod)| pod.phase == Phase::Failed);
        match fit {
            Fit::Run => {
                self.delete.extend(failed.iter().copied().copied());
                // A pod on its way out keeps its place until it is gone.
                if running.is_empty()
                    && failed.is_empty()
                    && here.iter().all(|(_, pod)| !pod.is_terminating())
                {
                    self.create.push(node.to_owned());
                }
                running.sort_by_key(|(key, pod)| (!pod.is_ready(), pod.created(), key.name().to_owned()));
                self.delete.extend(running.iter().skip(1).copied().copied());
            }
            Fit::Stay => self.delete.extend(failed.iter().copied().copied()),
            Fit::Leave => self.delete.extend(failed.iter().chain(&running).copied().copied()),
        }
    }

    /// Replaces pods of old templates, a few at a time.
    fn update(
        &mut self,
        strategy: Option<&k8s_openapi::api::apps::v1::DaemonSetUpdateStrategy>,
        eligible: &BTreeSet<&str>,
        by_node: &NodePods<'a>,
        hash: &str,
        now: Timestamp,
    ) {
        if strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("OnDelete") {
            return;
        }
        let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
        let total = i32::try_from(eligible.len()).unwrap_or(i32::MAX);
        let most = rolling.and_then(|rolling| rolling.max_unavailable.as_ref());
        let most = most.map_or(1, |most| resolve(Some(most), total, Rounding::Up).max(1));
        let mut unavailable = 0;
        let mut outdated = Vec::new();
        for node in eligible {
            let pods = by_node.get(node).into_iter().flatten();
            let Some((key, pod)) = pods.into_iter().find(|(_, pod)| !pod.is_terminating()) else {
                unavailable += 1;
                continue;
            };
            let is_available = pod.is_available(0, now);
            let is_outdated = pod.label(REVISION_HASH) != Some(hash);
            match (is_outdated, is_available) {
                // What does not work anyway costs nothing to replace.
                (true, false) => self.delete.push((key, pod)),
                (true, true) => outdated.push((*key, *pod)),
                (false, false) => unavailable += 1,
                (false, true) => {}
            }
        }
        let down = unavailable + i32::try_from(self.delete.len()).unwrap_or(i32::MAX);
        let allowed = usize::try_from(most - down).unwrap_or(0);
        self.delete.extend(outdated.into_iter().take(allowed));
    }
}

fn status(
    set: &DaemonSet,
    eligible: &BTreeSet<&str>,
    by_node: &NodePods<'_>,
    hash: &str,
    now: Timestamp,
) -> Value {
    let min_ready = set.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0);
    let (mut scheduled, mut misplaced, mut ready, mut available, mut updated) = (0, 0, 0, 0, 0);
    for (node, pods) in by_node {
        let alive: Vec<_> = pods.iter().filter(|(_, pod)| pod.is_active()).collect();
        if alive.is_empty() {
            continue;
        }
        if !eligible.contains(node) {
            misplaced += 1;
            continue;
        }
        scheduled += 1;
        ready += i32::from(alive.iter().any(|(_, pod)| pod.is_ready()));
        available += i32::from(alive.iter().any(|(_, pod)| pod.is_available(min_ready, now)));
        updated += i32::from(alive.iter().any(|(_, pod)| pod.label(REVISION_HASH) == Some(hash)));
    }
    let desired = i32::try_from(eligible.len()).unwrap_or(i32::MAX);
    json!({
        "currentNumberScheduled": scheduled, "numberMisscheduled": misplaced, "desiredNumberScheduled": desired,
        "numberReady": ready, "numberAvailable": available, "numberUnavailable": (desired - available).max(0),
        "updatedNumberScheduled": updated, "observedGeneration": set.metadata.generation,
    })
}
