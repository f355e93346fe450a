//! The provider from outside: what the API server makes of its NodeClasses, and what the provider makes of them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod admission;
mod catalogue;
mod classes;
mod cloud;
mod conversion;
mod documents;
mod interruptions;
mod launches;
mod machines;
mod market;
mod queue;
mod scrapes;
mod seeds;
mod server;
mod wire;
