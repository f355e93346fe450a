//! Persistent volumes: where they can be attached, and what makes a claim unusable.

use std::sync::Arc;

use crate::requirements::Requirement;

/// A pod's reference to a persistent volume claim in its namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeRef {
    /// The claim's name.
    pub claim: Arc<str>,
    /// For a generic ephemeral volume, whose claim may not exist yet: the storage class of its template.
    pub ephemeral_class: Option<Arc<str>>,
    /// Whether this is a generic ephemeral volume.
    pub ephemeral: bool,
}

/// The phase of a claim, as far as scheduling cares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClaimPhase {
    /// Pending or bound.
    #[default]
    Usable,
    /// Its volume is gone.
    Lost,
}

/// A persistent volume claim.
#[derive(Clone, Debug, Default)]
pub struct VolumeClaim {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// The volume it names.
    pub volume: Option<Arc<str>>,
    /// Whether binding has completed.
    pub bind_completed: bool,
    /// Its storage class; an empty name means none.
    pub storage_class: Option<Arc<str>>,
    /// Its phase.
    pub phase: ClaimPhase,
    /// Whether it is being deleted.
    pub deleting: bool,
}

/// A persistent volume.
#[derive(Clone, Debug, Default)]
pub struct PersistentVolume {
    /// Its name.
    pub name: Arc<str>,
    /// Where it can be attached: one of the terms must hold; empty means anywhere.
    pub node_terms: Vec<Vec<Requirement>>,
    /// The CSI driver that attaches it, in-tree names translated.
    pub driver: Option<Arc<str>>,
    /// Whether it lives on one node (`local`, `hostPath`), whose name says nothing about a new node.
    pub host_bound: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
}

/// When a volume is bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BindingMode {
    /// As soon as the claim exists.
    #[default]
    Immediate,
    /// When a pod that uses it is placed.
    WaitForFirstConsumer,
}

/// A storage class.
#[derive(Clone, Debug, Default)]
pub struct StorageClass {
    /// Its name.
    pub name: Arc<str>,
    /// The CSI driver, in-tree names translated.
    pub provisioner: Arc<str>,
    /// When its volumes are bound.
    pub binding: BindingMode,
    /// Where its volumes can be: one of the terms must hold; empty means anywhere.
    pub topologies: Vec<Vec<Requirement>>,
}
