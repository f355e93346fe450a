//! The scenario a plan answers: catalog, node pools, existing nodes and pending pods, as plain JSON values.
//!
//! Only the fields that can make a plan right or wrong are read; everything else in the file is skipped.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

use crate::pod::{LabelSelector, Pod, PodSpec, Requirement, Taint};
use crate::quantity::Quantity;

/// Amounts by resource name.
pub type ResourceList = BTreeMap<String, Quantity>;
/// Label or annotation values by key.
pub type StringMap = BTreeMap<String, String>;

/// Everything a provisioning run is asked about.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "the fields are the file format's own names")]
pub struct Scenario {
    pub name: String,
    pub topic: String,
    pub mode: String,
    pub now: String,
    #[serde(deserialize_with = "null_as_default")]
    pub options: Options,
    #[serde(deserialize_with = "null_as_default")]
    pub well_known_labels: Vec<String>,
    #[serde(deserialize_with = "null_as_default")]
    pub instance_types: Vec<InstanceType>,
    #[serde(deserialize_with = "null_as_default")]
    pub node_pools: Vec<NodePool>,
    #[serde(deserialize_with = "null_as_default")]
    pub namespaces: Vec<Namespace>,
    #[serde(deserialize_with = "null_as_default")]
    pub nodes: Vec<ExistingNode>,
    #[serde(deserialize_with = "null_as_default")]
    pub daemon_sets: Vec<DaemonSet>,
    #[serde(deserialize_with = "null_as_default")]
    pub pod_groups: Vec<PodGroup>,
    #[serde(deserialize_with = "null_as_default")]
    pub storage_classes: Vec<StorageClass>,
    #[serde(deserialize_with = "null_as_default")]
    pub persistent_volumes: Vec<PersistentVolume>,
    #[serde(deserialize_with = "null_as_default")]
    pub persistent_volume_claims: Vec<PersistentVolumeClaim>,
    #[serde(deserialize_with = "null_as_default")]
    pub pod_disruption_budgets: Vec<PodDisruptionBudget>,
}

/// Cluster-wide switches.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "the fields are the file format's own names")]
pub struct Options {
    pub preference_policy: String,
    pub min_values_policy: String,
}

/// A machine type of the catalog.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "the fields are the file format's own names")]
pub struct InstanceType {
    pub name: String,
    #[serde(deserialize_with = "null_as_default")]
    pub capacity: ResourceList,
    #[serde(deserialize_with = "null_as_default")]
    pub overhead: ResourceList,
    #[serde(deserialize_with = "null_as_default")]
    pub requirements: Vec<Requirement>,
    #[serde(deserialize_with = "null_as_default")]
    pub offerings: Vec<Offering>,
}

/// One way to buy a type: where, how, for how much, and whether it is in stock.
///
/// In the file it is the array `[zone, capacityType, price, available]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "(String, String, f64, bool)")]
#[allow(missing_docs, reason = "the fields are the file format's own names")]
pub struct Offering {
    pub zone: String,
    pub capacity_type: String,
    pub price: f64,
    pub available: bool,
}

impl From<(String, String, f64, bool)> for Offering {
    fn from((zone, capacity_type, price, available): (String, String, f64, bool)) -> Self {
        Offering { zone, capacity_type, price, available }
    }
}

/// Name, namespace, labels and the like.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "the fields are Kubernetes' own names")]
pub struct Metadata {
    pub name: String,
    pub namespace: String,
    #[serde(deserialize_with = "null_as_default")]
    pub labels: StringMap,
    #[serde(deserialize_with = "null_as_default")]
    pub annotations: StringMap,
    #[serde(deserialize_with = "null_as_default")]
    pub owner_references: Vec<OwnerReference>,
    pub deletion_timestamp: Option<String>,
}

impl Metadata {
    /// Returns the namespace, `default` where none is written.
    pub fn namespace_or_default(&self) -> &str {
        if self.namespace.is_empty() { "default" } else { &self.namespace }
    }
}

/// The owner of an object.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the fields are Kubernetes' own names")]
pub struct OwnerReference {
    pub kind: String,
}

