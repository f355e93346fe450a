//! Karpenter on a simulated region of Alibaba Cloud, whole: real provider, real controllers, and a cluster of models around them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod failures;
mod life;
mod policy;
mod region;
mod seeds;
mod storm;
