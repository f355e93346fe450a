//! Restarting a machine in place: fence the node, let pods leave for as long as they may, ask the provider, wait for the new boot.
//!
//! The claim says how far it is (`Rebooting`), so any process can go on from there. What the provider was asked is known to this process
//! only; asking again is harmless, because a restart has one id. A restart that fails ends with the claim deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use karpenter_api::NodeClaim;
use karpenter_api::annotations::{
    REBOOT_PRE_BOOT_ID, REBOOT_TERMINATION_GRACE_PERIOD, TERMINATION_TIMESTAMP,
};
use karpenter_api::condition::nodeclaim::{
    INITIALIZED, REASON_REBOOTING, REBOOT_FAILED, REBOOT_ISSUED, REBOOT_SUCCEEDED, REBOOTING,
};
use karpenter_api::duration::parse_duration;
use karpenter_api::labels::INITIALIZED as INITIALIZED_LABEL;
use karpenter_provider::RebootError;
use karpenter_runtime::{
    Caches, Change, Controller, Effect, Key, Outcome, Status, View, Wakes, Watches, Write,
};

use super::{condition, conditions, is_ready, is_true, uid};
use crate::cloud::{CloudReply, CloudRequest};
use crate::events::{EventType, Events};
use crate::fence::{rebooting, unfenced_of_reboot};
use crate::metrics::Metrics;
use crate::node::{Evictions, drain};
use crate::observed::ObservedPod;
use crate::patches::difference;
use crate::state::{Shared, node_provider_id, provider_id};

/// How often a restart under way is looked at.
const POLL: Duration = Duration::from_secs(15);
/// A pod bound just before the fence went up may not be seen yet.
const SHORTEST_DRAIN: SignedDuration = SignedDuration::from_secs(5);
/// How long the provider may fail to take the request, and a node may be missing before it is made.
const ISSUE_WITHIN: SignedDuration = SignedDuration::from_mins(5);
/// How long the machine may take to come back.
const BACK_WITHIN: SignedDuration = SignedDuration::from_mins(20);
/// How long to wait before the provider is asked again.
const ASK_AGAIN: SignedDuration = SignedDuration::from_secs(10);
/// For how long the end of a restart is not told again.
const TOLD_EVERY: Duration = Duration::from_mins(30);

/// What the provider was asked, and what it said.
#[derive(Debug)]
struct Asked {
    first: Timestamp,
    last: Timestamp,
    answer: Option<Result<(), RebootError>>,
}

/// How far a drain before a restart is.
enum Draining {
    Done,
    Going(Outcome<CloudRequest>),
}

/// The controller of restarts.
pub(crate) struct Reboots {
    state: Shared,
    /// By the claim's UID.
    asked: BTreeMap<String, Asked>,
    /// Since when a restart has been seen as issued, by the claim's UID.
    issued: BTreeMap<String, Timestamp>,
    /// Restarts that are over and counted, by the claim's UID.
    ended: BTreeSet<String>,
    evictions: Evictions,
    events: Events,
    metrics: Metrics,
}

impl Reboots {
    /// A controller over `state`.
    pub(crate) fn new(state: Shared, metrics: Metrics) -> Self {
        Self {
            state,
            asked: BTreeMap::new(),
            issued: BTreeMap::new(),
            ended: BTreeSet::new(),
            evictions: Evictions::default(),
            events: Events::default(),
            metrics,
        }
    }

    fn node(&self, claim: &NodeClaim, caches: &Caches) -> Option<Arc<Node>> {
        let names = self.state.lock().nodes_of(provider_id(claim)?);
        let [name] = names.as_slice() else { return None };
        caches.of::<Node>().get(&Key::cluster(name)).cloned()
    }

    /// Decided: fence, drain, ask.
    fn requested(
        &mut self,
        claim: &Arc<NodeClaim>,
        since: Timestamp,
        view: &View<'_>,
    ) -> Outcome<CloudRequest> {
        let Ok(grace) = grace(claim) else {
            let message = format!("the annotation {REBOOT_TERMINATION_GRACE_PERIOD} is not a duration");
            self.count(claim, "invalid_request", view);
            return self.end(claim, REBOOT_FAILED, &message, view);
        };
        let Some(node) = self.node(claim, view.caches) else {
            let missing = view.now.duration_since(since);
            return if missing >= ISSUE_WITHIN {
                self.give_up(claim, ("provider_error", "its node is gone"), view)
            } else {
                Outcome::after(POLL)
            };
        };
        if let Some(write) = difference(&*node, &rebooting(&node)) {
            return Outcome::done().then(write);
        }
        if let Draining::Going(outcome) = self.drained(&node, grace, since, view) {
            return outcome;
        }
        let boot = boot_id(&node);
        let Some(before) = annotation(claim, REBOOT_PRE_BOOT_ID) else {
            let mut new = NodeClaim::clone(claim);
            let annotations = new.metadata.annotations.get_or_insert_default();
            annotations.insert(REBOOT_PRE_BOOT_ID.to_owned(), boot.to_owned());
            return Outcome::done().then_all(difference(&**claim, &new));
        };
        if before != boot {
            return Self::issue(claim, view);
        }
        self.ask(claim, since, before, view)
    }

