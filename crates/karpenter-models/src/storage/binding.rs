//! Claims and volumes find each other; claims without a volume get one made; volumes without a claim are reclaimed.

use std::convert::Infallible;
use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use karpenter_quantity::Quantity;
use karpenter_runtime::{Caches, Change, Controller, Key, Outcome, View, Wakes, Watches, Write};
use serde_json::{Value, json};

use super::StorageConfig;
use super::provision::{PROVISIONED_BY, claim_reference, provisions, volume_for};
use crate::scheduler::{BIND_COMPLETED, SELECTED_NODE};
use crate::selector::Selector;

const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

/// Binds claims and volumes. Claims are looked at by their key, volumes by theirs, which has no namespace.
pub struct VolumeBinder {
    config: StorageConfig,
}

impl VolumeBinder {
    /// Returns a binder that has bound nothing.
    pub fn new(config: StorageConfig) -> Self {
        Self { config }
    }

    fn look_at_claim(
        &self,
        key: &Key,
        claim: &PersistentVolumeClaim,
        view: &View<'_>,
    ) -> Outcome<Infallible> {
        let volumes = view.caches.of::<PersistentVolume>();
        let spec = claim.spec.clone().unwrap_or_default();
        if let Some(name) = spec.volume_name.filter(|name| !name.is_empty()) {
            return match volumes.get(&Key::cluster(&name)) {
                Some(volume) => complete(key, claim, volume),
                None => lose(key, claim),
            };
        }
        if claim.metadata.deletion_timestamp.is_some() {
            return Outcome::done();
        }
        let Some(class_name) = &spec.storage_class_name else { return assign_class(key, view.caches) };
        let class = view.caches.of::<StorageClass>().get(&Key::cluster(class_name)).map(|class| &**class);
        let waits =
            class.is_some_and(|class| class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer"));
        let given = volumes.iter().find(|(_, volume)| is_given_to(volume, claim));
        let found = given.or_else(|| {
            let free = volumes.iter().filter(|(_, volume)| !waits && suits(volume, claim, class_name));
            free.min_by_key(|(key, volume)| (size_of(volume), (*key).clone()))
        });
        if let Some((volume_key, volume)) = found {
            return bind(key, claim, volume_key, volume);
        }
        match class.filter(|class| provisions(class)) {
            Some(class) => self.provision(claim, class, waits, view),
            None => Outcome::done(),
        }
    }

    fn provision(
        &self,
        claim: &PersistentVolumeClaim,
        class: &StorageClass,
        waits: bool,
        view: &View<'_>,
    ) -> Outcome<Infallible> {
        let annotations = claim.metadata.annotations.as_ref();
        let selected = annotations.and_then(|annotations| annotations.get(SELECTED_NODE));
        if waits && selected.is_none() {
            return Outcome::done();
        }
        let created = claim.metadata.creation_timestamp.as_ref().map_or(view.now, |time| time.0);
        let delay = SignedDuration::try_from(self.config.provision_after).unwrap_or_default();
        let left = Duration::try_from(delay - view.now.duration_since(created)).unwrap_or_default();
        if !left.is_zero() {
            return Outcome::after(left);
        }
        let node = selected.and_then(|name| view.caches.of::<Node>().get(&Key::cluster(name)));
        let csi_node = selected.and_then(|name| view.caches.of::<CSINode>().get(&Key::cluster(name)));
        let volume = volume_for(claim, class, node.map(|node| &**node), csi_node.map(|node| &**node));
        Outcome::done().then(Write::create(&volume).tolerating(409))
    }
}

impl Controller for VolumeBinder {
    type Request = Infallible;
    type Reply = Infallible;

    fn name(&self) -> &'static str {
        "model-volume-binder"
    }

    fn watches(&self, watches: &mut Watches) {
        watches.add::<PersistentVolumeClaim>();
        watches.add::<PersistentVolume>();
        watches.add::<StorageClass>();
        watches.add::<Node>();
        watches.add::<CSINode>();
    }

