//! How a change enters the state: objects are converted, filed under what belongs together, and handed to the core as events.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{DaemonSet, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use karpenter_api::{NodeClaim, NodePool};
use karpenter_core::cluster::{Event, PodOwner};
use karpenter_kube::node::Machine;
use karpenter_kube::{daemon_set, disruption_budget, namespace, node, volume};
use karpenter_runtime::{Caches, Change, Key};

use super::{State, Unscheduled, node_provider_id, provider_id};
use crate::observed::{ObservedPod, owner_path};

impl State {
    /// Takes in a change that the caches know already.
    pub(super) fn apply(&mut self, change: &Change, caches: &Caches) {
        let key = change.key();
        self.version += u64::from(matters(change));
        if let Some(delta) = change.of::<ObservedPod>() {
            match caches.of::<ObservedPod>().get(key) {
                Some(pod) => drop(self.pods.insert(key.clone(), Arc::clone(pod))),
                None => drop(self.pods.remove(key)),
            }
            self.apply_pod(key, delta.old, delta.new);
        } else if let Some(delta) = change.of::<Node>() {
            put(&mut self.nodes, key.name(), caches.of::<Node>().get(key));
            self.index(
                key,
                delta.old.and_then(node_provider_id),
                delta.new.and_then(node_provider_id),
                Side::Node,
            );
        } else if let Some(delta) = change.of::<NodeClaim>() {
            put(&mut self.claims, key.name(), caches.of::<NodeClaim>().get(key));
            self.index(key, delta.old.and_then(provider_id), delta.new.and_then(provider_id), Side::Claim);
        } else if change.of::<NodePool>().is_some() {
            put(&mut self.pools, key.name(), caches.of::<NodePool>().get(key));
            if !self.pools.contains_key(key.name()) {
                self.registrations.remove(key.name());
            }
        } else if change.of::<CSINode>().is_some() {
            put(&mut self.csi_nodes, key.name(), caches.of::<CSINode>().get(key));
            self.refresh_node(key.name());
        } else if self.spread.apply(change) {
            self.read_pods_again(key.namespace().unwrap_or_default());
        } else {
            self.apply_base(change);
        }
    }

    /// Looks at the pods of a namespace again, because something selects them otherwise.
    fn read_pods_again(&mut self, namespace: &str) {
        let of_namespace = |key: &&Key| key.namespace() == Some(namespace);
        let keys: Vec<Key> = self.pods.keys().filter(of_namespace).cloned().collect();
        for key in keys {
            let pod = Arc::clone(&self.pods[&key]);
            self.enter_pod(&key, &pod);
        }
        self.version += 1;
    }

    fn apply_pod(&mut self, key: &Key, old: Option<&ObservedPod>, new: Option<&ObservedPod>) {
        if let Some(node) = old.and_then(|pod| pod.node.as_ref()) {
            unfile(&mut self.pods_on, node, key);
        }
        if let Some(gone) = old.filter(|old| new.is_none_or(|new| new.uid() != old.uid())) {
            self.places.release(gone.uid());
            self.waits.end(gone.uid());
            self.cluster.apply(Event::PodGone { uid: gone.uid().into() });
        }
        if let Some(end) = old.and_then(ObservedPod::protected_until) {
            self.protections.remove(&(end, key.clone()));
        }
        if let Some(end) = new.and_then(ObservedPod::protected_until) {
            self.protections.insert((end, key.clone()));
        }
        if let Some(old) = old.filter(|old| old.provisionable) {
            self.count_given_up(&old.scheduler, -1);
        }
        self.unlooked_at.remove(key);
        let Some(new) = new else { return };
        self.note_daemon_pod(new);
        if new.provisionable {
            self.count_given_up(&new.scheduler, 1);
        }
        if let Some(node) = &new.node {
            self.pods_on.entry(node.clone()).or_default().insert(key.clone());
        }
        self.enter_pod(key, new);
    }

    fn note_daemon_pod(&mut self, observed: &ObservedPod) {
        let (Ok(pod), Some(owner)) = (&observed.pod, &observed.owner) else { return };
        if pod.owner != PodOwner::DaemonSet {
            return;
        }
        let known = self.daemon_pods.get(owner);
        if known.is_none_or(|known| known.created <= pod.created) {
            self.daemon_pods.insert(owner.clone(), pod.clone());
        }
    }