/// A `karpenter.sh/v1` `NodePool`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the fields are Kubernetes' own names")]
pub struct NodePool {
    pub metadata: Metadata,
    pub spec: NodePoolSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the fields are Kubernetes' own names")]
pub struct NodePoolSpec {
    pub template: NodeClaimTemplate,
    #[serde(deserialize_with = "null_as_default")]
    pub limits: ResourceList,
    pub replicas: Option<i64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the fields are Kubernetes' own names")]
pub struct NodeClaimTemplate {
    #[serde(deserialize_with = "null_as_default")]
    pub metadata: Metadata,
    #[serde(deserialize_with = "null_as_default")]
    pub spec: NodeClaimTemplateSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "the fields are Kubernetes' own names")]
pub struct NodeClaimTemplateSpec {
    #[serde(deserialize_with = "null_as_default")]
    pub requirements: Vec<Requirement>,
    #[serde(deserialize_with = "null_as_default")]
    pub taints: Vec<Taint>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the fields are the file format's own names")]
pub struct Namespace {
    pub name: String,
    #[serde(deserialize_with = "null_as_default")]
    pub labels: StringMap,
}

/// A node that is already there, or a `NodeClaim` that was launched and has no node yet.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "the fields are the file format's own names")]
pub struct ExistingNode {
    pub name: String,
    pub node_pool: String,
    pub state: String,
    pub instance_type: String,
    pub zone: String,
    pub capacity_type: String,
    #[serde(deserialize_with = "null_as_default")]
    pub labels: StringMap,
    #[serde(deserialize_with = "null_as_default")]
    pub taints: Vec<Taint>,
    #[serde(deserialize_with = "null_as_default")]
    pub startup_taints: Vec<Taint>,
    pub capacity: Option<ResourceList>,
    pub allocatable: Option<ResourceList>,
    pub deleting: bool,
    #[serde(deserialize_with = "null_as_default")]
    pub pod_groups: Vec<PodGroup>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the fields are the file format's own names")]
pub struct DaemonSet {
    pub name: String,
    pub namespace: String,
    pub template: PodTemplate,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the fields are Kubernetes' own names")]
pub struct PodTemplate {
    pub spec: PodSpec,
}

/// `count` equal pods.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the fields are the file format's own names")]
pub struct PodGroup {
    pub count: usize,
    pub pod: Pod,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "the fields are Kubernetes' own names")]
pub struct StorageClass {
    pub metadata: Metadata,
    pub volume_binding_mode: Option<String>,
    #[serde(deserialize_with = "null_as_default")]
    pub allowed_topologies: Vec<TopologySelectorTerm>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "the fields are Kubernetes' own names")]
pub struct TopologySelectorTerm {
    #[serde(deserialize_with = "null_as_default")]
    pub match_label_expressions: Vec<TopologySelectorExpression>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the fields are Kubernetes' own names")]
pub struct TopologySelectorExpression {
    pub key: String,
    #[serde(deserialize_with = "null_as_default")]
    pub values: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the fields are Kubernetes' own names")]
pub struct PersistentVolume {
    pub metadata: Metadata,
    pub spec: PersistentVolumeSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "the fields are Kubernetes' own names")]
pub struct PersistentVolumeSpec {
    pub node_affinity: Option<VolumeNodeAffinity>,
    pub local: Option<serde_json::Value>,
    pub host_path: Option<serde_json::Value>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the fields are Kubernetes' own names")]
pub struct VolumeNodeAffinity {
    pub required: Option<crate::pod::NodeSelector>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the fields are Kubernetes' own names")]
pub struct PersistentVolumeClaim {
    pub metadata: Metadata,
    pub spec: PersistentVolumeClaimSpec,
    pub status: PersistentVolumeClaimStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "the fields are Kubernetes' own names")]
pub struct PersistentVolumeClaimSpec {
    #[serde(deserialize_with = "null_as_default")]
    pub volume_name: String,
    #[serde(deserialize_with = "null_as_default")]
    pub storage_class_name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the fields are Kubernetes' own names")]
pub struct PersistentVolumeClaimStatus {
    pub phase: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the fields are Kubernetes' own names")]
pub struct PodDisruptionBudget {
    pub metadata: Metadata,
    pub spec: PodDisruptionBudgetSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "the fields are Kubernetes' own names")]
pub struct PodDisruptionBudgetSpec {
    pub selector: Option<LabelSelector>,
    pub max_unavailable: Option<serde_json::Value>,
    pub min_available: Option<serde_json::Value>,
}

/// Reads JSON `null` as the type's default, as Kubernetes does for absent lists and maps.
pub(crate) fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
