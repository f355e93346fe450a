//! watch: a stream of events from a revision on.
//!
//! A watch that starts without a revision first shows the current objects as ADDED. Selectors turn changes into
//! ADDED and DELETED when an object starts or stops matching. Bookmarks carry the revision forward; the stream ends
//! at `timeoutSeconds`, or with a 410 error event when the history is gone.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http::Response;
use serde_json::{Value, json};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep_until};

use super::conversion::{served, served_bytes};
use super::create::empty;
use super::list_options::ListOptions;
use super::read::{Selectors, no_revision, too_old};
use super::rendering::metadata_only;
use crate::error::ApiError;
use crate::registry::Resource;
use crate::server::Core;
use crate::store::{Event, EventKind, Key, StoredObject, Subscription};
use crate::table;
use crate::wire::{Call, Query, Rendering, ResponseBody, stream_response};

const DEFAULT_TIMEOUT: Duration = Duration::from_mins(30);
const BOOKMARK_INTERVAL: Duration = Duration::from_mins(1);

struct Watch {
    core: Arc<Core>,
    resource: Arc<Resource>,
    query: Query,
    rendering: Rendering,
    namespace: Option<String>,
    name: Option<String>,
    selectors: Selectors,
    subscription: Subscription,
    bookmarks: bool,
    pending: VecDeque<Bytes>,
    deadline: Instant,
    ticks: Interval,
    finished: bool,
    /// Whether the columns of tables have been sent, which they are once.
    described: AtomicBool,
}

impl Core {
    pub(crate) fn watch(self: &Arc<Self>, call: &Call<'_>) -> Result<Response<ResponseBody>, ApiError> {
        let selectors = Selectors::parse(call.query, &call.resource)?;
        let initial_events = ListOptions::read(call.query, true)?.initial_events;
        let asked = match call.query.get("resourceVersion") {
            None => 0,
            Some(text) => text.parse().map_err(|_| ApiError::unknown_failure(no_revision(text)))?,
        };
        let initial = initial_events == Some(true);
        let timeout = call
            .query
            .get("timeoutSeconds")
            .and_then(|text| text.parse().ok())
            .filter(|seconds| *seconds > 0);
        let selected = selectors.fields.exact_name();
        if let Some(name) = call.target.name.as_deref()
            && !selectors.fields.is_empty()
            && selected != Some(name)
        {
            let message = "fieldSelector metadata.name doesn't match requested name";
            return Err(ApiError::bad_request(message));
        }
        let name = selected.map(str::to_owned).or_else(|| call.target.name.clone());
        let current = self.store.visible_revision();
        let from_state = initial || (initial_events.is_none() && asked == 0);
        // A revision from the future comes from an earlier life of the server: the client must list again.
        let start = if from_state || asked == 0 { Ok(current) } else { check_revision(asked, current) };
        let subscription = start.and_then(|revision| {
            self.store.subscribe(&call.resource.name, revision).map_err(|compacted| too_old(asked, compacted))
        });
        let subscription = match subscription {
            Ok(subscription) => subscription,
            Err(error) => {
                let event = Bytes::from(format!("{}\n", json!({"type": "ERROR", "object": error.status()})));
                return Ok(stream_response(stream::iter([event])));
            }
        };
        let now = Instant::now();
        let mut ticks = interval_at(now + BOOKMARK_INTERVAL, BOOKMARK_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut watch = Watch {
            core: Arc::clone(self),
            resource: Arc::clone(&call.resource),
            query: call.query.clone(),
            rendering: call.rendering,
            described: AtomicBool::new(false),
            namespace: call.target.namespace.clone(),
            name,
            selectors,
            subscription,
            bookmarks: call.query.flag("allowWatchBookmarks"),
            pending: VecDeque::new(),
            deadline: now + timeout.map_or(DEFAULT_TIMEOUT, Duration::from_secs),
            ticks,
            finished: false,
        };
        if from_state {
            watch.show_state(current, initial)?;
        }
        Ok(stream_response(stream::unfold(watch, |mut watch| async move {
            watch.next().await.map(|chunk| (chunk, watch))
        })))
    }
}

fn check_revision(asked: u64, current: u64) -> Result<u64, ApiError> {
    if asked <= current {
        return Ok(asked);
    }
    Err(ApiError::expired(format!("too large resource version: {asked}, current: {current}")))
}

impl Watch {
    /// Queues the objects of `revision` as ADDED, and the bookmark that ends them when the client asked for it.
    fn show_state(&mut self, revision: u64, announce_end: bool) -> Result<(), ApiError> {
        let (store, namespace) = (&self.core.store, self.namespace.as_deref());
        let page = match self.selectors.pinned(&self.resource) {
            Some(value) => store.list_with(&self.resource.name, value, namespace, revision),
            None => store.list(&self.resource.name, namespace, None, Some(revision)),
        };
        let page = page.map_err(|compacted| too_old(revision, compacted))?;
        for (key, object) in &page.objects {
            if self.wants(key, object) {
                let event = self.encode("ADDED", object);
                self.pending.push_back(event);
            }
        }
        if announce_end && self.bookmarks {
            let annotations = json!({"k8s.io/initial-events-end": "true"});
            self.pending.push_back(self.bookmark(revision, Some(annotations)));
        }
        Ok(())
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            // An object is no list of metadata: the stream of whoever wants that ends where it would begin.
            if matches!(self.rendering, Rendering::MetadataList(_)) && !self.pending.is_empty() {
                return None;
            }
            if !self.pending.is_empty() {
                let events: Vec<Bytes> = self.pending.drain(..).collect();
                return Some(joined(events));
            }
            if self.finished {
                return None;
            }
            match self.subscription.drain(&self.core.store) {
                Ok(events) => {
                    let encoded: Vec<Bytes> = events.iter().filter_map(|event| self.event(event)).collect();
                    self.pending.extend(encoded);
                }
                Err(compacted) => {
                    let status = too_old(self.subscription.revision(), compacted).status();
                    self.pending.push_back(line("ERROR", status.to_string().as_bytes()));
                    self.finished = true;
                }
            }
            if self.pending.is_empty() {
                self.wait().await;
            }
        }
    }

