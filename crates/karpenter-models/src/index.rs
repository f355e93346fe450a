//! Pods by node and by owner, kept up to date from changes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use karpenter_runtime::{Caches, Delta, Key, Wakes};

use crate::pod::PodFacts;

/// Pods by the node they are bound to.
#[derive(Debug, Default)]
pub(crate) struct PodsByNode(BTreeMap<String, BTreeSet<Key>>);

impl PodsByNode {
    /// Takes in a change of a pod; `true` if it came to or left a node.
    pub(crate) fn observe(&mut self, key: &Key, delta: &Delta<'_, PodFacts>) -> bool {
        let node = |pod: Option<&PodFacts>| pod.and_then(|pod| pod.node.clone());
        let (old, new) = (node(delta.old), node(delta.new));
        if old == new {
            return false;
        }
        if let Some(old) = old {
            remove(&mut self.0, &old, key);
        }
        if let Some(new) = new {
            self.0.entry(new).or_default().insert(key.clone());
        }
        true
    }

    /// Returns the pods of a node in the order of their keys.
    pub(crate) fn on(&self, node: &str) -> impl Iterator<Item = &Key> {
        self.0.get(node).into_iter().flatten()
    }

    /// Returns the names of nodes that have pods.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

/// Changes of many pods within this time are looked at together.
const GATHERED: Duration = Duration::from_millis(10);

/// Pods by the uid of their controller, and those without one by namespace.
#[derive(Debug, Default)]
pub(crate) struct PodsByOwner {
    owned: BTreeMap<String, BTreeSet<Key>>,
    orphans: BTreeMap<String, BTreeSet<Key>>,
}

impl PodsByOwner {
    /// Takes in a change of a pod and wakes its controller if that is of `kind`.
    ///
    /// Returns the pod if nobody controls it, for whoever wants to adopt it.
    pub(crate) fn observe<'a>(
        &mut self,
        key: &Key,
        delta: &Delta<'a, PodFacts>,
        kind: &str,
        wakes: &mut Wakes,
    ) -> Option<&'a PodFacts> {
        let namespace = key.namespace().unwrap_or_default();
        let owner = |pod: Option<&'a PodFacts>| pod.and_then(|pod| pod.template.owner.as_ref());
        let (old, new) = (owner(delta.old), owner(delta.new));
        for owner in [old, new].into_iter().flatten().filter(|owner| owner.kind == kind) {
            wakes.wake_after(Key::namespaced(namespace, &owner.name), GATHERED);
        }
        let uid = |owner: Option<&k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference>| {
            owner.map(|owner| owner.uid.clone())
        };
        if delta.old.is_none() || delta.new.is_none() || uid(old) != uid(new) {
            if delta.old.is_some() {
                match uid(old) {
                    Some(uid) => remove(&mut self.owned, &uid, key),
                    None => remove(&mut self.orphans, namespace, key),
                }
            }
            if delta.new.is_some() {
                let pods = match uid(new) {
                    Some(uid) => self.owned.entry(uid).or_default(),
                    None => self.orphans.entry(namespace.to_owned()).or_default(),
                };
                pods.insert(key.clone());
            }
        }
        delta.new.filter(|_| new.is_none())
    }

    /// Returns the pods of a controller in the order of their keys.
    pub(crate) fn of<'a>(&'a self, uid: &str, caches: &'a Caches) -> Vec<(&'a Key, &'a PodFacts)> {
        find(self.owned.get(uid), caches)
    }

    /// Returns the pods of a namespace that nobody controls.
    pub(crate) fn orphans<'a>(&'a self, namespace: &str, caches: &'a Caches) -> Vec<(&'a Key, &'a PodFacts)> {
        find(self.orphans.get(namespace), caches)
    }
}

fn find<'a>(keys: Option<&'a BTreeSet<Key>>, caches: &'a Caches) -> Vec<(&'a Key, &'a PodFacts)> {
    let pods = caches.of::<PodFacts>();
    keys.into_iter().flatten().filter_map(|key| Some((key, &**pods.get(key)?))).collect()
}

fn remove(map: &mut BTreeMap<String, BTreeSet<Key>>, name: &str, key: &Key) {
    if let Some(keys) = map.get_mut(name) {
        keys.remove(key);
        if keys.is_empty() {
            map.remove(name);
        }
    }
}
