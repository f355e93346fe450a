//! The core from outside: laws of the algebra, overlays, cluster events, and plans on random clusters.
#![expect(missing_docs, reason = "a test binary has no readers of its interface")]

mod overlays;
mod requirements;