    async fn wait(&mut self) {
        tokio::select! {
            biased;
            alive = self.subscription.changed() => self.finished = !alive,
            () = sleep_until(self.deadline) => {
                if self.bookmarks {
                    self.pending.push_back(self.bookmark(self.subscription.revision(), None));
                }
                self.finished = true;
            }
            _ = self.ticks.tick() => {
                if self.bookmarks {
                    self.pending.push_back(self.bookmark(self.subscription.revision(), None));
                }
            }
        }
    }

    fn wants(&self, key: &Key, object: &StoredObject) -> bool {
        self.namespace.as_deref().is_none_or(|namespace| &*key.namespace == namespace)
            && self.name.as_deref().is_none_or(|name| &*key.name == name)
            && self.selectors.matches(key, object)
    }

    fn event(&self, event: &Event) -> Option<Bytes> {
        let now = self.wants(&event.key, &event.object);
        let before = event.previous.as_ref().is_some_and(|previous| self.wants(&event.key, previous));
        match (event.kind, before, now) {
            (EventKind::Deleted, before, now) => {
                (before || now).then(|| self.encode("DELETED", &event.object))
            }
            (_, false, true) => Some(self.encode("ADDED", &event.object)),
            (_, true, true) => Some(self.encode("MODIFIED", &event.object)),
            (_, true, false) => {
                let previous = event.previous.as_ref()?;
                let mut last = previous.value();
                last["metadata"]["resourceVersion"] = event.object.revision.to_string().into();
                let last = StoredObject::new(&last, event.object.revision, &self.resource.selectable_fields);
                Some(self.encode("DELETED", &last))
            }
            (_, false, false) => None,
        }
    }

    fn encode(&self, kind: &str, object: &StoredObject) -> Bytes {
        match self.rendering {
            Rendering::Object => line(kind, &served_bytes(&self.resource, object)),
            Rendering::Metadata(version) | Rendering::MetadataList(version) => {
                line(kind, metadata_only(&object.value(), version).to_string().as_bytes())
            }
            Rendering::Table(version) => {
                let values = [served(&self.resource, object.value())];
                let now = self.core.environment.now();
                let mut table = table::render(&self.resource, &values, now, &self.query, version);
                if self.described.swap(true, Ordering::Relaxed) {
                    table["columnDefinitions"] = Value::Null;
                }
                line(kind, table.to_string().as_bytes())
            }
        }
    }

    fn bookmark(&self, revision: u64, annotations: Option<Value>) -> Bytes {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if let Some(annotations) = annotations {
            metadata["annotations"] = annotations;
        }
        let object = match self.rendering {
            Rendering::Table(version) => json!({
                "kind": "Table", "apiVersion": version.api_version(), "metadata": metadata,
                "columnDefinitions": null, "rows": [],
            }),
            Rendering::Metadata(version) | Rendering::MetadataList(version) => {
                metadata_only(&json!({ "metadata": metadata }), version)
            }
            Rendering::Object => {
                let mut object = empty(&self.resource);
                object["metadata"] = metadata;
                object
            }
        };
        line("BOOKMARK", object.to_string().as_bytes())
    }
}

fn line(kind: &str, object: &[u8]) -> Bytes {
    let mut text = Vec::with_capacity(object.len() + 40);
    text.extend_from_slice(format!("{{\"type\":\"{kind}\",\"object\":").as_bytes());
    text.extend_from_slice(object);
    text.extend_from_slice(b"}\n");
    Bytes::from(text)
}

fn joined(mut events: Vec<Bytes>) -> Bytes {
    if events.len() == 1 {
        return events.remove(0);
    }
    Bytes::from(events.concat())
}
