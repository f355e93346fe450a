//! The conditions of an EC2NodeClass: set by what was found, summed up in `Ready`.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use karpenter_api::condition::{
    AWAITING_RECONCILIATION, READY, RECONCILING_DEPENDENTS, UNHEALTHY_DEPENDENTS,
};

pub(super) const AMIS_READY: &str = "AMIsReady";
pub(super) const SUBNETS_READY: &str = "SubnetsReady";
pub(super) const SECURITY_GROUPS_READY: &str = "SecurityGroupsReady";
pub(super) const INSTANCE_PROFILE_READY: &str = "InstanceProfileReady";
pub(super) const PLACEMENT_GROUP_READY: &str = "PlacementGroupReady";
pub(super) const CAPACITY_RESERVATIONS_READY: &str = "CapacityReservationsReady";
pub(super) const VALIDATION_SUCCEEDED: &str = "ValidationSucceeded";

/// What `Ready` rests on. Reservations come last: without the gate they are left out.
const DEPENDENTS: &[&str] = &[
    AMIS_READY,
    SUBNETS_READY,
    SECURITY_GROUPS_READY,
    INSTANCE_PROFILE_READY,
    PLACEMENT_GROUP_READY,
    VALIDATION_SUCCEEDED,
    CAPACITY_RESERVATIONS_READY,
];

/// What a condition says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Says {
    True,
    False { reason: &'static str, message: String },
    Unknown { reason: &'static str, message: String },
}

impl Says {
    pub(super) fn no(reason: &'static str, message: impl Into<String>) -> Self {
        Self::False { reason, message: message.into() }
    }

    pub(super) fn unknown(reason: &'static str, message: impl Into<String>) -> Self {
        Self::Unknown { reason, message: message.into() }
    }

    pub(super) fn awaiting() -> Self {
        Self::unknown(AWAITING_RECONCILIATION, "object is awaiting reconciliation")
    }
}

/// The conditions of a class as they are to be, from those it has: `said` by type, and `Ready`.
///
/// Launches need to know that `Ready` is about the class as it is now, so every condition carries the generation.
pub(super) fn conditions(
    known: &[Condition],
    said: &[(&'static str, Says)],
    generation: Option<i64>,
    reservations: bool,
    now: Timestamp,
) -> Vec<Condition> {
    let count = if reservations { DEPENDENTS.len() } else { DEPENDENTS.len() - 1 };
    let dependents = &DEPENDENTS[..count];
    let put = |type_: &str, status: &str, reason: &str, message: &str| {
        let before = known.iter().find(|condition| condition.type_ == type_ && condition.status == status);
        let whole_second = || Time(Timestamp::from_second(now.as_second()).unwrap_or(now));
        Condition {
            last_transition_time: before
                .map_or_else(whole_second, |before| before.last_transition_time.clone()),
            message: message.to_owned(),
            observed_generation: generation,
            reason: reason.to_owned(),
            status: status.to_owned(),
            type_: type_.to_owned(),
        }
    };
    let mut all: Vec<Condition> = dependents
        .iter()
        .map(|type_| match said.iter().find(|(known, _)| known == type_).map(|(_, says)| says) {
            Some(Says::True) => put(type_, "True", type_, ""),
            Some(Says::False { reason, message }) => put(type_, "False", reason, message),
            Some(Says::Unknown { reason, message }) => put(type_, "Unknown", reason, message),
            None => put(type_, "Unknown", AWAITING_RECONCILIATION, "object is awaiting reconciliation"),
        })
        .collect();
    let listed = |status: &str| -> Option<String> {
        let those = all.iter().filter(|condition| condition.status == status);
        let words: Vec<String> = those.map(|condition| format!("{}={status}", condition.type_)).collect();
        (!words.is_empty()).then(|| words.join(", "))
    };
    let ready = match (listed("False"), listed("Unknown")) {
        (Some(bad), _) => put(READY, "False", UNHEALTHY_DEPENDENTS, &bad),
        (None, Some(open)) => put(READY, "Unknown", RECONCILING_DEPENDENTS, &open),
        (None, None) => put(READY, "True", READY, ""),
    };
    // What others wrote stays.
    let ours =
        |condition: &&Condition| condition.type_ == READY || DEPENDENTS.contains(&condition.type_.as_str());
    all.extend(known.iter().filter(|condition| !ours(condition)).cloned());
    all.push(ready);
    all
}
