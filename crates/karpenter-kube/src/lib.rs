//! The border between Kubernetes and the decision core: objects in, the core's own compact types out.
//!
//! Everything here is a pure function of its arguments; there is no client and no clock. One file per kind. What the core
//! cannot work with comes back as [`Invalid`], which names the field and says what is wrong with it. Start at [`pod`] for
//! objects watched in a cluster, or at [`scenario`] for the scenario files that `karpenter solve` reads.

#![expect(
    clippy::missing_errors_doc,
    reason = "every error is an `Invalid`, which says itself what is wrong and where"
)]

pub mod buffer;
pub mod daemon_set;
pub mod disruption;
pub mod disruption_budget;
pub mod interner;
pub mod invalid;
pub mod knobs;
pub mod labels;
pub mod namespace;
pub mod node;
pub mod node_pool;
pub mod overlay;
pub mod pod;
pub mod resources;
pub mod scenario;
pub mod selector;
pub mod taint;
pub mod volume;

pub use interner::Interner;
pub use invalid::Invalid;
