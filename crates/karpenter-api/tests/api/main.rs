//! Behaviour of the API against upstream's facts: one test binary, one module per subject.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod admission;
mod admission_cases;
mod chart;
mod crds;
mod hash;
mod nodepool_cases;
mod options;
mod robustness;
mod round_trip;
mod shared_cases;
mod validation;
