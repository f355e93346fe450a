//! Workload controllers: deployments, replica sets, stateful sets, daemon sets, jobs, and the status of disruption budgets.

mod cron_job;
mod daemon_set;
mod deployment;
mod disruption;
mod job;
mod pod_template;
mod replica_set;
mod revisions;
mod scale_down;
mod stateful_set;

pub use cron_job::CronJobs;
pub use daemon_set::DaemonSets;
pub use deployment::Deployments;
pub use disruption::DisruptionBudgets;
pub use job::Jobs;
pub use replica_set::ReplicaSets;
pub use stateful_set::StatefulSets;
