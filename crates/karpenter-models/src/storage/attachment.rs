//! Attaches volumes to the nodes of the pods that use them and detaches them when nobody does.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{
    CSIDriver, VolumeAttachment, VolumeAttachmentSource, VolumeAttachmentSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use karpenter_runtime::{Caches, Change, Controller, Key, Outcome, View, Wakes, Watches, Write};
use serde_json::json;

use super::StorageConfig;
use crate::index::PodsByNode;
use crate::pod::{PodFacts, watch_pods};

/// Attaches and detaches. Keys are names of nodes.
pub struct VolumeAttacher {
    config: StorageConfig,
    pods: PodsByNode,
    /// Attachments by node.
    attachments: BTreeMap<String, BTreeSet<Key>>,
    /// Nodes that wait for volumes to be bound or detached elsewhere.
    waiting: BTreeSet<String>,
    /// Since when attachments are not needed.
    unneeded: BTreeMap<Key, Timestamp>,
}

impl VolumeAttacher {
    /// Returns a model that has attached nothing.
    pub fn new(config: StorageConfig) -> Self {
        Self {
            config,
            pods: PodsByNode::default(),
            attachments: BTreeMap::new(),
            waiting: BTreeSet::new(),
            unneeded: BTreeMap::new(),
        }
    }

    /// Returns the volumes that pods on a node need attached, by name, with their drivers; `None` beside them if some claim has
    /// no volume yet.
    fn needed<'a>(&self, node: &str, caches: &'a Caches) -> (BTreeMap<&'a str, &'a str>, bool) {
        let mut needed = BTreeMap::new();
        let mut is_complete = true;
        let pods = caches.of::<PodFacts>();
        for pod in self.pods.on(node).filter_map(|key| pods.get(key)).filter(|pod| !pod.is_finished()) {
            for used in &pod.demand.claims {
                let claim = Key::namespaced(pod.namespace(), &used.name);
                let claim = caches.of::<PersistentVolumeClaim>().get(&claim);
                let name = claim.and_then(|claim| claim.spec.as_ref()?.volume_name.as_deref());
                match name.and_then(|name| caches.of::<PersistentVolume>().get(&Key::cluster(name))) {
                    Some(volume) => needed.extend(attachable(volume, caches)),
                    None => is_complete = false,
                }
            }
        }
        (needed, is_complete)
    }

    fn attach(&mut self, node: &str, view: &View<'_>, outcome: &mut Outcome<Infallible>) {
        let (needed, is_complete) = self.needed(node, view.caches);
        let mut is_waiting = !is_complete;
        let all = view.caches.of::<VolumeAttachment>();
        let here: BTreeSet<Key> = self.attachments.get(node).cloned().unwrap_or_default();
        let mut writes = Vec::new();
        for (volume, driver) in &needed {
            let key = Key::cluster(&attachment_name(volume, driver, node));
            if here.contains(&key) {
                continue;
            }
            if is_exclusive(volume, view.caches)
                && all.iter().any(|(_, held)| volume_of(held) == Some(volume))
            {
                is_waiting = true;
                continue;
            }
            writes.push(Write::create(&attachment(&key, volume, driver, node)).tolerating(409));
        }
        if is_waiting {
            self.waiting.insert(node.to_owned());
        } else {
            self.waiting.remove(node);
        }
        for key in &here {
            let Some(held) = all.get(key) else { continue };
            if volume_of(held).is_some_and(|volume| needed.contains_key(volume)) {
                self.unneeded.remove(key);
                let is_attached = held.status.as_ref().is_some_and(|status| status.attached);
                if !is_attached {
                    let created = held.metadata.creation_timestamp.as_ref().map_or(view.now, |time| time.0);
                    match left(created, self.config.attach_after, view.now) {
                        Some(wait) => *outcome = std::mem::take(outcome).again(wait),
                        None => writes.push(attached(key)),
                    }
                }
            } else {
                let since = *self.unneeded.entry(key.clone()).or_insert(view.now);
                match left(since, self.config.detach_after, view.now) {
                    Some(wait) => *outcome = std::mem::take(outcome).again(wait),
                    None => writes.push(Write::delete::<VolumeAttachment>(key).tolerating(404)),
                }
            }
        }
        *outcome = std::mem::take(outcome).then_all(writes);
    }
}

