//! The provider from outside: what the API server makes of its NodeClass, and what counts as a change of it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod admission;
mod crd;
mod hash;
