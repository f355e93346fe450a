//! An independent judge of provisioning plans.
//!
//! [`check`] decides from first principles whether a plan can work: it shares no code with the solver, down to its
//! own quantities and label sets. [`judge`] compares a plan with what upstream answered to the same scenario.
#![forbid(unsafe_code)]

mod check;
mod claim;
mod eviction;
mod expected;
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
pub use expected::{Expected, ExpectedClaim, Range};
pub use judge::{Failure, Verdict, judge};
pub use plan::{CheapestOffering, NodeAssignment, PlanResult, PlannedClaim};
pub use pod::*;
pub use quantity::{Quantity, QuantityError};
pub use scenario::*;
pub use violation::{Violation, ViolationKind};
