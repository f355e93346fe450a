//! Interruption: a machine that its cloud will take back is drained while it still runs.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use karpenter_api::NodeClaim;
use karpenter_provider::{Warning, WarningKind};
use karpenter_runtime::{Caches, Change, Controller, Effect, Key, Outcome, View, Wakes, Watches, Write};

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

    fn heed(&mut self, warning: &Warning, view: &View<'_>) -> Vec<Write> {
        let WarningKind::SpotInterruption = warning.kind;
        let (names, nodes) = {
            let state = self.state.lock();
            (state.claims_of(&warning.provider_id), state.nodes_of(&warning.provider_id))
        };
        let mut writes = Vec::new();
        for name in names {
            let Some(claim) = view.caches.of::<NodeClaim>().get(&Key::cluster(&name)).cloned() else {
                continue;
            };
            writes.extend(self.tell(&*claim, view));
            if claim.metadata.deletion_timestamp.is_none() {
                tracing::info!("NodeClaim {name} is deleted: its spot machine will be taken back");
                self.metrics.disrupted(Disruption::SpotInterrupted, &claim, &self.state);
                let uid = claim.metadata.uid.as_deref().unwrap_or_default();
                let deletion = Write::delete::<NodeClaim>(&Key::cluster(&name));
                writes.push(deletion.if_uid(uid).tolerating(404).tolerating(409));
            }
        }
        let nodes: Vec<Arc<Node>> = nodes
            .iter()
            .filter_map(|name| view.caches.of::<Node>().get(&Key::cluster(name)).cloned())
            .collect();
        writes.extend(nodes.iter().filter_map(|node| self.tell(&**node, view)));
        writes
    }

    fn tell<K: kube::Resource<DynamicType = ()>>(&mut self, object: &K, view: &View<'_>) -> Option<Write> {
        let message = "Spot interruption warning was triggered";
        self.events.tell(object, EventType::Warning, "SpotInterrupted", message, view.now, view.environment)
    }
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
            let writes: Vec<Write> = warnings.iter().flat_map(|warning| self.heed(warning, view)).collect();
            return Outcome::after(PERIOD).then_all(writes);
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
            _ => {}
        }
    }
}
