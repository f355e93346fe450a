//! The object store: current state, one global revision, and per-resource watch history.
//!
//! Every write takes the next revision. Each resource keeps its objects ordered by namespace and name and a ring of
//! its latest events; what falls out of the ring is *compacted*, and a watch or a paged list that needs it is told so
//! (410 Gone at the border). Lists at an older revision are rebuilt by undoing the events since.
//!
//! All of it is in memory. A store with a disk writes through: one thread takes whatever writes have gathered and
//! commits them together (see `writer`). Until then they exist for the next writer, whose own write will be committed
//! after them, and not for readers: [`Store::get`] and [`Store::revision`] show the latest write, and whoever answers
//! a client from them waits for [`Store::flushed`]; [`Store::get_visible`], [`Store::visible_revision`] and
//! subscriptions show only what survives a crash. Without a disk both are the same and nobody waits.
//!
//! The store knows nothing of Kubernetes kinds beyond metadata. Start at [`Store::write`] and [`Store::list`].

mod disk;
mod field_index;
mod history;
mod object;
mod pool;
mod signal;
mod state;
mod text;
mod watch;
mod writer;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

pub use disk::{Disk, DiskError};
pub use field_index::indexed_position;
pub use history::{Compacted, Event, EventKind};
pub use object::{Key, Owner, StoredObject};
pub use pool::Labels;
use state::{State, Table};
use watch::{Ending, Signal};
pub use watch::{Progress, Subscription};
use writer::{Journal, Writer};

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

/// Writes can no longer be made durable: the disk failed, or the store is closed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Stopped(pub String);

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

/// What the store shares with the thread that writes to the disk.
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Wakes the writer thread: there is something to commit, or nothing will follow.
    work: Condvar,
    signal: signal::Sender<Signal>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no code panics while holding the store")
    }
}

/// The store. All methods take `&self`; one lock guards the state and is never held across an await.
#[derive(Debug)]
pub struct Store {
    shared: Arc<Shared>,
    writer: Option<Writer>,
}

impl Store {
    /// Builds an empty store that remembers `history_limit` events of each resource.
    pub fn new(history_limit: usize) -> Self {
        Self { shared: Arc::new(shared(1, history_limit, false)), writer: None }
    }

    /// Builds a store that goes on where the disk's last one stopped, and writes through to it.
    ///
    /// The objects are not there yet: [`Store::restore`] brings those of one resource back.
    ///
    /// # Errors
    /// Returns what the disk complains about.
    pub fn open(history_limit: usize, disk: Arc<Disk>) -> Result<Self, DiskError> {
        let resources = disk.resources()?;
        Self::through(history_limit, &resources, disk)
    }

    /// Builds a store of resources with the last revision of each, that writes through to a journal.
    fn through(
        history_limit: usize,
        resources: &[(ResourceName, u64)],
        journal: Arc<impl Journal>,
    ) -> Result<Self, DiskError> {
        let revision = resources.iter().map(|(_, revision)| *revision).fold(1, u64::max);
        let shared = Arc::new(shared(revision, history_limit, true));
        {
            let mut state = shared.lock();
            for (resource, last) in resources {
                state.tables.insert(Arc::clone(resource), Table::new(history_limit, *last));
            }
        }
        let writer = Some(Writer::start(Arc::clone(&shared), journal)?);
        Ok(Self { shared, writer })
    }

    /// Reads the objects of a resource from the disk.
    ///
    /// # Errors
    /// Returns what the disk complains about.
    pub fn restore(
        &self,
        disk: &Disk,
        resource: &ResourceName,
        selectable_fields: &[String],
    ) -> Result<(), DiskError> {
        disk.read(resource, selectable_fields, |key, object| {
            self.lock().restore(resource, key, Arc::new(object), indexed_position(selectable_fields));
        })
    }

    /// Gives the objects of a resource another form, without a write that anybody would see.
    pub fn reform(&self, resource: &str, selectable_fields: &[String], reform: impl Fn(&mut Value)) {
        self.lock().reform(resource, selectable_fields, reform);
    }

    /// Returns the latest revision, whether readers may see it yet or not.
    pub fn revision(&self) -> u64 {
        self.lock().revision
    }

    /// Returns the latest revision that readers may see.
    pub fn visible_revision(&self) -> u64 {
        self.lock().visible
    }

    /// Returns one object as the latest write left it.
    pub fn get(&self, resource: &str, key: &Key) -> Option<Arc<StoredObject>> {
        self.lock().current(resource, key).cloned()
    }

    /// Returns one object as readers may see it.
    pub fn get_visible(&self, resource: &str, key: &Key) -> Option<Arc<StoredObject>> {
        let state = self.lock();
        if state.visible == state.revision {
            return state.current(resource, key).cloned();
        }
        state.tables.get(resource)?.at(key, state.visible)
    }

