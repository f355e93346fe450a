//! Events for people: one per cause and object, not one per reconcile.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use karpenter_environment::Environment;
use karpenter_runtime::Write;
use kube::Resource;

/// For how long the same event about the same object is not repeated, unless said otherwise.
const REPEAT_AFTER: Duration = Duration::from_mins(2);
/// Kubernetes refuses longer notes.
const LONGEST_MESSAGE: usize = 1024;
/// Beyond this many remembered events the old ones are looked through and dropped.
const REMEMBERED: usize = 10_000;

/// Whether an event is good or bad news.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventType {
    Normal,
    Warning,
}

/// Makes events and remembers which were made lately.
#[derive(Debug, Default)]
pub(crate) struct Events {
    told: BTreeMap<(String, String, String), Timestamp>,
}

impl Events {
    /// Returns the write of an event about `object`, unless the same was told within two minutes.
    pub(crate) fn tell<K: Resource<DynamicType = ()>>(
        &mut self,
        object: &K,
        type_: EventType,
        reason: &str,
        message: &str,
        now: Timestamp,
        environment: &dyn Environment,
    ) -> Option<Write> {
        self.tell_every(REPEAT_AFTER, object, type_, reason, message, now, environment)
    }

    /// As [`Events::tell`], with another time before a repetition.
    #[expect(clippy::too_many_arguments, reason = "an event has that many parts")]
    pub(crate) fn tell_every<K: Resource<DynamicType = ()>>(
        &mut self,
        repeat_after: Duration,
        object: &K,
        type_: EventType,
        reason: &str,
        message: &str,
        now: Timestamp,
        environment: &dyn Environment,
    ) -> Option<Write> {
        let message = shortened(message);
        let uid = object.meta().uid.clone().unwrap_or_default();
        let cause = (uid, reason.to_owned(), message.clone());
        let until =
            now.saturating_add(SignedDuration::try_from(repeat_after).ok()?).unwrap_or(Timestamp::MAX);
        if self.told.get(&cause).is_some_and(|silent_until| now < *silent_until) {
            return None;
        }
        if self.told.len() > REMEMBERED {
            self.told.retain(|_, silent_until| now < *silent_until);
        }
        self.told.insert(cause, until);
        Some(Write::create(&event(object, type_, reason, message, now, environment)))
    }
}

fn event<K: Resource<DynamicType = ()>>(
    object: &K,
    type_: EventType,
    reason: &str,
    message: String,
    now: Timestamp,
    environment: &dyn Environment,
) -> Event {
    let meta = object.meta();
    let name = meta.name.clone().unwrap_or_default();
    let namespace = meta.namespace.clone().unwrap_or_else(|| "default".to_owned());
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{name}.{}", environment.suffix())),
            namespace: Some(namespace),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some(K::api_version(&()).into_owned()),
            kind: Some(K::kind(&()).into_owned()),
            name: Some(name),
            namespace: meta.namespace.clone(),
            uid: meta.uid.clone(),
            resource_version: meta.resource_version.clone(),
            ..ObjectReference::default()
        },
        type_: Some(format!("{type_:?}")),
        reason: Some(reason.to_owned()),
        message: Some(message),
        source: Some(EventSource { component: Some("karpenter".to_owned()), ..EventSource::default() }),
        reporting_component: Some("karpenter".to_owned()),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        count: Some(1),
        ..Event::default()
    }
}

/// A message cut to what people, and Kubernetes, read.
pub(crate) fn shortened(message: &str) -> String {
    if message.len() <= LONGEST_MESSAGE {
        return message.to_owned();
    }
    let end = (0..=LONGEST_MESSAGE - 3).rev().find(|end| message.is_char_boundary(*end)).unwrap_or_default();
    format!("{}...", &message[..end])
}