    fn wake(&mut self, change: &Change, caches: &Caches, wakes: &mut Wakes) {
        if let Some(delta) = change.of::<PersistentVolumeClaim>() {
            wakes.wake(change.key().clone());
            let volume = delta.latest().spec.as_ref().and_then(|spec| spec.volume_name.as_deref());
            if let Some(volume) = volume.filter(|name| !name.is_empty()) {
                wakes.wake(Key::cluster(volume));
            }
        } else if let Some(delta) = change.of::<PersistentVolume>() {
            wakes.wake(change.key().clone());
            match delta.latest().spec.as_ref().and_then(|spec| spec.claim_ref.as_ref()) {
                Some(claim) => wakes.wake(Key::namespaced(
                    claim.namespace.as_deref().unwrap_or_default(),
                    claim.name.as_deref().unwrap_or_default(),
                )),
                None => wake_unbound(caches, wakes),
            }
        } else if change.of::<StorageClass>().is_some() {
            wake_unbound(caches, wakes);
        }
    }

    fn reconcile(&mut self, key: &Key, view: &View<'_>) -> Outcome<Infallible> {
        if key.namespace().is_some() {
            match view.caches.of::<PersistentVolumeClaim>().get(key) {
                Some(claim) => self.look_at_claim(key, claim, view),
                None => Outcome::done(),
            }
        } else {
            match view.caches.of::<PersistentVolume>().get(key) {
                Some(volume) => look_at_volume(key, volume, view.caches),
                None => Outcome::done(),
            }
        }
    }
}

fn wake_unbound(caches: &Caches, wakes: &mut Wakes) {
    for (key, claim) in caches.of::<PersistentVolumeClaim>().iter() {
        let volume = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref());
        if volume.is_none_or(str::is_empty) {
            wakes.wake(key.clone());
        }
    }
}

/// Gives a claim that names no class the default one.
fn assign_class(key: &Key, caches: &Caches) -> Outcome<Infallible> {
    let defaults = caches.of::<StorageClass>().iter().filter(|(_, class)| {
        let annotations = class.metadata.annotations.as_ref();
        annotations.and_then(|all| all.get(DEFAULT_CLASS)).is_some_and(|value| value == "true")
    });
    // The newest default counts, should there be several.
    match defaults.max_by_key(|(key, class)| {
        (class.metadata.creation_timestamp.as_ref().map(|time| time.0), (*key).clone())
    }) {
        Some((class, _)) => {
            let patch = json!({"spec": {"storageClassName": class.name()}});
            Outcome::done().then(Write::merge_patch::<PersistentVolumeClaim>(key, patch).tolerating(404))
        }
        None => Outcome::done(),
    }
}

/// Returns whether a volume was set aside for a claim.
fn is_given_to(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let Some(reference) = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref()) else { return false };
    reference.namespace == claim.metadata.namespace
        && reference.name == claim.metadata.name
        && (reference.uid.is_none() || reference.uid == claim.metadata.uid)
}

fn suits(volume: &PersistentVolume, claim: &PersistentVolumeClaim, class: &str) -> bool {
    let (Some(held), Some(wanted)) = (volume.spec.as_ref(), claim.spec.as_ref()) else { return false };
    let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
    let modes = held.access_modes.as_deref().unwrap_or_default();
    let labels = volume.metadata.labels.clone().unwrap_or_default();
    let mode = |mode: &Option<String>| mode.clone().unwrap_or_else(|| "Filesystem".to_owned());
    held.claim_ref.is_none()
        && phase == Some("Available")
        && held.storage_class_name.as_deref().unwrap_or_default() == class
        && mode(&held.volume_mode) == mode(&wanted.volume_mode)
        && wanted.access_modes.iter().flatten().all(|mode| modes.contains(mode))
        && size_of(volume) >= asked(claim)
        && wanted.selector.as_ref().is_none_or(|selector| Selector::new(Some(selector)).matches(&labels))
}

fn size_of(volume: &PersistentVolume) -> Quantity {
    let capacity = volume.spec.as_ref().and_then(|spec| spec.capacity.as_ref()?.get("storage"));
    capacity.and_then(|size| size.0.parse().ok()).unwrap_or(Quantity::ZERO)
}

fn asked(claim: &PersistentVolumeClaim) -> Quantity {
    let requests = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref()?.requests.as_ref());
    requests.and_then(|requests| requests.get("storage")?.0.parse().ok()).unwrap_or(Quantity::ZERO)
}

