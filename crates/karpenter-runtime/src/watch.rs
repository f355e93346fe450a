//! Follows one kind: lists it, watches it from there, lists again when the server no longer remembers that far back.

use std::any::TypeId;
use std::collections::BTreeSet;
use std::error::Error;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::AsyncBufReadExt as _;
use http::HeaderValue;
use http::header::ACCEPT_ENCODING;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ListMeta, ObjectMeta};
use kube::Client;
use kube::api::{ListParams, WatchParams};
use kube::core::{Request, Status};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use crate::cache::{Caches, Change, Kept};
use crate::controller::Pace;
use crate::key::Key;
use crate::kind::Kind;
use crate::lean::without_managed_fields;

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

/// What of a kind is watched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selection {
    fields: Option<String>,
    optional: bool,
}

/// What an object does to the caches.
type Observe = Box<dyn FnOnce(&mut Caches) -> Option<Change> + Send>;
/// Reads the text of an object.
type ReadObject = Box<dyn Fn(&str) -> serde_json::Result<Read> + Send + Sync>;

/// An object that was read.
struct Read {
    key: Key,
    version: Option<String>,
    observe: Observe,
}

/// What is different from kind to kind. Everything else is compiled once for all of them.
struct Handling {
    kind: TypeId,
    /// The kind's name and API version.
    name: (String, String),
    read: ReadObject,
    forget: fn(&mut Caches, &Key) -> Option<Change>,
    observe_deletion: fn(&mut Caches, &ObjectMeta) -> Option<Change>,
    observe_list: fn(&mut Caches, &BTreeSet<Key>, Option<u64>) -> Vec<Change>,
}

impl Handling {
    /// Reads objects of `K` and keeps what `keep` makes of each.
    fn new<K: Kind, V: Kept>(keep: impl Fn(K) -> V + Send + Sync + 'static) -> Self {
        Self {
            kind: TypeId::of::<V>(),
            name: (K::kind(&()).into_owned(), K::api_version(&()).into_owned()),
            read: Box::new(move |text| {
                let object = K::read(text)?;
                let (key, version) = (Key::of(&object), object.meta().resource_version.clone());
                let kept = keep(object);
                Ok(Read { key, version, observe: Box::new(|caches| caches.of_mut::<V>().observe(kept)) })
            }),
            forget: |caches, key| caches.of_mut::<V>().forget(key),
            observe_deletion: |caches, gone| caches.of_mut::<V>().observe_deletion(gone),
            observe_list: |caches, listed, version| caches.of_mut::<V>().observe_list(listed, version),
        }
    }
}

/// A wish to follow a kind.
pub(crate) struct Watch {
    group: String,
    plural: String,
    path: String,
    selection: Selection,
    handling: Arc<Handling>,
    prepare: fn(&mut Caches),
}

impl Watch {
    /// Follows `K` and keeps what `keep` makes of each object.
    pub(crate) fn new<K: Kind, V: Kept>(
        fields: Option<String>,
        keep: impl Fn(K) -> V + Send + Sync + 'static,
    ) -> Self {
        Self {
            group: K::group(&()).into_owned(),
            plural: K::plural(&()).into_owned(),
            path: K::url_path(&(), None),
            selection: Selection { fields, optional: false },
            handling: Arc::new(Handling::new(keep)),
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
        self.handling.kind
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
        if self.selection.fields.is_some() {
            return None;
        }
        ((self.handling.read)(text).ok()?.observe)(caches)
    }

    /// Takes in that a write removed an object.
    pub(crate) fn observe_removal(&self, caches: &mut Caches, key: &Key) -> Option<Change> {
        (self.handling.forget)(caches, key)
    }

    /// Follows the kind for good.
    pub(crate) fn start(
        &self,
        client: Client,
        out: mpsc::Sender<Observation>,
    ) -> impl Future<Output = ()> + Send + use<> {
        let follower = Follower {
            client,
            request: Request::new(self.path.clone()),
            selection: self.selection.clone(),
            out,
            handling: Arc::clone(&self.handling),
        };
        async move {
            // The runtime has gone when nobody listens any more.
            while follower.list_and_watch().await.is_ok() {}
        }
    }
}

/// The runtime has stopped.
struct Stopped;

struct Follower {
    client: Client,
    request: Request,
    selection: Selection,
    out: mpsc::Sender<Observation>,
    handling: Arc<Handling>,
}

/// What one line of a watch says.
enum Heard {
    News(News),
    /// Only how far the watch has come.
    Nothing,
    /// The server ends the watch.
    Refusal(Box<Status>),
}

/// A page of a list, its objects unread.
#[derive(Deserialize)]
struct Page<'text> {
    #[serde(default)]
    metadata: ListMeta,
    #[serde(borrow, default)]
    items: Vec<&'text RawValue>,
}

