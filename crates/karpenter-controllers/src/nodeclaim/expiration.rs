//! Expiration: a claim lives as long as `expireAfter` says; then it goes, whatever runs on its node.

use std::time::Duration;

use jiff::Timestamp;
use karpenter_api::{NillableDuration, NodeClaim};

/// Whether the claim has lived long enough.
pub(super) fn is_over(claim: &NodeClaim, now: Timestamp) -> bool {
    end(claim).is_some_and(|end| now >= end)
}

/// How long it has left.
pub(super) fn next_check(claim: &NodeClaim, now: Timestamp) -> Option<Duration> {
    Duration::try_from(end(claim)?.duration_since(now)).ok()
}

fn end(claim: &NodeClaim) -> Option<Timestamp> {
    let lifetime = claim.spec.expire_after.as_ref().and_then(NillableDuration::value)?;
    let created = claim.metadata.creation_timestamp.as_ref()?.0;
    created.checked_add(lifetime).ok()
}
