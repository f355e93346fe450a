//! The scheduler as a controller: changes feed the engine, its decisions become writes.

use std::convert::Infallible;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass, VolumeAttachment};
use karpenter_runtime::{
    Caches, Change, Controller, Delta, Key, Outcome, Status, View, Wakes, Watches, Write,
};
use kube::Resource;
use serde_json::{Value, json};

use super::cluster::KnownPod;
use super::engine::{Decision, Scheduler};
use super::spread_defaults;
use super::volumes::SELECTED_NODE;
use crate::config::{DEFAULT_SCHEDULER, EventDetail, SchedulerConfig};
use crate::event::{About, Happening, event, time};
use crate::pod::{PodFacts, watch_pods};

const NAME: &str = "model-scheduler";
/// Pods decided about at a time, so that others have their turn.
const BATCH: usize = 500;

/// Places pods.
pub struct SchedulerModel {
    engine: Scheduler,
    events: EventDetail,
    /// Whether a profile has default constraints, so that it matters what selects pods.
    gives_constraints: bool,
}

impl SchedulerModel {
    /// Returns a scheduler that knows nothing yet.
    pub fn new(config: SchedulerConfig, events: EventDetail) -> Self {
        let gives_constraints = config.profiles.iter().any(|one| one.default_constraints.is_some());
        Self { engine: Scheduler::new(config), events, gives_constraints }
    }

    fn observe(&mut self, change: &Change, caches: &Caches) {
        let name = change.key().name();
        if let Some(delta) = change.of::<PodFacts>() {
            self.observe_pod(change.key(), &delta, caches);
        } else if let Some(delta) = change.of::<Node>() {
            match delta.new {
                Some(node) => {
                    self.engine.cluster_mut().set_node(node);
                }
                None => self.engine.cluster_mut().remove_node(name),
            }
        } else if let Some(delta) = change.of::<Namespace>() {
            let none = crate::selector::Labels::new();
            let labels = delta.new.map(|namespace| namespace.metadata.labels.as_ref().unwrap_or(&none));
            self.engine.cluster_mut().set_namespace(name, labels);
        } else if let Some(delta) = change.of::<PodDisruptionBudget>() {
            self.engine.set_budget(change.key().clone(), delta.new);
        } else if self.gives_constraints && spread_defaults::alters_selectors(change) {
            self.observe_selectors(change.key().namespace().unwrap_or_default(), caches);
        } else {
            self.observe_storage(change);
        }
    }

    fn observe_pod(&mut self, key: &Key, delta: &Delta<'_, PodFacts>, caches: &Caches) {
        match delta.new {
            None => self.engine.remove_pod(key),
            Some(pod) if delta.old.is_some_and(|old| is_same(old, pod)) => {}
            Some(pod) => self.set_pod(pod, caches),
        }
    }

    fn set_pod(&mut self, pod: &PodFacts, caches: &Caches) {
        let mut known = KnownPod::of(pod);
        let profile = self.engine.profile(&pod.template.spec);
        if let Some(constraints) = profile.and_then(|profile| profile.default_constraints.as_ref()) {
            known.demand = spread_defaults::demand(pod, constraints, caches);
        }
        let is_ours = !pod.is_gated && profile.is_some();
        self.engine.set_known_pod(&known, is_ours);
    }

    /// Takes in that the waiting pods of a namespace may be selected otherwise now.
    fn observe_selectors(&mut self, namespace: &str, caches: &Caches) {
        for pod in caches.of::<PodFacts>().in_namespace(namespace).filter(|pod| pod.node.is_none()) {
            self.set_pod(pod, caches);
        }
    }

    fn observe_storage(&mut self, change: &Change) {
        let name = change.key().name();
        self.engine.change_volumes(|cluster| {
            if let Some(delta) = change.of::<PersistentVolumeClaim>() {
                cluster.set_claim(change.key().clone(), delta.new)
            } else if let Some(delta) = change.of::<PersistentVolume>() {
                cluster.set_volume(name, delta.new)
            } else if let Some(delta) = change.of::<StorageClass>() {
                cluster.set_storage_class(name, delta.new)
            } else if let Some(delta) = change.of::<CSINode>() {
                cluster.set_csi_node(name, delta.new)
            } else if let Some(delta) = change.of::<VolumeAttachment>() {
                cluster.set_attachment(name, delta.new)
            } else {
                false
            }
        });
    }

