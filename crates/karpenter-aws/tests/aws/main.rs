//! The provider from outside: what the API server makes of its NodeClass, what counts as a change of it, and what becomes of pods, nodes
//! and machines when Karpenter runs on it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod admission;
mod crd;
mod documents;
mod efa_and_groups;
mod hash;
mod identity;
mod interruptions;
mod life;
mod metrics;
mod node_classes;
mod pages;
mod reservations;
mod scheduling;
mod storm;
mod templates;
mod upkeep;
mod world;
mod zones;
