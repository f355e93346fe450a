//! The immutable picture of a cluster that a plan is made from.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::labels::{LabelRules, Labels};
use super::node::Node;
use super::node_pool::NodePool;
use super::pod::{DisruptionBudget, Pod, PodSpec};
use super::volume::{PersistentVolume, StorageClass, VolumeClaim};

/// A DaemonSet: the pod it puts on every node that matches.
#[derive(Clone, Debug, PartialEq)]
pub struct DaemonSet {
    /// `namespace/name`.
    pub name: Arc<str>,
    /// What its pod asks of a node.
    pub spec: Arc<PodSpec>,
    /// Its namespace.
    pub namespace: Arc<str>,
}

/// Everything a provisioning plan depends on, besides the catalog and the options.
#[derive(Clone, Debug, Default)]
pub struct ClusterSnapshot {
    /// NodePools that may get new nodes.
    pub node_pools: Vec<Arc<NodePool>>,
    /// Nodes and launched NodeClaims.
    pub nodes: Vec<Arc<Node>>,
    /// Pods that wait for a place, virtual pods of buffers included.
    pub pending: Vec<Arc<Pod>>,
    /// DaemonSets, whose pods every new node must carry.
    pub daemon_sets: Vec<DaemonSet>,
    /// Namespaces and their labels.
    pub namespaces: BTreeMap<Arc<str>, Arc<Labels>>,
    /// Persistent volume claims by namespace and name.
    pub volume_claims: BTreeMap<(Arc<str>, Arc<str>), VolumeClaim>,
    /// Persistent volumes by name.
    pub volumes: BTreeMap<Arc<str>, PersistentVolume>,
    /// Storage classes by name.
    pub storage_classes: BTreeMap<Arc<str>, StorageClass>,
    /// PodDisruptionBudgets.
    pub disruption_budgets: Vec<DisruptionBudget>,
    /// Which label keys mean what.
    pub label_rules: Arc<LabelRules>,
}
