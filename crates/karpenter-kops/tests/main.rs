//! kOps' groups in, Karpenter's objects out.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod applied;
mod bucket;
mod created;
mod generated;
mod kops;
mod refused;
mod stores;
