//! Garbage collection and deletion that takes more than one write, as steps a caller drives.
//!
//! The store queues every write that may make something due: removals, objects with owners, objects being deleted.
//! [`Core::collect`] works the queue off in order, so the same history gives the same writes. It does what the
//! garbage collector and the namespace controller of kube-controller-manager and the CRD finalizer of the API server
//! do: deletes dependents of what is gone, in the foreground when asked, orphans them when asked, empties namespaces
//! and removed CRDs. It also lets deleted storage go once nothing uses it.

mod protection;

use std::sync::Arc;

use serde_json::Value;

use crate::kinds::{self, CLEANUP_FINALIZER, DEFINITIONS};
use crate::registry::Resource;
use crate::server::Core;
use crate::store::{Change, Expected, Key, Owner, StoredObject};
use crate::verbs::{DeleteOptions, FOREGROUND, ORPHAN};

/// What has become of an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OwnerState {
    /// It exists and stays, or its kind is not known here.
    Solid,
    /// It is being deleted and waits for its dependents.
    Waiting,
    /// It does not exist.
    Absent,
}

impl Core {
    /// Works off the queued changes and returns how many writes that took.
    pub(crate) fn collect(&self) -> usize {
        let before = self.store.revision();
        while let Some(change) = self.store.next_change() {
            self.follow(&change);
            if self.store.revision() > before {
                break;
            }
        }
        (self.store.revision() - before) as usize
    }

    fn follow(&self, change: &Change) {
        if change.removed {
            for (resource, key) in self.store.dependents(&change.object.uid) {
                self.examine(&resource, &key);
            }
            for owner in &change.object.owners {
                self.recheck_owner(owner, &change.key);
            }
            self.recheck_namespace(&change.key.namespace);
            self.recheck_definition(&change.resource);
            if &*change.resource == "pods" {
                self.recheck_claims(&change.key.namespace);
            }
            return;
        }
        if &*change.resource == "pods" && protection::has_ended(&change.object.value()) {
            self.recheck_claims(&change.key.namespace);
        }
        if !change.object.owners.is_empty() {
            self.examine(&change.resource, &change.key);
        }
        if change.object.deleting {
            self.continue_deletion(&change.resource, &change.key);
        }
    }

    /// Does what the finalizers of an object being deleted wait for.
    fn continue_deletion(&self, resource: &str, key: &Key) {
        let Some(current) = self.store.get(resource, key).filter(|object| object.deleting) else { return };
        let object = current.value();
        let finalizers = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        let waits_for = |name: &str| finalizers.iter().any(|finalizer| finalizer == name);
        if waits_for(ORPHAN) {
            self.orphan(resource, key, &current);
        } else if waits_for(FOREGROUND) {
            self.delete_foreground(resource, key, &current);
        }
        match resource {
            "namespaces" => self.recheck_namespace(&key.name),
            DEFINITIONS => self.empty_definition(key),
            _ => self.release_storage(resource, key, &object),
        }
    }

    /// Deletes a dependent whose owners are gone, or drops references to those that are.
    fn examine(&self, resource: &str, key: &Key) {
        let Some(current) = self.store.get(resource, key) else { return };
        let states: Vec<OwnerState> =
            current.owners.iter().map(|owner| self.owner_state(owner, &key.namespace)).collect();
        if states.contains(&OwnerState::Solid) {
            if states.contains(&OwnerState::Absent) {
                let gone: Vec<&str> = current
                    .owners
                    .iter()
                    .zip(&states)
                    .filter(|(_, state)| **state == OwnerState::Absent)
                    .map(|(owner, _)| &*owner.uid)
                    .collect();
                self.drop_owners(resource, key, &gone);
            }
            return;
        }
        if current.deleting || states.is_empty() {
            return;
        }
        let has_dependents = !self.store.dependents(&current.uid).is_empty();
        let foreground = states.contains(&OwnerState::Waiting) && has_dependents;
        let policy = if foreground { "Foreground" } else { "Background" };
        self.delete_dependent(resource, key, &current, policy);
    }

    fn delete_dependent(&self, resource: &str, key: &Key, current: &StoredObject, policy: &str) {
        let options = DeleteOptions {
            propagation: Some(policy.to_owned()),
            uid: Some(current.uid.to_string()),
            ..DeleteOptions::default()
        };
        if let Some(resource) = self.registry().find_stored(resource) {
            // It may be gone or another object by now; then there is nothing to do.
            let _ = self.delete_object(resource, key, &options);
        }
    }

    fn owner_resource(&self, owner: &Owner) -> Option<Arc<Resource>> {
        self.registry().find_kind(&owner.api_version, &owner.kind).cloned()
    }

    fn owner_state(&self, owner: &Owner, namespace: &str) -> OwnerState {
        let Some(resource) = self.owner_resource(owner) else { return OwnerState::Solid };
        let namespace = if resource.namespaced { namespace } else { "" };
        match self.store.get(&resource.name, &Key::new(namespace, &*owner.name)) {
            Some(object) if object.uid == owner.uid => {
                let waiting = object.deleting && has_finalizer(&object.value(), FOREGROUND);
                if waiting { OwnerState::Waiting } else { OwnerState::Solid }
            }
            _ => OwnerState::Absent,
        }
    }

