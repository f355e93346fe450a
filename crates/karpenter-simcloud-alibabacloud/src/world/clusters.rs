//! Managed Kubernetes clusters, their node pools, and tokens to join them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A managed Kubernetes cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cluster {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its Kubernetes version, such as `1.32.1-aliyun.1`.
    pub version: String,
    /// `terway-eniip`, `Flannel` and so on.
    pub network: String,
    /// Bits of a node's pod network, for Flannel.
    pub node_cidr_mask: u32,
    /// `ipv4` or `dual`.
    pub ip_stack: String,
    /// Its VPC.
    pub vpc: String,
    /// Its vSwitches.
    pub vswitches: Vec<String>,
    /// Its security group.
    pub security_group: String,
    /// The role of its workers.
    pub worker_role: String,
    /// Where its API server is.
    pub endpoint: String,
    /// `running` and so on.
    pub state: String,
    /// Its node pools.
    pub node_pools: Vec<NodePool>,
    /// Its add-ons and their settings as JSON text.
    pub addons: BTreeMap<String, String>,
}

/// A node pool of a managed cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodePool {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Whether it is the default one.
    pub is_default: bool,
    /// Healthy nodes.
    pub healthy_nodes: u32,
    /// `containerd` or `docker`.
    pub runtime: String,
    /// The runtime's version.
    pub runtime_version: String,
}

/// A token that a node may join a cluster with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JoinToken {
    pub(crate) cluster: String,
    pub(crate) expires: Timestamp,
}
