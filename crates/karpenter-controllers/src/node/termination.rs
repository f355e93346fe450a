//! Terminating a node: fence it, drain it, wait for its volumes, stop its machine, let the object go.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use karpenter_api::NodeClaim;
use karpenter_api::annotations::TERMINATION_TIMESTAMP;
use karpenter_api::condition::nodeclaim::{
    AWAITING_VOLUME_DETACHMENT, DISRUPTION_REASON, DRAINED, DRAINING, TERMINATION_GRACE_PERIOD_ELAPSED,
    VOLUMES_DETACHED,
};
use karpenter_api::labels::EXCLUDE_FROM_LOAD_BALANCERS;
use karpenter_provider::{NodeClassKind, Termination as Stopped};
use karpenter_runtime::{
    Caches, Change, Controller, Effect, Key, Outcome, Status, View, Wakes, Watches, Write,
};

use super::drain::{Drain, drain, stays};
use super::evictions::Evictions;
use crate::cloud::{CloudReply, CloudRequest};
use crate::events::{EventType, Events};
use crate::fence::fenced;
use crate::metrics::Metrics;
use crate::nodeclaim::{FINALIZER, Stopping, condition, conditions, is_managed, is_ready};
use crate::observed::ObservedPod;
use crate::patches::difference;
use crate::state::{Shared, node_provider_id, provider_id};

/// How often a node that waits for something is looked at again.
const POLL: Duration = Duration::from_secs(1);
/// A pod bound just before the fence went up may not be seen yet.
const SHORTEST_DRAIN: SignedDuration = SignedDuration::from_secs(5);

/// The controller of leaving nodes.
pub(crate) struct Termination {
    state: Shared,
    classes: &'static [NodeClassKind],
    /// What the provider last said, by node UID.
    stopping: BTreeMap<String, Stopping>,
    asked: Evictions,
    events: Events,
    metrics: Metrics,
}

impl Termination {
    /// A controller of the nodes whose NodeClass is one of `classes`.
    pub(crate) fn new(state: Shared, classes: &'static [NodeClassKind], metrics: Metrics) -> Self {
        Self {
            state,
            classes,
            stopping: BTreeMap::new(),
            asked: Evictions::default(),
            events: Events::default(),
            metrics,
        }
    }

    fn claim(&self, node: &Node, caches: &Caches) -> Option<Arc<NodeClaim>> {
        let names = self.state.lock().claims_of(node_provider_id(node)?);
        let [name] = names.as_slice() else { return None };
        caches.of::<NodeClaim>().get(&Key::cluster(name)).cloned()
    }

    /// One step after the other; each returns what to do until it is done.
    fn step(&mut self, node: &Arc<Node>, view: &View<'_>) -> Outcome<CloudRequest> {
        let claim = self.claim(node, view.caches);
        if let Some(claim) = claim.as_ref().filter(|claim| claim.metadata.deletion_timestamp.is_none()) {
            let uid = claim.metadata.uid.as_deref().unwrap_or_default();
            return Outcome::done()
                .then(Write::delete::<NodeClaim>(&Key::of(&**claim)).if_uid(uid).tolerating(404));
        }
        if let Some(outcome) = self.remains(node, claim.as_ref()) {
            return outcome;
        }
        if let Some(write) = difference(&**node, &leaving(node)) {
            return Outcome::done().then(write);
        }
        let deadline = claim.as_deref().and_then(deadline);
        if let Some(outcome) = self.drain(node, claim.as_deref(), deadline, view) {
            return outcome;
        }
        if let Some(outcome) = self.detach(node, claim.as_deref(), deadline, view) {
            return outcome;
        }
        self.stop(node, claim.as_ref(), view)
    }

    /// A node that is not ready may have lost its machine: then there is nothing to drain.
    fn remains(&self, node: &Arc<Node>, claim: Option<&Arc<NodeClaim>>) -> Option<Outcome<CloudRequest>> {
        let known = self.stopping.get(uid(node));
        if known.is_some_and(|stopping| stopping.gone) {
            return Some(release(node));
        }
        let id = node_provider_id(node)?;
        let lost = !is_ready(node) && claim.is_some();
        (lost && known.is_none())
            .then(|| Outcome::done().then(Effect::Request(CloudRequest::Find(id.into()))))
    }

    fn drain(
        &mut self,
        node: &Node,
        claim: Option<&NodeClaim>,
        deadline: Option<Timestamp>,
        view: &View<'_>,
    ) -> Option<Outcome<CloudRequest>> {
        let since =
            claim.and_then(|claim| condition(claim, DRAINED)).map(|found| found.last_transition_time.0);
        if claim.is_some() && since.is_none() {
            return Some(Outcome::done().then_all(Self::note(claim, DRAINED, "Unknown", DRAINING, "", view)));
        }
        let keys: Vec<Key> =
            self.state.lock().pods_on(node.metadata.name.as_deref().unwrap_or_default()).cloned().collect();
        let pods = view.caches.of::<ObservedPod>();
        let bound = keys.iter().filter_map(|key| Some((key, &**pods.get(key)?)));
        let found = drain(bound, deadline, |pod| pod.refuses_disruption(view.now), view.now);
        let settling = since.is_some_and(|since| view.now.duration_since(since) < SHORTEST_DRAIN);
        if found.waiting == 0 && !settling {
            let done =
                claim.filter(|claim| condition(claim, DRAINED).is_none_or(|found| found.status != "True"));
            let remark = done.and_then(|claim| Self::note(Some(claim), DRAINED, "True", DRAINED, "", view));
            return remark.map(|write| Outcome::done().then(write));
        }
        Some(self.ask_to_leave(node, &found, view))
    }

