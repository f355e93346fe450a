//! The life of a NodeClaim: launched, registered, initialized; watched over while it lives; given up when something takes too long; taken
//! apart when it is deleted.
//!
//! Every step looks at the claim as it is and says what is missing, so it does not matter where the last process stopped. The steps are
//! files of their own; [`Lifecycle`] puts them in order.

mod consistency;
mod consolidatable;
mod drift;
mod drift_detection;
mod expiration;
mod finalization;
mod garbage;
mod initialization;
mod launch;
mod liveness;
mod reboot;
mod registration;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use karpenter_api::condition::nodeclaim::{DEPENDENTS, INITIALIZED, LAUNCHED, REGISTERED};
use karpenter_api::{NodeClaim, NodePool, labels};
use karpenter_provider::{LaunchError, NodeClassKind, Provider, Termination};
use karpenter_runtime::{
    Caches, Change, Controller, Delta, Effect, Handle, Key, Outcome, Status, View, Wakes, Watches, Write,
};

use consistency::Checks;
pub(crate) use drift_detection::{DriftDetection, NAME as DRIFT_DETECTION, handler as drift_handler};
pub(crate) use finalization::Stopping;
pub(crate) use garbage::GarbageCollection;
pub(crate) use initialization::is_ready;
use launch::Launches;
pub(crate) use reboot::{Reboots, tighten};

use crate::cloud::{CloudReply, CloudRequest};
use crate::conditions::Conditions;
use crate::events::Events;
use crate::metrics::{Disruption, Metrics};
use crate::observed::ObservedPod;
use crate::patches::difference;
use crate::state::{Shared, node_provider_id, provider_id};

/// Holds a claim or node back from vanishing before its machine is gone.
pub const FINALIZER: &str = "karpenter.sh/termination";

/// The controller of NodeClaims.
pub(crate) struct Lifecycle {
    state: Shared,
    provider: Arc<dyn Provider>,
    classes: &'static [NodeClassKind],
    launches: Launches,
    /// What was last heard about the machines of deleted claims, by UID.
    stopping: BTreeMap<String, Stopping>,
    /// Claims on whose node a pod came or went since they were last looked at.
    disturbed: BTreeSet<Key>,
    checks: Checks,
    events: Events,
    metrics: Metrics,
    handle: Handle,
}

impl Lifecycle {
    /// A controller of the claims whose NodeClass is one of `provider`'s.
    pub(crate) fn new(state: Shared, provider: Arc<dyn Provider>, metrics: Metrics, handle: Handle) -> Self {
        Self {
            state,
            classes: provider.node_classes(),
            provider,
            launches: Launches::default(),
            stopping: BTreeMap::new(),
            disturbed: BTreeSet::new(),
            checks: Checks::default(),
            events: Events::default(),
            metrics,
            handle,
        }
    }

