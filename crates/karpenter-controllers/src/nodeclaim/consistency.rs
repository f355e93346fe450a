//! Consistency: a node should have what its machine was sold as.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use karpenter_api::NodeClaim;
use karpenter_api::condition::nodeclaim::{CONSISTENCY_CHECK_FAILED, CONSISTENT_STATE_FOUND, INITIALIZED};
use karpenter_kube::resources::resource_list;
use karpenter_runtime::{View, Write};

use super::{condition, conditions, is_true, uid};
use crate::events::{EventType, Events};

/// How often a claim is checked.
const PERIOD: SignedDuration = SignedDuration::from_mins(10);
/// A node may fall this much short, in percent: kernels keep some for themselves.
const TOLERATED_PERCENT: i128 = 10;

/// When claims were last checked, by UID.
#[derive(Debug, Default)]
pub(super) struct Checks(BTreeMap<String, Timestamp>);

impl Checks {
    pub(super) fn forget(&mut self, uid: &str) {
        self.0.remove(uid);
    }

    /// Says in the claim whether its node is what was bought; returns an event if it is not, and how long until the next check.
    pub(super) fn step(
        &mut self,
        claim: &mut NodeClaim,
        nodes: &[Arc<Node>],
        events: &mut Events,
        view: &View<'_>,
    ) -> (Option<Write>, Option<Duration>) {
        let ready = condition(claim, INITIALIZED).is_some_and(is_true);
        let [node] = nodes else { return (None, None) };
        if !ready {
            return (None, None);
        }
        let checked = self.0.get(uid(claim)).copied();
        let due = checked.and_then(|checked| checked.checked_add(PERIOD).ok());
        if let Some(left) = due.and_then(|due| Duration::try_from(due.duration_since(view.now)).ok())
            && !left.is_zero()
        {
            return (None, Some(left));
        }
        self.0.insert(uid(claim).to_owned(), view.now);
        let period = Duration::try_from(PERIOD).ok();
        match shortfall(claim, node) {
            None => {
                conditions(claim, view.now).set_true(CONSISTENT_STATE_FOUND);
                (None, period)
            }
            Some(message) => {
                conditions(claim, view.now).set_false(
                    CONSISTENT_STATE_FOUND,
                    CONSISTENCY_CHECK_FAILED,
                    &message,
                );
                let event = events.tell(
                    claim,
                    EventType::Warning,
                    "FailedConsistencyCheck",
                    &message,
                    view.now,
                    view.environment,
                );
                (event, period)
            }
        }
    }
}

/// What the node has too little of.
fn shortfall(claim: &NodeClaim, node: &Node) -> Option<String> {
    let bought = resource_list(claim.status.as_ref()?.capacity.as_ref()).ok()?;
    let shown = resource_list(node.status.as_ref()?.capacity.as_ref()).ok()?;
    let requests = resource_list(claim.spec.resources.as_ref()?.requests.as_ref()).ok()?;
    let short = |name: &&str| {
        let least = bought.get(name).as_nano() / 100 * (100 - TOLERATED_PERCENT);
        !requests.get(name).is_zero() && shown.get(name).as_nano() < least
    };
    let name = requests.names().find(short)?;
    Some(format!("expected {} of resource {name}, but found {}", bought.get(name), shown.get(name)))
}