    fn enter_pod(&mut self, key: &Key, new: &ObservedPod) {
        let pod = new.pod.as_ref().map(|pod| self.spread.applied(new, pod, &mut self.interner));
        if let (Ok(pod), true, None) = (&pod, new.awaits_scheduler, &new.refusal) {
            let waiting = Unscheduled { pod: pod.clone(), scheduler: new.scheduler.clone() };
            self.unlooked_at.insert(key.clone(), waiting);
        }
        let event = match (&pod, &new.node) {
            (Ok(pod), Some(node)) if !new.is_terminal() => Event::PodBound(pod.clone(), node.clone()),
            (Ok(pod), None) if new.provisionable && new.refusal.is_none() && !new.is_terminal() => {
                Event::PodPending(pod.clone())
            }
            _ => Event::PodGone { uid: new.uid().into() },
        };
        match &event {
            Event::PodPending(_) => {}
            Event::PodBound(_, node) => self.note_arrival(new.uid(), node),
            _ if new.awaits_scheduler => {}
            _ => self.places.release(new.uid()),
        }
        self.cluster.apply(event);
    }

    /// A pod is on a node: nothing is kept for it elsewhere any more.
    fn note_arrival(&mut self, pod: &str, node: &str) {
        if self.places.of(pod).is_none() {
            return;
        }
        let claim = self.claim_of(node).and_then(|claim| claim.metadata.name.clone());
        let names: Vec<&str> = claim.iter().map(String::as_str).chain([node]).collect();
        self.places.arrive(pod, &names);
    }

    fn count_given_up(&mut self, scheduler: &Arc<str>, change: isize) {
        let count = self.given_up.entry(scheduler.clone()).or_default();
        *count = count.saturating_add_signed(change);
        if *count == 0 {
            self.given_up.remove(scheduler);
        }
    }

    /// Files an object under its provider id and looks at both sides of that machine again.
    fn index(&mut self, key: &Key, old: Option<&str>, new: Option<&str>, side: Side) {
        let index = match side {
            Side::Claim => &mut self.claims_of,
            Side::Node => &mut self.nodes_of,
        };
        if let Some(id) = old.filter(|old| Some(*old) != new) {
            unfile(index, id, key.name());
        }
        if let Some(id) = new {
            index.entry(id.to_owned()).or_default().insert(key.name().to_owned());
        }
        match side {
            Side::Claim => self.refresh_claim(key.name()),
            Side::Node => self.refresh_node(key.name()),
        }
        for id in [old, new].into_iter().flatten() {
            for claim in self.claims_of(id) {
                self.refresh_claim(&claim);
            }
            for node in self.nodes_of(id) {
                self.refresh_node(&node);
            }
        }
    }

    /// A claim stands for its node while there is none.
    fn refresh_claim(&mut self, name: &str) {
        let alone = self
            .claims
            .get(name)
            .filter(|claim| provider_id(claim).is_some_and(|id| !self.nodes_of.contains_key(id)));
        match alone.cloned() {
            Some(claim) => self.enter(Machine::Launched(&claim), None),
            None if !self.nodes.contains_key(name) => {
                self.cluster.apply(Event::NodeGone { name: name.into() });
            }
            None => {}
        }
    }

    fn refresh_node(&mut self, name: &str) {
        let Some(node) = self.nodes.get(name).cloned() else {
            self.cluster.apply(Event::NodeGone { name: name.into() });
            return;
        };
        let claim = node_provider_id(&node).and_then(|id| self.claims_of.get(id)).and_then(BTreeSet::first);
        let claim = claim.and_then(|name| self.claims.get(name)).cloned();
        let limits = self.csi_nodes.get(name).cloned();
        match &claim {
            Some(claim) => self.enter(Machine::Joined(claim, &node), limits.as_deref()),
            None => self.enter(Machine::Unmanaged(&node), limits.as_deref()),
        }
    }

    fn enter(&mut self, machine: Machine<'_>, limits: Option<&CSINode>) {
        match node::node(machine, limits, &mut self.interner) {
            Ok(node) => self.cluster.apply(Event::Node(Box::new(node))),
            Err(error) => tracing::warn!("a node cannot be used for planning: {error}"),
        }
    }

