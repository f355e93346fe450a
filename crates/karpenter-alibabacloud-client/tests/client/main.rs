//! The client from outside: what it sends, and what it makes of answers. Nothing leaves the process.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod answers;
mod calls;
mod credentials;
mod fake;
mod queues;
mod signatures;
