//! A scheduler with the filters of kube-scheduler 1.36.
mod attempt;
mod class;
mod cluster;
mod counts;
mod engine;
mod nodes;
mod pod_terms;
mod ports;
mod preemption;
mod queue;
mod reason;
mod requests;
mod rules;
mod score;
mod search;
mod shared;
mod taints;
mod volume_filter;
mod volumes;

pub use cluster::Cluster;
pub use engine::{Decision, Scheduler};
pub use reason::{Diagnosis, Reason, Rejection};
pub use volume_filter::VolumeChoice;
pub use volumes::{BIND_COMPLETED, SELECTED_NODE};
