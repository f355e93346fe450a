//! What follows from nodes that have joined: their names as tags of machines, and how much memory machines turn out to have.

mod memory;
mod naming;

pub use memory::MemoryKeeper;
pub use naming::{Naming, NamingRequest};
