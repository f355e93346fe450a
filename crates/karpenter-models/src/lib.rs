//! A cluster's own machinery as models: a scheduler, kubelets, workload controllers, attaching and binding of volumes.
//!
//! They act through the Kubernetes API alone and behave like the real ones for whoever looks through it. Every model is a
//! set of pure decisions over plain objects with a thin controller on top.
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test stops at the first surprise"))]
#![cfg_attr(test, allow(clippy::needless_pass_by_value, reason = "json!() reads best as an argument"))]
pub mod annotations;
pub mod config;
mod event;
mod index;
mod json;
pub mod kubelet;
mod models;
pub mod nodes;
mod pod;
pub mod scheduler;
pub mod selector;
mod service_account;
pub mod storage;
pub mod workloads;

pub use models::{Models, ModelsConfig};
pub use service_account::ServiceAccounts;
