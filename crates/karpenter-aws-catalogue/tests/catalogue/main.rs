//! What EC2 sells, from facts to instance types.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod capacity;
mod compatibility;
mod embedded;
mod labels;
mod offerings;
mod support;