    /// Lets an owner in foreground deletion go once its last dependent is gone.
    fn recheck_owner(&self, owner: &Owner, dependent: &Key) {
        let Some(resource) = self.owner_resource(owner) else { return };
        let namespace = if resource.namespaced { &*dependent.namespace } else { "" };
        let key = Key::new(namespace, &*owner.name);
        if let Some(current) = self.store.get(&resource.name, &key)
            && current.uid == owner.uid
            && current.deleting
            && has_finalizer(&current.value(), FOREGROUND)
        {
            self.delete_foreground(&resource.name, &key, &current);
        }
    }

    fn delete_foreground(&self, resource: &str, key: &Key, current: &StoredObject) {
        let mut blocked = false;
        for (dependent, dependent_key) in self.store.dependents(&current.uid) {
            self.examine(&dependent, &dependent_key);
            let Some(object) = self.store.get(&dependent, &dependent_key) else { continue };
            blocked |= object.owners.iter().any(|owner| owner.uid == current.uid && owner.blocks_deletion);
        }
        if !blocked {
            self.drop_finalizer(resource, key, FOREGROUND);
        }
    }

    fn orphan(&self, resource: &str, key: &Key, current: &StoredObject) {
        for (dependent, dependent_key) in self.store.dependents(&current.uid) {
            self.drop_owners(&dependent, &dependent_key, &[&*current.uid]);
        }
        self.drop_finalizer(resource, key, ORPHAN);
    }

    fn drop_owners(&self, resource: &str, key: &Key, uids: &[&str]) {
        self.rewrite(resource, key, |object| {
            let metadata = &mut object["metadata"];
            if let Some(owners) = metadata.get_mut("ownerReferences").and_then(Value::as_array_mut) {
                owners.retain(|owner| owner["uid"].as_str().is_none_or(|uid| !uids.contains(&uid)));
                if owners.is_empty() {
                    metadata.as_object_mut().map(|metadata| metadata.remove("ownerReferences"));
                }
            }
        });
    }

    fn drop_finalizer(&self, resource: &str, key: &Key, name: &str) {
        self.rewrite(resource, key, |object| {
            let metadata = &mut object["metadata"];
            if let Some(finalizers) = metadata.get_mut("finalizers").and_then(Value::as_array_mut) {
                finalizers.retain(|finalizer| finalizer != name);
                if finalizers.is_empty() {
                    metadata.as_object_mut().map(|metadata| metadata.remove("finalizers"));
                }
            }
        });
    }

    /// Changes a stored object, and removes it when that was the last thing that kept it.
    fn rewrite(&self, resource: &str, key: &Key, change: impl Fn(&mut Value)) {
        let registry = self.registry();
        let Some(resource) = registry.find_stored(resource) else { return };
        while let Some(current) = self.store.get(&resource.name, key) {
            let before = current.value();
            let mut object = before.clone();
            change(&mut object);
            if object == before {
                return;
            }
            let fields = &resource.selectable_fields;
            let done = if kinds::is_fully_deleted(resource, &object) {
                let removed = self.store.remove(&resource.name, key, current.revision, &mut object, fields);
                removed.map(|_| self.removed(resource, &object)).is_ok()
            } else {
                let expected = Expected::Revision(current.revision);
                self.store.write(&resource.name, key, expected, &mut object, fields).is_ok()
            };
            if done {
                return;
            }
        }
    }

    /// Empties a namespace that is being deleted, and lets it go once it is empty.
    fn recheck_namespace(&self, namespace: &str) {
        let key = Key::new("", namespace);
        if !self.store.get("namespaces", &key).is_some_and(|object| object.deleting) {
            return;
        }
        let registry = self.registry();
        let mut left = false;
        for resource in
            registry.iter().filter(|resource| resource.namespaced && resource.is_storage_version())
        {
            left |= self.empty(resource, Some(namespace));
        }
        if !left {
            self.rewrite("namespaces", &key, |object| {
                if let Some(finalizers) = object["spec"].get_mut("finalizers").and_then(Value::as_array_mut) {
                    finalizers.retain(|finalizer| finalizer != "kubernetes");
                }
            });
        }
    }

    /// Deletes all objects of a resource and returns whether some are still there.
    fn empty(&self, resource: &Resource, namespace: Option<&str>) -> bool {
        let objects =
            |core: &Self| core.store.list(&resource.name, namespace, None, None).map(|page| page.objects);
        for (key, object) in objects(self).unwrap_or_default() {
            if !object.deleting {
                let _ = self.delete_object(resource, &key, &DeleteOptions::default());
            }
        }
        objects(self).is_ok_and(|objects| !objects.is_empty())
    }

    /// Looks again at a CRD being deleted when one of its objects is gone.
    fn recheck_definition(&self, resource: &str) {
        if resource.contains('.') {
            let key = Key::new("", resource);
            if self.store.get(DEFINITIONS, &key).is_some_and(|object| object.deleting) {
                self.empty_definition(&key);
            }
        }
    }

    fn empty_definition(&self, key: &Key) {
        let registry = self.registry();
        let left = registry.find_stored(&key.name).is_some_and(|resource| self.empty(resource, None));
        if !left {
            self.drop_finalizer(DEFINITIONS, key, CLEANUP_FINALIZER);
        }
    }
}

fn has_finalizer(object: &Value, name: &str) -> bool {
    object["metadata"]["finalizers"].as_array().into_iter().flatten().any(|finalizer| finalizer == name)
}
