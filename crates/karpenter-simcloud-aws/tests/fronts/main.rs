//! The simulated account, seen by our own client and by whoever plays the nodes.
#![allow(clippy::unwrap_used, reason = "a test that cannot set up its account has failed")]

mod account;
mod families;
mod faults;
mod launches;
mod life;
