//! Pods that wait become NodeClaims: collects pods for a moment, has the core plan for all of them, creates what the plan asks for.

mod batch;
mod claims;
mod plan;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use karpenter_api::annotations::LAUNCHES_PER_MINUTE;
use karpenter_api::condition::READY;
use karpenter_api::{LabelRules, NodeClaim, NodePool};
use karpenter_core::cluster::ClusterSnapshot;
use karpenter_core::plan::{ClaimPlan, ProvisioningPlan};
use karpenter_kube::node_pool::{is_dynamic, node_pool};
use karpenter_runtime::{
    Caches, Change, Controller, Effect, Handle, Key, Outcome, View, Wakes, Watches, Write,
};

pub use batch::BatchSettings;
use batch::{Batch, Wait};
pub(crate) use claims::{node_claim, template_claim};
pub use plan::Computing;
pub(crate) use plan::{PlanReply, PlanRequest, Planner, catalog};

use crate::buffers::{self, is_chunk};
use crate::events::{EventType, Events};
use crate::metrics::Metrics;
use crate::nodeclaim::is_initialized;
use crate::observed::ObservedPod;
use crate::state::{Shared, provider_id};

/// The name under which buffers wake this controller.
pub(crate) const NAME: &str = "provisioner";
/// How long the next plan waits for claims of the last one to be launched: until then nobody knows what they will be.
const LAUNCHES_AWAITED: Duration = Duration::from_secs(10);
/// How often a plan is tried again while pods have no place.
const AGAIN: Duration = Duration::from_secs(10);
/// How soon after a node has become ready its pods should be on it; those that are not may need another.
const ARRIVAL: Duration = Duration::from_secs(20);
/// How soon it is looked whether buffers still fit once pods have come to nodes or left them.
const BUFFERS_AGAIN: Duration = Duration::from_secs(2);
/// For how long a pod is not told again why it has no place.
const FAILURE_REPEATED: Duration = Duration::from_mins(5);
/// Pods told per plan where they will go; a thousand events help nobody.
const NOMINATIONS_TOLD: usize = 10;

/// The provisioner.
pub(crate) struct Provisioner {
    state: Shared,
    rules: LabelRules,
    options: karpenter_core::SolverOptions,
    batch: Batch,
    /// Whether a node has become ready since the last look.
    arrivals: bool,
    /// Whether the room that buffers may be in has changed since the last look.
    room_changed: bool,
    reply: Option<PlanReply>,
    handle: Handle,
    events: Events,
    metrics: Metrics,
}

impl Provisioner {
    /// A provisioner that plans from `state`.
    pub(crate) fn new(
        state: Shared,
        rules: LabelRules,
        options: karpenter_core::SolverOptions,
        batching: BatchSettings,
        metrics: Metrics,
        handle: Handle,
    ) -> Self {
        Self {
            state,
            rules,
            options,
            batch: Batch::new(batching),
            arrivals: false,
            room_changed: false,
            reply: None,
            handle,
            events: Events::default(),
            metrics,
        }
    }

    /// What to plan: the state now, without pods whose claim is still being launched.
    fn request(&self, view: &View<'_>) -> Option<PlanRequest> {
        let mut state = self.state.lock();
        let mut snapshot = state.snapshot();
        let launching: BTreeSet<&str> =
            state.launching().filter_map(|claim| claim.metadata.name.as_deref()).collect();
        let awaited = |uid: &Arc<str>| {
            let place = state.planned(uid).or_else(|| state.reserve().claim_for(uid));
            place.is_some_and(|place| launching.contains(&**place))
        };
        snapshot.pending.retain(|pod| !awaited(&pod.id.uid));
        if snapshot.pending.is_empty() && state.reserve().is_empty() && !has_leaving_pods(&snapshot) {
            return None;
        }
        snapshot.pending.extend(state.next_in_line().filter(|pod| !awaited(&pod.id.uid)).cloned());
        let chunks: Vec<_> =
            state.reserve().pods().filter(|chunk| !awaited(&chunk.id.uid)).cloned().collect();
        snapshot.pending.iter().for_each(|pod| state.waits().begin(&pod.id.uid, view.now));
        snapshot.pending.extend(chunks);
        let pools = usable_pools(&mut snapshot, &self.rules, view.caches);
        Some(PlanRequest { snapshot, pools, options: self.options.clone() })
    }

