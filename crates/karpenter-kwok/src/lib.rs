//! The KWOK provider: machines on paper. A launch creates a Node object; kwok, or our own kubelet model, plays the rest.
//!
//! Objects, labels, names of instance types and prices are upstream's, so tests written for its KWOK build run unchanged.
//! What can be had at which price comes from a [`karpenter_simcloud::Market`]; by default everything can. Start at [`Kwok`].

mod catalogue;
mod instance_types_file;
mod node;
mod node_class;
mod provider;

pub use catalogue::generated as generated_instance_types;
pub use instance_types_file::{InstanceTypesFileError, read as read_instance_types};
pub use node_class::{KWOKNodeClass, KWOKNodeClassSpec, KWOKNodeClassStatus, definition};
pub use provider::{Kwok, NODE_CLASSES};

/// What providerIDs of paper machines begin with.
pub const PROVIDER_ID_PREFIX: &str = "kwok://";
