//! What quantities promise to the rest of the workspace, tested from outside the crate.

mod properties;
mod resource_lists;
mod vectors;
mod wire;
