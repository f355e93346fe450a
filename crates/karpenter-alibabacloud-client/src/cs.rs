//! CS, the container service: the ACK cluster, how machines join it, and the images it lists.
#![expect(missing_docs, reason = "fields have the cloud's names and meaning")]

use std::collections::BTreeMap;

use http::Method;
use karpenter_transport::encoding;
use serde::{Deserialize, Serialize};

use crate::endpoint::Service;
use crate::operation::{Operation, Route, read_json};

/// Declares an operation with a path of its own.
macro_rules! roa {
    ($request:ident -> $answer:ty, $action:literal, $method:ident, |$self:ident| $path:expr) => {
        impl Operation for $request {
            const NAME: &'static str = stringify!($request);
            const SERVICE: Service = Service::Cs;
            const RAM_ACTION: &'static str = $action;
            type Answer = $answer;
            fn route(&$self) -> Route {
                Route::Roa { method: Method::$method, path: $path }
            }
        }
    };
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DescribeClusterDetail {
    #[serde(skip)]
    pub cluster_id: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ClusterDetail {
    pub cluster_id: String,
    pub name: Option<String>,
    pub state: Option<String>,
    pub region_id: Option<String>,
    pub vpc_id: Option<String>,
    pub current_version: Option<String>,
    pub node_cidr_mask: Option<String>,
    /// `dual` where pods have IPv6 too.
    pub ip_stack: Option<String>,
    pub security_group_id: Option<String>,
    pub worker_ram_role_name: Option<String>,
    pub vswitch_ids: Vec<String>,
    /// JSON as text.
    pub meta_data: Option<String>,
}

impl ClusterDetail {
    /// The network plug-in, say `terway-eniip` or `Flannel`.
    pub fn network(&self) -> Option<String> {
        let meta: serde_json::Value = serde_json::from_str(self.meta_data.as_deref()?).ok()?;
        meta.pointer("/Capabilities/Network")?.as_str().map(str::to_owned)
    }
}

roa!(DescribeClusterDetail -> ClusterDetail, "cs:DescribeClusterDetail", GET, |self| {
    format!("/clusters/{}", encoding::encode(&self.cluster_id))
});

/// Asks for the line of shell a machine joins the cluster with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DescribeClusterAttachScripts {
    #[serde(skip)]
    pub cluster_id: String,
    pub keep_instance_name: Option<bool>,
    pub format_disk: Option<bool>,
    /// Until when the token in it works, in seconds since 1970.
    pub expired: Option<i64>,
    pub nodepool_id: Option<String>,
    pub arch: Option<String>,
}

impl Operation for DescribeClusterAttachScripts {
    const NAME: &'static str = "DescribeClusterAttachScripts";
    const SERVICE: Service = Service::Cs;
    const RAM_ACTION: &'static str = "cs:DescribeClusterAttachScripts";
    type Answer = String;

    fn route(&self) -> Route {
        let path = format!("/clusters/{}/attachscript", encoding::encode(&self.cluster_id));
        Route::Roa { method: Method::POST, path }
    }

    /// Plain text; some answers put it in quotes as JSON.
    fn read(body: &[u8]) -> Result<String, String> {
        let text = std::str::from_utf8(body).map_err(|error| error.to_string())?;
        Ok(serde_json::from_str::<String>(text).unwrap_or_else(|_| text.to_owned()))
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DescribeClusterNodePools {
    #[serde(skip)]
    pub cluster_id: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct NodePools {
    pub nodepools: Vec<NodePool>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct NodePool {
    pub nodepool_info: NodePoolInfo,
    pub status: NodePoolStatus,
    pub kubernetes_config: KubernetesConfig,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NodePoolInfo {
    pub nodepool_id: String,
    pub name: Option<String>,
    pub is_default: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NodePoolStatus {
    pub healthy_nodes: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct KubernetesConfig {
    pub runtime: Option<String>,
    pub runtime_version: Option<String>,
}

roa!(DescribeClusterNodePools -> NodePools, "cs:DescribeClusterNodePools", GET, |self| {
    format!("/clusters/{}/nodepools", encoding::encode(&self.cluster_id))
});

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct DescribeKubernetesVersionMetadata {
    pub region: String,
    pub cluster_type: String,
    /// Without a leading `v`.
    pub kubernetes_version: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct KubernetesVersion {
    pub version: Option<String>,
    pub images: Vec<ClusterImage>,
    pub runtimes: Vec<Runtime>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ClusterImage {
    pub image_id: String,
    pub image_name: Option<String>,
    pub platform: Option<String>,
    pub os_version: Option<String>,
    pub image_type: Option<String>,
    pub os_type: Option<String>,
    /// `x86_64` or `arm64`.
    pub architecture: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Runtime {
    pub name: String,
    pub version: String,
}

roa!(
    DescribeKubernetesVersionMetadata -> Vec<KubernetesVersion>,
    "cs:DescribeKubernetesVersionMetadata", GET, |self| "/api/v1/metadata/versions".to_owned()
);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GetClusterAddonInstance {
    #[serde(skip)]
    pub cluster_id: String,
    #[serde(skip)]
    pub name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ClusterAddonInstance {
    pub name: String,
    pub version: Option<String>,
    /// JSON as text.
    pub config: Option<String>,
}

impl ClusterAddonInstance {
    /// Its settings as words; what is not text is written as JSON.
    pub fn settings(&self) -> BTreeMap<String, String> {
        let read: BTreeMap<String, serde_json::Value> =
            self.config.as_deref().and_then(|text| read_json(text.as_bytes()).ok()).unwrap_or_default();
        let word = |value: serde_json::Value| match value {
            serde_json::Value::String(text) => text,
            other => other.to_string(),
        };
        read.into_iter().map(|(key, value)| (key, word(value))).collect()
    }
}

roa!(GetClusterAddonInstance -> ClusterAddonInstance, "cs:GetClusterAddonInstance", GET, |self| {
    format!("/clusters/{}/addon_instances/{}", encoding::encode(&self.cluster_id), encoding::encode(&self.name))
});
