//! Follows one kind: lists it, watches it from there, lists again when the server no longer remembers that far back.

use std::any::TypeId;
use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use kube::Client;
use kube::api::{ListParams, ObjectList, WatchEvent, WatchParams};
use kube::core::Request;
use tokio::sync::mpsc;

use crate::cache::{Caches, Change, Kept, Kind};
use crate::controller::Pace;
use crate::key::Key;

/// How many objects are asked for at a time.
const PAGE: u32 = 500;
/// The server ends a watch after this many seconds, so that both sides notice a dead connection.
const WATCH_SECONDS: u32 = 290;
/// Longer than that a watch is silent only if its connection is dead.
const DEAD: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 15);
/// Waiting times between attempts to reach the server.
const PACE: Pace = Pace { first: Duration::from_millis(200), longest: Duration::from_secs(30) };

/// News of one kind: takes it into the caches and returns what changed.
pub(crate) type News = Box<dyn FnOnce(&mut Caches) -> Vec<Change> + Send>;

/// What a watch tells.
pub(crate) enum Observation {
    /// Something was heard.
    News(News),
    /// A whole list has been heard.
    Listed(TypeId),
}

type Follow = Box<dyn Fn(Client, Selection, mpsc::Sender<Observation>) -> BoxFuture<'static, ()> + Send>;
type Answer = Box<dyn Fn(&mut Caches, &str) -> Option<Change> + Send>;

/// What of a kind is watched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selection {
    fields: Option<String>,
    optional: bool,
}

type Keep<K, V> = Arc<dyn Fn(K) -> V + Send + Sync>;

/// A wish to follow a kind.
pub(crate) struct Watch {
    kind: TypeId,
    group: String,
    plural: String,
    selection: Selection,
    follow: Follow,
    answer: Answer,
    removal: fn(&mut Caches, &Key) -> Option<Change>,
    prepare: fn(&mut Caches),
}

impl Watch {
    /// Follows `K` and keeps what `keep` makes of each object.
    pub(crate) fn new<K: Kind, V: Kept>(
        fields: Option<String>,
        keep: impl Fn(K) -> V + Send + Sync + 'static,
    ) -> Self {
        let keep: Keep<K, V> = Arc::new(keep);
        let keep_answer = Arc::clone(&keep);
        Self {
            kind: TypeId::of::<V>(),
            group: K::group(&()).into_owned(),
            plural: K::plural(&()).into_owned(),
            selection: Selection { fields, optional: false },
            follow: Box::new(move |client, selection, out| {
                follow(client, selection, out, Arc::clone(&keep)).boxed()
            }),
            answer: Box::new(move |caches, text| {
                let object: K = serde_json::from_str(text).ok()?;
                caches.of_mut::<V>().observe(keep_answer(object))
            }),
            removal: |caches, key| caches.of_mut::<V>().forget(key),
            prepare: |caches| {
                caches.of_mut::<V>();
            },
        }
    }

    pub(crate) fn optional(mut self) -> Self {
        self.selection.optional = true;
        self
    }

    pub(crate) fn kind(&self) -> TypeId {
        self.kind
    }

    /// Whether objects of this resource belong here.
    pub(crate) fn is_of(&self, group: &str, plural: &str) -> bool {
        self.group == group && self.plural == plural
    }

    pub(crate) fn same_selection(&self, other: &Self) -> bool {
        self.selection.fields == other.selection.fields
    }

    /// Makes room in the caches, so that a kind without objects can be read.
    pub(crate) fn prepare(&self, caches: &mut Caches) {
        (self.prepare)(caches);
    }

    /// Takes in the object that the server answered to a write. Of a selection, only the server knows what belongs to it.
    pub(crate) fn observe_answer(&self, caches: &mut Caches, text: &str) -> Option<Change> {
        if self.selection.fields.is_some() { None } else { (self.answer)(caches, text) }
    }

    /// Takes in that a write removed an object.
    pub(crate) fn observe_removal(&self, caches: &mut Caches, key: &Key) -> Option<Change> {
        (self.removal)(caches, key)
    }

    /// Follows the kind for good.
    pub(crate) fn start(&self, client: Client, out: mpsc::Sender<Observation>) -> BoxFuture<'static, ()> {
        (self.follow)(client, self.selection.clone(), out)
    }
}

async fn follow<K: Kind, V: Kept>(
    client: Client,
    selection: Selection,
    out: mpsc::Sender<Observation>,
    keep: Keep<K, V>,
) {
    let request = Request::new(K::url_path(&(), None));
    let follower = Follower { client, request, selection, out, keep };
    // The runtime has gone when nobody listens any more.
    while follower.list_and_watch().await.is_ok() {}
}

/// The runtime has stopped.
struct Stopped;

struct Follower<K, V> {
    client: Client,
    request: Request,
    selection: Selection,
    out: mpsc::Sender<Observation>,
    keep: Keep<K, V>,
}

/// Why a watch came to its end.
enum End {
    /// Its time was up.
    Over,
    /// The server does not remember that far back.
    Gone,
}

