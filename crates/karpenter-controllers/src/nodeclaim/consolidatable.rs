//! When a node has been quiet for long enough to be consolidated, and what disturbs that quiet.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use karpenter_api::condition::nodeclaim::{CONSOLIDATABLE, INITIALIZED};
use karpenter_api::{NillableDuration, NodeClaim, NodePool};
use karpenter_core::cluster::PodOwner;

use super::{condition, conditions, is_true};
use crate::observed::ObservedPod;

/// Events within this time of the last one are not written down.
const WRITTEN_EVERY: SignedDuration = SignedDuration::from_secs(10);

/// Whether a change of a pod disturbs the quiet of its node: it came, ended or is about to go.
pub(super) fn disturbs(old: &ObservedPod, new: &ObservedPod) -> bool {
    let is_daemon = new.pod.as_ref().is_ok_and(|pod| pod.owner == PodOwner::DaemonSet);
    let came = old.node.is_none() && new.node.is_some();
    let ended = !old.is_terminal() && new.is_terminal();
    let goes = old.deletion.is_none() && new.deletion.is_some();
    !is_daemon && (came || ended || goes)
}

/// Writes down that a pod came or went.
pub(super) fn note_disturbance(claim: &mut NodeClaim, now: Timestamp) {
    let status = claim.status.get_or_insert_default();
    let known = status.last_pod_event_time.as_ref().map(|time| time.0);
    if known.is_none_or(|known| now.duration_since(known) >= WRITTEN_EVERY) {
        let second = Timestamp::from_second(now.as_second()).unwrap_or(now);
        status.last_pod_event_time = Some(Time(second));
    }
}

/// Says in the claim whether its node may be consolidated, and returns how long until that changes by itself.
pub(super) fn step(claim: &mut NodeClaim, pool: Option<&NodePool>, now: Timestamp) -> Option<Duration> {
    let quiet_until =
        pool.filter(|pool| pool.spec.replicas.is_none()).and_then(|pool| quiet_until(claim, pool));
    match quiet_until {
        Some(end) if now >= end => {
            conditions(claim, now).set_true(CONSOLIDATABLE);
            None
        }
        Some(end) => {
            conditions(claim, now).clear(CONSOLIDATABLE);
            Duration::try_from(end.duration_since(now)).ok()
        }
        None => {
            conditions(claim, now).clear(CONSOLIDATABLE);
            None
        }
    }
}

/// When the node will have been quiet for `consolidateAfter`; none if that never comes.
fn quiet_until(claim: &NodeClaim, pool: &NodePool) -> Option<Timestamp> {
    let after =
        pool.spec.disruption.as_ref()?.consolidate_after.as_ref().and_then(NillableDuration::value)?;
    let ready = condition(claim, INITIALIZED).filter(|found| is_true(found))?.last_transition_time.0;
    let event = claim.status.as_ref()?.last_pod_event_time.as_ref().map(|time| time.0);
    event.unwrap_or(ready).checked_add(after).ok()
}
