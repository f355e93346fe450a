//! A kOps cluster and its InstanceGroups, whichever version of the API they were written in.
//!
//! Start at [`Inventory::read`]. Paths and names are those of kOps' internal objects, as its error messages have them.

use std::collections::BTreeMap;

use serde::Deserialize as _;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::wire::{
    AwsCloud, ClusterSpec, EtcdCluster, GroupSpec, InstanceMetadata, IssuerDiscovery, Karpenter, Kubelet,
    Metadata, MixedInstancesPolicy, NodeTerminationHandler, RootVolume, Subnet, Topology, UserData, Volume,
    WarmPool,
};
use crate::yaml::{YamlError, read_documents};

/// The value of `manager` that makes a group Karpenter's.
pub const KARPENTER: &str = "Karpenter";

/// A cluster with its InstanceGroups.
#[derive(Clone, Debug)]
pub struct Inventory {
    /// The cluster.
    pub cluster: Cluster,
    /// Its groups, in the order in which they were read.
    pub groups: Vec<InstanceGroup>,
}

/// What matters of a `Cluster`.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// `metadata.name`.
    pub name: String,
    pub(crate) cloud: String,
    pub(crate) karpenter: Option<Karpenter>,
    pub(crate) uses_service_account_roles: bool,
    pub(crate) issuer_discovery: Option<IssuerDiscovery>,
    pub(crate) node_termination_handler: Option<NodeTerminationHandler>,
    pub(crate) subnets: Vec<Subnet>,
    pub(crate) cloud_labels: BTreeMap<String, String>,
    pub(crate) kubelet: Kubelet,
    pub(crate) nvidia_gpu: bool,
    pub(crate) warm_pool: Option<WarmPool>,
    pub(crate) etcd_clusters: Vec<EtcdCluster>,
    pub(crate) has_no_dns: bool,
    /// Where kOps keeps what belongs to the cluster.
    pub config_base: Option<String>,
    /// `spec.kubernetesVersion`.
    pub kubernetes_version: Option<String>,
}

/// What matters of an `InstanceGroup`.
#[derive(Clone, Debug, Default)]
pub struct InstanceGroup {
    /// `metadata.name`.
    pub name: String,
    pub(crate) manager: String,
    pub(crate) role: String,
    pub(crate) image: String,
    pub(crate) machine_type: String,
    pub(crate) min_size: Option<i32>,
    pub(crate) max_size: Option<i32>,
    pub(crate) subnets: Vec<String>,
    pub(crate) max_price: Option<String>,
    pub(crate) spot_duration_in_minutes: Option<i64>,
    pub(crate) instance_interruption_behavior: Option<String>,
    pub(crate) mixed_instances_policy: Option<MixedInstancesPolicy>,
    pub(crate) node_labels: BTreeMap<String, String>,
    pub(crate) cloud_labels: BTreeMap<String, String>,
    pub(crate) taints: Vec<String>,
    pub(crate) kubelet: Kubelet,
    pub(crate) security_group_override: Option<String>,
    pub(crate) additional_security_groups: Vec<String>,
    pub(crate) instance_profile: Option<String>,
    pub(crate) nvidia_gpu: bool,
    pub(crate) gvisor: bool,
    pub(crate) tenancy: String,
    pub(crate) additional_user_data: Vec<UserData>,
    pub(crate) volumes: Vec<Volume>,
    pub(crate) update_policy: Option<String>,
    pub(crate) warm_pool: Option<WarmPool>,
    pub(crate) instance_metadata: Option<InstanceMetadata>,
    pub(crate) cpu_credits: Option<String>,
    pub(crate) max_instance_lifetime: Option<String>,
    pub(crate) sysctl_parameters: Vec<String>,
    pub(crate) associate_public_ip: Option<bool>,
    pub(crate) root_volume: Option<RootVolume>,
}

