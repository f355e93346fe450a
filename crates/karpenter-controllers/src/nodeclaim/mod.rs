//! The life of a NodeClaim: launched, registered, initialized; given up when that takes too long; taken apart when it is deleted.
//!
//! Every step looks at the claim as it is and says what is missing, so it does not matter where the last process stopped. The steps are
//! files of their own; [`Lifecycle`] puts them in order.

mod finalization;
mod garbage;
mod initialization;
mod launch;
mod liveness;
mod registration;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use karpenter_api::condition::nodeclaim::{DEPENDENTS, LAUNCHED, REGISTERED};
use karpenter_api::{NodeClaim, labels};
use karpenter_provider::{LaunchError, NodeClassKind, Termination};
use karpenter_runtime::{
    Caches, Change, Controller, Effect, Key, Outcome, Status, View, Wakes, Watches, Write,
};

pub(crate) use finalization::Stopping;
pub(crate) use garbage::GarbageCollection;
pub(crate) use initialization::is_ready;
use launch::Launches;

use crate::cloud::{CloudReply, CloudRequest};
use crate::conditions::Conditions;
use crate::events::Events;
use crate::metrics::{Disruption, Metrics};
use crate::patches::difference;
use crate::state::{Shared, node_provider_id, provider_id};

/// Holds a claim or node back from vanishing before its machine is gone.
pub const FINALIZER: &str = "karpenter.sh/termination";

/// The controller of NodeClaims.
pub(crate) struct Lifecycle {
    state: Shared,
    classes: &'static [NodeClassKind],
    launches: Launches,
    /// What was last heard about the machines of deleted claims, by UID.
    stopping: BTreeMap<String, Stopping>,
    events: Events,
    metrics: Metrics,
}

impl Lifecycle {
    /// A controller of the claims whose NodeClass is one of `classes`.
    pub(crate) fn new(state: Shared, classes: &'static [NodeClassKind], metrics: Metrics) -> Self {
        Self {
            state,
            classes,
            launches: Launches::default(),
            stopping: BTreeMap::new(),
            events: Events::default(),
            metrics,
        }
    }

    fn is_ours(&self, claim: &NodeClaim) -> bool {
        let class = &claim.spec.node_class_ref;
        self.classes.iter().any(|known| known.group == class.group && known.kind == class.kind)
    }

    /// The nodes of a claim's machine.
    fn nodes(&self, claim: &NodeClaim, caches: &Caches) -> Vec<Arc<Node>> {
        let Some(id) = provider_id(claim) else { return Vec::new() };
        let names = self.state.lock().nodes_of(id);
        names.iter().filter_map(|name| caches.of::<Node>().get(&Key::cluster(name)).cloned()).collect()
    }

    fn live(&mut self, claim: &Arc<NodeClaim>, view: &View<'_>) -> Outcome<CloudRequest> {
        let mut new = NodeClaim::clone(claim);
        if add_finalizer(&mut new) {
            return Outcome::done().then_all(difference(&**claim, &new));
        }
        if condition(claim, LAUNCHED).is_some_and(is_true) {
            self.launches.forget(uid(claim));
        } else if let Some(outcome) = self.launch(claim, &mut new, view) {
            return outcome;
        }
        let nodes = self.nodes(&new, view.caches);
        let node_write = registration::step(&mut new, &nodes, view.now)
            .or_else(|| initialization::step(&mut new, &nodes, view.now));
        if let Some(overdue) = liveness::overdue(&new, view.now) {
            tracing::info!("NodeClaim {} is given up: {}", Key::of(&**claim), overdue.reason());
            self.metrics.disrupted(overdue.disruption(), claim, &self.state);
            return Outcome::done()
                .then(Write::delete::<NodeClaim>(&Key::of(&**claim)).if_uid(uid(claim)).tolerating(404));
        }
        let claim_write = difference(&**claim, &new);
        // What the claim says of its node must already be true of the node.
        let outcome = match node_write {
            Some(write) => Outcome::done().then(write),
            None => Outcome::done().then_all(claim_write),
        };
        let next = [liveness::next_check(&new, view.now), self.launches.next_attempt(uid(claim), view.now)];
        next.into_iter().flatten().fold(outcome, Outcome::again)
    }