    /// A pod that comes or goes disturbs the quiet of its node.
    fn see_pod(&mut self, old: &ObservedPod, new: &ObservedPod, wakes: &mut Wakes) {
        if !consolidatable::disturbs(old, new) {
            return;
        }
        let state = self.state.lock();
        let node = new.node.as_deref().and_then(|name| state.node(name));
        let Some(id) = node.and_then(|node| node_provider_id(node)) else { return };
        for claim in state.claims_of(id) {
            self.disturbed.insert(Key::cluster(&claim));
            wakes.wake(Key::cluster(&claim));
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
        // Until the machine is written down nobody knows whose node this is, and a change of the node would wake nobody.
        let nodes = if provider_id(claim).is_some() { self.nodes(&new, view.caches) } else { Vec::new() };
        let delay = self.provider.delays_registration(&new).filter(|_| !is_registered(&new));
        let node_write = registration::step(&mut new, &nodes, delay.is_some(), view.now)
            .or_else(|| initialization::step(&mut new, &nodes, view.now))
            .or_else(|| registration::hydrate(&new, &nodes));
        if let Some(outcome) = self.end(claim, &new, view) {
            return outcome;
        }
        if !is_registered(claim) && is_registered(&new) {
            self.note_registration(&new, true);
        }
        let (event, upkeep) = self.keep_up(claim, &mut new, &nodes, view);
        let claim_write = difference(&**claim, &new);
        // What the claim says of its node must already be true of the node.
        let outcome = match node_write {
            Some(write) => Outcome::done().then(write),
            None => Outcome::done().then_all(claim_write),
        };
        let next = [
            liveness::next_check(&new, view.now),
            expiration::next_check(&new, view.now),
            self.launches.next_attempt(uid(claim), view.now),
            delay,
        ];
        next.into_iter().chain(upkeep).flatten().fold(outcome.then_all(event), Outcome::again)
    }

    /// Ends the claim's life if something took too long, or its time is over.
    fn end(&mut self, claim: &NodeClaim, new: &NodeClaim, view: &View<'_>) -> Option<Outcome<CloudRequest>> {
        let (why, disruption) = if let Some(overdue) = liveness::overdue(new, view.now) {
            self.note_registration(claim, false);
            (overdue.reason(), overdue.disruption())
        } else if expiration::is_over(claim, view.now) {
            ("it has expired", Disruption::Expired)
        } else {
            return None;
        };
        tracing::info!("NodeClaim {} is deleted: {why}", Key::of(claim));
        self.metrics.disrupted(disruption, claim, &self.state);
        Some(
            Outcome::done()
                .then(Write::delete::<NodeClaim>(&Key::of(claim)).if_uid(uid(claim)).tolerating(404)),
        )
    }

    /// Remembers how a registration went, and has the pool say so.
    fn note_registration(&self, claim: &NodeClaim, went_well: bool) {
        let Some(pool) = claim.metadata.labels.as_ref().and_then(|all| all.get(labels::NODEPOOL)) else {
            return;
        };
        self.state.lock().note_registration(pool, went_well);
        self.handle.wake(crate::nodepool::NAME, Key::cluster(pool));
    }

    /// What is looked after while the claim lives: an event to tell, and when to look again.
    fn keep_up(
        &mut self,
        claim: &NodeClaim,
        new: &mut NodeClaim,
        nodes: &[Arc<Node>],
        view: &View<'_>,
    ) -> (Option<Write>, [Option<Duration>; 2]) {
        self.hydrate(new);
        if self.disturbed.remove(&Key::of(claim)) {
            consolidatable::note_disturbance(new, view.now);
        }
        let pool = new.metadata.labels.as_ref().and_then(|all| all.get(labels::NODEPOOL));
        let pool = pool.and_then(|pool| self.state.lock().pool(pool).cloned());
        let quiet = consolidatable::step(new, pool.as_deref(), view.now);
        let (event, check) = self.checks.step(new, nodes, &mut self.events, view);
        (event, [quiet, check])
    }

    /// Claims made by an older version may lack the label that names their NodeClass.
    fn hydrate(&self, claim: &mut NodeClaim) {
        let class = &claim.spec.node_class_ref;
        let known = self.classes.iter().find(|known| known.group == class.group && known.kind == class.kind);
        if let Some(known) = known {
            let name = class.name.clone();
            claim.metadata.labels.get_or_insert_default().entry(known.label()).or_insert(name);
        }
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
        watches.reads::<NodePool>();
        watches.reads::<ObservedPod>();
    }

    fn wake(&mut self, change: &Change, _: &Caches, wakes: &mut Wakes) {
        if let Some(delta) = change.of::<NodeClaim>() {
            if delta.new.is_none() {
                let uid = delta.old.map(uid).unwrap_or_default();
                self.launches.forget(uid);
                self.stopping.remove(uid);
                self.checks.forget(uid);
                self.disturbed.remove(change.key());
            }
            wakes.wake(change.key().clone());
        } else if let Some(delta) = change.of::<Node>() {
            let state = self.state.lock();
            for id in [delta.old, delta.new].into_iter().flatten().filter_map(node_provider_id) {
                state.claims_of(id).iter().for_each(|claim| wakes.wake(Key::cluster(claim)));
            }
        } else if let Some(Delta { old: Some(old), new: Some(new) }) = change.of::<ObservedPod>() {
            self.see_pod(old, new, wakes);
        } else if change.of::<NodePool>().as_ref().is_some_and(asks_otherwise) {
            let state = self.state.lock();
            state.claims_of_pool(change.key().name()).for_each(|claim| wakes.wake(Key::of(&**claim)));
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
            _ => {}
        }
    }

    fn refused(&mut self, key: &Key, write: &Write, status: &Status, _: &View<'_>) {
        tracing::debug!("NodeClaim {key}: cannot {write}: {}", status.message);
    }
}

/// Whether a pool asks something else of its claims than before. What it says of itself in its status is nothing to them.
fn asks_otherwise(delta: &Delta<'_, NodePool>) -> bool {
    let asked = |pool: &NodePool| (pool.metadata.generation, pool.metadata.annotations.clone());
    delta.old.map(asked) != delta.new.map(asked)
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

/// Whether the claim's node is ready for pods.
pub(crate) fn is_initialized(claim: &NodeClaim) -> bool {
    condition(claim, INITIALIZED).is_some_and(is_true)
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
