//! Behaviour of a store with a disk: who sees a write when, what a restart finds, what a failing disk means.

use std::sync::mpsc::{Receiver, Sender, channel};

use futures::FutureExt as _;
use serde_json::json;

use super::state::Write;
use super::*;

fn resource() -> ResourceName {
    "pods".into()
}

fn put(store: &Store, name: &str, expected: Expected) -> u64 {
    let mut value = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name, "uid": name}});
    let key = Key::new("a", name);
    store.write(&resource(), &key, expected, &mut value, &[]).map(|object| object.revision).unwrap()
}

fn remove(store: &Store, name: &str, expected: u64) {
    store
        .remove(&resource(), &Key::new("a", name), expected, &mut json!({"metadata": {"name": name}}), &[])
        .unwrap();
}

fn visible_names(store: &Store) -> Vec<String> {
    let page = store.list("pods", None, None, Some(store.visible_revision())).unwrap();
    page.objects.iter().map(|(key, _)| key.name.to_string()).collect()
}

/// A disk that commits when the test says so, and reports how many writes each commit had.
struct Gate {
    verdicts: Mutex<Receiver<Result<(), DiskError>>>,
    batches: Mutex<Sender<usize>>,
}

impl Journal for Gate {
    fn commit(&self, writes: &[Write]) -> Result<(), DiskError> {
        self.batches.lock().unwrap().send(writes.len()).unwrap();
        // When the test is over, so is the disk.
        self.verdicts.lock().unwrap().recv().unwrap_or(Err(DiskError::Taken))
    }
}

/// The verdicts come first: closing the store waits for the disk, which waits for them.
struct Gated {
    verdicts: Sender<Result<(), DiskError>>,
    store: Store,
    batches: Receiver<usize>,
}

fn gated(history_limit: usize) -> Gated {
    let (verdicts, received) = channel();
    let (sent, batches) = channel();
    let gate = Gate { verdicts: Mutex::new(received), batches: Mutex::new(sent) };
    let store = Store::through(history_limit, &[], Arc::new(gate)).unwrap();
    Gated { verdicts, store, batches }
}

impl Gated {
    /// Lets the disk commit what was written so far.
    async fn commit_all(&self) {
        while self.store.flushed().now_or_never().is_none() {
            self.batches.recv().unwrap();
            let before = self.store.visible_revision();
            self.verdicts.send(Ok(())).unwrap();
            self.store.shared.signal.subscribe().wait_for(|signal| signal.visible > before).await.unwrap();
        }
    }
}

#[tokio::test]
async fn readers_see_a_write_when_it_is_durable_and_writers_before() {
    let gated = gated(10);
    let store = &gated.store;
    let mut subscription = store.subscribe(&resource(), store.visible_revision()).unwrap();
    let key = Key::new("a", "x");
    let revision = put(store, "x", Expected::Absent);
    assert!(store.get("pods", &key).is_some());
    assert!(store.get_visible("pods", &key).is_none());
    assert_eq!(store.visible_revision(), revision - 1);
    assert!(visible_names(store).is_empty());
    assert!(subscription.drain(store).unwrap().is_empty());
    assert!(store.flushed().now_or_never().is_none());
    let changed = put(store, "x", Expected::Revision(revision));
    gated.verdicts.send(Ok(())).unwrap();
    gated.verdicts.send(Ok(())).unwrap();
    store.flushed().await.unwrap();
    assert_eq!(store.get_visible("pods", &key).unwrap().revision, changed);
    let seen: Vec<u64> =
        subscription.drain(store).unwrap().iter().map(|event| event.object.revision).collect();
    assert_eq!(seen, [revision, changed]);
}