    /// Returns how many objects a resource has.
    pub fn len(&self, resource: &str) -> usize {
        self.lock().tables.get(resource).map_or(0, |table| table.objects.len())
    }

    /// Returns the objects after `after`, of one namespace when it is given, as they were at `revision`, or as the
    /// latest write left them.
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
        let revision = revision.map_or(state.revision, |wanted| wanted.min(state.revision));
        let objects = state.list(resource, namespace, after, revision)?;
        Ok(Page { revision, objects })
    }

    /// Returns the objects whose indexed field (see [`indexed_position`]) has a value, of one namespace when it is given,
    /// as they were at `revision`. Objects that were written since may be among them whatever their value.
    ///
    /// # Errors
    /// Returns [`Compacted`] when the history no longer reaches back to `revision`.
    pub fn list_with(
        &self,
        resource: &str,
        value: &str,
        namespace: Option<&str>,
        revision: u64,
    ) -> Result<Page, Compacted> {
        let state = self.lock();
        let revision = revision.min(state.revision);
        let objects = state.list_with(resource, value, namespace, revision)?;
        Ok(Page { revision, objects })
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
        self.commit(resource, key, expected, value, selectable_fields, false)
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
        self.commit(resource, key, Expected::Revision(expected), last, selectable_fields, true)
    }

    fn commit(
        &self,
        resource: &ResourceName,
        key: &Key,
        expected: Expected,
        value: &mut Value,
        selectable_fields: &[String],
        removed: bool,
    ) -> Result<Arc<StoredObject>, Changed> {
        let mut state = self.lock();
        state.check(resource, key, expected)?;
        let revision = state.revision + 1;
        value["metadata"]["resourceVersion"] = Value::String(revision.to_string());
        let object = Arc::new(StoredObject::new(value, revision, selectable_fields));
        state.apply(resource, key, &object, indexed_position(selectable_fields), removed);
        if self.writer.is_some() {
            self.shared.work.notify_one();
        } else {
            self.shared.signal.send_modify(|signal| signal.visible = revision);
        }
        Ok(object)
    }

    /// Waits until everything written so far survives a crash. Without a disk there is nothing to wait for.
    ///
    /// # Errors
    /// Returns [`Stopped`] when that will not happen.
    pub async fn flushed(&self) -> Result<(), Stopped> {
        if self.writer.is_none() {
            return Ok(());
        }
        let wanted = self.revision();
        let mut signal = self.shared.signal.subscribe();
        let reached = signal.wait_for(|signal| signal.visible >= wanted || signal.ending.is_some()).await;
        match reached {
            Ok(signal) if signal.visible >= wanted => Ok(()),
            Ok(signal) => Err(signal.ending.clone().unwrap_or_default().into()),
            Err(_) => Err(Ending::default().into()),
        }
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
        Ok(Subscription::new(Arc::clone(resource), revision, self.progress()))
    }

    /// Returns the events of a resource after `revision` and the revision up to which they are complete.
    ///
    /// # Errors
    /// Returns [`Compacted`] when some of them are no longer remembered.
    pub fn events_after(&self, resource: &str, revision: u64) -> Result<(Vec<Arc<Event>>, u64), Compacted> {
        let state = self.lock();
        let visible = state.visible;
        let events = match state.tables.get(resource) {
            Some(table) => {
                let events = table.history.after(revision)?;
                events.take_while(|event| event.object.revision <= visible).cloned().collect()
            }
            None => Vec::new(),
        };
        Ok((events, visible))
    }

    /// Forgets all history, as a compaction of the backing store would: older watches get 410 Gone.
    pub fn compact(&self) {
        let mut state = self.lock();
        let visible = state.visible;
        for table in state.tables.values_mut() {
            table.history.compact(visible);
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

    /// Follows what readers may see.
    pub fn progress(&self) -> Progress {
        Progress::new(self.shared.signal.subscribe())
    }

    /// Ends all subscriptions, commits what was written and closes the disk.
    pub fn close(&self) {
        self.shared.signal.send_modify(|signal| {
            signal.ending.get_or_insert(Ending::Closed);
        });
        if let Some(writer) = &self.writer {
            writer.finish(&self.shared);
        }
    }

    /// Whether writes go to a disk.
    pub fn is_durable(&self) -> bool {
        self.writer.is_some()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.lock()
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.close();
    }
}

fn shared(revision: u64, history_limit: usize, durable: bool) -> Shared {
    Shared {
        state: Mutex::new(State::new(revision, history_limit, durable.then(Vec::new))),
        work: Condvar::new(),
        signal: signal::Sender::new(Signal { visible: revision, ending: None }),
    }
}

#[cfg(test)]
mod durable_tests;
#[cfg(test)]
mod tests;