impl<K: Kind, V: Kept> Follower<K, V> {
    async fn list_and_watch(&self) -> Result<(), Stopped> {
        let mut failures = 0;
        let mut version = loop {
            match self.list().await? {
                Ok(version) => break version,
                Err(error) => self.pause(&mut failures, "list", &error).await?,
            }
        };
        failures = 0;
        loop {
            match self.watch(&mut version, &mut failures).await? {
                Ok(End::Over) => {}
                Ok(End::Gone) => return Ok(()),
                Err(error) => self.pause(&mut failures, "watch", &error).await?,
            }
        }
    }

    /// Lists everything, page by page, and returns the version of the list.
    async fn list(&self) -> Result<kube::Result<String>, Stopped> {
        let mut params =
            ListParams { field_selector: self.selection.fields.clone(), ..ListParams::default() }.limit(PAGE);
        let mut listed = BTreeSet::new();
        loop {
            let request = match self.request.list(&params) {
                Ok(request) => request,
                Err(error) => return Ok(Err(kube::Error::BuildRequest(error))),
            };
            let page: ObjectList<K> = match self.client.request(request).await {
                Ok(page) => page,
                Err(error) => return Ok(Err(error)),
            };
            listed.extend(page.items.iter().map(Key::of));
            let kept: Vec<V> = page.items.into_iter().map(|object| (self.keep)(object)).collect();
            self.tell(move |caches| {
                kept.into_iter().filter_map(|object| caches.of_mut::<V>().observe(object)).collect()
            })
            .await?;
            params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
            if params.continue_token.is_none() {
                let version = page.metadata.resource_version.unwrap_or_default();
                self.finish_list(listed, version.parse().ok()).await?;
                return Ok(Ok(version));
            }
        }
    }

    async fn finish_list(&self, listed: BTreeSet<Key>, version: Option<u64>) -> Result<(), Stopped> {
        self.tell(move |caches| caches.of_mut::<V>().observe_list(&listed, version)).await?;
        self.send(Observation::Listed(TypeId::of::<V>())).await
    }

    /// Watches from `version`, which moves with what is heard.
    async fn watch(&self, version: &mut String, failures: &mut u32) -> Result<kube::Result<End>, Stopped> {
        let mut params = WatchParams::default().timeout(WATCH_SECONDS);
        params.field_selector.clone_from(&self.selection.fields);
        let request = match self.request.watch(&params, version) {
            Ok(request) => request,
            Err(error) => return Ok(Err(kube::Error::BuildRequest(error))),
        };
        let stream = match self.client.request_events::<K>(request).await {
            Ok(stream) => stream,
            Err(kube::Error::Api(status)) if status.code == 410 => return Ok(Ok(End::Gone)),
            Err(error) => return Ok(Err(error)),
        };
        let mut stream = pin!(stream);
        loop {
            let event = match tokio::time::timeout(DEAD, stream.next()).await {
                Ok(Some(Ok(event))) => event,
                Ok(Some(Err(error))) => return Ok(Err(error)),
                Ok(None) | Err(_) => return Ok(Ok(End::Over)),
            };
            *failures = 0;
            match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    note_version(version, &object);
                    let kept = (self.keep)(object);
                    self.tell(move |caches| caches.of_mut::<V>().observe(kept).into_iter().collect()).await?;
                }
                WatchEvent::Deleted(object) => {
                    note_version(version, &object);
                    self.tell(move |caches| {
                        caches.of_mut::<V>().observe_deletion(object.meta()).into_iter().collect()
                    })
                    .await?;
                }
                WatchEvent::Bookmark(bookmark) => *version = bookmark.metadata.resource_version,
                WatchEvent::Error(status) if status.code == 410 => return Ok(Ok(End::Gone)),
                WatchEvent::Error(status) => return Ok(Err(kube::Error::Api(status))),
            }
        }
    }

    /// Waits after a failure, and says once per row of failures what is wrong.
    async fn pause(&self, failures: &mut u32, doing: &str, error: &kube::Error) -> Result<(), Stopped> {
        *failures += 1;
        let unserved = matches!(error, kube::Error::Api(status) if status.code == 404);
        if unserved && self.selection.optional {
            self.finish_list(BTreeSet::new(), None).await?;
        } else if *failures == 1 {
            Self::complain(doing, unserved, error);
        }
        tokio::time::sleep(PACE.wait(*failures)).await;
        if self.out.is_closed() { Err(Stopped) } else { Ok(()) }
    }

    fn complain(doing: &str, unserved: bool, error: &kube::Error) {
        let kind = K::kind(&());
        if unserved {
            let api = K::api_version(&());
            tracing::warn!(
                "the API server does not serve {kind} ({api}): install its CRD; trying again until it is there"
            );
        } else {
            tracing::warn!("cannot {doing} {kind}: {}; trying again", crate::perform::describe(error));
        }
    }

    async fn tell(
        &self,
        news: impl FnOnce(&mut Caches) -> Vec<Change> + Send + 'static,
    ) -> Result<(), Stopped> {
        self.send(Observation::News(Box::new(news))).await
    }

    async fn send(&self, observation: Observation) -> Result<(), Stopped> {
        self.out.send(observation).await.map_err(|_| Stopped)
    }
}

fn note_version<K: Kind>(version: &mut String, object: &K) {
    if let Some(heard) = &object.meta().resource_version {
        version.clone_from(heard);
    }
}
