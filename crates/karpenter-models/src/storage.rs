//! Storage: claims find or get their volumes, volumes are attached to the nodes of the pods that use them.

mod attachment;
mod binding;
mod claims;
mod provision;

pub use attachment::VolumeAttacher;
pub use binding::VolumeBinder;
pub use claims::EphemeralClaims;

/// How long storage takes.
#[derive(Clone, Debug, Default)]
pub struct StorageConfig {
    /// How long making a volume takes.
    pub provision_after: std::time::Duration,
    /// How long attaching a volume to a node takes.
    pub attach_after: std::time::Duration,
    /// How long detaching one takes.
    pub detach_after: std::time::Duration,
}
