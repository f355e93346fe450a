//! The object store: current state, one global revision, and per-resource watch history.
//!
//! Every write takes the next revision. Each resource keeps its objects ordered by namespace and name and a ring of
//! its latest events; what falls out of the ring is *compacted*, and a watch or a paged list that needs it is told so
//! (410 Gone at the border). Lists at an older revision are rebuilt by undoing the events since.
//!
//! The store knows nothing of Kubernetes kinds beyond metadata. Start at [`Store::write`] and [`Store::list`].

mod history;
mod object;
mod watch;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::Value;

use history::History;
pub use history::{Compacted, Event, EventKind};
pub use object::{Key, Owner, StoredObject};
pub use watch::Subscription;

/// A resource's name in the store: `pods`, `deployments.apps`.
pub type ResourceName = Arc<str>;

/// What a writer believes about the current state; the write fails when it is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// No object has this key.
    Absent,
    /// The object has this revision.
    Revision(u64),
}

/// The expectation of a write did not hold; read again and decide again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the object has changed since it was read")]
pub struct Changed;

/// What one page of a list returns.
#[derive(Debug)]
pub struct Page {
    /// The revision the page shows.
    pub revision: u64,
    /// The objects in key order.
    pub objects: Vec<(Arc<Key>, Arc<StoredObject>)>,
}

/// A write that may give the collectors work: a removal, or a write of an object with owners or being deleted.
#[derive(Debug, Clone)]
pub struct Change {
    /// The resource.
    pub resource: ResourceName,
    /// The key.
    pub key: Arc<Key>,
    /// The object after the write; for a removal its final state.
    pub object: Arc<StoredObject>,
    /// Whether the object is gone.
    pub removed: bool,
}

#[derive(Debug)]
struct Table {
    objects: BTreeMap<Arc<Key>, Arc<StoredObject>>,
    history: History,
}

#[derive(Debug)]
struct State {
    revision: u64,
    tables: HashMap<ResourceName, Table>,
    /// Owner uid to the objects that name it.
    dependents: HashMap<Box<str>, BTreeSet<(ResourceName, Arc<Key>)>>,
    changes: VecDeque<Change>,
}

/// The store. All methods take `&self`; one lock guards the state and is never held across an await.
#[derive(Debug)]
pub struct Store {
    state: Mutex<State>,
    history_limit: usize,
    changed: tokio::sync::watch::Sender<u64>,
}

impl Store {
    /// Builds an empty store that remembers `history_limit` events of each resource.
    pub fn new(history_limit: usize) -> Self {
        let state = State {
            revision: 1,
            tables: HashMap::new(),
            dependents: HashMap::new(),
            changes: VecDeque::new(),
        };
        Self { state: Mutex::new(state), history_limit, changed: tokio::sync::watch::Sender::new(1) }
    }

    /// Returns the latest revision.
    pub fn revision(&self) -> u64 {
        self.lock().revision
    }

    /// Returns one object.
    pub fn get(&self, resource: &str, key: &Key) -> Option<Arc<StoredObject>> {
        self.lock().tables.get(resource)?.objects.get(key).cloned()
    }

    /// Returns how many objects a resource has.
    pub fn len(&self, resource: &str) -> usize {
        self.lock().tables.get(resource).map_or(0, |table| table.objects.len())
    }

    /// Returns the objects after `after`, of one namespace when it is given, as they were at `revision`.
    ///
    /// # Errors
    /// Returns [`Compacted`] when the history no longer reaches back to `revision`.
    pub fn list(
        &self,
        resource: &str,
        namespace: Option<&str>,
        after: Option<&Key>,
        revision: Option<u64>,
    ) -> Result<Page, Compacted> {
        let state = self.lock();
        let revision = revision.filter(|wanted| *wanted < state.revision).unwrap_or(state.revision);
        let Some(table) = state.tables.get(resource) else {
            return Ok(Page { revision, objects: Vec::new() });
        };
        let start = match (after, namespace) {
            (Some(key), _) => Bound::Excluded(Arc::new(key.clone())),
            (None, Some(namespace)) => Bound::Included(Arc::new(Key::new(namespace, ""))),
            (None, None) => Bound::Unbounded,
        };
        let in_scope = |key: &Key| namespace.is_none_or(|namespace| &*key.namespace == namespace);
        let current = table
            .objects
            .range((start.clone(), Bound::Unbounded))
            .take_while(|(key, _)| in_scope(key))
            .map(|(key, object)| (Arc::clone(key), Arc::clone(object)));
        if revision == state.revision {
            return Ok(Page { revision, objects: current.collect() });
        }
        let mut objects: BTreeMap<_, _> = current.collect();
        for (key, before) in table.history.before(revision)? {
            let beyond = match &start {
                Bound::Excluded(start) => key > *start,
                Bound::Included(start) => key >= *start,
                Bound::Unbounded => true,
            };
            if !beyond || !in_scope(&key) {
                continue;
            }
            match before {
                Some(object) => objects.insert(key, object),
                None => objects.remove(&key),
            };
        }
        Ok(Page { revision, objects: objects.into_iter().collect() })
    }

    /// Writes an object and stamps the new revision into `metadata.resourceVersion` of `value`.
    ///
    /// # Errors
    /// Returns [`Changed`] when `expected` does not hold.
    pub fn write(
        &self,
        resource: &ResourceName,
        key: &Key,
        expected: Expected,
        value: &mut Value,
        selectable_fields: &[String],
    ) -> Result<Arc<StoredObject>, Changed> {
        let mut state = self.lock();
        let previous = state.current(resource, key);
        check(expected, previous.as_deref())?;
        let revision = state.next_revision();
        value["metadata"]["resourceVersion"] = Value::String(revision.to_string());
        let object = Arc::new(StoredObject::new(value, revision, selectable_fields));
        let kind = if previous.is_some() { EventKind::Modified } else { EventKind::Added };
        state.commit(self.history_limit, resource, key, kind, Arc::clone(&object), previous);
        self.changed.send_replace(revision);
        Ok(object)
    }

