//! The parts of a Kubernetes pod that decide where it may run.

use serde::{Deserialize, Serialize};

use crate::scenario::{Metadata, ResourceList, StringMap, null_as_default};

/// A pod, or the template of one.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the fields are Kubernetes' own names")]
pub struct Pod {
    pub metadata: Metadata,
    pub spec: PodSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "the fields are Kubernetes' own names")]
pub struct PodSpec {
    #[serde(deserialize_with = "null_as_default")]
    pub containers: Vec<Container>,
    #[serde(deserialize_with = "null_as_default")]
    pub init_containers: Vec<Container>,
    #[serde(deserialize_with = "null_as_default")]
    pub resources: Resources,
    #[serde(deserialize_with = "null_as_default")]
    pub overhead: ResourceList,
    #[serde(deserialize_with = "null_as_default")]
    pub node_selector: StringMap,
    #[serde(deserialize_with = "null_as_default")]
    pub affinity: Affinity,
    #[serde(deserialize_with = "null_as_default")]
    pub tolerations: Vec<Toleration>,
    #[serde(deserialize_with = "null_as_default")]
    pub topology_spread_constraints: Vec<TopologySpreadConstraint>,
    #[serde(deserialize_with = "null_as_default")]
    pub volumes: Vec<Volume>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "the fields are Kubernetes' own names")]
pub struct Container {
    #[serde(deserialize_with = "null_as_default")]
    pub resources: Resources,
    #[serde(deserialize_with = "null_as_default")]
    pub ports: Vec<ContainerPort>,
    #[serde(deserialize_with = "null_as_default")]
    pub restart_policy: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the fields are Kubernetes' own names")]
pub struct Resources {
    #[serde(deserialize_with = "null_as_default")]
    pub requests: ResourceList,
    #[serde(deserialize_with = "null_as_default")]
    pub limits: ResourceList,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "the fields are Kubernetes' own names")]
pub struct ContainerPort {
    #[serde(deserialize_with = "null_as_default")]
    pub host_port: u16,
    #[serde(rename = "hostIP", deserialize_with = "null_as_default")]
    pub host_ip: String,
    #[serde(deserialize_with = "null_as_default")]
    pub protocol: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "the fields are Kubernetes' own names")]
pub struct Affinity {
    #[serde(deserialize_with = "null_as_default")]
    pub node_affinity: NodeAffinity,
    #[serde(deserialize_with = "null_as_default")]
    pub pod_affinity: PodAffinity,
    #[serde(deserialize_with = "null_as_default")]
    pub pod_anti_affinity: PodAffinity,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the fields are Kubernetes' own names")]
pub struct NodeAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub required: Option<NodeSelector>,
    #[serde(
        rename = "preferredDuringSchedulingIgnoredDuringExecution",
        deserialize_with = "null_as_default"
    )]
    pub preferred: Vec<PreferredSchedulingTerm>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the fields are Kubernetes' own names")]
pub struct PreferredSchedulingTerm {
    pub weight: i64,
    pub preference: NodeSelectorTerm,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "the fields are Kubernetes' own names")]
pub struct NodeSelector {
    #[serde(deserialize_with = "null_as_default")]
    pub node_selector_terms: Vec<NodeSelectorTerm>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "the fields are Kubernetes' own names")]
pub struct NodeSelectorTerm {
    #[serde(deserialize_with = "null_as_default")]
    pub match_expressions: Vec<Requirement>,
    #[serde(deserialize_with = "null_as_default")]
    pub match_fields: Vec<Requirement>,
}

/// One condition on a label: of a node selector term, a node pool, an instance type or a claim.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "the fields are Kubernetes' own names")]
pub struct Requirement {
    pub key: String,
    pub operator: String,
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_values: Option<usize>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the fields are Kubernetes' own names")]
pub struct PodAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution", deserialize_with = "null_as_default")]
    pub required: Vec<PodAffinityTerm>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "the fields are Kubernetes' own names")]
pub struct PodAffinityTerm {
    pub label_selector: Option<LabelSelector>,
    pub topology_key: String,
    #[serde(deserialize_with = "null_as_default")]
    pub namespaces: Vec<String>,
    pub namespace_selector: Option<LabelSelector>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "the fields are Kubernetes' own names")]
pub struct LabelSelector {
    #[serde(deserialize_with = "null_as_default")]
    pub match_labels: StringMap,
    #[serde(deserialize_with = "null_as_default")]
    pub match_expressions: Vec<LabelSelectorRequirement>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
#[allow(missing_docs, reason = "the fields are Kubernetes' own names")]
pub struct LabelSelectorRequirement {
    pub key: String,
    pub operator: String,
    #[serde(deserialize_with = "null_as_default")]
    pub values: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the fields are Kubernetes' own names")]
pub struct Toleration {
    #[serde(deserialize_with = "null_as_default")]
    pub key: String,
    #[serde(deserialize_with = "null_as_default")]
    pub operator: String,
    #[serde(deserialize_with = "null_as_default")]
    pub value: String,
    #[serde(deserialize_with = "null_as_default")]
    pub effect: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the fields are Kubernetes' own names")]
pub struct Taint {
    pub key: String,
    #[serde(deserialize_with = "null_as_default")]
    pub value: String,
    pub effect: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "the fields are Kubernetes' own names")]
pub struct TopologySpreadConstraint {
    pub max_skew: i64,
    pub min_domains: Option<usize>,
    pub topology_key: String,
    pub when_unsatisfiable: String,
    pub label_selector: Option<LabelSelector>,
    #[serde(deserialize_with = "null_as_default")]
    pub match_label_keys: Vec<String>,
    pub node_affinity_policy: Option<String>,
    pub node_taints_policy: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "the fields are Kubernetes' own names")]
pub struct Volume {
    pub name: String,
    pub persistent_volume_claim: Option<PersistentVolumeClaimSource>,
    pub ephemeral: Option<EphemeralSource>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "the fields are Kubernetes' own names")]
pub struct PersistentVolumeClaimSource {
    pub claim_name: String,
}

/// A claim template inside the pod; the claim it becomes is named `<pod>-<volume>`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct EphemeralSource {}