    /// The writes that a plan asks for.
    fn carry_out(&mut self, reply: PlanReply, view: &View<'_>) -> Outcome<PlanRequest> {
        let PlanReply { plan, pools, left_out } = reply;
        for (pool, error) in left_out {
            tracing::warn!("NodePool {pool} is left out: {error}");
        }
        self.count(&plan);
        self.note_decisions(&plan, view.now);
        self.remember_places(&plan);
        let mut creations = Vec::new();
        let mut events = Vec::new();
        let mut held: BTreeMap<&str, (&Arc<NodePool>, usize)> = BTreeMap::new();
        for claim in &plan.claims {
            let Some(pool) =
                pools.iter().find(|pool| pool.metadata.name.as_deref() == Some(&*claim.node_pool))
            else {
                continue;
            };
            if self.state.lock().launched().room(pool, view.now) == 0 {
                held.entry(&claim.node_pool).or_insert((pool, 0)).1 += 1;
                continue;
            }
            self.state.lock().launched().note(pool, view.now);
            self.count_claim(claim);
            let name = format!("{}-{}", claim.node_pool, view.environment.suffix());
            let place: Arc<str> = name.as_str().into();
            self.remember_claim(claim, &plan, &place);
            events.extend(self.nominations(
                claim,
                &name,
                &plan,
                view,
                NOMINATIONS_TOLD.saturating_sub(events.len()),
            ));
            creations.push(Write::create(&node_claim(claim, pool, name)));
        }
        if !creations.is_empty() {
            tracing::info!(
                nodeclaims = creations.len(),
                pods = plan.pods.len(),
                price = plan.price(),
                "computed new nodeclaim(s) to fit pod(s)"
            );
        }
        let delayed = !held.is_empty();
        for (pool, waiting) in held.into_values() {
            events.extend(self.tell_delay(pool, waiting, view));
        }
        events.extend(self.failures(&plan, view));
        let outcome = Outcome::done().then_all(creations).then_all(events);
        if plan.unschedulable.is_empty() && !delayed {
            return outcome;
        }
        self.batch.open_after(view.now, AGAIN);
        outcome.again(AGAIN)
    }

    /// Pods that have a place on nodes that are there, or on their way, are expected there.
    fn remember_places(&self, plan: &ProvisioningPlan) {
        let mut state = self.state.lock();
        for (node, pods) in &plan.existing {
            pods.iter().for_each(|pod| state.plan_to(&plan.pods[*pod as usize].id, node));
        }
        for buffer in state.reserve_mut().judge(plan) {
            self.handle.wake(buffers::NAME, buffer);
        }
    }

    /// Pods for which a claim is made are expected there.
    fn remember_claim(&self, claim: &ClaimPlan, plan: &ProvisioningPlan, name: &Arc<str>) {
        let mut state = self.state.lock();
        for pod in claim.pods.iter().map(|pod| &plan.pods[*pod as usize]) {
            if is_chunk(pod) {
                state.reserve_mut().note_claim(&pod.id.uid, name);
            } else {
                state.plan_to(&pod.id, name);
            }
        }
    }

    fn count(&self, plan: &ProvisioningPlan) {
        self.metrics.ignored_pods.replace([([], plan.ignored.len() as f64)]);
        let controller = [("controller", "provisioner".to_owned())];
        let without_place =
            plan.unschedulable.iter().filter(|(pod, _)| !is_chunk(&plan.pods[*pod as usize])).count();
        self.metrics.unschedulable_pods.replace([(controller, without_place as f64)]);
    }

    fn count_claim(&self, claim: &ClaimPlan) {
        let labels = [
            ("reason", "provisioned".to_owned()),
            ("nodepool", claim.node_pool.to_string()),
            ("min_values_relaxed", claim.min_values_relaxed.to_string()),
        ];
        self.metrics.nodeclaims_created.of(&labels).inc();
    }

    /// Says that nodes wait because their pool launches only so many a minute.
    fn tell_delay(&mut self, pool: &NodePool, waiting: usize, view: &View<'_>) -> Option<Write> {
        let message = format!(
            "{waiting} more nodes are wanted; the annotation {LAUNCHES_PER_MINUTE} lets no more be launched now"
        );
        let (now, environment) = (view.now, view.environment);
        self.events.tell(pool, EventType::Normal, "LaunchesDelayed", &message, now, environment)
    }