/// An event of a watch, its object unread.
#[derive(Deserialize)]
struct Event<'text> {
    r#type: &'text str,
    #[serde(borrow)]
    object: &'text RawValue,
}

/// What every object has.
#[derive(Deserialize)]
struct Named {
    metadata: ObjectMeta,
}

/// Why a watch came to its end.
enum End {
    /// Its time was up.
    Over,
    /// The server does not remember that far back.
    Gone,
}

impl Follower {
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
            let text = match self.client.request_text(request).await {
                Ok(text) => text,
                Err(error) => return Ok(Err(error)),
            };
            let (page, read) = match self.read_page(&text) {
                Ok(read) => read,
                Err(error) => return Ok(Err(kube::Error::SerdeError(error))),
            };
            listed.extend(read.iter().map(|object| object.key.clone()));
            self.tell(move |caches| read.into_iter().filter_map(|object| (object.observe)(caches)).collect())
                .await?;
            params.continue_token = page.continue_.filter(|token| !token.is_empty());
            if params.continue_token.is_none() {
                let version = page.resource_version.unwrap_or_default();
                self.finish_list(listed, version.parse().ok()).await?;
                return Ok(Ok(version));
            }
        }
    }

    fn read_page(&self, text: &str) -> serde_json::Result<(ListMeta, Vec<Read>)> {
        let page: Page<'_> = serde_json::from_str(text)?;
        let read: serde_json::Result<_> =
            page.items.iter().map(|object| (self.handling.read)(object.get())).collect();
        Ok((page.metadata, read?))
    }

    async fn finish_list(&self, listed: BTreeSet<Key>, version: Option<u64>) -> Result<(), Stopped> {
        let observe_list = self.handling.observe_list;
        self.tell(move |caches| observe_list(caches, &listed, version)).await?;
        self.send(Observation::Listed(self.handling.kind)).await
    }

    /// Watches from `version`, which moves with what is heard.
    async fn watch(&self, version: &mut String, failures: &mut u32) -> Result<kube::Result<End>, Stopped> {
        let mut params = WatchParams::default().timeout(WATCH_SECONDS);
        params.field_selector.clone_from(&self.selection.fields);
        let mut request = match self.request.watch(&params, version) {
            Ok(request) => request,
            Err(error) => return Ok(Err(kube::Error::BuildRequest(error))),
        };
        // A server that compresses event by event is not understood by everybody in between.
        request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let stream = match self.client.request_stream(request).await {
            Ok(stream) => stream,
            Err(kube::Error::Api(status)) if status.code == 410 => return Ok(Ok(End::Gone)),
            Err(error) => return Ok(Err(error)),
        };
        let mut stream = pin!(stream);
        // One buffer for all lines: to make room for each anew would cost more than to read it.
        let mut line = String::new();
        loop {
            line.clear();
            match tokio::time::timeout(DEAD, stream.read_line(&mut line)).await {
                Ok(Ok(1..)) => {}
                Ok(Err(error)) if is_cut(&error) => return Ok(Ok(End::Over)),
                Ok(Err(error)) => return Ok(Err(kube::Error::ReadEvents(error))),
                Ok(Ok(0)) | Err(_) => return Ok(Ok(End::Over)),
            }
            *failures = 0;
            match self.hear(&line, version) {
                Ok(Heard::News(news)) => self.send(Observation::News(news)).await?,
                Ok(Heard::Nothing) => {}
                Ok(Heard::Refusal(status)) if status.code == 410 => return Ok(Ok(End::Gone)),
                Ok(Heard::Refusal(status)) => return Ok(Err(kube::Error::Api(status))),
                // The connection was cut within a line.
                Err(error) if error.is_eof() => return Ok(Ok(End::Over)),
                Err(error) => return Ok(Err(kube::Error::SerdeError(error))),
            }
        }
    }

    /// Reads one line of a watch.
    fn hear(&self, line: &str, version: &mut String) -> serde_json::Result<Heard> {
        let (r#type, text) = event(line)?;
        let mut note = |heard: Option<String>| *version = heard.unwrap_or_else(|| std::mem::take(version));
        match r#type {
            "ADDED" | "MODIFIED" => {
                let read = (self.handling.read)(text)?;
                note(read.version);
                Ok(Heard::News(Box::new(|caches| (read.observe)(caches).into_iter().collect())))
            }
            "DELETED" => {
                let gone = serde_json::from_str::<Named>(&without_managed_fields(text))?.metadata;
                note(gone.resource_version.clone());
                let observe_deletion = self.handling.observe_deletion;
                Ok(Heard::News(Box::new(move |caches| observe_deletion(caches, &gone).into_iter().collect())))
            }
            "BOOKMARK" => {
                note(serde_json::from_str::<Named>(text)?.metadata.resource_version);
                Ok(Heard::Nothing)
            }
            _ => Ok(Heard::Refusal(serde_json::from_str(text)?)),
        }
    }

    /// Waits after a failure, and says once per row of failures what is wrong.
    async fn pause(&self, failures: &mut u32, doing: &str, error: &kube::Error) -> Result<(), Stopped> {
        // Where everything ends, connections end too, and nobody needs to hear of it.
        if self.out.is_closed() {
            return Err(Stopped);
        }
        *failures += 1;
        let unserved = matches!(error, kube::Error::Api(status) if status.code == 404);
        if unserved && self.selection.optional {
            self.finish_list(BTreeSet::new(), None).await?;
        } else if *failures == 1 {
            self.complain(doing, unserved, error);
        }
        tokio::time::sleep(PACE.wait(*failures)).await;
        if self.out.is_closed() { Err(Stopped) } else { Ok(()) }
    }

    fn complain(&self, doing: &str, unserved: bool, error: &kube::Error) {
        let (kind, api) = &self.handling.name;
        if unserved {
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

/// The type and the object of an event. Servers write events in one way only, so there is no need to read the object to find its end.
fn event(line: &str) -> serde_json::Result<(&str, &str)> {
    let parts = || {
        let rest = line.strip_prefix(r#"{"type":""#)?.trim_end().strip_suffix('}')?;
        let (r#type, object) = rest.split_once(r#"","object":"#)?;
        r#type.bytes().all(|byte| byte.is_ascii_uppercase()).then_some((r#type, object))
    };
    match parts() {
        Some(parts) => Ok(parts),
        None => serde_json::from_str(line).map(|Event { r#type, object }| (r#type, object.get())),
    }
}

/// Whether a connection ended in the middle, as long watches do when something between us and the server ends them.
fn is_cut(error: &io::Error) -> bool {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
        if kind == Some(io::ErrorKind::UnexpectedEof)
            || error.to_string().contains("unexpected EOF during chunk")
        {
            return true;
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_understood_however_it_is_written() {
        let object = r#"{"metadata":{"annotations":{"a":"\",\"object\":{}}"}}}"#;
        for line in [
            format!(r#"{{"type":"ADDED","object":{object}}}"#),
            format!("{{\"type\":\"ADDED\",\"object\":{object}}}\n"),
            format!(r#"{{ "object": {object}, "type": "ADDED" }}"#),
        ] {
            assert_eq!(event(&line).unwrap(), ("ADDED", object));
        }
        for line in ["", "{", r#"{"type":"ADDED"}"#, r#"{"type":"ADDED","object":{}"#] {
            let text = event(line).and_then(|(_, text)| serde_json::from_str::<serde_json::Value>(text));
            assert!(text.is_err(), "{line}");
        }
    }
}