/// Ties a claim and a volume together: the volume first, so that nobody else takes it.
fn bind(
    key: &Key,
    claim: &PersistentVolumeClaim,
    volume_key: &Key,
    volume: &PersistentVolume,
) -> Outcome<Infallible> {
    let reference = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
    let is_reserved = reference.is_some_and(|reference| reference.uid == claim.metadata.uid);
    let reserve = (!is_reserved).then(|| {
        let version = volume.metadata.resource_version.as_deref().unwrap_or_default();
        let patch = json!({
            "metadata": {"annotations": {BOUND_BY_CONTROLLER: "yes"}}, "spec": {"claimRef": claim_reference(claim)},
        });
        Write::merge_patch::<PersistentVolume>(volume_key, patch).if_version(version)
    });
    let annotations = json!({BIND_COMPLETED: "yes", BOUND_BY_CONTROLLER: "yes"});
    let patch = json!({"metadata": {"annotations": annotations}, "spec": {"volumeName": volume_key.name()}});
    let bound = Write::merge_patch::<PersistentVolumeClaim>(key, patch).tolerating(404);
    Outcome::done().then_all(reserve).then(bound).then(claim_status(key, volume))
}

fn claim_status(key: &Key, volume: &PersistentVolume) -> Write {
    let spec = volume.spec.as_ref();
    let status = json!({
        "phase": "Bound", "accessModes": spec.and_then(|spec| spec.access_modes.clone()),
        "capacity": spec.and_then(|spec| spec.capacity.clone()),
    });
    Write::merge_patch::<PersistentVolumeClaim>(key, json!({"status": status})).status().tolerating(404)
}

/// Finishes what began with a claim naming its volume.
fn complete(key: &Key, claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Outcome<Infallible> {
    if !is_given_to(volume, claim) {
        let is_free = volume.spec.as_ref().is_some_and(|spec| spec.claim_ref.is_none());
        return if is_free { bind(key, claim, &Key::of(volume), volume) } else { Outcome::done() };
    }
    let annotations = claim.metadata.annotations.as_ref();
    if !annotations.is_some_and(|annotations| annotations.contains_key(BIND_COMPLETED)) {
        return bind(key, claim, &Key::of(volume), volume);
    }
    let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
    if phase == Some("Bound") { Outcome::done() } else { Outcome::done().then(claim_status(key, volume)) }
}

/// A claim whose volume is gone has lost it.
fn lose(key: &Key, claim: &PersistentVolumeClaim) -> Outcome<Infallible> {
    let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
    if phase != Some("Bound") {
        return Outcome::done();
    }
    let lost = json!({"status": {"phase": "Lost"}});
    Outcome::done().then(Write::merge_patch::<PersistentVolumeClaim>(key, lost).status().tolerating(404))
}

/// Keeps the phase of a volume and deletes it once its claim is gone, if that is its policy.
fn look_at_volume(key: &Key, volume: &PersistentVolume, caches: &Caches) -> Outcome<Infallible> {
    let spec = volume.spec.as_ref();
    let claim = spec.and_then(|spec| spec.claim_ref.as_ref()).map(|reference| {
        let claim = Key::namespaced(
            reference.namespace.as_deref().unwrap_or_default(),
            reference.name.as_deref().unwrap_or_default(),
        );
        let found = caches.of::<PersistentVolumeClaim>().get(&claim);
        (reference.uid.is_some(), found.filter(|claim| is_given_to(volume, claim)))
    });
    let names_it = |claim: &PersistentVolumeClaim| {
        claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()) == Some(key.name())
    };
    let wanted = match claim {
        None | Some((false, None)) => "Available",
        Some((_, Some(claim))) if names_it(claim) => "Bound",
        Some((_, Some(_))) => return Outcome::done(),
        Some((true, None)) => "Released",
    };
    let held = volume.status.as_ref().and_then(|status| status.phase.as_deref());
    let patch: Option<Value> = (held != Some(wanted)).then(|| json!({"status": {"phase": wanted}}));
    let mut outcome = Outcome::done().then_all(
        patch.map(|patch| Write::merge_patch::<PersistentVolume>(key, patch).status().tolerating(404)),
    );
    let policy = spec.and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
    let is_made = volume.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(PROVISIONED_BY));
    if wanted == "Released"
        && policy == Some("Delete")
        && is_made
        && volume.metadata.deletion_timestamp.is_none()
    {
        outcome = outcome.then(Write::delete::<PersistentVolume>(key).tolerating(404));
    }
    outcome
}
