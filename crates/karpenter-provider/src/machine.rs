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
}

/// What will happen to a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarningKind {
    /// A spot machine is taken back.
    SpotInterruption,
}
