//! The answer under examination: new node claims, pods put on existing nodes, and pods without a place.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::pod::Requirement;
use crate::scenario::{ResourceList, null_as_default};

/// The result of one run, as `karpenter solve` and the upstream oracle print it.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "the fields are the file format's own names")]
pub struct PlanResult {
    #[serde(deserialize_with = "null_as_default")]
    pub new_node_claims: Vec<PlannedClaim>,
    #[serde(deserialize_with = "null_as_default")]
    pub existing_nodes: Vec<NodeAssignment>,
    /// Message by pod that got no place.
    #[serde(deserialize_with = "null_as_default")]
    pub errors: BTreeMap<String, String>,
    /// Message by pod that was rejected before scheduling.
    #[serde(deserialize_with = "null_as_default")]
    pub ignored: BTreeMap<String, String>,
    /// Set when upstream's own code panicked.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub panic: String,
}

/// A node that is to be bought.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "the fields are the file format's own names")]
pub struct PlannedClaim {
    pub node_pool: String,
    #[serde(deserialize_with = "null_as_default")]
    pub requirements: Vec<Requirement>,
    #[serde(deserialize_with = "null_as_default")]
    pub requests: ResourceList,
    #[serde(deserialize_with = "null_as_default")]
    pub instance_types: Vec<String>,
    pub cheapest: Option<CheapestOffering>,
    #[serde(deserialize_with = "null_as_default")]
    pub pods: Vec<String>,
}

/// The offering the claim would be launched with if price alone decided.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "the fields are the file format's own names")]
pub struct CheapestOffering {
    pub instance_type: String,
    pub zone: String,
    pub capacity_type: String,
    pub price: f64,
}

/// Pods put on a node that is already there.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the fields are the file format's own names")]
pub struct NodeAssignment {
    pub name: String,
    #[serde(deserialize_with = "null_as_default")]
    pub pods: Vec<String>,
}