    /// Takes note of which pods the plan says something about, and how long they waited for that.
    fn note_decisions(&self, plan: &ProvisioningPlan, now: Timestamp) {
        let claimed = plan.claims.iter().flat_map(|claim| &claim.pods);
        let placed = plan.existing.iter().flat_map(|(_, pods)| pods).chain(claimed).map(|pod| (*pod, true));
        let left = plan.unschedulable.iter().map(|(pod, _)| (*pod, false));
        let mut state = self.state.lock();
        for (pod, has_place) in placed.chain(left) {
            if let Some(since) = state.waits().decide(&plan.pods[pod as usize].id.uid, has_place, now) {
                let waited = now.duration_since(since).as_secs_f64();
                self.metrics.pods_decision.of(&[]).observe(waited.max(0.0));
            }
        }
    }

    fn nominations(
        &mut self,
        claim: &ClaimPlan,
        name: &str,
        plan: &ProvisioningPlan,
        view: &View<'_>,
        most: usize,
    ) -> Vec<Write> {
        let pods = view.caches.of::<ObservedPod>();
        let message = format!("Pod should schedule on: nodeclaim/{name}");
        claim
            .pods
            .iter()
            .take(most)
            .filter_map(|pod| {
                let id = &plan.pods[*pod as usize].id;
                let pod = pods.get(&Key::namespaced(&id.namespace, &id.name))?;
                self.events.tell(&**pod, EventType::Normal, "Nominated", &message, view.now, view.environment)
            })
            .collect()
    }

    fn failures(&mut self, plan: &ProvisioningPlan, view: &View<'_>) -> Vec<Write> {
        let pods = view.caches.of::<ObservedPod>();
        let without_place = plan.unschedulable.iter().map(|(pod, reason)| (*pod, reason.to_string()));
        let ignored = plan.ignored.iter().map(|(pod, reason)| (*pod, reason.to_string()));
        without_place
            .chain(ignored)
            .filter_map(|(pod, reason)| {
                let id = &plan.pods[pod as usize].id;
                let pod = pods.get(&Key::namespaced(&id.namespace, &id.name))?;
                let message = format!("Failed to schedule pod, {reason}");
                self.events.tell_every(
                    FAILURE_REPEATED,
                    &**pod,
                    EventType::Warning,
                    "FailedScheduling",
                    &message,
                    view.now,
                    view.environment,
                )
            })
            .collect()
    }

    /// Notes what a change means for the next plan, and returns whether it means anything.
    fn note(&mut self, change: &Change) -> bool {
        if let Some(delta) = change.of::<ObservedPod>() {
            return self.note_pod(delta.old, delta.new);
        }
        let left = if let Some(delta) = change.of::<NodeClaim>() {
            self.arrivals |= delta.new.is_some_and(is_initialized) && !delta.old.is_some_and(is_initialized);
            let leaving = |claim: &NodeClaim| claim.metadata.deletion_timestamp.is_some();
            delta.new.is_none_or(leaving) && !delta.old.is_some_and(leaving)
        } else if let Some(delta) = change.of::<Node>() {
            let leaving = |node: &Node| node.metadata.deletion_timestamp.is_some();
            delta.new.is_none_or(leaving) && !delta.old.is_some_and(leaving)
        } else {
            change.of::<NodePool>().is_some_and(|delta| offer(delta.old) != offer(delta.new))
        };
        if left {
            self.batch.stir();
        } else if change.of::<NodeClaim>().is_some_and(|delta| progress(delta.old) != progress(delta.new)) {
            self.room_changed = !self.state.lock().reserve().is_empty();
        }
        // A launch that was waited for may be done.
        left || change.of::<NodeClaim>().is_some()
    }