    /// Whether pods have left, as far as they are waited for.
    fn drained(
        &mut self,
        node: &Node,
        grace: Option<SignedDuration>,
        since: Timestamp,
        view: &View<'_>,
    ) -> Draining {
        if grace.is_some_and(|grace| grace.is_zero()) {
            return Draining::Done;
        }
        let waited = view.now.duration_since(since);
        if grace.is_some_and(|grace| waited >= grace.max(SHORTEST_DRAIN)) {
            return Draining::Done;
        }
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let keys: Vec<Key> = self.state.lock().pods_on(name).cloned().collect();
        let pods = view.caches.of::<ObservedPod>();
        let bound = keys.iter().filter_map(|key| Some((key, &**pods.get(key)?)));
        let found = drain(bound, None, |pod| pod.refuses_disruption(view.now), view.now);
        if found.waiting == 0 && waited >= SHORTEST_DRAIN {
            return Draining::Done;
        }
        let writes = self.evictions.ask(&found.evict, view);
        Draining::Going(Outcome::after(Duration::from_secs(1)).then_all(writes))
    }

    fn ask(
        &mut self,
        claim: &Arc<NodeClaim>,
        since: Timestamp,
        boot: &str,
        view: &View<'_>,
    ) -> Outcome<CloudRequest> {
        let asked = self.asked.get(uid(claim));
        match asked.and_then(|asked| asked.answer.as_ref()) {
            Some(Ok(())) => return Self::issue(claim, view),
            Some(Err(error @ (RebootError::NotSupported | RebootError::Final(_)))) => {
                let why = error.to_string();
                return self.give_up(claim, ("provider_error", &why), view);
            }
            Some(Err(error)) => {
                let (first, last) = asked.map_or((view.now, view.now), |asked| (asked.first, asked.last));
                if view.now.duration_since(first) >= ISSUE_WITHIN {
                    let why = error.to_string();
                    return self.give_up(claim, ("provider_error", &why), view);
                }
                let wait = ASK_AGAIN - view.now.duration_since(last);
                if let Some(wait) = Duration::try_from(wait).ok().filter(|wait| !wait.is_zero()) {
                    return Outcome::after(wait);
                }
            }
            None => {}
        }
        let first = asked.map_or(view.now, |asked| asked.first);
        self.asked.insert(uid(claim).to_owned(), Asked { first, last: view.now, answer: None });
        let operation = format!("{}-{}-{boot}", uid(claim), since.as_nanosecond());
        Outcome::done().then(Effect::Request(CloudRequest::Reboot(Arc::clone(claim), operation)))
    }

    /// The provider has taken the request: the node is not initialized any more until it is back.
    fn issue(claim: &Arc<NodeClaim>, view: &View<'_>) -> Outcome<CloudRequest> {
        let mut new = NodeClaim::clone(claim);
        let message = condition(claim, REBOOTING).map(|found| found.message.clone()).unwrap_or_default();
        let mut list = conditions(&mut new, view.now);
        list.set(REBOOTING, "True", REBOOT_ISSUED, &message);
        list.set_unknown(INITIALIZED, REASON_REBOOTING, "the node is being rebooted");
        Outcome::done().then_all(difference(&**claim, &new))
    }

