//! Runs the pods that are bound to nodes of the model.

use std::collections::BTreeSet;
use std::convert::Infallible;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::{CSIDriver, VolumeAttachment};
use karpenter_runtime::{Caches, Change, Controller, Key, Outcome, View, Wakes, Watches, Write};
use serde_json::Value;

use super::pod_life::{Step, next_step};
use super::{Health, health, pod_status};
use crate::config::{EventDetail, KubeletConfig};
use crate::event::{About, Happening, event};
use crate::index::PodsByNode;
use crate::pod::{Phase, PodFacts, watch_pods};

const COMPONENT: &str = "kubelet";

/// Runs pods.
pub struct PodKubelet {
    config: KubeletConfig,
    events: EventDetail,
    by_node: PodsByNode,
    /// Pods that wait for their volumes.
    without_volumes: BTreeSet<Key>,
}

impl PodKubelet {
    /// Returns a model that runs pods on the nodes the configuration says.
    pub fn new(config: KubeletConfig, events: EventDetail) -> Self {
        Self { config, events, by_node: PodsByNode::default(), without_volumes: BTreeSet::new() }
    }

    fn perform(
        &self,
        pod: &PodFacts,
        key: &Key,
        node: &str,
        step: &Step,
        view: &View<'_>,
    ) -> Outcome<Infallible> {
        let patch = |status: Value| {
            Write::strategic_patch::<Pod>(key, status)
                .status()
                .if_uid(pod.uid())
                .tolerating(404)
                .tolerating(409)
        };
        let removal = || Write::delete::<Pod>(key).grace(0).if_uid(pod.uid()).tolerating(404).tolerating(409);
        match step {
            Step::Rest => Outcome::done(),
            Step::Wait(wait) => Outcome::after(*wait),
            Step::Start { ready } => {
                let started = patch(pod_status::started(pod, node, *ready, view.now));
                Outcome::done().then(started).then_all(self.tell_started(pod, key, view))
            }
            Step::BecomeReady => Outcome::done().then(patch(pod_status::ready(pod, view.now))),
            Step::Restart { exit_code } => {
                Outcome::done().then(patch(pod_status::restarted(pod, *exit_code, view.now)))
            }
            Step::End { exit_code } => {
                Outcome::done().then(patch(pod_status::finished(pod, *exit_code, view.now)))
            }
            Step::Remove { say_so } => {
                // A process that is asked to stop and does so has failed to do what a finite pod is for.
                let stopped = say_so.then(|| patch(pod_status::finished(pod, 143, view.now)));
                Outcome::done().then_all(stopped).then(removal())
            }
        }
    }

    fn tell_started(&self, pod: &PodFacts, key: &Key, view: &View<'_>) -> Vec<Write> {
        if !self.events.tells(false) {
            return Vec::new();
        }
        let containers = pod.template.spec.containers.iter();
        containers
            .map(|container| {
                let about =
                    About::new::<Pod>(key, pod.uid()).at(&format!("spec.containers{{{}}}", container.name));
                event(&about, &Happening::normal("Started", "Container started".to_owned()), COMPONENT, view)
            })
            .collect()
    }
}

impl Controller for PodKubelet {
    type Request = Infallible;
    type Reply = Infallible;

    fn name(&self) -> &'static str {
        "model-kubelet-pods"
    }

    fn watches(&self, watches: &mut Watches) {
        watch_pods(watches);
        watches.add::<Node>();
        watches.add::<PersistentVolumeClaim>();
        watches.add::<PersistentVolume>();
        watches.add::<VolumeAttachment>();
        watches.add::<CSIDriver>();
    }

    fn wake(&mut self, change: &Change, _: &Caches, wakes: &mut Wakes) {
        if let Some(delta) = change.of::<PodFacts>() {
            self.by_node.observe(change.key(), &delta);
            if delta.new.is_some_and(|pod| pod.node.is_some()) {
                wakes.wake(change.key().clone());
            } else {
                self.without_volumes.remove(change.key());
            }
        } else if let Some(delta) = change.of::<Node>() {
            let state = |node: Option<&Node>| node.and_then(|node| health(node, self.config.nodes));
            if state(delta.old) != state(delta.new) {
                for pod in self.by_node.on(change.key().name()) {
                    wakes.wake(pod.clone());
                }
            }
        } else {
            for pod in &self.without_volumes {
                wakes.wake(pod.clone());
            }
        }
    }

    fn reconcile(&mut self, key: &Key, view: &View<'_>) -> Outcome<Infallible> {
        let Some(pod) = view.caches.of::<PodFacts>().get(key) else { return Outcome::done() };
        let Some(name) = &pod.node else { return Outcome::done() };
        let node = view.caches.of::<Node>().get(&Key::cluster(name));
        match node.and_then(|node| health(node, self.config.nodes)) {
            Some(Health::Running | Health::NotReady | Health::Silent) => {}
            Some(Health::Unreachable) | None => return Outcome::done(),
        }
        let has_volumes = pod.phase != Phase::Pending || are_attached(pod, name, view.caches);
        if has_volumes {
            self.without_volumes.remove(key);
        } else {
            self.without_volumes.insert(key.clone());
        }
        let step = next_step(pod, &self.config, has_volumes, view.now);
        self.perform(pod, key, name, &step, view)
    }
}

/// Returns whether every claim of a pod has a volume that is attached to its node, as far as it needs attaching.
fn are_attached(pod: &PodFacts, node: &str, caches: &Caches) -> bool {
    pod.demand.claims.iter().all(|used| {
        let claim = caches.of::<PersistentVolumeClaim>().get(&Key::namespaced(pod.namespace(), &used.name));
        let volume = claim.and_then(|claim| claim.spec.as_ref()?.volume_name.as_deref());
        let Some(volume) = volume.and_then(|name| caches.of::<PersistentVolume>().get(&Key::cluster(name)))
        else {
            return false;
        };
        let driver = volume.spec.as_ref().and_then(|spec| spec.csi.as_ref()).map(|csi| csi.driver.as_str());
        let Some(driver) = driver else { return true };
        let known = caches.of::<CSIDriver>().get(&Key::cluster(driver));
        if known.is_some_and(|driver| driver.spec.attach_required == Some(false)) {
            return true;
        }
        let name = volume.metadata.name.as_deref();
        caches.of::<VolumeAttachment>().iter().any(|(_, attachment)| {
            attachment.spec.node_name == node
                && attachment.spec.source.persistent_volume_name.as_deref() == name
                && attachment.status.as_ref().is_some_and(|status| status.attached)
        })
    })
}
