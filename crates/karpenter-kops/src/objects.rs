//! The two objects a group becomes, with the fields kOps writes and no others.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

/// The labels of everything the addon delivers. Pruning goes by the first two.
pub const LABELS: [(&str, &str); 3] = [
    ("addon.kops.k8s.io/name", "karpenter.sh"),
    ("app.kubernetes.io/managed-by", "kops"),
    ("k8s-addon", "karpenter.sh"),
];

/// The objects of one InstanceGroup.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// The group's name, which is theirs.
    pub name: String,
    /// The EC2NodeClass.
    pub node_class: Value,
    /// The NodePool.
    pub node_pool: Value,
}

impl Pair {
    pub(crate) fn new(name: &str, node_class: &NodeClassSpec, node_pool: &NodePoolSpec) -> Self {
        Self {
            name: name.to_owned(),
            node_class: object("karpenter.k8s.aws/v1", "EC2NodeClass", name, node_class),
            node_pool: object("karpenter.sh/v1", "NodePool", name, node_pool),
        }
    }

    /// Both, in the order in which they are applied.
    pub fn objects(&self) -> [&Value; 2] {
        [&self.node_class, &self.node_pool]
    }
}

fn object(api_version: &str, kind: &str, name: &str, spec: &impl Serialize) -> Value {
    let labels: BTreeMap<&str, &str> = LABELS.into_iter().collect();
    json!({
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
    })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeClassSpec {
    pub(crate) ami_family: &'static str,
    pub(crate) ami_selector_terms: Vec<AmiTerm>,
    #[serde(rename = "associatePublicIPAddress")]
    pub(crate) associate_public_ip_address: bool,
    pub(crate) block_device_mappings: Vec<BlockDeviceMapping>,
    pub(crate) instance_profile: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kubelet: Option<Kubelet>,
    pub(crate) security_group_selector_terms: Vec<SelectorTerm>,
    pub(crate) subnet_selector_terms: Vec<SelectorTerm>,
    pub(crate) tags: BTreeMap<String, String>,
    pub(crate) user_data: String,
}

#[derive(Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
pub(crate) enum AmiTerm {
    Id { id: String },
    SsmParameter { ssm_parameter: String },
    Name { name: String, owner: String },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BlockDeviceMapping {
    pub(crate) device_name: String,
    pub(crate) ebs: Ebs,
    pub(crate) root_volume: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Ebs {
    pub(crate) delete_on_termination: bool,
    pub(crate) encrypted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) iops: Option<i32>,
    #[serde(rename = "kmsKeyID", skip_serializing_if = "Option::is_none")]
    pub(crate) kms_key_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) throughput: Option<i32>,
    pub(crate) volume_size: String,
    pub(crate) volume_type: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Kubelet {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_pods: Option<i32>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) system_reserved: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) kube_reserved: BTreeMap<String, String>,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SelectorTerm {
    Id(String),
    Tags(BTreeMap<String, String>),
}

#[derive(Serialize)]
pub(crate) struct NodePoolSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) replicas: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) limits: Option<Limits>,
    pub(crate) template: Template,
}

#[derive(Serialize)]
pub(crate) struct Limits {
    /// A quantity, hence a text.
    pub(crate) nodes: String,
}

#[derive(Serialize)]
pub(crate) struct Template {
    pub(crate) metadata: TemplateMetadata,
    pub(crate) spec: TemplateSpec,
}

#[derive(Serialize)]
pub(crate) struct TemplateMetadata {
    pub(crate) labels: BTreeMap<String, String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TemplateSpec {
    pub(crate) node_class_ref: NodeClassRef,
    pub(crate) requirements: Vec<Requirement>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) taints: Vec<Taint>,
}

#[derive(Serialize)]
pub(crate) struct NodeClassRef {
    pub(crate) group: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) name: String,
}

#[derive(Serialize)]
pub(crate) struct Requirement {
    pub(crate) key: &'static str,
    pub(crate) operator: &'static str,
    pub(crate) values: Vec<String>,
}

#[derive(Serialize)]
pub(crate) struct Taint {
    pub(crate) key: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) value: String,
    pub(crate) effect: String,
}
