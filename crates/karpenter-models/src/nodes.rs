//! What the controller manager does about nodes and the pods on them: it notices silence, taints by condition, evicts
//! from tainted nodes and clears away what vanished nodes leave behind.

mod eviction;
mod garbage;
mod lifecycle;
mod taints;

pub use eviction::TaintEviction;
pub use garbage::PodGarbage;
pub use lifecycle::NodeLifecycle;
