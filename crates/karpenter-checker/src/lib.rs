//! An independent judge of provisioning and disruption plans.
//!
//! [`check`] decides from first principles whether a plan can work: it shares no code with the solver, down to its
//! own quantities and label sets. [`judge`] compares a plan with what upstream answered to the same scenario,
//! [`flexibility`] compares the choice of machines, [`judge_disruption`] does both for commands that disrupt nodes, and [`cases`] holds the scenarios with upstream's answers.
//!
//! Where Kubernetes leaves room, these readings were chosen:
//!
//! * `PreferNoSchedule` keeps nobody away, startup taints and preferences are not looked at.
//! * Spread counts the domains node pools could bring about, not only those with nodes; for hosts the smallest
//!   count is always zero, since a new host can be added. Of several node affinity terms the most lenient one
//!   decides which domains count.
//! * The first of several pods with affinity for each other may start a domain even if pods it matches are in a
//!   domain its own node requirements exclude.
//! * Daemons take resources on existing nodes, but their host ports are held against new nodes only.
#![forbid(unsafe_code)]

pub mod cases;
mod check;
mod claim;
mod disruption;
mod eviction;
mod expected;
mod flexibility;
mod judge;
mod labels;
mod plan;
mod pod;
mod quantity;
mod resources;
mod scenario;
mod selector;
mod violation;
mod world;

pub use check::check;
pub use disruption::judge_disruption;
pub use expected::{Expected, ExpectedClaim, Range, SampleClaim};
pub use flexibility::{Flexibility, MissingTypes, flexibility};
pub use judge::{Failure, Verdict, judge};
pub use plan::{CheapestOffering, NodeAssignment, PlanResult, PlannedClaim};
pub use pod::*;
pub use quantity::{Quantity, QuantityError};
pub use scenario::*;
pub use violation::{Violation, ViolationKind};
