//! kill -9 while clients write: what was answered is there, what was not is there whole or not at all, no version is
//! given twice, and watches go on or are told to start over.
//!
//! Two kills run with every `cargo test`; `KARPENTER_TEST_KILLS` asks for more, as `cargo xtask test --all` does.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::{Arc, Mutex};

use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams, WatchEvent, WatchParams};
use tokio::sync::mpsc;

use super::process::{Server, client};

/// Clients that write at the same time, so that commits are shared.
const WRITERS: u64 = 8;
/// Config maps that each of them keeps changing.
const NAMES: u64 = 5;
/// Answered writes before a kill.
const WRITES: usize = 500;
/// The same when the test is one of many.
const WRITES_SHORT: usize = 60;

/// A config map as a client knows it: its version and what is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Known {
    version: u64,
    content: String,
}

impl Known {
    fn of(map: &ConfigMap) -> Self {
        let version = map.metadata.resource_version.as_deref().and_then(|text| text.parse().ok());
        let content = map.data.as_ref().and_then(|data| data.get("content").cloned());
        Self { version: version.expect("a version"), content: content.unwrap_or_default() }
    }
}

/// A write that was sent and not answered: the name and the content it asked for, `None` for a deletion.
type Doubt = (String, Option<String>);

/// Versions that were given, and to which object.
type Versions = Arc<Mutex<BTreeMap<u64, String>>>;

/// A client that changes its own config maps and remembers every answer.
struct Writer {
    random: u64,
    known: BTreeMap<String, Option<Known>>,
    doubt: Option<Doubt>,
}

impl Writer {
    fn new(index: u64) -> Self {
        let known = (0..NAMES).map(|name| (format!("map-{index}-{name}"), None)).collect();
        Self { random: index, known, doubt: None }
    }

    /// A sequence that is the same on every run (a linear congruence, its upper half).
    fn next_random(&mut self) -> u64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.random >> 33
    }

    /// Writes until the server no longer answers.
    async fn run(
        mut self,
        maps: Api<ConfigMap>,
        versions: Versions,
        answered: mpsc::UnboundedSender<()>,
    ) -> Self {
        loop {
            let index = (self.next_random() % NAMES) as usize;
            let (name, known) = self
                .known
                .iter()
                .nth(index)
                .map(|(name, known)| (name.clone(), known.clone()))
                .expect("an index below the count");
            let chance = self.next_random();
            let content = (known.is_none() || !chance.is_multiple_of(4)).then(|| format!("content {chance}"));
            self.doubt = Some((name.clone(), content.clone()));
            let written = match write(&maps, &name, known.as_ref(), content.as_deref()).await {
                Ok(written) => written,
                Err(kube::Error::Api(status)) => panic!("{name}: {status:?}"),
                // The connection broke: nobody knows what became of the write.
                Err(_) => return self,
            };
            self.doubt = None;
            if let Some(known) = &written {
                let before =
                    versions.lock().expect("no test panics here").insert(known.version, name.clone());
                assert_eq!(before, None, "version {} was given twice", known.version);
            }
            self.known.insert(name, written);
            if answered.send(()).is_err() {
                return self;
            }
        }
    }

    /// Compares what was answered with what is there, and learns what became of the write without an answer.
    fn compare(&mut self, there: &BTreeMap<String, Known>) {
        let doubt = self.doubt.take();
        for (name, known) in &mut self.known {
            let found = there.get(name).cloned();
            if found == *known {
                continue;
            }
            let asked =
                doubt.as_ref().filter(|(doubted, _)| doubted == name).map(|(_, content)| content.as_deref());
            let content = found.as_ref().map(|found| found.content.as_str());
            assert_eq!(asked, Some(content), "{name} was answered as {known:?} and is {found:?}");
            let newer =
                found.iter().all(|found| known.as_ref().is_none_or(|known| found.version > known.version));
            assert!(newer, "{name} went from {known:?} back to {found:?}");
            *known = found;
        }
    }
}

/// Creates, replaces or deletes a config map, and returns what the server says it is now.
async fn write(
    maps: &Api<ConfigMap>,
    name: &str,
    known: Option<&Known>,
    content: Option<&str>,
) -> kube::Result<Option<Known>> {
    let Some(content) = content else {
        maps.delete(name, &DeleteParams::default()).await?;
        return Ok(None);
    };
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map.metadata.resource_version = known.map(|known| known.version.to_string());
    map.data = Some(BTreeMap::from([("content".to_owned(), content.to_owned())]));
    let written = match known {
        Some(_) => maps.replace(name, &PostParams::default(), &map).await?,
        None => maps.create(&PostParams::default(), &map).await?,
    };
    Ok(Some(Known::of(&written)))
}

