//! Following a resource: a cursor into its history and a wake-up when the store moves on.

use std::sync::Arc;

use super::{Compacted, Event, ResourceName, Store};

/// A position in the history of one resource.
#[derive(Debug)]
pub struct Subscription {
    resource: ResourceName,
    revision: u64,
    wake: tokio::sync::watch::Receiver<u64>,
}

impl Subscription {
    pub(super) fn new(
        resource: ResourceName,
        revision: u64,
        wake: tokio::sync::watch::Receiver<u64>,
    ) -> Self {
        Self { resource, revision, wake }
    }

    /// The revision up to which everything has been delivered.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns the events since the last call, oldest first.
    ///
    /// # Errors
    /// Returns [`Compacted`] when the follower was too slow and events were dropped.
    pub fn drain(&mut self, store: &Store) -> Result<Vec<Arc<Event>>, Compacted> {
        self.wake.borrow_and_update();
        let (events, revision) = store.events_after(&self.resource, self.revision)?;
        self.revision = revision.max(self.revision);
        Ok(events)
    }

    /// Waits until something was written since the last [`Subscription::drain`]; `false` when the store is gone.
    pub async fn changed(&mut self) -> bool {
        self.wake.changed().await.is_ok()
    }
}
