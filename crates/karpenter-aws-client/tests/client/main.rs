//! The client from outside: what it sends, and what it makes of answers. Nothing leaves the process, except for one test over loopback.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod calls;
mod credentials;
mod fake;
mod objects;
mod operations;
mod signatures;
