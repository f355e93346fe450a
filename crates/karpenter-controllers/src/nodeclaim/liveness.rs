//! Liveness: a machine that cannot be started, or whose node never joins, is given up so that its pods are planned anew.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use karpenter_api::NodeClaim;
use karpenter_api::condition::nodeclaim::LAUNCHED;

use super::{condition, is_registered, is_true};

const LAUNCH_TIMEOUT: SignedDuration = SignedDuration::from_mins(5);
const REGISTRATION_TIMEOUT: SignedDuration = SignedDuration::from_mins(15);

/// Why the claim is given up at `now`, if it is.
pub(super) fn overdue(claim: &NodeClaim, now: Timestamp) -> Option<&'static str> {
    let (deadline, reason) = deadline(claim)?;
    (now >= deadline).then_some(reason)
}

/// How long until the claim may be overdue.
pub(super) fn next_check(claim: &NodeClaim, now: Timestamp) -> Option<Duration> {
    let (deadline, _) = deadline(claim)?;
    Duration::try_from(deadline.duration_since(now)).ok()
}

fn deadline(claim: &NodeClaim) -> Option<(Timestamp, &'static str)> {
    let created = claim.metadata.creation_timestamp.as_ref()?.0;
    let (limit, reason) = if !condition(claim, LAUNCHED).is_some_and(is_true) {
        (LAUNCH_TIMEOUT, "it was not launched within five minutes")
    } else if !is_registered(claim) {
        (REGISTRATION_TIMEOUT, "its node did not join the cluster within fifteen minutes")
    } else {
        return None;
    };
    Some((created.saturating_add(limit).unwrap_or(Timestamp::MAX), reason))
}
