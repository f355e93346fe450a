//! The decision core: facts in, decisions out.
//!
//! Nothing here does I/O, awaits, reads a clock or logs, and nothing here knows Kubernetes' object types. The same input gives
//! the same plan, byte for byte. Start at [`plan_provisioning`].

pub mod catalog;
pub mod cluster;
pub mod disruption;
pub mod plan;
pub mod requirements;
mod solver;

pub use disruption::{DisruptionOptions, DisruptionPlan, plan_disruption};
pub use plan::{ClaimPlan, Launch, ProvisioningPlan, SolverOptions};
pub use solver::{plan_provisioning, possible_zones};