    /// Brings the launch a step further; `None` when there is nothing to do but to write down what is known.
    fn launch(
        &mut self,
        claim: &Arc<NodeClaim>,
        new: &mut NodeClaim,
        view: &View<'_>,
    ) -> Option<Outcome<CloudRequest>> {
        conditions(new, view.now).begin();
        match self.launches.next(uid(claim), view.now) {
            launch::Next::Ask => {
                Some(Outcome::done().then(Effect::Request(CloudRequest::Launch(Arc::clone(claim)))))
            }
            launch::Next::Record(machine) => {
                launch::record(new, &machine, view.now);
                None
            }
            launch::Next::GiveUp(error) => {
                let events = launch::refusal_event(&mut self.events, claim, &error, view);
                let deletion =
                    Write::delete::<NodeClaim>(&Key::of(&**claim)).if_uid(uid(claim)).tolerating(404);
                tracing::info!("NodeClaim {} is given up: {error}", Key::of(&**claim));
                let why = match error {
                    LaunchError::NodeClassNotReady(_) => Disruption::NodeClassNotReady,
                    _ => Disruption::InsufficientCapacity,
                };
                self.metrics.disrupted(why, claim, &self.state);
                Some(Outcome::done().then_all(events).then(deletion))
            }
            launch::Next::Wait { reason, message } => {
                conditions(new, view.now).set_unknown(LAUNCHED, &reason, &message);
                None
            }
        }
    }
}

impl Controller for Lifecycle {
    type Request = CloudRequest;
    type Reply = CloudReply;

    fn name(&self) -> &'static str {
        "nodeclaim.lifecycle"
    }

    fn watches(&self, watches: &mut Watches) {
        watches.reads::<NodeClaim>();
        watches.reads::<Node>();
    }

    fn wake(&mut self, change: &Change, _: &Caches, wakes: &mut Wakes) {
        if let Some(delta) = change.of::<NodeClaim>() {
            if delta.new.is_none() {
                let uid = delta.old.map(uid).unwrap_or_default();
                self.launches.forget(uid);
                self.stopping.remove(uid);
            }
            wakes.wake(change.key().clone());
        } else if let Some(delta) = change.of::<Node>() {
            let state = self.state.lock();
            for id in [delta.old, delta.new].into_iter().flatten().filter_map(node_provider_id) {
                state.claims_of(id).iter().for_each(|claim| wakes.wake(Key::cluster(claim)));
            }
        }
    }

    fn reconcile(&mut self, key: &Key, view: &View<'_>) -> Outcome<CloudRequest> {
        let Some(claim) = view.caches.of::<NodeClaim>().get(key).cloned() else { return Outcome::done() };
        if !self.is_ours(&claim) {
            return Outcome::done();
        }
        if claim.metadata.deletion_timestamp.is_some() {
            let nodes = self.nodes(&claim, view.caches);
            let stopping = self.stopping.get(uid(&claim)).copied();
            return finalization::step(&claim, &nodes, stopping, view.now);
        }
        self.live(&claim, view)
    }

    fn hear(&mut self, key: &Key, reply: CloudReply, view: &View<'_>) {
        let Some(claim) = view.caches.of::<NodeClaim>().get(key) else { return };
        match reply {
            CloudReply::Launched(result) => self.launches.hear(uid(claim), result, view.now),
            CloudReply::Terminated(result) => {
                if let Err(error) = &result {
                    tracing::warn!("the machine of NodeClaim {key} cannot be stopped: {error}");
                }
                let gone = result == Ok(Termination::Gone);
                self.stopping.insert(uid(claim).to_owned(), Stopping { gone, at: view.now });
            }
            CloudReply::Found(_) | CloudReply::Listed(_) => {}
        }
    }

    fn refused(&mut self, key: &Key, write: &Write, status: &Status, _: &View<'_>) {
        tracing::debug!("NodeClaim {key}: cannot {write}: {}", status.message);
    }
}

fn add_finalizer(claim: &mut NodeClaim) -> bool {
    let finalizers = claim.metadata.finalizers.get_or_insert_default();
    if finalizers.iter().any(|found| found == FINALIZER) {
        return false;
    }
    finalizers.push(FINALIZER.to_owned());
    true
}

fn uid(claim: &NodeClaim) -> &str {
    claim.metadata.uid.as_deref().unwrap_or_default()
}

fn is_true(condition: &Condition) -> bool {
    condition.status == "True"
}

/// A condition of a claim.
pub(crate) fn condition<'a>(claim: &'a NodeClaim, type_: &str) -> Option<&'a Condition> {
    claim.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == type_)
}

/// The conditions of a claim, to be changed.
pub(crate) fn conditions(claim: &mut NodeClaim, now: jiff::Timestamp) -> Conditions<'_> {
    let generation = claim.metadata.generation;
    let list = claim.status.get_or_insert_default().conditions.get_or_insert_default();
    Conditions::new(list, DEPENDENTS, generation, now)
}

/// Whether the claim's node has joined the cluster.
pub(crate) fn is_registered(claim: &NodeClaim) -> bool {
    condition(claim, REGISTERED).is_some_and(is_true)
}

/// Whether the node carries the mark of a managed node.
pub(crate) fn is_managed(node: &Node, classes: &[NodeClassKind]) -> bool {
    let has = |key: &str| node.metadata.labels.as_ref().is_some_and(|found| found.contains_key(key));
    has(labels::NODEPOOL) || classes.iter().any(|class| has(&class.label()))
}
