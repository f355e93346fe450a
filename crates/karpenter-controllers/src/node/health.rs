//! Repair as it was before it became a method of disruption (`--legacy-node-repair`): a broken node is deleted at once, without budgets and
//! before there is another one, unless too much of its pool is broken.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Node;
use karpenter_api::NodeClaim;
use karpenter_core::disruption::{RepairKind, RepairNeed, UNHEALTHY_TOLERATED_PERCENT, stops_repairs};
use karpenter_provider::{RepairDue, RepairPolicies, RepairVerdict};
use karpenter_runtime::{Caches, Change, Controller, Key, Outcome, View, Wakes, Watches, Write};

use crate::disruption::{not_before, repairs_stopped, seen};
use crate::events::{EventType, Events};
use crate::metrics::{Disruption, Metrics};
use crate::nodeclaim::tighten;
use crate::patches::difference;
use crate::state::{Shared, node_of, pool_of};

/// When a node is looked at again that is not repaired because too many are broken.
const BLOCKED: Duration = Duration::from_mins(5);
/// For how long the same block is not told again.
const BLOCK_REPEATED: Duration = Duration::from_mins(15);

/// The controller of broken nodes.
pub(crate) struct LegacyRepair {
    state: Shared,
    policies: RepairPolicies,
    events: Events,
    metrics: Metrics,
}

impl LegacyRepair {
    /// A controller that replaces nodes by `policies`, all of which must say so.
    pub(crate) fn new(state: Shared, policies: RepairPolicies, metrics: Metrics) -> Self {
        Self { state, policies, events: Events::default(), metrics }
    }

    /// How many nodes of the node's pool are broken, and how many there are; of the cluster where it has no pool.
    fn count(&self, node: &Node) -> (u32, u32) {
        let state = self.state.lock();
        let own = pool_of(node);
        let peers = state.nodes().filter(|other| own.is_none() || pool_of(&***other) == own);
        peers.fold((0, 0), |(unhealthy, nodes), other| {
            (unhealthy + u32::from(self.policies.is_unhealthy(seen(other))), nodes + 1)
        })
    }

    fn repair(
        &mut self,
        node: &Arc<Node>,
        claim: &Arc<NodeClaim>,
        due: &RepairDue,
        view: &View<'_>,
    ) -> Outcome<Infallible> {
        let (unhealthy, nodes) = self.count(node);
        if stops_repairs(unhealthy, nodes, UNHEALTHY_TOLERATED_PERCENT) {
            let message = repairs_stopped(unhealthy, nodes);
            let event = self.events.tell_every(
                BLOCK_REPEATED,
                &**node,
                EventType::Warning,
                "NodeRepairBlocked",
                &message,
                view.now,
                view.environment,
            );
            return Outcome::after(BLOCKED).then_all(event);
        }
        let mut marked = NodeClaim::clone(claim);
        tighten(&mut marked, SignedDuration::ZERO, view.now);
        if let Some(write) = difference(&**claim, &marked) {
            return Outcome::done().then(write);
        }
        tracing::info!("NodeClaim {} is deleted: its node is broken ({})", Key::of(&**claim), due.condition);
        let need = RepairNeed {
            score: 0.0,
            kind: RepairKind::Replace,
            bound: Some(SignedDuration::ZERO),
            vetoed: false,
            cause: Arc::from(&*due.condition),
        };
        self.metrics.disrupted(Disruption::Unhealthy, claim, &self.state);
        self.metrics.repaired(&need, claim);
        let uid = claim.metadata.uid.as_deref().unwrap_or_default();
        Outcome::done().then(Write::delete::<NodeClaim>(&Key::of(&**claim)).if_uid(uid).tolerating(404))
    }
}

impl Controller for LegacyRepair {
    type Request = Infallible;
    type Reply = Infallible;

    fn name(&self) -> &'static str {
        "node.health"
    }

    fn watches(&self, watches: &mut Watches) {
        watches.reads::<Node>();
        watches.reads::<NodeClaim>();
    }

    fn wake(&mut self, change: &Change, _: &Caches, wakes: &mut Wakes) {
        if let Some(delta) = change.of::<Node>() {
            wakes.wake(Key::of(delta.latest()));
        } else if let Some(delta) = change.of::<NodeClaim>() {
            node_of(delta.latest()).into_iter().for_each(|node| wakes.wake(Key::cluster(node)));
        }
    }

    fn reconcile(&mut self, key: &Key, view: &View<'_>) -> Outcome<Infallible> {
        let Some(node) = view.caches.of::<Node>().get(key).cloned() else { return Outcome::done() };
        let claim = self.state.lock().claim_of(key.name()).cloned();
        let staying = claim.filter(|claim| claim.metadata.deletion_timestamp.is_none());
        let Some(claim) = staying else { return Outcome::done() };
        match self.policies.verdict(seen(&node), not_before(&claim, &node), view.now) {
            RepairVerdict::Healthy => Outcome::done(),
            RepairVerdict::Tolerated(until) => {
                let wait = Duration::try_from(until.duration_since(view.now));
                Outcome::after(wait.unwrap_or_default().max(Duration::from_secs(1)))
            }
            RepairVerdict::Due(due) => self.repair(&node, &claim, &due, view),
        }
    }
}
