//! Following the store: what wakes its followers, and a cursor into the history of one resource.

use std::sync::Arc;

use super::signal::Receiver;

use super::{Compacted, Event, ResourceName, Stopped, Store};

/// What followers are told.
#[derive(Debug, Clone)]
pub(super) struct Signal {
    /// The latest revision that readers may see.
    pub(super) visible: u64,
    /// Why nothing will follow.
    pub(super) ending: Option<Ending>,
}

/// Why a store stopped.
#[derive(Debug, Clone, Default)]
pub(super) enum Ending {
    /// Its owner is done with it.
    #[default]
    Closed,
    /// The disk did not take a write.
    Failed(Arc<str>),
}

impl From<Ending> for Stopped {
    fn from(ending: Ending) -> Self {
        Self(match ending {
            Ending::Closed => "the server is shutting down".to_owned(),
            Ending::Failed(why) => why.to_string(),
        })
    }
}

/// Waits for the store to move on.
#[derive(Debug)]
pub struct Progress {
    signal: Receiver<Signal>,
}

impl Progress {
    pub(super) fn new(signal: Receiver<Signal>) -> Self {
        Self { signal }
    }

    /// Takes note of what has happened so far.
    pub fn seen(&mut self) {
        self.signal.borrow_and_update();
    }

    /// Waits until something happens that was not [seen](Progress::seen) yet; `false` when nothing ever will.
    pub async fn changed(&mut self) -> bool {
        if self.signal.borrow().ending.is_some() {
            return false;
        }
        self.signal.changed().await.is_ok() && self.signal.borrow().ending.is_none()
    }

    /// Waits until the store stops.
    ///
    /// # Errors
    /// Returns why, if nobody asked it to.
    pub async fn stopped(&mut self) -> Result<(), Stopped> {
        match self.signal.wait_for(|signal| signal.ending.is_some()).await {
            Ok(signal) => match &signal.ending {
                Some(ending @ Ending::Failed(_)) => Err(ending.clone().into()),
                Some(Ending::Closed) | None => Ok(()),
            },
            Err(_) => Ok(()),
        }
    }
}

/// A position in the history of one resource.
#[derive(Debug)]
pub struct Subscription {
    resource: ResourceName,
    revision: u64,
    progress: Progress,
}

impl Subscription {
    pub(super) fn new(resource: ResourceName, revision: u64, progress: Progress) -> Self {
        Self { resource, revision, progress }
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
        self.progress.seen();
        let (events, revision) = store.events_after(&self.resource, self.revision)?;
        self.revision = revision.max(self.revision);
        Ok(events)
    }

    /// Waits until something was written since the last [`Subscription::drain`]; `false` when the store has stopped.
    pub async fn changed(&mut self) -> bool {
        self.progress.changed().await
    }
}