    fn ask_to_leave(&mut self, node: &Node, found: &Drain, view: &View<'_>) -> Outcome<CloudRequest> {
        let mut writes = Vec::new();
        for (key, seconds) in &found.delete {
            if self.asked.may_ask(key, view.now) {
                writes.push(Write::delete::<Pod>(key).grace(*seconds).tolerating(404));
            }
        }
        writes.extend(self.asked.ask(&found.evict, view));
        let message = format!("Failed to drain node, {} pods are waiting to be evicted", found.waiting);
        let event = (found.waiting > 0)
            .then(|| {
                self.events.tell(
                    node,
                    EventType::Warning,
                    "FailedDraining",
                    &message,
                    view.now,
                    view.environment,
                )
            })
            .flatten();
        let soonest = [self.asked.next(), found.next].into_iter().flatten().min();
        let wait =
            soonest.and_then(|next| Duration::try_from(next.duration_since(view.now)).ok()).unwrap_or(POLL);
        Outcome::after(wait.clamp(Duration::from_millis(50), POLL)).then_all(writes).then_all(event)
    }

    /// Waits for volumes that are still attached, except those of pods that stay.
    fn detach(
        &mut self,
        node: &Node,
        claim: Option<&NodeClaim>,
        deadline: Option<Timestamp>,
        view: &View<'_>,
    ) -> Option<Outcome<CloudRequest>> {
        if claim
            .and_then(|claim| condition(claim, VOLUMES_DETACHED))
            .is_some_and(|found| found.status != "Unknown")
        {
            return None;
        }
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let attached: Vec<String> = self.attached_volumes(name, view);
        let (status, reason) = match (attached.is_empty(), deadline) {
            (true, _) => ("True", VOLUMES_DETACHED),
            (false, Some(deadline)) if view.now >= deadline => ("False", TERMINATION_GRACE_PERIOD_ELAPSED),
            (false, _) => ("Unknown", AWAITING_VOLUME_DETACHMENT),
        };
        let remark = Self::note(claim, VOLUMES_DETACHED, status, reason, "", view);
        if status != "Unknown" {
            return remark.map(|write| Outcome::done().then(write));
        }
        let shown: Vec<&str> = attached.iter().take(5).map(String::as_str).collect();
        let message = format!("Awaiting deletion of bound volumeattachments ({})", shown.join(", "));
        let event = self.events.tell(
            node,
            EventType::Normal,
            "AwaitingVolumeDetachment",
            &message,
            view.now,
            view.environment,
        );
        Some(Outcome::after(POLL).then_all(remark).then_all(event))
    }

    fn attached_volumes(&self, node: &str, view: &View<'_>) -> Vec<String> {
        let keys: Vec<Key> = self.state.lock().pods_on(node).cloned().collect();
        let pods = view.caches.of::<ObservedPod>();
        let staying = keys.iter().filter_map(|key| pods.get(key)).filter(|pod| stays(pod));
        let claims = view.caches.of::<PersistentVolumeClaim>();
        let kept: Vec<String> = staying
            .filter_map(|pod| pod.pod.as_ref().ok())
            .flat_map(|pod| {
                pod.volumes.iter().map(|volume| Key::namespaced(&pod.id.namespace, &volume.claim))
            })
            .filter_map(|key| claims.get(&key)?.spec.as_ref()?.volume_name.clone())
            .collect();
        let attachments = view.caches.of::<VolumeAttachment>();
        attachments
            .iter()
            .filter(|(_, found)| found.spec.node_name == node)
            .filter(|(_, found)| {
                found.spec.source.persistent_volume_name.as_ref().is_some_and(|volume| !kept.contains(volume))
            })
            .map(|(key, _)| key.name().to_owned())
            .collect()
    }

    fn stop(&self, node: &Node, claim: Option<&Arc<NodeClaim>>, view: &View<'_>) -> Outcome<CloudRequest> {
        let Some(claim) = claim else { return release(node) };
        match self.stopping.get(uid(node)) {
            Some(Stopping { gone: true, .. }) => release(node),
            Some(stopping) if let Some(wait) = stopping.wait(view.now) => Outcome::after(wait),
            _ => Outcome::done().then(Effect::Request(CloudRequest::Terminate(Arc::clone(claim)))),
        }
    }

