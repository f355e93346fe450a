//! The controllers on an API server in this process, with paper machines and simulated time.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod buffers;
mod cloud;
mod deletion_cost;
mod disruption;
mod drift;
mod dry_run;
mod knobs;
mod life;
mod lint;
mod metrics;
mod node_overlays;
mod observer;
mod provider;
mod repair;
mod scheduling;
mod static_capacity;
mod world;
