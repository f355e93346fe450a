//! Workload controllers: deployments, replica sets, stateful sets, daemon sets, jobs, and the status of disruption budgets.

mod deployment;
mod pod_template;
mod replica_set;
mod scale_down;

pub use deployment::Deployments;
pub use replica_set::ReplicaSets;
