//! The conditions of an ECSNodeClass: their names in each group, and how they are summed up in `Ready`.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use karpenter_api::condition::{
    AWAITING_RECONCILIATION, READY, RECONCILING_DEPENDENTS, UNHEALTHY_DEPENDENTS,
};

use crate::node_class::Dialect;

/// What a condition is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Aspect {
    Validation,
    Cluster,
    VSwitches,
    SecurityGroups,
    Images,
    Role,
    InstanceTypes,
    Reservations,
    Permissions,
}

impl Aspect {
    /// The condition's type: each group keeps the names its users know.
    pub(super) fn type_(self, dialect: Dialect) -> &'static str {
        let resolved = dialect == Dialect::ContainerService;
        match self {
            Self::Validation => "ValidationSucceeded",
            Self::Cluster if resolved => "ClusterResolved",
            Self::Cluster => "ClusterReady",
            Self::VSwitches if resolved => "VSwitchResolved",
            Self::VSwitches => "VSwitchesReady",
            Self::SecurityGroups if resolved => "SecurityGroupResolved",
            Self::SecurityGroups => "SecurityGroupsReady",
            Self::Images if resolved => "ImageResolved",
            Self::Images => "ImagesReady",
            Self::Role if resolved => "RAMRoleResolved",
            Self::Role => "RAMRoleReady",
            Self::InstanceTypes if resolved => "InstanceTypeResolved",
            Self::InstanceTypes => "InstanceTypesReady",
            Self::Reservations if resolved => "CapacityReservationResolved",
            Self::Reservations => "CapacityReservationsReady",
            Self::Permissions => "PermissionsComplete",
        }
    }

    /// The reason where nothing was found.
    pub(super) fn not_found(self, dialect: Dialect) -> &'static str {
        let resolved = dialect == Dialect::ContainerService;
        match self {
            Self::Validation => "ValidationFailed",
            Self::Cluster => "ClusterNotFound",
            Self::VSwitches if resolved => "VSwitchResolutionFailed",
            Self::VSwitches => "vSwitchesNotFound",
            Self::SecurityGroups if resolved => "SecurityGroupResolutionFailed",
            Self::SecurityGroups => "SecurityGroupsNotFound",
            Self::Images if resolved => "ImageResolutionFailed",
            Self::Images => "ImagesNotFound",
            Self::Role => "RoleNotFound",
            Self::InstanceTypes => "InstanceTypesNotFound",
            Self::Reservations => "CapacityReservationsNotFound",
            Self::Permissions => "ActionsMissing",
        }
    }
}

/// What a condition says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Says {
    Yes { message: String },
    No { reason: &'static str, message: String },
    Unknown { reason: &'static str, message: String },
}

impl Says {
    pub(super) fn yes() -> Self {
        Self::Yes { message: String::new() }
    }

    pub(super) fn no(reason: &'static str, message: impl Into<String>) -> Self {
        Self::No { reason, message: message.into() }
    }

    pub(super) fn awaiting() -> Self {
        Self::Unknown {
            reason: AWAITING_RECONCILIATION,
            message: "object is awaiting reconciliation".to_owned(),
        }
    }

    fn status(&self) -> &'static str {
        match self {
            Self::Yes { .. } => "True",
            Self::No { .. } => "False",
            Self::Unknown { .. } => "Unknown",
        }
    }

    fn message(&self) -> &str {
        match self {
            Self::Yes { message } | Self::No { message, .. } | Self::Unknown { message, .. } => message,
        }
    }
}

/// The conditions as they are to be, from those that are known; `Ready` last. Conditions of others are left alone.
pub(super) fn conditions(
    known: &[Condition],
    said: &[(Aspect, Says)],
    dialect: Dialect,
    generation: i64,
    now: Timestamp,
) -> Vec<Condition> {
    let ready = sum_up(said, dialect);
    let ours = said.iter().map(|(aspect, says)| (aspect.type_(dialect), says)).chain([(READY, &ready)]);
    let make = |(type_, says): (&'static str, &Says)| {
        let before =
            known.iter().find(|condition| condition.type_ == type_ && condition.status == says.status());
        Condition {
            // The API keeps whole seconds; what is compared with it must do so too.
            last_transition_time: before.map_or_else(
                || Time(Timestamp::from_second(now.as_second()).unwrap_or(now)),
                |before| before.last_transition_time.clone(),
            ),
            message: says.message().to_owned(),
            observed_generation: Some(generation),
            reason: match says {
                Says::Yes { .. } => type_.to_owned(),
                Says::No { reason, .. } | Says::Unknown { reason, .. } => (*reason).to_owned(),
            },
            status: says.status().to_owned(),
            type_: type_.to_owned(),
        }
    };
    let mut conditions: Vec<Condition> = ours.map(make).collect();
    let is_ours = |type_: &str| type_ == READY || ALL.iter().any(|aspect| aspect.type_(dialect) == type_);
    conditions.extend(known.iter().filter(|condition| !is_ours(&condition.type_)).cloned());
    conditions
}

const ALL: [Aspect; 9] = [
    Aspect::Validation,
    Aspect::Cluster,
    Aspect::VSwitches,
    Aspect::SecurityGroups,
    Aspect::Images,
    Aspect::Role,
    Aspect::InstanceTypes,
    Aspect::Reservations,
    Aspect::Permissions,
];

/// `Ready` rests on all others and says in their words what is wrong. What a policy lacks costs features; where nothing works without it,
/// another condition says so.
pub(super) fn sum_up(said: &[(Aspect, Says)], dialect: Dialect) -> Says {
    let listed = |status: &str| -> String {
        let parts = said
            .iter()
            .filter(|(aspect, says)| *aspect != Aspect::Permissions && says.status() == status)
            .map(|(aspect, says)| format!("{}={status}: {}", aspect.type_(dialect), says.message()));
        parts.collect::<Vec<_>>().join("; ")
    };
    let (bad, open) = (listed("False"), listed("Unknown"));
    if !bad.is_empty() {
        Says::No { reason: UNHEALTHY_DEPENDENTS, message: bad }
    } else if !open.is_empty() {
        Says::Unknown { reason: RECONCILING_DEPENDENTS, message: open }
    } else {
        Says::yes()
    }
}
