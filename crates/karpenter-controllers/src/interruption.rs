//! Interruption: a machine that its cloud will take back is drained while it still runs, and one that does not work is replaced.
//!
//! The cloud hears that a warning was heeded only after the deletion that follows from it has been written; a process that dies before
//! hears the warning again.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use karpenter_api::NodeClaim;
use karpenter_api::annotations::TERMINATION_TIMESTAMP;
use karpenter_provider::{Response, Warning};
use karpenter_runtime::{Caches, Change, Controller, Effect, Key, Outcome, View, Wakes, Watches, Write};
use serde_json::json;

use crate::cloud::{CloudReply, CloudRequest};
use crate::events::{EventType, Events};
use crate::metrics::{Disruption, Metrics};
use crate::state::Shared;

/// How often the cloud is asked for warnings.
const PERIOD: Duration = Duration::from_secs(5);

/// Deletes claims whose machines will be taken back.
pub(crate) struct Interruption {
    state: Shared,
    warnings: Option<Vec<Warning>>,
    asked: bool,
    events: Events,
    metrics: Metrics,
}

impl Interruption {
    pub(crate) fn new(state: Shared, metrics: Metrics) -> Self {
        Self { state, warnings: None, asked: false, events: Events::default(), metrics }
    }

    fn heed(&mut self, warning: &Warning, view: &View<'_>) -> Heeded {
        let (names, nodes) = {
            let state = self.state.lock();
            (state.claims_of(&warning.provider_id), state.nodes_of(&warning.provider_id))
        };
        let mut heeded = Heeded::default();
        for name in names {
            let Some(claim) = view.caches.of::<NodeClaim>().get(&Key::cluster(&name)).cloned() else {
                continue;
            };
            heeded.events.extend(self.tell(&*claim, warning, view));
            if warning.response == Response::ReplaceAtOnce {
                heeded.urgent.extend(hurry(&claim, view));
            }
            if warning.response >= Response::Replace && claim.metadata.deletion_timestamp.is_none() {
                tracing::info!("NodeClaim {name} is deleted: {}", warning.kind.event().1);
                self.metrics.disrupted(Disruption::Warned(warning.kind), &claim, &self.state);
                let uid = claim.metadata.uid.as_deref().unwrap_or_default();
                let deletion = Write::delete::<NodeClaim>(&Key::cluster(&name));
                heeded.deletions.push(deletion.if_uid(uid).tolerating(404).tolerating(409));
            }
        }
        let nodes: Vec<Arc<Node>> = nodes
            .iter()
            .filter_map(|name| view.caches.of::<Node>().get(&Key::cluster(name)).cloned())
            .collect();
        heeded.events.extend(nodes.iter().flat_map(|node| self.tell(&**node, warning, view)));
        heeded
    }

    /// Events about what was said and about what follows from it.
    fn tell<K: kube::Resource<DynamicType = ()>>(
        &mut self,
        object: &K,
        warning: &Warning,
        view: &View<'_>,
    ) -> Vec<Write> {
        let (reason, message) = warning.kind.event();
        let type_ =
            if warning.kind.response() == Response::Tell { EventType::Normal } else { EventType::Warning };
        let mut told = vec![(type_, reason, message)];
        if warning.response >= Response::Replace {
            let message = "Interruption triggered termination";
            told.push((EventType::Warning, "TerminatingOnInterruption", message));
        }
        let events = &mut self.events;
        told.into_iter()
            .filter_map(|(type_, reason, message)| {
                events.tell(object, type_, reason, message, view.now, view.environment)
            })
            .collect()
    }

    /// What follows from all warnings: the claims of broken machines wait for nothing, claims are deleted, and then the cloud hears of it.
    fn heed_all(&mut self, warnings: Vec<Warning>, view: &View<'_>) -> Outcome<CloudRequest> {
        let mut all = Heeded::default();
        for warning in &warnings {
            let Heeded { urgent, deletions, events } = self.heed(warning, view);
            all.urgent.extend(urgent);
            all.deletions.extend(deletions);
            all.events.extend(events);
        }
        let outcome = Outcome::after(PERIOD).then_all(all.urgent).then_all(all.deletions);
        let acknowledged: Vec<Warning> =
            warnings.into_iter().filter(|warning| warning.receipt.is_some()).collect();
        let outcome = if acknowledged.is_empty() {
            outcome
        } else {
            outcome.then(Effect::Request(CloudRequest::Heeded(acknowledged)))
        };
        outcome.then_all(all.events)
    }
}

/// The writes that follow from a warning.
#[derive(Default)]
struct Heeded {
    urgent: Vec<Write>,
    deletions: Vec<Write>,
    events: Vec<Write>,
}

/// Lets the end of a claim wait for nothing from now on, unless it does so already.
fn hurry(claim: &NodeClaim, view: &View<'_>) -> Option<Write> {
    let annotations = claim.metadata.annotations.as_ref();
    let written = annotations.and_then(|annotations| annotations.get(TERMINATION_TIMESTAMP));
    if written.and_then(|written| written.parse::<Timestamp>().ok()).is_some_and(|until| until <= view.now) {
        return None;
    }
    let now = karpenter_environment::format_time(view.now);
    let patch = json!({"metadata": {"annotations": {TERMINATION_TIMESTAMP: now}}});
    Some(Write::merge_patch::<NodeClaim>(&Key::of(claim), patch).tolerating(404))
}

impl Controller for Interruption {
    type Request = CloudRequest;
    type Reply = CloudReply;

    fn name(&self) -> &'static str {
        "interruption"
    }

    fn watches(&self, watches: &mut Watches) {
        watches.reads::<NodeClaim>();
        watches.reads::<Node>();
    }

    fn begin(&mut self, _: &Caches, wakes: &mut Wakes) {
        wakes.wake(Key::everything());
    }

    fn wake(&mut self, _: &Change, _: &Caches, _: &mut Wakes) {}

    fn reconcile(&mut self, _: &Key, view: &View<'_>) -> Outcome<CloudRequest> {
        if let Some(warnings) = self.warnings.take() {
            return self.heed_all(warnings, view);
        }
        if std::mem::take(&mut self.asked) {
            // The cloud did not answer.
            return Outcome::after(PERIOD);
        }
        self.asked = true;
        Outcome::done().then(Effect::Request(CloudRequest::Warnings))
    }

    fn hear(&mut self, _: &Key, reply: CloudReply, _: &View<'_>) {
        match reply {
            CloudReply::Warned(Ok(warnings)) => {
                self.asked = false;
                self.warnings = Some(warnings);
            }
            CloudReply::Warned(Err(error)) => {
                tracing::warn!("the cloud cannot be asked for warnings: {error}");
            }
            CloudReply::Acknowledged(Err(error)) => {
                tracing::warn!(
                    "the cloud cannot be told which warnings were heeded, and may repeat them: {error}"
                );
            }
            _ => {}
        }
    }
}
