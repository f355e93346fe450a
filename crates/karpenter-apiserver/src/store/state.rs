//! What the store's lock guards: tables, revisions, the index of owners and the queues of those who follow writes.
//!
//! `revision` is the latest write; `visible` is the latest write that readers may see. They differ only while writes
//! wait for the disk.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use super::field_index::{FieldIndex, indexed_position};
use super::history::{Compacted, Event, EventKind, History, Undo};
use super::{Change, Changed, Expected, Key, ResourceName, StoredObject};

/// One object and its key.
pub(super) type Entry = (Arc<Key>, Arc<StoredObject>);

/// Owner uid to the objects that name it.
type Dependents = HashMap<Box<str>, BTreeSet<(ResourceName, Arc<Key>)>>;

/// The objects of one resource and what happened to them lately.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) objects: BTreeMap<Arc<Key>, Arc<StoredObject>>,
    pub(super) history: History,
    index: FieldIndex,
}

impl Table {
    pub(super) fn new(history_limit: usize, compacted: u64) -> Self {
        Self {
            objects: BTreeMap::new(),
            history: History::new(history_limit, compacted),
            index: FieldIndex::default(),
        }
    }

    /// Returns an object as it was at `revision`, which the history must reach back to.
    pub(super) fn at(&self, key: &Key, revision: u64) -> Option<Arc<StoredObject>> {
        let later = self.history.after(revision).into_iter().flatten().find(|event| *event.key == *key);
        match later {
            Some(event) => event.previous.clone(),
            None => self.objects.get(key).cloned(),
        }
    }

    /// Returns the objects after `after`, of one namespace when it is given; `undo` turns the clock back.
    pub(super) fn range(&self, namespace: Option<&str>, after: Option<&Key>, undo: &Undo) -> Vec<Entry> {
        let start = match (after, namespace) {
            (Some(key), _) => Bound::Excluded(Arc::new(key.clone())),
            (None, Some(namespace)) => Bound::Included(Arc::new(Key::new(namespace, ""))),
            (None, None) => Bound::Unbounded,
        };
        let in_scope = |key: &Key| namespace.is_none_or(|namespace| &*key.namespace == namespace);
        let bounds = (start, Bound::Unbounded);
        let current = self.objects.range(bounds.clone()).take_while(|(key, _)| in_scope(key));
        let undo = undo.range(bounds).take_while(|(key, _)| in_scope(key));
        overlaid(current, undo)
    }

    /// Returns the objects with a value of the indexed field, and those that `undo` turns back.
    fn with(&self, value: &str, namespace: Option<&str>, undo: &Undo) -> Vec<Entry> {
        let in_scope = |key: &Key| namespace.is_none_or(|namespace| &*key.namespace == namespace);
        let current = self.index.with(value).filter(|key| in_scope(key));
        let current = current.filter_map(|key| self.objects.get_key_value(key));
        overlaid(current, undo.iter().filter(|(key, _)| in_scope(key)))
    }
}

/// Merges two sequences in key order; where both have a key, the second one counts.
fn overlaid<'t>(
    current: impl Iterator<Item = (&'t Arc<Key>, &'t Arc<StoredObject>)>,
    undo: impl Iterator<Item = (&'t Arc<Key>, &'t Option<Arc<StoredObject>>)>,
) -> Vec<Entry> {
    let mut merged = Vec::new();
    let mut undo = undo.peekable();
    for (key, object) in current {
        let mut replaced = false;
        while let Some((earlier, before)) = undo.next_if(|(earlier, _)| *earlier <= key) {
            merged.extend(before.iter().map(|before| (Arc::clone(earlier), Arc::clone(before))));
            replaced = earlier == key;
        }
        if !replaced {
            merged.push((Arc::clone(key), Arc::clone(object)));
        }
    }
    for (key, before) in undo {
        merged.extend(before.iter().map(|before| (Arc::clone(key), Arc::clone(before))));
    }
    merged
}

/// A write on its way to the disk.
#[derive(Debug)]
pub(super) struct Write {
    pub(super) resource: ResourceName,
    pub(super) key: Arc<Key>,
    /// The object after the write; for a removal its final state.
    pub(super) object: Arc<StoredObject>,
    pub(super) removed: bool,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) revision: u64,
    pub(super) visible: u64,
    pub(super) tables: HashMap<ResourceName, Table>,
    pub(super) dependents: Dependents,
    pub(super) changes: VecDeque<Change>,
    /// Writes that wait for the disk, oldest first; `None` when there is no disk.
    pub(super) queue: Option<Vec<Write>>,
    history_limit: usize,
}

impl State {
    pub(super) fn new(revision: u64, history_limit: usize, queue: Option<Vec<Write>>) -> Self {
        Self {
            revision,
            visible: revision,
            tables: HashMap::new(),
            dependents: HashMap::new(),
            changes: VecDeque::new(),
            queue,
            history_limit,
        }
    }

    pub(super) fn current(&self, resource: &str, key: &Key) -> Option<&Arc<StoredObject>> {
        self.tables.get(resource)?.objects.get(key)
    }

