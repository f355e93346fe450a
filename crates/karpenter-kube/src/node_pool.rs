//! NodePools: the template of their nodes, their weight and their limits.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as kube;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use karpenter_core::catalog::NODE_POOL;
use karpenter_core::cluster::NodePool;
use karpenter_core::requirements::Requirement;
use karpenter_quantity::ResourceList;
use serde::Deserialize;

use crate::invalid::{At, Invalid, each};
use crate::labels::{add_successors, to_labels};
use crate::selector::requirement;
use crate::taint::taints;

/// What scheduling reads of a NodePool object; every other field is passed over.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodePoolObject {
    /// Name and deletion time.
    pub metadata: ObjectMeta,
    /// What the user wants.
    pub spec: NodePoolSpec,
}

/// The `spec` of a NodePool.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodePoolSpec {
    /// What its nodes look like.
    pub template: NodeTemplate,
    /// Heavier pools are tried first.
    pub weight: Option<i32>,
    /// Upper bounds on what all its nodes have together.
    pub limits: Option<ResourceList>,
    /// The number of nodes of a static pool.
    pub replicas: Option<i64>,
}

/// The `spec.template` of a NodePool.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeTemplate {
    /// Labels and annotations of its nodes.
    pub metadata: TemplateMetadata,
    /// Requirements and taints of its nodes.
    pub spec: TemplateSpec,
}

/// The `spec.template.metadata` of a NodePool.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct TemplateMetadata {
    /// Labels its nodes get.
    pub labels: Option<BTreeMap<String, String>>,
}

/// The `spec.template.spec` of a NodePool.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct TemplateSpec {
    /// What instance types must offer.
    pub requirements: Option<Vec<RequirementLine>>,
    /// Taints that stay.
    pub taints: Option<Vec<kube::Taint>>,
}

/// One requirement as users write it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RequirementLine {
    /// The label key.
    pub key: String,
    /// How the values are meant.
    pub operator: String,
    /// The values.
    pub values: Option<Vec<String>>,
    /// How many distinct values must remain.
    pub min_values: Option<u32>,
}

impl RequirementLine {
    /// The requirement it stands for.
    pub fn requirement(&self) -> Result<Requirement, Invalid> {
        let plain = requirement(&self.key, &self.operator, self.values.iter().flatten())?;
        Ok(Requirement { min_values: self.min_values, ..plain })
    }
}

impl NodePoolObject {
    /// The pool's name.
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// Whether pods can make it grow: a static pool has a fixed number of nodes, a pool being deleted gets no more.
    pub fn is_dynamic(&self) -> bool {
        self.spec.replicas.is_none() && self.metadata.deletion_timestamp.is_none()
    }
}

/// The pool as the core sees it. `node_class` is the label that ties its nodes to their NodeClass.
pub fn node_pool(object: &NodePoolObject, node_class: (&str, &str)) -> Result<NodePool, Invalid> {
    let template = &object.spec.template;
    let requirements = each(template.spec.requirements.iter().flatten(), RequirementLine::requirement);
    let mut labels = to_labels(template.metadata.labels.as_ref());
    add_successors(&mut labels);
    labels.insert(NODE_POOL.into(), object.name().into());
    labels.insert(node_class.0.into(), node_class.1.into());
    Ok(NodePool {
        name: object.name().into(),
        weight: object.spec.weight.unwrap_or(0),
        labels,
        requirements: requirements.at("spec.template.spec.requirements")?,
        taints: taints(template.spec.taints.iter().flatten()).at("spec.template.spec.taints")?,
        limits: object.spec.limits.clone(),
    })
}