#[tokio::test]
async fn a_removal_on_its_way_to_the_disk_hides_nothing() {
    let gated = gated(10);
    let store = &gated.store;
    let kept = put(store, "kept", Expected::Absent);
    let gone = put(store, "gone", Expected::Absent);
    gated.commit_all().await;
    remove(store, "gone", gone);
    put(store, "kept", Expected::Revision(kept));
    put(store, "new", Expected::Absent);
    assert_eq!(visible_names(store), ["gone", "kept"]);
    assert_eq!(store.get_visible("pods", &Key::new("a", "kept")).unwrap().revision, kept);
    assert_eq!(store.get_visible("pods", &Key::new("a", "gone")).unwrap().revision, gone);
    gated.commit_all().await;
    assert_eq!(visible_names(store), ["kept", "new"]);
}

#[tokio::test]
async fn writes_that_gather_during_a_commit_share_the_next_one() {
    let gated = gated(10);
    put(&gated.store, "a", Expected::Absent);
    assert_eq!(gated.batches.recv().unwrap(), 1);
    for name in ["b", "c", "d"] {
        put(&gated.store, name, Expected::Absent);
    }
    gated.verdicts.send(Ok(())).unwrap();
    assert_eq!(gated.batches.recv().unwrap(), 3);
    gated.verdicts.send(Ok(())).unwrap();
    gated.store.flushed().await.unwrap();
}

#[tokio::test]
async fn history_that_nobody_has_seen_is_not_dropped() {
    let gated = gated(1);
    let start = gated.store.visible_revision();
    for name in ["a", "b", "c"] {
        put(&gated.store, name, Expected::Absent);
    }
    gated.store.compact();
    assert!(visible_names(&gated.store).is_empty());
    assert!(gated.store.subscribe(&resource(), start).is_ok());
    gated.commit_all().await;
    assert!(gated.store.subscribe(&resource(), start).is_err());
    assert_eq!(visible_names(&gated.store), ["a", "b", "c"]);
}

#[tokio::test]
async fn a_failing_disk_stops_the_store_and_shows_nothing_more() {
    let gated = gated(10);
    let store = &gated.store;
    put(store, "a", Expected::Absent);
    gated.commit_all().await;
    put(store, "b", Expected::Absent);
    gated.verdicts.send(Err(std::io::Error::other("no space left").into())).unwrap();
    let stopped = store.flushed().await.unwrap_err();
    assert!(stopped.to_string().contains("no space left"), "{stopped}");
    assert_eq!(store.progress().stopped().await, Err(stopped));
    assert_eq!(visible_names(store), ["a"]);
    put(store, "c", Expected::Absent);
    assert!(store.flushed().await.is_err());
    assert!(!store.progress().changed().await);
}

#[tokio::test]
async fn a_restart_finds_every_write_and_the_end_of_its_history() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    let file = std::fs::File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    let disk = Arc::new(Disk::create(file).unwrap());
    let store = Store::open(10, Arc::clone(&disk)).unwrap();
    let first = put(&store, "a", Expected::Absent);
    let removed = put(&store, "b", Expected::Absent);
    let kept = put(&store, "a", Expected::Revision(first));
    remove(&store, "b", removed);
    let last = store.revision();
    let text = store.get("pods", &Key::new("a", "a")).unwrap().to_bytes();
    drop(store);
    drop(disk);

    let disk = Arc::new(Disk::open(&path).unwrap());
    let store = Store::open(10, Arc::clone(&disk)).unwrap();
    store.restore(&disk, &resource(), &[]).unwrap();
    let object = store.get_visible("pods", &Key::new("a", "a")).unwrap();
    assert_eq!((object.revision, object.to_bytes()), (kept, text));
    assert_eq!((store.revision(), store.visible_revision()), (last, last));
    assert!(store.subscribe(&resource(), last - 1).is_err(), "the removal is not remembered");
    assert!(store.subscribe(&resource(), last).is_ok());
    assert!(store.subscribe(&"nodes".into(), 1).is_ok(), "nothing ever happened to nodes");
    assert_eq!(put(&store, "b", Expected::Absent), last + 1);
}
