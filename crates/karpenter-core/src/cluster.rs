//! The cluster as the core sees it: compact types of our own, filled at the border from Kubernetes objects.
//!
//! [`Cluster`] takes watch events one at a time, each in time independent of the cluster's size; [`ClusterSnapshot`] is the
//! immutable picture every decision is made from. Pods that look alike share one [`PodSpec`].

mod labels;
mod node;
mod node_pool;
mod pod;
mod snapshot;
mod state;
mod volume;

pub use labels::{LabelRules, Labels, Selector, SelectorExpression, SelectorOperator};
pub use node::{
    MachineState, Node, NodeLife, NodeStage, Taint, TaintEffect, Toleration, TolerationOperator, tolerates,
};
pub use node_pool::NodePool;
pub use pod::{
    DisruptionBudget, HostPort, Pod, PodAffinityTerm, PodId, PodOwner, PodPhase, PodSpec, PreferredTerm,
    SpreadConstraint, Unsatisfiable, WeightedAffinityTerm,
};
pub use snapshot::{ClusterSnapshot, DaemonSet};
pub use state::{Cluster, Event};
pub use volume::{BindingMode, ClaimPhase, PersistentVolume, StorageClass, VolumeClaim, VolumeRef};