    /// Removes an object; `last` is its final state, which watchers receive and which gets the new revision.
    ///
    /// # Errors
    /// Returns [`Changed`] when `expected` does not hold.
    pub fn remove(
        &self,
        resource: &ResourceName,
        key: &Key,
        expected: u64,
        last: &mut Value,
        selectable_fields: &[String],
    ) -> Result<Arc<StoredObject>, Changed> {
        let mut state = self.lock();
        let previous = state.current(resource, key);
        check(Expected::Revision(expected), previous.as_deref())?;
        let revision = state.next_revision();
        last["metadata"]["resourceVersion"] = Value::String(revision.to_string());
        let object = Arc::new(StoredObject::new(last, revision, selectable_fields));
        state.commit(self.history_limit, resource, key, EventKind::Deleted, Arc::clone(&object), previous);
        self.changed.send_replace(revision);
        Ok(object)
    }

    /// Starts following a resource after `revision`.
    ///
    /// # Errors
    /// Returns [`Compacted`] when events after `revision` are no longer remembered.
    pub fn subscribe(&self, resource: &ResourceName, revision: u64) -> Result<Subscription, Compacted> {
        let state = self.lock();
        if let Some(table) = state.tables.get(resource) {
            table.history.check(revision)?;
        }
        Ok(Subscription::new(Arc::clone(resource), revision, self.changed.subscribe()))
    }

    /// Returns the events of a resource after `revision` and the revision up to which they are complete.
    ///
    /// # Errors
    /// Returns [`Compacted`] when some of them are no longer remembered.
    pub fn events_after(&self, resource: &str, revision: u64) -> Result<(Vec<Arc<Event>>, u64), Compacted> {
        let state = self.lock();
        let events = match state.tables.get(resource) {
            Some(table) => table.history.after(revision)?.cloned().collect(),
            None => Vec::new(),
        };
        Ok((events, state.revision))
    }

    /// Forgets all history, as a compaction of the backing store would: older watches get 410 Gone.
    pub fn compact(&self) {
        let mut state = self.lock();
        for table in state.tables.values_mut() {
            table.history.compact();
        }
    }

    /// Returns the objects that name `uid` as an owner.
    pub fn dependents(&self, uid: &str) -> Vec<(ResourceName, Arc<Key>)> {
        self.lock().dependents.get(uid).into_iter().flatten().cloned().collect()
    }

    /// Takes the oldest change that no collector has looked at yet.
    pub fn next_change(&self) -> Option<Change> {
        self.lock().changes.pop_front()
    }

    /// Returns the channel that carries the latest revision.
    pub fn revisions(&self) -> tokio::sync::watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no code panics while holding the store")
    }
}

impl State {
    fn current(&self, resource: &str, key: &Key) -> Option<Arc<StoredObject>> {
        self.tables.get(resource)?.objects.get(key).cloned()
    }

    fn next_revision(&mut self) -> u64 {
        self.revision += 1;
        self.revision
    }

    fn commit(
        &mut self,
        history_limit: usize,
        resource: &ResourceName,
        key: &Key,
        kind: EventKind,
        object: Arc<StoredObject>,
        previous: Option<Arc<StoredObject>>,
    ) {
        let table = self
            .tables
            .entry(Arc::clone(resource))
            .or_insert_with(|| Table { objects: BTreeMap::new(), history: History::new(history_limit) });
        let key = table
            .objects
            .get_key_value(key)
            .map_or_else(|| Arc::new(key.clone()), |entry| Arc::clone(entry.0));
        let removed = kind == EventKind::Deleted;
        if removed {
            table.objects.remove(&key);
        } else {
            table.objects.insert(Arc::clone(&key), Arc::clone(&object));
        }
        index_owners(
            &mut self.dependents,
            resource,
            &key,
            previous.as_deref(),
            (!removed).then_some(&*object),
        );
        if removed || object.deleting || !object.owners.is_empty() {
            let (resource, key) = (Arc::clone(resource), Arc::clone(&key));
            self.changes.push_back(Change { resource, key, object: Arc::clone(&object), removed });
        }
        table.history.push(Event { kind, key, object, previous });
    }
}

fn check(expected: Expected, current: Option<&StoredObject>) -> Result<(), Changed> {
    let holds = match expected {
        Expected::Absent => current.is_none(),
        Expected::Revision(revision) => current.is_some_and(|object| object.revision == revision),
    };
    if holds { Ok(()) } else { Err(Changed) }
}

fn index_owners(
    dependents: &mut HashMap<Box<str>, BTreeSet<(ResourceName, Arc<Key>)>>,
    resource: &ResourceName,
    key: &Arc<Key>,
    before: Option<&StoredObject>,
    after: Option<&StoredObject>,
) {
    let entry = (Arc::clone(resource), Arc::clone(key));
    let uids = |object: Option<&StoredObject>| -> BTreeSet<Box<str>> {
        object.map(|object| object.owners.iter().map(|owner| owner.uid.clone()).collect()).unwrap_or_default()
    };
    let (before, after) = (uids(before), uids(after));
    for uid in before.difference(&after) {
        if let Some(entries) = dependents.get_mut(uid) {
            entries.remove(&entry);
            if entries.is_empty() {
                dependents.remove(uid);
            }
        }
    }
    for uid in after.difference(&before) {
        dependents.entry(uid.clone()).or_default().insert(entry.clone());
    }
}

#[cfg(test)]
mod tests;