impl Controller for VolumeAttacher {
    type Request = Infallible;
    type Reply = Infallible;

    fn name(&self) -> &'static str {
        "model-volume-attacher"
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
            self.pods.observe(change.key(), &delta);
            for pod in
                [delta.old, delta.new].into_iter().flatten().filter(|pod| !pod.demand.claims.is_empty())
            {
                if let Some(node) = &pod.node {
                    wakes.wake(Key::cluster(node));
                }
            }
        } else if let Some(delta) = change.of::<VolumeAttachment>() {
            let node = &delta.latest().spec.node_name;
            let held = self.attachments.entry(node.clone()).or_default();
            if delta.new.is_some() {
                held.insert(change.key().clone());
            } else {
                held.remove(change.key());
                self.unneeded.remove(change.key());
                self.waiting.iter().for_each(|node| wakes.wake(Key::cluster(node)));
            }
            wakes.wake(Key::cluster(node));
        } else if change.of::<PersistentVolumeClaim>().is_some() || change.of::<PersistentVolume>().is_some()
        {
            self.waiting.iter().for_each(|node| wakes.wake(Key::cluster(node)));
        }
    }

    fn reconcile(&mut self, key: &Key, view: &View<'_>) -> Outcome<Infallible> {
        let mut outcome = Outcome::done();
        self.attach(key.name(), view, &mut outcome);
        if self.attachments.get(key.name()).is_some_and(BTreeSet::is_empty) {
            self.attachments.remove(key.name());
        }
        outcome
    }
}

/// Returns the name and driver of a volume that must be attached before it is used.
fn attachable<'a>(volume: &'a PersistentVolume, caches: &Caches) -> Option<(&'a str, &'a str)> {
    let driver = volume.spec.as_ref()?.csi.as_ref()?.driver.as_str();
    let known = caches.of::<CSIDriver>().get(&Key::cluster(driver));
    if known.is_some_and(|driver| driver.spec.attach_required == Some(false)) {
        return None;
    }
    Some((volume.metadata.name.as_deref()?, driver))
}

fn volume_of(attachment: &VolumeAttachment) -> Option<&str> {
    attachment.spec.source.persistent_volume_name.as_deref()
}

/// Returns whether a volume can be on one node at a time only.
fn is_exclusive(volume: &str, caches: &Caches) -> bool {
    let volume = caches.of::<PersistentVolume>().get(&Key::cluster(volume));
    let mut modes = volume
        .iter()
        .flat_map(|volume| volume.spec.iter().flat_map(|spec| spec.access_modes.iter().flatten()));
    !modes.any(|mode| matches!(mode.as_str(), "ReadWriteMany" | "ReadOnlyMany"))
}

fn attachment(key: &Key, volume: &str, driver: &str, node: &str) -> VolumeAttachment {
    VolumeAttachment {
        metadata: ObjectMeta { name: Some(key.name().to_owned()), ..ObjectMeta::default() },
        spec: VolumeAttachmentSpec {
            attacher: driver.to_owned(),
            node_name: node.to_owned(),
            source: VolumeAttachmentSource {
                persistent_volume_name: Some(volume.to_owned()),
                inline_volume_spec: None,
            },
        },
        status: None,
    }
}

fn attached(key: &Key) -> Write {
    Write::merge_patch::<VolumeAttachment>(key, json!({"status": {"attached": true}}))
        .status()
        .tolerating(404)
}

/// The name follows from what is attached where, so that making it twice makes it once.
fn attachment_name(volume: &str, driver: &str, node: &str) -> String {
    let fnv = |seed: u64| {
        let text = volume.bytes().chain([0]).chain(driver.bytes()).chain([0]).chain(node.bytes());
        text.fold(seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    };
    format!("csi-{:016x}{:016x}", fnv(0xcbf2_9ce4_8422_2325), fnv(0x9e37_79b9_7f4a_7c15))
}

/// Returns how much of `delay` after `since` is left.
fn left(since: Timestamp, delay: Duration, now: Timestamp) -> Option<Duration> {
    let delay = SignedDuration::try_from(delay).unwrap_or(SignedDuration::MAX);
    Duration::try_from(delay - now.duration_since(since)).ok().filter(|left| !left.is_zero())
}