/// Objects that are no cluster of kOps.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The text is no YAML.
    #[error("{origin}: {error}")]
    Yaml {
        /// The file or path.
        origin: String,
        /// What is wrong.
        error: YamlError,
    },
    /// A field has a value of another type than kOps wants.
    #[error(
        "{origin}: {kind} {name:?} cannot be read: {error}; quote texts that look like numbers or yes and no"
    )]
    Field {
        /// The file or path.
        origin: String,
        /// Cluster or InstanceGroup.
        kind: String,
        /// Its name.
        name: String,
        /// What is wrong.
        error: String,
    },
    /// An object of another kind, or of a version nobody knows.
    #[error(
        "{origin}: cannot use {kind} of {version:?}: give a Cluster and InstanceGroups of kops.k8s.io/v1alpha2 or v1alpha3"
    )]
    Foreign {
        /// The file or path.
        origin: String,
        /// The object's kind.
        kind: String,
        /// The object's apiVersion.
        version: String,
    },
    /// No cluster among the objects.
    #[error("there is no Cluster among the objects: give its file too")]
    NoCluster,
    /// More than one cluster.
    #[error("there are two Clusters, {0:?} and {1:?}: give the objects of one")]
    TwoClusters(String, String),
    /// Two groups of one name.
    #[error("there are two InstanceGroups named {0:?}: rename one")]
    TwoGroups(String),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    V1Alpha2,
    V1Alpha3,
}

enum Object {
    Cluster(Box<Cluster>),
    Group(Box<InstanceGroup>),
    /// Of kOps, and nothing to us.
    Other,
}

impl Inventory {
    /// Reads a cluster and its groups from texts, each with the name it goes by in errors.
    ///
    /// # Errors
    ///
    /// A text is no YAML, an object cannot be read, or there is not exactly one cluster.
    pub fn read<'t>(texts: impl IntoIterator<Item = (&'t str, &'t str)>) -> Result<Self, ReadError> {
        let mut cluster: Option<Cluster> = None;
        let mut groups: Vec<InstanceGroup> = Vec::new();
        for (origin, text) in texts {
            let documents =
                read_documents(text).map_err(|error| ReadError::Yaml { origin: origin.to_owned(), error })?;
            for document in documents {
                match (read_object(origin, &document)?, &cluster) {
                    (Object::Cluster(second), Some(first)) => {
                        return Err(ReadError::TwoClusters(first.name.clone(), second.name));
                    }
                    (Object::Cluster(found), None) => cluster = Some(*found),
                    (Object::Group(found), _) => groups.push(*found),
                    (Object::Other, _) => {}
                }
            }
        }
        let mut names: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(ReadError::TwoGroups(twice[0].to_owned()));
        }
        Ok(Self { cluster: cluster.ok_or(ReadError::NoCluster)?, groups })
    }

    /// The groups by name, as a state store lists them.
    pub fn by_name(&self) -> Vec<&InstanceGroup> {
        let mut groups: Vec<&InstanceGroup> = self.groups.iter().collect();
        groups.sort_by(|one, other| one.name.cmp(&other.name));
        groups
    }

    /// The groups that become NodePools, by name.
    pub fn karpenter_groups(&self) -> Vec<&InstanceGroup> {
        if !self.cluster.has_karpenter() {
            return Vec::new();
        }
        self.by_name().into_iter().filter(|group| group.is_karpenter_managed()).collect()
    }
}

impl Cluster {
    /// Whether kOps runs Karpenter there.
    pub fn has_karpenter(&self) -> bool {
        self.is_aws() && self.enables_karpenter()
    }

    pub(crate) fn enables_karpenter(&self) -> bool {
        self.karpenter.as_ref().is_some_and(|karpenter| karpenter.enabled)
    }

    pub(crate) fn is_aws(&self) -> bool {
        self.cloud == "aws"
    }
}