    /// Asked: wait for the new boot.
    fn issued(&mut self, claim: &Arc<NodeClaim>, view: &View<'_>) -> Outcome<CloudRequest> {
        let written = condition(claim, INITIALIZED).filter(|found| found.reason == REASON_REBOOTING);
        let first_seen = *self.issued.entry(uid(claim).to_owned()).or_insert(view.now);
        let since = written.map_or(first_seen, |found| found.last_transition_time.0.max(first_seen));
        let late = view.now.duration_since(since) >= BACK_WITHIN;
        let Some(node) = self.node(claim, view.caches) else {
            if late {
                return self.give_up(claim, ("recovery_timeout", "its node is gone"), view);
            }
            return Outcome::after(POLL);
        };
        let mut new = Node::clone(&node);
        new.metadata.labels.get_or_insert_default().remove(INITIALIZED_LABEL);
        let back = annotation(claim, REBOOT_PRE_BOOT_ID).is_some_and(|before| before != boot_id(&node));
        if back {
            new = unfenced_of_reboot(&new);
        }
        if let Some(write) = difference(&*node, &new) {
            let event = back.then(|| {
                self.tell(claim, EventType::Normal, "RebootObserved", "The node has booted anew", view)
            });
            return Outcome::done().then(write).then_all(event.flatten());
        }
        if back && is_ready(&node) {
            if self.count(claim, "succeeded", view) {
                let took = view.now.duration_since(since).as_secs_f64();
                self.metrics.reboot_recovery.of(&[]).observe(took.max(0.0));
            }
            return self.end(claim, REBOOT_SUCCEEDED, "", view);
        }
        if late {
            return self.give_up(claim, ("recovery_timeout", "its node did not come back in time"), view);
        }
        Outcome::after(POLL)
    }

    /// Writes down how the restart ended.
    fn end(
        &mut self,
        claim: &NodeClaim,
        reason: &str,
        message: &str,
        view: &View<'_>,
    ) -> Outcome<CloudRequest> {
        tracing::info!("the restart of NodeClaim {} has ended: {reason} {message}", Key::of(claim));
        let mut new = claim.clone();
        conditions(&mut new, view.now).set_false(REBOOTING, reason, message);
        let event = (reason == REBOOT_FAILED)
            .then(|| self.tell(claim, EventType::Warning, "RebootFailed", message, view));
        Outcome::done().then_all(difference(claim, &new)).then_all(event.flatten())
    }

    /// The machine is not coming back: the claim goes, and its pods have as long to leave as they had before the restart.
    fn give_up(
        &mut self,
        claim: &NodeClaim,
        (result, why): (&str, &str),
        view: &View<'_>,
    ) -> Outcome<CloudRequest> {
        let mut new = claim.clone();
        if let Ok(Some(grace)) = grace(claim) {
            tighten(&mut new, grace, view.now);
        }
        if let Some(write) = difference(claim, &new) {
            return Outcome::done().then(write);
        }
        self.count(claim, result, view);
        tracing::warn!("NodeClaim {} is deleted: its restart failed: {why}", Key::of(claim));
        let message = format!("The restart failed, the node is replaced: {why}");
        let event = self.tell(claim, EventType::Warning, "RebootFailed", &message, view);
        Outcome::done()
            .then(Write::delete::<NodeClaim>(&Key::of(claim)).if_uid(uid(claim)).tolerating(404))
            .then_all(event)
    }

    /// Counts a restart that is over, once; returns whether it was the first time.
    fn count(&mut self, claim: &NodeClaim, result: &str, view: &View<'_>) -> bool {
        if !self.ended.insert(uid(claim).to_owned()) {
            return false;
        }
        let labels = [("result", result.to_owned())];
        self.metrics.reboots.of(&labels).inc();
        let begun = condition(claim, REBOOTING).map_or(view.now, |found| found.last_transition_time.0);
        let took = view.now.duration_since(begun).as_secs_f64();
        self.metrics.reboot_duration.of(&labels).observe(took.max(0.0));
        true
    }

    fn tell(
        &mut self,
        claim: &NodeClaim,
        type_: EventType,
        reason: &str,
        message: &str,
        view: &View<'_>,
    ) -> Option<Write> {
        self.events.tell_every(TOLD_EVERY, claim, type_, reason, message, view.now, view.environment)
    }

    fn forget(&mut self, uid: &str) {
        self.asked.remove(uid);
        self.issued.remove(uid);
        self.ended.remove(uid);
    }
}

impl Controller for Reboots {
    type Request = CloudRequest;
    type Reply = CloudReply;