async fn list(maps: &Api<ConfigMap>) -> (u64, BTreeMap<String, Known>) {
    let list = maps.list(&ListParams::default()).await.expect("a list");
    let version = list.metadata.resource_version.as_deref().and_then(|text| text.parse().ok());
    let objects = list.iter().map(|map| (map.metadata.name.clone().expect("a name"), Known::of(map)));
    (version.expect("a version"), objects.collect())
}

/// A follower that keeps its view over the lives of the server.
#[derive(Default)]
struct Follower {
    version: u64,
    view: BTreeMap<String, Known>,
    /// How often it had to start over.
    restarts: usize,
}

impl Follower {
    /// Follows until the connection breaks, or until the config map `last` has been seen.
    async fn run(mut self, maps: Api<ConfigMap>, last: Option<&str>) -> Self {
        loop {
            let events = maps.watch(&WatchParams::default(), &self.version.to_string()).await;
            let Ok(events) = events else { return self };
            let mut events = pin!(events);
            loop {
                match events.try_next().await {
                    Ok(Some(WatchEvent::Added(map) | WatchEvent::Modified(map))) => {
                        let name = map.metadata.name.clone().expect("a name");
                        let known = Known::of(&map);
                        self.version = known.version;
                        let done = last == Some(name.as_str());
                        self.view.insert(name, known);
                        if done {
                            return self;
                        }
                    }
                    Ok(Some(WatchEvent::Deleted(map))) => {
                        self.version = Known::of(&map).version;
                        self.view.remove(&map.metadata.name.clone().expect("a name"));
                    }
                    Ok(Some(WatchEvent::Bookmark(_))) => {}
                    Ok(Some(WatchEvent::Error(status))) => {
                        assert_eq!(status.code, 410, "{status:?}");
                        self.restarts += 1;
                        (self.version, self.view) = list(&maps).await;
                        if last.is_some_and(|last| self.view.contains_key(last)) {
                            return self;
                        }
                        break;
                    }
                    Ok(None) | Err(_) => return self,
                }
            }
        }
    }
}

/// Checks a server that was started after a crash.
async fn check(maps: &Api<ConfigMap>, writers: &mut [Writer], versions: &Versions, seen: u64) {
    let (version, there) = list(maps).await;
    let given =
        versions.lock().expect("no test panics here").last_key_value().map_or(0, |(version, _)| *version);
    assert!(version >= given, "the server is at {version} and had answered {given}");
    assert!(version >= seen, "the server is at {version} and had shown {seen} to a watch");
    for writer in writers.iter_mut() {
        writer.compare(&there);
    }
    let mut versions = versions.lock().expect("no test panics here");
    for (name, known) in there {
        let before = versions.insert(known.version, name.clone());
        assert!(before.is_none_or(|before| before == name), "version {} was given twice", known.version);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_answered_is_lost_when_the_server_is_killed() {
    let more = std::env::var("KARPENTER_TEST_KILLS").ok().and_then(|kills| kills.parse::<usize>().ok());
    let (kills, writes_per_kill) = more.map_or((2, WRITES_SHORT), |kills| (kills, WRITES));
    let folder = tempfile::tempdir().expect("a folder");
    let versions = Versions::default();
    let mut writers: Vec<Writer> = (0..WRITERS).map(Writer::new).collect();
    let mut follower = Follower::default();
    // A short history makes watches fall out of it, too.
    let start = || Server::start(folder.path(), &["--watch-history", "100"]);
    let mut total = 0;
    for _ in 0..kills {
        let server = start();
        let maps: Api<ConfigMap> = Api::namespaced(client(&server.kubeconfig()).await, "default");
        check(&maps, &mut writers, &versions, follower.version).await;
        let (answered, mut answers) = mpsc::unbounded_channel();
        let following = tokio::spawn(follower.run(maps.clone(), None));
        let writing: Vec<_> = writers
            .drain(..)
            .map(|writer| tokio::spawn(writer.run(maps.clone(), Arc::clone(&versions), answered.clone())))
            .collect();
        for _ in 0..writes_per_kill {
            answers.recv().await.expect("the writers write until the server is killed");
        }
        server.crash();
        drop(answered);
        for writer in writing {
            writers.push(writer.await.expect("no writer saw a contradiction"));
        }
        follower = following.await.expect("the follower saw no contradiction");
        total += writes_per_kill + std::iter::from_fn(|| answers.try_recv().ok()).count();
    }
    let server = start();
    let maps: Api<ConfigMap> = Api::namespaced(client(&server.kubeconfig()).await, "default");
    check(&maps, &mut writers, &versions, follower.version).await;
    write(&maps, "last", None, Some("the end")).await.expect("a free name");
    let follower = follower.run(maps.clone(), Some("last")).await;
    assert_eq!(follower.view, list(&maps).await.1);
    println!("{kills} kills, {total} answered writes, {} watches had to start over", follower.restarts);
    let names: BTreeSet<&String> = writers.iter().flat_map(|writer| writer.known.keys()).collect();
    assert_eq!(names.len() as u64, WRITERS * NAMES);
}