impl InstanceGroup {
    /// Whether Karpenter makes the group's nodes.
    pub fn is_karpenter_managed(&self) -> bool {
        self.manager == KARPENTER && self.role == "Node"
    }

    /// The image, without white space around it.
    pub(crate) fn image(&self) -> &str {
        self.image.trim()
    }
}

fn read_object(origin: &str, document: &Value) -> Result<Object, ReadError> {
    let text = |field: &str| document[field].as_str().unwrap_or_default().to_owned();
    let (kind, api_version) = (text("kind"), text("apiVersion"));
    let version = match api_version.as_str() {
        "kops.k8s.io/v1alpha2" | "kops/v1alpha2" => Some(Version::V1Alpha2),
        "kops.k8s.io/v1alpha3" | "kops/v1alpha3" => Some(Version::V1Alpha3),
        _ => None,
    };
    let version = match (version, kind.as_str()) {
        (Some(version), "Cluster" | "InstanceGroup") => version,
        (Some(_), "SSHCredential" | "Keyset") => return Ok(Object::Other),
        _ => return Err(ReadError::Foreign { origin: origin.to_owned(), kind, version: api_version }),
    };
    let metadata: Metadata = part(document, "metadata").map_err(|error| ReadError::Field {
        origin: origin.to_owned(),
        kind: kind.clone(),
        name: String::new(),
        error,
    })?;
    let name = metadata.name;
    let failed =
        |error| ReadError::Field { origin: origin.to_owned(), kind: kind.clone(), name: name.clone(), error };
    if kind == "Cluster" {
        let spec = part(document, "spec").map_err(failed)?;
        let cluster = cluster(name.clone(), spec, version).map_err(failed)?;
        Ok(Object::Cluster(Box::new(cluster)))
    } else {
        let spec = part(document, "spec").map_err(failed)?;
        Ok(Object::Group(Box::new(group(name, spec, version))))
    }
}

/// A part of a document; what is not there is empty. A failure names the field.
fn part<T: DeserializeOwned>(document: &Value, field: &str) -> Result<T, String> {
    let value = match &document[field] {
        Value::Null => Value::Object(serde_json::Map::new()),
        value => value.clone(),
    };
    T::deserialize(&value).map_err(|error| {
        // The deserializer does not say where it was: the field that cannot be read by itself is the one.
        let culprit = value.as_object().into_iter().flatten().find(|(key, value)| {
            let alone = Value::Object([((*key).clone(), (*value).clone())].into_iter().collect());
            T::deserialize(&alone).is_err()
        });
        let path = culprit.map_or_else(|| field.to_owned(), |(key, _)| format!("{field}.{key}"));
        format!("{path}: {error}")
    })
}

fn cluster(name: String, spec: ClusterSpec, version: Version) -> Result<Cluster, String> {
    let networking = spec.networking.unwrap_or_default();
    let (subnets, topology) = match version {
        Version::V1Alpha2 => (spec.subnets, spec.topology),
        Version::V1Alpha3 => (networking.subnets, networking.topology),
    };
    let (cloud, aws) = cloud(spec.cloud_provider, version)?;
    let (node_termination_handler, warm_pool) = match version {
        Version::V1Alpha2 => (spec.node_termination_handler, spec.warm_pool),
        Version::V1Alpha3 => (aws.node_termination_handler, aws.warm_pool),
    };
    let store = spec.config_store.and_then(|store| store.base);
    let iam = spec.iam.unwrap_or_default();
    Ok(Cluster {
        name,
        cloud,
        karpenter: spec.karpenter,
        uses_service_account_roles: iam.use_service_account_external_permissions == Some(true),
        issuer_discovery: spec.service_account_issuer_discovery,
        node_termination_handler,
        subnets,
        cloud_labels: spec.cloud_labels,
        kubelet: spec.kubelet.unwrap_or_default(),
        nvidia_gpu: is_on(spec.containerd.and_then(|containerd| containerd.nvidia_gpu)),
        warm_pool,
        etcd_clusters: spec.etcd_clusters,
        has_no_dns: topology.is_some_and(|topology| has_no_dns(&topology)),
        config_base: if version == Version::V1Alpha2 { spec.config_base } else { store },
        kubernetes_version: spec.kubernetes_version,
    })
}

