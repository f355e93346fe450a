//! The ring of a resource's latest events.
//!
//! Events are kept oldest first. `compacted` is the highest revision whose event may be missing: a reader at or above
//! it can be served completely. Events that readers may not see yet are never dropped, whatever the limit says.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::{Key, StoredObject};

/// What happened to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// It was created.
    Added,
    /// It was changed.
    Modified,
    /// It was removed.
    Deleted,
}

/// One write to one object.
#[derive(Debug)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// Which object.
    pub key: Arc<Key>,
    /// The object after the write; for a removal its final state.
    pub object: Arc<StoredObject>,
    /// The object before the write.
    pub previous: Option<Arc<StoredObject>>,
}

/// History before the asked revision is no longer held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("history before revision {oldest} is compacted")]
pub struct Compacted {
    /// The oldest revision that can be served.
    pub oldest: u64,
}

#[derive(Debug)]
pub(super) struct History {
    events: VecDeque<Arc<Event>>,
    limit: usize,
    compacted: u64,
}

/// Objects as they were before some events; `None` for those that did not exist.
pub(super) type Undo = BTreeMap<Arc<Key>, Option<Arc<StoredObject>>>;

impl History {
    /// Builds a history that remembers `limit` events, and none up to the revision `compacted`.
    pub(super) fn new(limit: usize, compacted: u64) -> Self {
        Self { events: VecDeque::new(), limit, compacted }
    }

    pub(super) fn push(&mut self, event: Event) {
        self.events.push_back(Arc::new(event));
    }

    /// Drops the oldest events beyond the limit, of those up to the revision `visible`.
    pub(super) fn trim(&mut self, visible: u64) {
        self.keep(self.limit, visible);
    }

    /// Drops all events up to the revision `visible`.
    pub(super) fn compact(&mut self, visible: u64) {
        self.keep(0, visible);
    }

    fn keep(&mut self, count: usize, visible: u64) {
        while self.events.len() > count
            && let Some(oldest) = self.events.front().map(|event| event.object.revision)
            && oldest <= visible
        {
            self.events.pop_front();
            self.compacted = oldest;
        }
    }

    /// Checks that everything after `revision` is remembered.
    pub(super) fn check(&self, revision: u64) -> Result<(), Compacted> {
        if revision < self.compacted { Err(Compacted { oldest: self.compacted }) } else { Ok(()) }
    }

    /// Returns the events after `revision`, oldest first.
    pub(super) fn after(&self, revision: u64) -> Result<impl Iterator<Item = &Arc<Event>>, Compacted> {
        self.check(revision)?;
        let start = self.events.partition_point(|event| event.object.revision <= revision);
        Ok(self.events.range(start..))
    }

    /// Returns what the objects written after `revision` were at `revision`.
    pub(super) fn before(&self, revision: u64) -> Result<Undo, Compacted> {
        let mut undo = Undo::new();
        for event in self.after(revision)? {
            undo.entry(Arc::clone(&event.key)).or_insert_with(|| event.previous.clone());
        }
        Ok(undo)
    }
}
