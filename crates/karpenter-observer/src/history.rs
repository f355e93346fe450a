//! What was seen, in the order in which it happened.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kube::api::DynamicObject;
use serde_json::Value;

use crate::fields::{condition, name_of, was_evicted};
use crate::rules::{self, Violation};

/// One event of a watch.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The object's version, by which events of several watches are ordered.
    pub version: u64,
    /// When it was told.
    pub at: Timestamp,
    /// The object's kind.
    pub kind: &'static str,
    /// The object as it was then.
    pub object: Arc<Value>,
    /// Whether it has ceased to be.
    pub gone: bool,
}

impl Seen {
    pub(crate) fn new(at: Timestamp, kind: &'static str, object: &DynamicObject, gone: bool) -> Option<Self> {
        let version = object.metadata.resource_version.as_ref()?.parse().ok()?;
        let mut object = serde_json::to_value(object).ok()?;
        object["metadata"].as_object_mut()?.remove("managedFields");
        Some(Self { version, at, kind, object: Arc::new(object), gone })
    }
}

/// A NodeClaim that began to be disrupted voluntarily.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disruption {
    /// When.
    pub at: Timestamp,
    /// Which.
    pub claim: String,
    /// The reason of its condition `DisruptionReason`.
    pub reason: String,
}

/// What was seen of a cluster.
#[derive(Clone, Debug, Default)]
pub struct History {
    seen: Vec<Seen>,
    /// What was not seen, in sentences.
    gaps: Vec<String>,
    lag: SignedDuration,
}

impl History {
    /// Nothing yet. What happened less than `lag` before a decision is not held against it.
    pub fn new(lag: SignedDuration) -> Self {
        Self { lag, ..Self::default() }
    }

    /// Adds an event.
    pub fn push(&mut self, seen: Seen) {
        self.seen.push(seen);
    }

    pub(crate) fn lose(&mut self, gap: String) {
        self.gaps.push(gap);
    }

    /// The events, in the order in which they happened.
    pub fn seen(&self) -> Vec<Seen> {
        let mut seen = self.seen.clone();
        // Stable: a history written by hand may leave all versions at zero.
        seen.sort_by_key(|seen| seen.version);
        seen
    }

    /// What was done that must not be done.
    pub fn violations(&self) -> Vec<Violation> {
        rules::violations(&self.seen(), self.lag)
    }

    /// The voluntary disruptions that began.
    pub fn disruptions(&self) -> Vec<Disruption> {
        let begun = self.first_times("NodeClaim", |claim| condition(claim, "DisruptionReason").is_some());
        let told = |seen: Seen| Disruption {
            at: seen.at,
            claim: name_of(&seen.object),
            reason: condition(&seen.object, "DisruptionReason").unwrap_or_default().to_owned(),
        };
        begun.into_iter().map(told).collect()
    }

    /// The objects of a kind that began to leave or were gone, by whoever's wish, with the time.
    pub fn departures(&self, kind: &str) -> Vec<(Timestamp, String)> {
        let leaving = |object: &Value| !object["metadata"]["deletionTimestamp"].is_null();
        let mut first: BTreeMap<String, Timestamp> = BTreeMap::new();
        for seen in self.seen().iter().filter(|seen| seen.kind == kind) {
            if seen.gone || leaving(&seen.object) {
                first.entry(name_of(&seen.object)).or_insert(seen.at);
            }
        }
        first.into_iter().map(|(name, at)| (at, name)).collect()
    }

    /// How many pods were evicted.
    pub fn evictions(&self) -> usize {
        self.first_times("Pod", |pod| was_evicted(pod) && !pod["metadata"]["deletionTimestamp"].is_null())
            .len()
    }

    /// For every object of the kind, the first event in which it is so.
    fn first_times(&self, kind: &str, is_so: impl Fn(&Value) -> bool) -> Vec<Seen> {
        let mut found: BTreeMap<String, bool> = BTreeMap::new();
        let mut first = Vec::new();
        for seen in self.seen().into_iter().filter(|seen| seen.kind == kind) {
            let now = !seen.gone && is_so(&seen.object);
            let before = found.insert(name_of(&seen.object), now).unwrap_or_default();
            if now && !before {
                first.push(seen);
            }
        }
        first
    }

    /// Says how much was seen, and everything that was broken.
    ///
    /// # Errors
    ///
    /// If a rule was broken, or the observer was not told everything.
    pub fn verdict(&self) -> Result<String, String> {
        if self.seen.is_empty() {
            return Err("the observer saw nothing at all".to_owned());
        }
        let broken = self.violations();
        if broken.is_empty() && self.gaps.is_empty() {
            return Ok(self.to_string());
        }
        let sentences = broken.iter().map(ToString::to_string).chain(self.gaps.iter().cloned());
        Err(sentences.collect::<Vec<_>>().join("\n"))
    }
}

/// One line that `cargo xtask test` adds up.
impl fmt::Display for History {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (events, disruptions) = (self.seen.len(), self.disruptions().len());
        let (evictions, broken) = (self.evictions(), self.violations().len());
        write!(
            formatter,
            "observed: {events} events, {disruptions} disruptions, {evictions} evictions, {broken} broken rules"
        )
    }
}
