//! Kinds of objects: how they are read from the text of the API, and written for it.
//!
//! A pod's type is a tree of two hundred others. Reading it is compiled here, once, and not in every crate that watches pods.

use std::fmt::Debug;

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    ConfigMap, Event, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, PodTemplate,
    ReplicationController, Service, ServiceAccount,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, StorageClass, VolumeAttachment};
use karpenter_api::{CapacityBuffer, NodeClaim, NodeOverlay, NodePool};
use serde_json::Value;

use crate::cache::Kept;

/// An object type that can be watched and written.
pub trait Kind: Kept + Clone + Debug {
    /// Reads an object. Who manages which of its fields need not be read.
    ///
    /// # Errors
    ///
    /// The text is no JSON, or not of this kind.
    fn read(text: &str) -> serde_json::Result<Self>;

    /// Returns the object as JSON.
    fn json(&self) -> Value;
}

/// Makes kinds of types that serde reads and writes.
#[macro_export]
macro_rules! kinds {
    ($($kind:ty),+ $(,)?) => {$(
        impl $crate::Kind for $kind {
            fn read(text: &str) -> ::serde_json::Result<Self> {
                ::serde_json::from_str(&$crate::without_managed_fields(text))
            }

            fn json(&self) -> ::serde_json::Value {
                ::serde_json::to_value(self).expect("an API object is JSON")
            }
        }
    )+};
}

kinds!(
    ConfigMap,
    Event,
    Lease,
    Namespace,
    Node,
    Pod,
    PodDisruptionBudget,
    PodTemplate,
    Service,
    ServiceAccount
);
kinds!(
    ControllerRevision,
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    ReplicaSet,
    ReplicationController,
    StatefulSet
);
kinds!(CSIDriver, CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment);
kinds!(CapacityBuffer, NodeClaim, NodeOverlay, NodePool);