    /// Everything that changes rarely.
    fn apply_base(&mut self, change: &Change) {
        let key = change.key();
        let names = (key.namespace().unwrap_or_default().into(), key.name().into());
        if let Some(delta) = change.of::<Namespace>() {
            self.base.namespaces.remove(key.name());
            self.base
                .namespaces
                .extend(delta.new.map(|object| namespace::namespace(object, &mut self.interner)));
        } else if let Some(delta) = change.of::<PersistentVolumeClaim>() {
            self.base.volume_claims.remove(&names);
            self.base.volume_claims.extend(delta.new.map(|object| (names, volume::volume_claim(object))));
        } else if let Some(delta) = change.of::<PersistentVolume>() {
            self.base.volumes.remove(key.name());
            let converted =
                delta.new.and_then(|object| readable(key, volume::persistent_volume(object, &self.rules)));
            self.base.volumes.extend(converted.map(|converted| (key.name().into(), converted)));
        } else if let Some(delta) = change.of::<StorageClass>() {
            self.base.storage_classes.remove(key.name());
            self.base.storage_classes.extend(
                delta.new.map(|object| (key.name().into(), volume::storage_class(object, &self.rules))),
            );
        } else if let Some(delta) = change.of::<DaemonSet>() {
            self.daemon_sets.remove(key);
            if delta.new.is_none() {
                let namespace = key.namespace().unwrap_or_default();
                self.daemon_pods.remove(owner_path("apps/v1", "DaemonSet", namespace, key.name()).as_str());
            }
            let converted = delta.new.and_then(|object| {
                readable(key, daemon_set::daemon_set(object, None, &self.rules, &mut self.interner))
            });
            self.daemon_sets.extend(converted.map(|converted| (key.clone(), converted)));
        } else if let Some(delta) = change.of::<PodDisruptionBudget>() {
            self.budgets.remove(key);
            let converted =
                delta.new.and_then(|object| readable(key, disruption_budget::disruption_budget(object)));
            self.budgets.extend(converted.map(|converted| (key.clone(), converted)));
        }
    }
}

/// Whether a change may matter to disruption. Heartbeats do not, nor do pods on their way to a node.
fn matters(change: &Change) -> bool {
    if let Some(delta) = change.of::<ObservedPod>() {
        let place = |pod: Option<&ObservedPod>| {
            pod.map(|pod| (pod.node.clone(), pod.is_terminal(), pod.deletion, pod.annotations().cloned()))
        };
        return place(delta.old) != place(delta.new);
    }
    if let Some(delta) = change.of::<Node>() {
        let shape = |node: Option<&Node>| {
            let states = node.map(condition_states);
            node.map(|node| {
                (node.metadata.labels.clone(), node.metadata.annotations.clone(), node.spec.clone(), states)
            })
        };
        return shape(delta.old) != shape(delta.new);
    }
    // Their status changes all the time, and nothing here follows from it.
    change.of::<ReplicaSet>().is_none() && change.of::<StatefulSet>().is_none()
}

/// A node's conditions without their heartbeats and messages.
fn condition_states(node: &Node) -> Vec<(String, String, Option<String>)> {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.map(|found| (found.type_.clone(), found.status.clone(), found.reason.clone())).collect()
}

/// Takes an entry out of an index, and its heading if nothing is left under it.
pub(crate) fn unfile<H, E, Q, F>(index: &mut BTreeMap<H, BTreeSet<E>>, heading: &Q, entry: &F)
where
    H: std::borrow::Borrow<Q> + Ord,
    E: std::borrow::Borrow<F> + Ord,
    Q: Ord + ?Sized,
    F: Ord + ?Sized,
{
    if let Some(entries) = index.get_mut(heading) {
        entries.remove(entry);
        if entries.is_empty() {
            index.remove(heading);
        }
    }
}

#[derive(Clone, Copy)]
enum Side {
    Claim,
    Node,
}

fn put<K>(map: &mut BTreeMap<String, Arc<K>>, name: &str, object: Option<&Arc<K>>) {
    match object {
        Some(object) => drop(map.insert(name.to_owned(), Arc::clone(object))),
        None => drop(map.remove(name)),
    }
}

fn readable<T>(key: &Key, converted: Result<T, karpenter_kube::Invalid>) -> Option<T> {
    converted.map_err(|error| tracing::warn!("{key} cannot be used for planning: {error}")).ok()
}