/// The cloud's name, and what v1alpha3 says of AWS.
fn cloud(provider: Value, version: Version) -> Result<(String, AwsCloud), String> {
    let wrong =
        || "spec.cloudProvider: a name in v1alpha2, a block named after the cloud in v1alpha3".to_owned();
    match (version, provider) {
        (_, Value::Null) => Ok((String::new(), AwsCloud::default())),
        (Version::V1Alpha2, Value::String(name)) => Ok((name, AwsCloud::default())),
        (Version::V1Alpha3, Value::Object(blocks)) => {
            let chosen = blocks.into_iter().find(|(_, block)| !block.is_null());
            let (name, block) = chosen.ok_or_else(wrong)?;
            let aws = if name == "aws" {
                AwsCloud::deserialize(&block).map_err(|error| format!("spec.cloudProvider.aws: {error}"))?
            } else {
                AwsCloud::default()
            };
            Ok((name, aws))
        }
        _ => Err(wrong()),
    }
}

fn has_no_dns(topology: &Topology) -> bool {
    let kind = topology.dns.as_str().or_else(|| topology.dns["type"].as_str());
    kind.is_some_and(|kind| kind.eq_ignore_ascii_case("none"))
}

fn is_on(switch: Option<crate::wire::Switch>) -> bool {
    switch.is_some_and(|switch| switch.enabled == Some(true))
}

fn group(name: String, spec: GroupSpec, version: Version) -> InstanceGroup {
    let flat = RootVolume {
        size: spec.root_volume_size,
        kind: spec.root_volume_type,
        iops: spec.root_volume_iops,
        throughput: spec.root_volume_throughput,
        encryption: spec.root_volume_encryption,
        encryption_key: spec.root_volume_encryption_key,
    };
    let (root_volume, associate_public_ip) = match version {
        Version::V1Alpha2 => (Some(flat), spec.associate_public_ip),
        Version::V1Alpha3 => (spec.root_volume, spec.associate_public_ip_address),
    };
    let is_control_plane = version == Version::V1Alpha2 && spec.role == "Master";
    let containerd = spec.containerd.unwrap_or_default();
    InstanceGroup {
        name,
        manager: spec.manager,
        role: if is_control_plane { "ControlPlane".to_owned() } else { spec.role },
        image: spec.image,
        machine_type: spec.machine_type,
        min_size: spec.min_size,
        max_size: spec.max_size,
        subnets: spec.subnets,
        max_price: spec.max_price,
        spot_duration_in_minutes: spec.spot_duration_in_minutes,
        instance_interruption_behavior: spec.instance_interruption_behavior,
        mixed_instances_policy: spec.mixed_instances_policy,
        node_labels: spec.node_labels,
        cloud_labels: spec.cloud_labels,
        taints: spec.taints,
        kubelet: spec.kubelet.unwrap_or_default(),
        security_group_override: spec.security_group_override,
        additional_security_groups: spec.additional_security_groups,
        instance_profile: spec.iam.and_then(|iam| iam.profile),
        nvidia_gpu: is_on(containerd.nvidia_gpu),
        gvisor: is_on(containerd.gvisor),
        tenancy: spec.tenancy,
        additional_user_data: spec.additional_user_data,
        volumes: spec.volumes,
        update_policy: spec.update_policy,
        warm_pool: spec.warm_pool,
        instance_metadata: spec.instance_metadata,
        cpu_credits: spec.cpu_credits,
        max_instance_lifetime: spec.max_instance_lifetime,
        sysctl_parameters: spec.sysctl_parameters,
        associate_public_ip,
        root_volume,
    }
}