    /// Pods that begin to wait are followed by more; one that its scheduler gave up on was among them before, and if nodes are on
    /// their way for them there is nothing to plan.
    fn note_pod(&mut self, old: Option<&ObservedPod>, new: Option<&ObservedPod>) -> bool {
        let waits = |pod: &ObservedPod| pod.provisionable || pod.awaits_scheduler;
        let provisionable = |pod: &ObservedPod| pod.provisionable;
        if !new.is_some_and(waits) {
            let takes_room = |pod: Option<&ObservedPod>| pod.is_some_and(ObservedPod::takes_room);
            let moved = takes_room(old) != takes_room(new) && !self.state.lock().reserve().is_empty();
            self.room_changed |= moved;
            return moved;
        }
        if !old.is_some_and(waits) {
            self.batch.stir();
        }
        let gave_up = new.is_some_and(provisionable) && !old.is_some_and(provisionable);
        let unplanned = gave_up && !new.is_some_and(|pod| self.state.lock().is_awaited(pod.uid()));
        if unplanned {
            self.batch.open();
        }
        unplanned
    }
}

impl Controller for Provisioner {
    type Request = PlanRequest;
    type Reply = PlanReply;

    fn name(&self) -> &'static str {
        NAME
    }

    fn watches(&self, watches: &mut Watches) {
        watches.reads::<NodePool>();
        watches.reads::<ObservedPod>();
        watches.reads::<NodeClaim>();
        watches.reads::<Node>();
    }

    fn begin(&mut self, _: &Caches, wakes: &mut Wakes) {
        wakes.wake(Key::everything());
    }

    fn wake(&mut self, change: &Change, _: &Caches, wakes: &mut Wakes) {
        if self.note(change) {
            wakes.wake(Key::everything());
        }
    }

    fn reconcile(&mut self, _: &Key, view: &View<'_>) -> Outcome<PlanRequest> {
        if let Some(reply) = self.reply.take() {
            return self.carry_out(reply, view);
        }
        if std::mem::take(&mut self.arrivals) {
            self.batch.open_after(view.now, ARRIVAL);
        }
        if std::mem::take(&mut self.room_changed) {
            self.batch.open_after(view.now, BUFFERS_AGAIN);
        }
        if self.state.lock().reserve_mut().take_changed() {
            self.batch.open();
        }
        match self.batch.wait(view.now) {
            Wait::Idly => return Outcome::done(),
            Wait::For(wait) => return Outcome::after(wait),
            Wait::NoLonger => {}
        }
        if let Some(wait) = self.batch.patience(view.now, LAUNCHES_AWAITED)
            && self.state.lock().launching().next().is_some()
        {
            return Outcome::after(wait);
        }
        self.batch.close();
        match self.request(view) {
            Some(request) => Outcome::done().then(Effect::Request(request)),
            None => Outcome::done(),
        }
    }

    fn hear(&mut self, _: &Key, reply: PlanReply, _: &View<'_>) {
        self.reply = Some(reply);
    }
}

/// Adds the pools that may get nodes to a picture of the cluster, and returns them as objects.
pub(crate) fn usable_pools(
    snapshot: &mut ClusterSnapshot,
    rules: &LabelRules,
    caches: &Caches,
) -> Vec<Arc<NodePool>> {
    let mut usable = Vec::new();
    for (key, pool) in caches.of::<NodePool>().iter() {
        if !is_dynamic(pool) || !is_ready(pool) {
            continue;
        }
        match node_pool(pool, rules) {
            Ok(converted) => {
                snapshot.node_pools.push(Arc::new(converted));
                usable.push(Arc::clone(pool));
            }
            Err(error) => tracing::warn!("NodePool {key} is left out: {error}"),
        }
    }
    usable
}

fn has_leaving_pods(snapshot: &ClusterSnapshot) -> bool {
    snapshot.nodes.iter().any(|node| node.deleting && node.pods.iter().any(|pod| pod.is_reschedulable()))
}

/// How far a claim has come on its way to room for pods.
fn progress(claim: Option<&NodeClaim>) -> Option<(bool, bool)> {
    claim.map(|claim| (provider_id(claim).is_some(), is_initialized(claim)))
}

/// What a pool means for plans. What it says of itself in its status does not, but whether it is ready.
fn offer(pool: Option<&NodePool>) -> Option<(Option<i64>, bool)> {
    pool.map(|pool| (pool.metadata.generation, is_ready(pool)))
}

/// Whether nodes of the pool can be launched.
pub(crate) fn is_ready(pool: &NodePool) -> bool {
    let conditions = pool.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == READY && condition.status == "True")
}
