//! Group commit: one thread takes the writes that have gathered and commits them together.
//!
//! While a commit waits for the disk, more writes gather and share the next one. Batches are taken from the queue
//! under the store's lock, where revisions are given, so they are committed in the order of revisions, and what a
//! crash loses is always a suffix that nobody was told about. Readers are shown a batch only when it is durable.
//!
//! A failed commit is the end: the state in memory is ahead of what the disk will ever hold, so nothing more is
//! acknowledged or shown, and the process must start again from the disk.

use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use super::disk::DiskError;
use super::state::Write;
use super::watch::Ending;
use super::{PoisonError, Shared};

/// What makes writes durable.
pub(super) trait Journal: Send + Sync + 'static {
    /// Makes writes durable in their order, all or none.
    fn commit(&self, writes: &[Write]) -> Result<(), DiskError>;
}

/// The thread that owns the way to the disk.
#[derive(Debug)]
pub(super) struct Writer {
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    pub(super) fn start(shared: Arc<Shared>, journal: Arc<impl Journal>) -> Result<Self, DiskError> {
        let thread =
            std::thread::Builder::new().name("store-writer".into()).spawn(move || run(&shared, &*journal))?;
        Ok(Self { thread: Mutex::new(Some(thread)) })
    }

    /// Commits what is left and ends the thread.
    pub(super) fn finish(&self, shared: &Shared) {
        // The lock makes sure that the thread is either waiting, and is woken, or has yet to look at the ending.
        drop(shared.lock());
        shared.work.notify_one();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // A panic in the thread has already been reported where it happened.
            let _ = thread.join();
        }
    }
}

fn run(shared: &Shared, journal: &impl Journal) {
    while let Some(batch) = next_batch(shared) {
        match journal.commit(&batch) {
            Ok(()) => show(shared, &batch),
            Err(error) => {
                let why = format!("the data directory does not take writes any more: {error}").into();
                shared.signal.send_modify(|signal| signal.ending = Some(Ending::Failed(why)));
                return;
            }
        }
    }
}

/// Waits for writes; `None` when the store is closing and all are committed.
fn next_batch(shared: &Shared) -> Option<Vec<Write>> {
    let mut state = shared.lock();
    loop {
        let batch = state.queue.as_mut().map(std::mem::take).unwrap_or_default();
        if !batch.is_empty() {
            return Some(batch);
        }
        if shared.signal.borrow().ending.is_some() {
            return None;
        }
        state = shared.work.wait(state).expect("no code panics while holding the store");
    }
}

fn show(shared: &Shared, batch: &[Write]) {
    let mut state = shared.lock();
    let Some(last) = batch.last().map(|write| write.object.revision) else { return };
    for write in batch {
        state.show(last, &write.resource);
    }
    drop(state);
    shared.signal.send_modify(|signal| signal.visible = last);
}