    fn name(&self) -> &'static str {
        "nodeclaim.reboot"
    }

    fn watches(&self, watches: &mut Watches) {
        watches.reads::<NodeClaim>();
        watches.reads::<Node>();
        watches.reads::<ObservedPod>();
    }

    fn wake(&mut self, change: &Change, caches: &Caches, wakes: &mut Wakes) {
        if let Some(delta) = change.of::<NodeClaim>() {
            if delta.new.is_none() {
                self.forget(delta.old.map(uid).unwrap_or_default());
            }
            if condition(delta.latest(), REBOOTING).is_some() {
                wakes.wake(change.key().clone());
            }
        } else if let Some(delta) = change.of::<ObservedPod>() {
            if delta.new.is_none_or(|pod| pod.deletion.is_some()) {
                self.evictions.forget(change.key());
            }
        } else if let Some(delta) = change.of::<Node>()
            && let Some(id) = node_provider_id(delta.latest())
        {
            let claims = caches.of::<NodeClaim>();
            let restarting = |key: &Key| {
                claims.get(key).and_then(|claim| condition(claim, REBOOTING)).is_some_and(is_true)
            };
            let keys = self.state.lock().claims_of(id).into_iter().map(|name| Key::cluster(&name));
            keys.filter(restarting).for_each(|key| wakes.wake(key));
        }
    }

    fn reconcile(&mut self, key: &Key, view: &View<'_>) -> Outcome<CloudRequest> {
        let Some(claim) = view.caches.of::<NodeClaim>().get(key).cloned() else { return Outcome::done() };
        let Some(found) = condition(&claim, REBOOTING).cloned() else { return Outcome::done() };
        if claim.metadata.deletion_timestamp.is_some() {
            return Outcome::done();
        }
        if !is_true(&found) {
            self.forget(uid(&claim));
            return self.clear(&claim, view);
        }
        if found.reason == REBOOT_ISSUED {
            self.issued(&claim, view)
        } else {
            self.requested(&claim, found.last_transition_time.0, view)
        }
    }

    fn written(&mut self, _: &Key, write: &Write, _: &View<'_>) {
        if write.subresource() == Some("eviction") {
            self.metrics.eviction_answered(200);
            self.metrics.pod_drained(Some(Self::DRAIN_REASON));
        }
    }

    fn refused(&mut self, _: &Key, write: &Write, status: &Status, _: &View<'_>) {
        if write.subresource() == Some("eviction") {
            self.metrics.eviction_answered(status.code);
        }
    }

    fn hear(&mut self, key: &Key, reply: CloudReply, view: &View<'_>) {
        let Some(claim) = view.caches.of::<NodeClaim>().get(key) else { return };
        if let (CloudReply::Rebooted(answer), Some(asked)) = (reply, self.asked.get_mut(uid(claim))) {
            asked.answer = Some(answer);
        }
    }
}

impl Reboots {
    /// Why pods of the node leave, in metrics.
    const DRAIN_REASON: &str = "Unhealthy";

    /// Removes what was noted for a restart that is over. How long pods had to leave stays until the next restart is decided on, which writes it
    /// anew before it says so in the condition.
    fn clear(&self, claim: &NodeClaim, view: &View<'_>) -> Outcome<CloudRequest> {
        let mut new = claim.clone();
        let annotations = new.metadata.annotations.get_or_insert_default();
        annotations.remove(REBOOT_PRE_BOOT_ID);
        let node = self.node(claim, view.caches);
        let unfenced = node.and_then(|node| difference(&*node, &unfenced_of_reboot(&node)));
        Outcome::done().then_all(difference(claim, &new).into_iter().chain(unfenced))
    }
}

/// How long pods get to leave: any time where nothing is said.
fn grace(claim: &NodeClaim) -> Result<Option<SignedDuration>, ()> {
    let Some(written) = annotation(claim, REBOOT_TERMINATION_GRACE_PERIOD) else { return Ok(None) };
    parse_duration(written).ok().filter(|grace| !grace.is_negative()).map(Some).ok_or(())
}

/// Sees to it that the claim's node is drained within `grace` at the latest, once it is deleted.
pub(crate) fn tighten(claim: &mut NodeClaim, grace: SignedDuration, now: Timestamp) {
    let deadline = now.saturating_add(grace).unwrap_or(Timestamp::MAX);
    let annotations = claim.metadata.annotations.get_or_insert_default();
    let known = annotations.get(TERMINATION_TIMESTAMP).and_then(|written| written.parse::<Timestamp>().ok());
    if known.is_none_or(|known| deadline < known) {
        let written = karpenter_environment::format_time(deadline);
        annotations.insert(TERMINATION_TIMESTAMP.to_owned(), written);
    }
}

fn annotation<'c>(claim: &'c NodeClaim, key: &str) -> Option<&'c str> {
    claim.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

fn boot_id(node: &Node) -> &str {
    let info = node.status.as_ref().and_then(|status| status.node_info.as_ref());
    info.map(|info| info.boot_id.as_str()).unwrap_or_default()
}