    /// Turns a decision into what is done first and what is told about it afterwards.
    fn write(&self, decision: &Decision, view: &View<'_>, writes: &mut Vec<Write>, told: &mut Vec<Write>) {
        // Whoever is gone since then needs no place.
        let Some(placed) = view.caches.of::<PodFacts>().get(decision.pod()) else { return };
        let component = placed.template.spec.scheduler_name.as_deref().unwrap_or(DEFAULT_SCHEDULER);
        let mut tell = |key: &Key, uid: &str, happening: Happening<'_>| {
            if self.events.tells(happening.is_warning) {
                told.push(event(&About::new::<Pod>(key, uid), &happening, component, view));
            }
        };
        match decision {
            Decision::Bind { pod, uid, node } => {
                writes.push(Write::bind(pod, node).if_uid(uid));
                let message = format!("Successfully assigned {pod} to {node}");
                tell(pod, uid, Happening::normal("Scheduled", message));
            }
            Decision::Prepare { node, choice, .. } => {
                for claim in &choice.provision {
                    let patch = json!({"metadata": {"annotations": {SELECTED_NODE: node}}});
                    writes.push(Write::merge_patch::<PersistentVolumeClaim>(claim, patch));
                }
                for (claim, volume) in &choice.bind {
                    writes.extend(reserve(claim, volume, view));
                }
            }
            Decision::Refuse { pod, uid, message, nominated } => {
                if let Some(patch) = refusal(placed, message, nominated.as_deref(), view) {
                    writes.push(Write::strategic_patch::<Pod>(pod, patch).status().if_uid(uid));
                    tell(pod, uid, Happening::warning("FailedScheduling", message.clone()));
                }
            }
            Decision::Evict { victim, uid, node, .. } => {
                writes.push(
                    Write::strategic_patch::<Pod>(victim, disruption(component, view)).status().if_uid(uid),
                );
                writes.push(Write::delete::<Pod>(victim).if_uid(uid));
                let message = format!("Preempted by pod {} on node {node}", placed.uid());
                tell(victim, uid, Happening::normal("Preempted", message));
            }
        }
    }
}

impl Controller for SchedulerModel {
    type Request = Infallible;
    type Reply = Infallible;

    fn name(&self) -> &'static str {
        NAME
    }

    fn watches(&self, watches: &mut Watches) {
        watch_pods(watches);
        watches.add::<Node>();
        watches.add::<Namespace>();
        watches.add::<PodDisruptionBudget>();
        watches.add::<PersistentVolumeClaim>();
        watches.add::<PersistentVolume>();
        watches.add::<StorageClass>();
        watches.add::<CSINode>();
        watches.add::<VolumeAttachment>();
        if self.gives_constraints {
            spread_defaults::watch(watches);
        }
    }

    fn wake(&mut self, change: &Change, caches: &Caches, wakes: &mut Wakes) {
        self.observe(change, caches);
        wakes.wake(Key::everything());
    }

    fn reconcile(&mut self, _: &Key, view: &View<'_>) -> Outcome<Infallible> {
        let decisions = self.engine.decide(view.now, BATCH);
        let (mut writes, mut told) = (Vec::new(), Vec::new());
        for decision in &decisions {
            self.write(decision, view, &mut writes, &mut told);
        }
        // Whoever is gone or changed meanwhile is heard of soon; nothing is to be tried again at once.
        let writes = writes.into_iter().map(|write| write.tolerating(404).tolerating(409));
        let outcome = Outcome::done().then_all(writes).then_all(told);
        if self.engine.has_work() {
            return outcome.again(Duration::ZERO);
        }
        match self.engine.next_deadline() {
            Some(deadline) => {
                let wait = deadline.duration_since(view.now);
                outcome.again(Duration::try_from(wait).unwrap_or_default())
            }
            None => outcome,
        }
    }

    fn refused(&mut self, _: &Key, write: &Write, _: &Status, view: &View<'_>) {
        if write.subresource() == Some("binding") {
            self.engine.unbind(write.key(), view.now);
        }
    }
}

/// Returns whether nothing changed that the scheduler looks at.
fn is_same(old: &PodFacts, new: &PodFacts) -> bool {
    std::sync::Arc::ptr_eq(&old.template, &new.template)
        && std::sync::Arc::ptr_eq(&old.demand.spec, &new.demand.spec)
        && old.uid() == new.uid()
        && old.node == new.node
        && old.is_gated == new.is_gated
        && old.is_terminating() == new.is_terminating()
        && old.is_finished() == new.is_finished()
        && old.started == new.started
}

/// Returns the status of a pod that has no place, if that is news.
fn refusal(pod: &PodFacts, message: &str, nominated: Option<&str>, view: &View<'_>) -> Option<Value> {
    let is_known = pod.unscheduled_because.as_deref() == Some(message);
    if is_known && pod.nominated_node.as_deref() == nominated {
        return None;
    }
    let mut condition = json!({
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
        "lastProbeTime": null, "observedGeneration": pod.meta().generation,
    });
    if pod.unscheduled_because.is_none() {
        condition["lastTransitionTime"] = time(view.now);
    }
    let mut status = json!({"conditions": [condition]});
    if pod.nominated_node.as_deref() != nominated {
        status["nominatedNodeName"] = nominated.into();
    }
    Some(json!({"status": status}))
}

fn disruption(component: &str, view: &View<'_>) -> Value {
    let condition = json!({
        "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
        "message": format!("{component}: preempting to accommodate a higher priority pod"),
        "lastProbeTime": null, "lastTransitionTime": time(view.now),
    });
    json!({"status": {"conditions": [condition]}})
}

/// Gives a volume to a claim; the volume binder does the rest.
fn reserve(claim: &Key, volume: &str, view: &View<'_>) -> Option<Write> {
    let object = view.caches.of::<PersistentVolumeClaim>().get(claim)?;
    let reference = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": claim.namespace(), "name": claim.name(),
        "uid": object.metadata.uid, "resourceVersion": object.metadata.resource_version,
    });
    let patch = json!({
        "metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}},
        "spec": {"claimRef": reference},
    });
    Some(Write::merge_patch::<PersistentVolume>(&Key::cluster(volume), patch))
}
