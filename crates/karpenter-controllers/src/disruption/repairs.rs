//! Which nodes are broken, by the provider's policies, and how often their machines were restarted lately.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use karpenter_api::annotations::{DO_NOT_REPAIR, REBOOT_TERMINATION_GRACE_PERIOD};
use karpenter_api::condition::nodeclaim::{DISRUPTION_REASON, REBOOT_REQUESTED, REBOOTING};
use karpenter_api::{GoDuration, NodeClaim, NodePool};
use karpenter_core::disruption::{RepairKind, RepairNeed, Repairs};
use karpenter_kube::knobs::unhealthy_tolerated;
use karpenter_provider::{ConditionSeen, RepairAction, RepairDue, RepairPolicies, RepairVerdict};
use karpenter_runtime::{Key, View, Write};

use crate::nodeclaim::{condition, conditions};
use crate::patches::difference;
use crate::state::{State, provider_id};

/// Restarts are remembered for this long.
const REMEMBERED: SignedDuration = SignedDuration::from_hours(24);
/// After so many restarts within that time a node is replaced instead.
const MOST_REBOOTS: usize = 2;

/// When the machine of a claim was restarted, by the claim's UID. A new process begins without.
#[derive(Debug, Default)]
pub(super) struct History(BTreeMap<String, Vec<Timestamp>>);

impl History {
    fn is_exhausted(&self, claim: &NodeClaim, now: Timestamp) -> bool {
        let lately = |at: &&Timestamp| now.duration_since(**at) < REMEMBERED;
        let known = claim.metadata.uid.as_ref().and_then(|uid| self.0.get(uid));
        known.is_some_and(|known| known.iter().filter(lately).count() >= MOST_REBOOTS)
    }

    fn note(&mut self, claim: &NodeClaim, now: Timestamp) {
        self.0.retain(|_, known| {
            known.retain(|at| now.duration_since(*at) < REMEMBERED);
            !known.is_empty()
        });
        self.0.entry(claim.metadata.uid.clone().unwrap_or_default()).or_default().push(now);
    }
}

/// What the nodes' conditions mean now, and when that changes by itself.
pub(super) fn repairs(
    policies: &RepairPolicies,
    state: &State,
    history: &History,
    now: Timestamp,
) -> (Repairs, Option<Timestamp>) {
    let mut repairs = Repairs::default();
    let mut next: Option<Timestamp> = None;
    for claim in state.claims() {
        let names = provider_id(claim).map(|id| state.nodes_of(id)).unwrap_or_default();
        let [name] = names.as_slice() else { continue };
        let Some(node) = state.node(name) else { continue };
        if policies.is_unhealthy(seen(node)) {
            repairs.unhealthy.insert(name.as_str().into());
        }
        match policies.verdict(seen(node), not_before(claim, node), now) {
            RepairVerdict::Healthy => {}
            RepairVerdict::Tolerated(until) => next = Some(next.map_or(until, |sooner| sooner.min(until))),
            RepairVerdict::Due(due) => {
                repairs.due.insert(name.as_str().into(), need(&due, claim, node, history, now));
            }
        }
    }
    (repairs, next)
}

fn need(due: &RepairDue, claim: &NodeClaim, node: &Node, history: &History, now: Timestamp) -> RepairNeed {
    let replaced = due.action == RepairAction::ReplaceNode || history.is_exhausted(claim, now);
    let own = claim.spec.termination_grace_period.as_ref().map(GoDuration::value);
    let policy = due.grace_period.and_then(|grace| SignedDuration::try_from(grace).ok());
    let annotations = node.metadata.annotations.as_ref();
    RepairNeed {
        score: due.score,
        kind: if replaced { RepairKind::Replace } else { RepairKind::Reboot },
        bound: policy.into_iter().chain(own).min(),
        vetoed: annotations.and_then(|all| all.get(DO_NOT_REPAIR)).is_some_and(|value| value == "true"),
        cause: format!("{}/{}", due.condition, due.reason).into(),
    }
}

/// What is told where too much is broken for it to be the nodes.
pub(crate) fn repairs_stopped(unhealthy: u32, nodes: u32) -> String {
    format!("Cannot repair: {unhealthy} of {nodes} nodes are broken, which points to another cause")
}

pub(crate) fn seen(node: &Node) -> impl Iterator<Item = ConditionSeen<'_>> {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.map(|found| ConditionSeen {
        type_: &found.type_,
        status: &found.status,
        reason: found.reason.as_deref().unwrap_or_default(),
        since: found.last_transition_time.as_ref().map_or(Timestamp::MIN, |time| time.0),
    })
}

/// A condition counts from the node's creation, or from the end of its last restart, at the earliest.
pub(crate) fn not_before(claim: &NodeClaim, node: &Node) -> Timestamp {
    let created = node.metadata.creation_timestamp.as_ref().map_or(Timestamp::MIN, |time| time.0);
    let restarted = condition(claim, REBOOTING).filter(|found| found.status == "False");
    restarted.map_or(created, |found| found.last_transition_time.0.max(created))
}

/// A restart that has been decided on and is not written down yet. From then on the claim itself says what is to be done.
pub(super) struct RebootDecision {
    claim: Arc<NodeClaim>,
    need: RepairNeed,
}

impl RebootDecision {
    /// Decides on a restart and remembers it.
    pub(super) fn new(
        claim: Arc<NodeClaim>,
        need: RepairNeed,
        history: &mut History,
        now: Timestamp,
    ) -> Self {
        history.note(&claim, now);
        Self { claim, need }
    }

    /// The name of the claim.
    pub(super) fn claim(&self) -> &str {
        self.claim.metadata.name.as_deref().unwrap_or_default()
    }

    /// The node whose machine is restarted.
    pub(super) fn node(&self) -> Option<&str> {
        self.claim.status.as_ref()?.node_name.as_deref()
    }

    /// What is still to be written: the bound of the drain first, then the decision; none when all is written, or the claim is leaving.
    pub(super) fn write(&self, view: &View<'_>) -> Option<Write> {
        let claim = view.caches.of::<NodeClaim>().get(&Key::of(&*self.claim))?;
        let begun = condition(claim, REBOOTING).is_some_and(|found| found.status == "True");
        if begun
            || claim.metadata.deletion_timestamp.is_some()
            || claim.metadata.uid != self.claim.metadata.uid
        {
            return None;
        }
        let mut new = NodeClaim::clone(claim);
        let annotations = new.metadata.annotations.get_or_insert_default();
        match self.need.bound {
            Some(bound) => {
                annotations
                    .insert(REBOOT_TERMINATION_GRACE_PERIOD.to_owned(), format!("{}s", bound.as_secs()));
            }
            None => drop(annotations.remove(REBOOT_TERMINATION_GRACE_PERIOD)),
        }
        let mut list = conditions(&mut new, view.now);
        list.set(DISRUPTION_REASON, "True", "Unhealthy", "");
        list.set(REBOOTING, "True", REBOOT_REQUESTED, &format!("rebooting for {}", self.need.cause));
        difference(&**claim, &new)
    }
}

/// How much of each pool may be broken, where the pool says so itself.
pub(super) fn tolerated_percents<'p>(
    pools: impl Iterator<Item = &'p Arc<NodePool>>,
) -> BTreeMap<Arc<str>, u32> {
    let said =
        |pool: &Arc<NodePool>| Some((Arc::from(pool.metadata.name.as_deref()?), unhealthy_tolerated(pool)?));
    pools.filter_map(said).collect()
}