    /// The write that notes a condition on the claim, if it is news.
    fn note(
        claim: Option<&NodeClaim>,
        type_: &str,
        status: &str,
        reason: &str,
        message: &str,
        view: &View<'_>,
    ) -> Option<Write> {
        let claim = claim?;
        let mut new = claim.clone();
        conditions(&mut new, view.now).set(type_, status, reason, message);
        difference(claim, &new)
    }
}

impl Controller for Termination {
    type Request = CloudRequest;
    type Reply = CloudReply;

    fn name(&self) -> &'static str {
        "node.termination"
    }

    fn watches(&self, watches: &mut Watches) {
        watches.add::<VolumeAttachment>();
        watches.reads::<PersistentVolumeClaim>();
        watches.reads::<Node>();
        watches.reads::<NodeClaim>();
        watches.reads::<ObservedPod>();
    }

    fn wake(&mut self, change: &Change, caches: &Caches, wakes: &mut Wakes) {
        let mut wake_if_leaving = |name: &str| {
            let key = Key::cluster(name);
            if caches.of::<Node>().get(&key).is_some_and(|node| node.metadata.deletion_timestamp.is_some()) {
                wakes.wake(key);
            }
        };
        if let Some(delta) = change.of::<Node>() {
            if delta.new.is_none() {
                self.stopping.remove(delta.old.map(uid).unwrap_or_default());
            }
            wake_if_leaving(change.key().name());
        } else if let Some(delta) = change.of::<ObservedPod>() {
            if delta.new.is_none_or(|pod| pod.deletion.is_some()) {
                self.asked.forget(change.key());
            }
            if let Some(node) = &delta.latest().node {
                wake_if_leaving(node);
            }
        } else if let Some(delta) = change.of::<VolumeAttachment>() {
            wake_if_leaving(&delta.latest().spec.node_name);
        } else if let Some(delta) = change.of::<NodeClaim>() {
            // A claim that goes while its node joins may never come to name the node.
            let nodes = provider_id(delta.latest()).map(|id| self.state.lock().nodes_of(id));
            nodes.iter().flatten().for_each(|name| wake_if_leaving(name));
        }
    }

    fn reconcile(&mut self, key: &Key, view: &View<'_>) -> Outcome<CloudRequest> {
        let Some(node) = view.caches.of::<Node>().get(key).cloned() else { return Outcome::done() };
        let finalizer = node.metadata.finalizers.iter().flatten().any(|found| found == FINALIZER);
        if node.metadata.deletion_timestamp.is_none() || !finalizer || !is_managed(&node, self.classes) {
            return Outcome::done();
        }
        self.step(&node, view)
    }

    fn hear(&mut self, key: &Key, reply: CloudReply, view: &View<'_>) {
        let Some(node) = view.caches.of::<Node>().get(key) else { return };
        let gone = match reply {
            CloudReply::Found(Ok(machine)) => machine.is_none(),
            CloudReply::Terminated(Ok(termination)) => termination == Stopped::Gone,
            CloudReply::Terminated(Err(error)) | CloudReply::Found(Err(error)) => {
                tracing::warn!("the machine of node {key} cannot be reached: {error}");
                false
            }
            _ => return,
        };
        self.stopping.insert(uid(node).to_owned(), Stopping { gone, at: view.now });
    }

    fn written(&mut self, key: &Key, write: &Write, view: &View<'_>) {
        let evicted = write.subresource() == Some("eviction");
        if evicted {
            self.metrics.eviction_answered(200);
        }
        if evicted || write.is_deletion_of::<Pod>() {
            let node = view.caches.of::<Node>().get(key);
            let claim = node.and_then(|node| self.claim(node, view.caches));
            let reason = claim.as_deref().and_then(|claim| condition(claim, DISRUPTION_REASON));
            self.metrics.pod_drained(reason.map(|found| found.reason.as_str()));
        }
    }

    fn refused(&mut self, _: &Key, write: &Write, status: &Status, _: &View<'_>) {
        if write.subresource() != Some("eviction") {
            return;
        }
        self.metrics.eviction_answered(status.code);
        if status.code == 429 {
            tracing::debug!("pod {} stays for now: {}", write.key(), status.message);
        }
    }
}

/// The node as it is while it leaves: closed to new pods, and out of load balancers.
fn leaving(node: &Node) -> Node {
    let mut node = fenced(node);
    let labels = node.metadata.labels.get_or_insert_default();
    labels.insert(EXCLUDE_FROM_LOAD_BALANCERS.to_owned(), "karpenter".to_owned());
    node
}

fn release(node: &Node) -> Outcome<CloudRequest> {
    let mut released = node.clone();
    released.metadata.finalizers.get_or_insert_default().retain(|found| found != FINALIZER);
    Outcome::done().then_all(difference(node, &released))
}

fn deadline(claim: &NodeClaim) -> Option<Timestamp> {
    claim.metadata.annotations.as_ref()?.get(TERMINATION_TIMESTAMP)?.parse().ok()
}

fn uid(node: &Node) -> &str {
    node.metadata.uid.as_deref().unwrap_or_default()
}
