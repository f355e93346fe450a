//! The embedded API server as `kube::Client` sees it, in process and without a socket.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod access;
mod admission;
mod apply;
mod crd;
mod deletion;
mod forms;
mod judgement;
mod kinds;
mod lists;
mod network;
mod openapi;
mod patches;
mod raw;
mod restart;
mod subresources;
mod watches;
mod world;
