//! Clusters and InstanceGroups as they are written: the fields that matter here, in both versions of kOps' API.
//!
//! `v1alpha2` is what state stores hold, `v1alpha3` what users may write as well. Most fields are the same; the others
//! stand side by side here, and [`crate::model`] picks those of the version that was declared.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

#[derive(Deserialize)]
pub(crate) struct Metadata {
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) name: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ClusterSpec {
    /// A name in v1alpha2, a block per cloud in v1alpha3.
    pub(crate) cloud_provider: Value,
    pub(crate) config_base: Option<String>,
    pub(crate) config_store: Option<ConfigStore>,
    pub(crate) kubernetes_version: Option<String>,
    pub(crate) karpenter: Option<Karpenter>,
    pub(crate) iam: Option<ClusterIam>,
    pub(crate) service_account_issuer_discovery: Option<IssuerDiscovery>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) cloud_labels: BTreeMap<String, String>,
    pub(crate) kubelet: Option<Kubelet>,
    pub(crate) containerd: Option<Containerd>,
    pub(crate) networking: Option<Networking>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) etcd_clusters: Vec<EtcdCluster>,
    // v1alpha2
    #[serde(deserialize_with = "or_default")]
    pub(crate) subnets: Vec<Subnet>,
    pub(crate) topology: Option<Topology>,
    pub(crate) node_termination_handler: Option<NodeTerminationHandler>,
    pub(crate) warm_pool: Option<WarmPool>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct ConfigStore {
    pub(crate) base: Option<String>,
}

/// The block of AWS in v1alpha3.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct AwsCloud {
    pub(crate) node_termination_handler: Option<NodeTerminationHandler>,
    pub(crate) warm_pool: Option<WarmPool>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Karpenter {
    #[serde(deserialize_with = "or_default")]
    pub(crate) enabled: bool,
    #[serde(deserialize_with = "or_default")]
    pub(crate) feature_gates: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ClusterIam {
    pub(crate) use_service_account_external_permissions: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct IssuerDiscovery {
    #[serde(deserialize_with = "or_default")]
    pub(crate) discovery_store: String,
    pub(crate) discovery_service: Option<Value>,
    #[serde(rename = "enableAWSOIDCProvider", deserialize_with = "or_default")]
    pub(crate) enable_aws_oidc_provider: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Kubelet {
    pub(crate) max_pods: Option<i32>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) system_reserved: BTreeMap<String, String>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) kube_reserved: BTreeMap<String, String>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) node_labels: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Containerd {
    #[serde(rename = "nvidiaGPU")]
    pub(crate) nvidia_gpu: Option<Switch>,
    pub(crate) gvisor: Option<Switch>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Switch {
    pub(crate) enabled: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Networking {
    // v1alpha3
    #[serde(deserialize_with = "or_default")]
    pub(crate) subnets: Vec<Subnet>,
    pub(crate) topology: Option<Topology>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Subnet {
    #[serde(deserialize_with = "or_default")]
    pub(crate) name: String,
    #[serde(rename = "type", deserialize_with = "or_default")]
    pub(crate) kind: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) zone: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Topology {
    /// `{type: None}` in v1alpha2, `None` in v1alpha3.
    pub(crate) dns: Value,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NodeTerminationHandler {
    pub(crate) enabled: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct WarmPool {
    #[serde(deserialize_with = "or_default")]
    pub(crate) min_size: i64,
    pub(crate) max_size: Option<i64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct EtcdCluster {
    #[serde(deserialize_with = "or_default")]
    pub(crate) name: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) etcd_members: Vec<EtcdMember>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct EtcdMember {
    #[serde(deserialize_with = "or_default")]
    pub(crate) instance_group: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct GroupSpec {
    #[serde(deserialize_with = "or_default")]
    pub(crate) manager: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) role: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) image: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) machine_type: String,
    pub(crate) min_size: Option<i32>,
    pub(crate) max_size: Option<i32>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) subnets: Vec<String>,
    pub(crate) max_price: Option<String>,
    pub(crate) spot_duration_in_minutes: Option<i64>,
    pub(crate) instance_interruption_behavior: Option<String>,
    pub(crate) mixed_instances_policy: Option<MixedInstancesPolicy>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) node_labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) cloud_labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) taints: Vec<String>,
    pub(crate) kubelet: Option<Kubelet>,
    pub(crate) security_group_override: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) additional_security_groups: Vec<String>,
    pub(crate) iam: Option<GroupIam>,
    pub(crate) containerd: Option<Containerd>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) tenancy: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) additional_user_data: Vec<UserData>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) volumes: Vec<Volume>,
    pub(crate) update_policy: Option<String>,
    pub(crate) warm_pool: Option<WarmPool>,
    pub(crate) instance_metadata: Option<InstanceMetadata>,
    pub(crate) cpu_credits: Option<String>,
    pub(crate) max_instance_lifetime: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) sysctl_parameters: Vec<String>,
    // v1alpha2
    pub(crate) associate_public_ip: Option<bool>,
    pub(crate) root_volume_size: Option<i32>,
    pub(crate) root_volume_type: Option<String>,
    pub(crate) root_volume_iops: Option<i32>,
    pub(crate) root_volume_throughput: Option<i32>,
    pub(crate) root_volume_encryption: Option<bool>,
    pub(crate) root_volume_encryption_key: Option<String>,
    // v1alpha3
    #[serde(rename = "associatePublicIP")]
    pub(crate) associate_public_ip_address: Option<bool>,
    pub(crate) root_volume: Option<RootVolume>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RootVolume {
    pub(crate) size: Option<i32>,
    #[serde(rename = "type")]
    pub(crate) kind: Option<String>,
    pub(crate) iops: Option<i32>,
    pub(crate) throughput: Option<i32>,
    pub(crate) encryption: Option<bool>,
    pub(crate) encryption_key: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct MixedInstancesPolicy {
    #[serde(deserialize_with = "or_default")]
    pub(crate) instances: Vec<String>,
    pub(crate) on_demand_base: Option<i64>,
    pub(crate) on_demand_above_base: Option<i64>,
    pub(crate) spot_allocation_strategy: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct GroupIam {
    pub(crate) profile: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct UserData {
    #[serde(deserialize_with = "or_default")]
    pub(crate) name: String,
    #[serde(rename = "type", deserialize_with = "or_default")]
    pub(crate) kind: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) content: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Volume {
    #[serde(deserialize_with = "or_default")]
    pub(crate) device: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) size: i64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct InstanceMetadata {
    pub(crate) http_tokens: Option<String>,
    pub(crate) http_put_response_hop_limit: Option<i64>,
}

/// A field that is written but empty counts as not written.
fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
