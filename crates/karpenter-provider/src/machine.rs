//! A machine as the cloud knows it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use karpenter_api::resource::ResourceList;

/// A machine that was started for a NodeClaim.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Machine {
    /// The cloud's identity of the machine, as on `Node.spec.providerID`.
    pub provider_id: String,
    /// The image it was started from.
    pub image_id: Option<String>,
    /// Name of the NodeClaim it was started for, as the cloud remembers it.
    pub claim: Option<String>,
    /// Labels that are known now that the choice is made: instance type, zone, capacity type and so on.
    pub labels: BTreeMap<String, String>,
    /// Annotations for the claim.
    pub annotations: BTreeMap<String, String>,
    /// What it has.
    pub capacity: ResourceList,
    /// What of it pods may use.
    pub allocatable: ResourceList,
    /// When it was started.
    pub created: Option<Timestamp>,
    /// Whether it is on its way out.
    pub terminating: bool,
}

/// How far a termination has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Termination {
    /// It is under way: ask again.
    Started,
    /// There is no such machine any more.
    Gone,
}

/// What a cloud says about a machine that still runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The machine.
    pub provider_id: String,
    /// What will happen to it.
    pub kind: WarningKind,
    /// What is done about it; the kind's own response unless users asked for another.
    pub response: Response,
    /// By what the cloud knows that this was said, if it wants to hear that it was heeded.
    pub receipt: Option<String>,
}

impl Warning {
    /// A warning with the response of its kind and without a receipt.
    pub fn new(provider_id: impl Into<String>, kind: WarningKind) -> Self {
        Self { provider_id: provider_id.into(), kind, response: kind.response(), receipt: None }
    }
}

/// What is done about a warning; the greater is the more urgent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Response {
    /// An event tells it.
    Tell,
    /// The claim is deleted: its node is drained while it still runs.
    Replace,
    /// The claim is deleted, and nothing is waited for: the machine does not work.
    ReplaceAtOnce,
}

/// What will happen to a machine, or what is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WarningKind {
    /// A spot machine is taken back.
    SpotInterruption,
    /// A spot machine is likely to be taken back.
    RebalanceRecommendation,
    /// The cloud plans work on the machine, or retires it.
    ScheduledChange,
    /// The machine stops or has stopped.
    Stopping,
    /// The machine ends or has ended.
    Terminating,
    /// The reserved capacity that the machine runs on is taken back.
    ReservationInterruption,
    /// The machine fails the cloud's checks.
    MachineImpaired,
    /// What the machine runs on fails the cloud's checks.
    HostImpaired,
    /// The machine's own status announces an event.
    ScheduledEvent,
}

impl WarningKind {
    /// Every kind.
    pub const ALL: [Self; 9] = [
        Self::SpotInterruption,
        Self::RebalanceRecommendation,
        Self::ScheduledChange,
        Self::Stopping,
        Self::Terminating,
        Self::ReservationInterruption,
        Self::MachineImpaired,
        Self::HostImpaired,
        Self::ScheduledEvent,
    ];

    /// What is done about it, unless users ask for another response.
    pub fn response(self) -> Response {
        match self {
            Self::RebalanceRecommendation => Response::Tell,
            Self::MachineImpaired | Self::HostImpaired => Response::ReplaceAtOnce,
            _ => Response::Replace,
        }
    }

    /// Its name in metrics.
    pub fn metric(self) -> &'static str {
        match self {
            Self::SpotInterruption => "spot_interrupted",
            Self::RebalanceRecommendation => "rebalance_recommendation",
            Self::ScheduledChange => "scheduled_change",
            Self::Stopping => "instance_stopped",
            Self::Terminating => "instance_terminated",
            Self::ReservationInterruption => "capacity_reservation_interrupted",
            Self::MachineImpaired => "instance_status",
            Self::HostImpaired => "system_status",
            Self::ScheduledEvent => "event_status",
        }
    }

    /// Reason and message of the event about it.
    pub fn event(self) -> (&'static str, &'static str) {
        match self {
            Self::SpotInterruption => ("SpotInterrupted", "Spot interruption warning was triggered"),
            Self::RebalanceRecommendation => {
                ("SpotRebalanceRecommendation", "Spot rebalance recommendation was triggered")
            }
            Self::Stopping => ("InstanceStopping", "Instance is stopping"),
            Self::Terminating => ("InstanceTerminating", "Instance is terminating"),
            Self::ReservationInterruption => (
                "CapacityReservationInstanceInterrupted",
                "Capacity reservation interruption warning was triggered",
            ),
            Self::ScheduledChange | Self::MachineImpaired | Self::HostImpaired | Self::ScheduledEvent => {
                ("InstanceUnhealthy", "An unhealthy warning was triggered for the instance")
            }
        }
    }
}
