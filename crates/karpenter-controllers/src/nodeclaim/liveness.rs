//! Liveness: a machine that cannot be started, or whose node never joins, is given up so that its pods are planned anew.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use karpenter_api::NodeClaim;
use karpenter_api::condition::nodeclaim::LAUNCHED;

use super::{condition, is_registered, is_true};
use crate::metrics::Disruption;

/// What took too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overdue {
    Launch,
    Registration,
}

impl Overdue {
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Launch => "it was not launched within five minutes",
            Self::Registration => "its node did not join the cluster within fifteen minutes",
        }
    }

    pub(super) fn disruption(self) -> Disruption {
        match self {
            Self::Launch => Disruption::LaunchTimeout,
            Self::Registration => Disruption::RegistrationTimeout,
        }
    }

    fn limit(self) -> SignedDuration {
        match self {
            Self::Launch => SignedDuration::from_mins(5),
            Self::Registration => SignedDuration::from_mins(15),
        }
    }
}

/// Why the claim is given up at `now`, if it is.
pub(super) fn overdue(claim: &NodeClaim, now: Timestamp) -> Option<Overdue> {
    let (deadline, awaited) = deadline(claim)?;
    (now >= deadline).then_some(awaited)
}

/// How long until the claim may be overdue.
pub(super) fn next_check(claim: &NodeClaim, now: Timestamp) -> Option<Duration> {
    let (deadline, _) = deadline(claim)?;
    Duration::try_from(deadline.duration_since(now)).ok()
}

fn deadline(claim: &NodeClaim) -> Option<(Timestamp, Overdue)> {
    let created = claim.metadata.creation_timestamp.as_ref()?.0;
    let awaited = if !condition(claim, LAUNCHED).is_some_and(is_true) {
        Overdue::Launch
    } else if !is_registered(claim) {
        Overdue::Registration
    } else {
        return None;
    };
    Some((created.saturating_add(awaited.limit()).unwrap_or(Timestamp::MAX), awaited))
}
