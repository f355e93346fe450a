//! The models: decisions over plain objects, and a whole cluster in this process on simulated time.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]
#![allow(clippy::needless_pass_by_value, reason = "json!() reads best as an argument")]

mod deployments;
mod determinism;
mod fits;
mod objects;
mod pods_and_nodes;
mod profiles;
mod scheduling;
mod sets;
mod volumes;
mod world;
