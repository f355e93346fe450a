//! What a controller may rely on, shown on a real API server in this process.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod leadership;
mod permit;
mod promises;
mod world;