    /// Checks what a writer believes about the current state.
    pub(super) fn check(&self, resource: &str, key: &Key, expected: Expected) -> Result<(), Changed> {
        let current = self.current(resource, key);
        let holds = match expected {
            Expected::Absent => current.is_none(),
            Expected::Revision(revision) => current.is_some_and(|object| object.revision == revision),
        };
        if holds { Ok(()) } else { Err(Changed) }
    }

    /// Returns the objects at `revision`, as [`Table::range`] does.
    pub(super) fn list(
        &self,
        resource: &str,
        namespace: Option<&str>,
        after: Option<&Key>,
        revision: u64,
    ) -> Result<Vec<Entry>, Compacted> {
        let Some(table) = self.tables.get(resource) else { return Ok(Vec::new()) };
        let undo = if revision < self.revision { table.history.before(revision)? } else { Undo::new() };
        Ok(table.range(namespace, after, &undo))
    }

    /// Returns the objects at `revision`, as [`Table::with`] does.
    pub(super) fn list_with(
        &self,
        resource: &str,
        value: &str,
        namespace: Option<&str>,
        revision: u64,
    ) -> Result<Vec<Entry>, Compacted> {
        let Some(table) = self.tables.get(resource) else { return Ok(Vec::new()) };
        let undo = if revision < self.revision { table.history.before(revision)? } else { Undo::new() };
        Ok(table.with(value, namespace, &undo))
    }

    /// Makes a write: the object must carry the next revision. `indexed` is where its indexed field stands.
    pub(super) fn apply(
        &mut self,
        resource: &ResourceName,
        key: &Key,
        object: &Arc<StoredObject>,
        indexed: Option<usize>,
        removed: bool,
    ) {
        self.revision = object.revision;
        let limit = self.history_limit;
        let table = self.tables.entry(Arc::clone(resource)).or_insert_with(|| Table::new(limit, 0));
        let known = table.objects.get_key_value(key);
        let key = known.map_or_else(|| Arc::new(key.clone()), |(key, _)| Arc::clone(key));
        let previous = if removed {
            table.objects.remove(&key)
        } else {
            table.objects.insert(Arc::clone(&key), Arc::clone(object))
        };
        let kind = match (removed, &previous) {
            (true, _) => EventKind::Deleted,
            (false, None) => EventKind::Added,
            (false, Some(_)) => EventKind::Modified,
        };
        let after = (!removed).then_some(&**object);
        index_owners(&mut self.dependents, resource, &key, previous.as_deref(), after);
        if let Some(position) = indexed {
            table.index.change(position, &key, previous.as_deref(), after);
        }
        table.history.push(Event { kind, key: Arc::clone(&key), object: Arc::clone(object), previous });
        self.announce(resource, &key, object, removed);
        match &mut self.queue {
            Some(queue) => {
                let (resource, object) = (Arc::clone(resource), Arc::clone(object));
                queue.push(Write { resource, key, object, removed });
            }
            None => self.show(self.revision, resource),
        }
    }

    /// Puts an object that was read from the disk in its place.
    pub(super) fn restore(
        &mut self,
        resource: &ResourceName,
        key: Key,
        object: Arc<StoredObject>,
        indexed: Option<usize>,
    ) {
        let key = Arc::new(key);
        index_owners(&mut self.dependents, resource, &key, None, Some(&object));
        self.announce(resource, &key, &object, false);
        if let Some(table) = self.tables.get_mut(resource) {
            if let Some(position) = indexed {
                table.index.change(position, &key, None, Some(&object));
            }
            table.objects.insert(key, object);
        }
    }

    /// Gives the objects of a resource another form. That is no write: their revisions stay.
    pub(super) fn reform(
        &mut self,
        resource: &str,
        selectable_fields: &[String],
        reform: impl Fn(&mut serde_json::Value),
    ) {
        let Some(table) = self.tables.get_mut(resource) else { return };
        for (key, object) in &mut table.objects {
            let before = object.value();
            let mut after = before.clone();
            reform(&mut after);
            if after == before {
                continue;
            }
            let new = Arc::new(StoredObject::new(&after, object.revision, selectable_fields));
            if let Some(position) = indexed_position(selectable_fields) {
                table.index.change(position, key, Some(object), Some(&new));
            }
            *object = new;
        }
    }

    /// Queues what may give the collectors work.
    fn announce(
        &mut self,
        resource: &ResourceName,
        key: &Arc<Key>,
        object: &Arc<StoredObject>,
        removed: bool,
    ) {
        if removed || object.deleting || !object.owners.is_empty() {
            let (resource, key, object) = (Arc::clone(resource), Arc::clone(key), Arc::clone(object));
            self.changes.push_back(Change { resource, key, object, removed });
        }
    }

    /// Lets readers see the writes up to `revision`, of which some were to `resource`.
    pub(super) fn show(&mut self, revision: u64, resource: &str) {
        self.visible = self.visible.max(revision);
        if let Some(table) = self.tables.get_mut(resource) {
            table.history.trim(self.visible);
        }
    }
}

fn index_owners(
    dependents: &mut Dependents,
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
