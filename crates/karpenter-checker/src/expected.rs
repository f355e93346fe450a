//! What upstream answered to a scenario, summed up over several runs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::scenario::null_as_default;

/// Upstream's answers to one scheduling scenario.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "the fields are the file format's own names")]
pub struct Expected {
    #[serde(deserialize_with = "null_as_default")]
    pub unschedulable: Vec<String>,
    #[serde(deserialize_with = "null_as_default")]
    pub sometimes_unschedulable: Vec<String>,
    pub unschedulable_count: Range,
    #[serde(deserialize_with = "null_as_default")]
    pub unschedulable_by_group: BTreeMap<String, Range>,
    #[serde(deserialize_with = "null_as_default")]
    pub ignored: Vec<String>,
    pub new_node_claims: Range,
    pub price: Range,
    /// All claims, where every run gave the same ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claims: Option<Vec<ExpectedClaim>>,
    /// The first run's claims in outline, where runs differed.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub sample: Vec<SampleClaim>,
    /// Set where upstream's own plan is not feasible; then its figures bind nobody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream_violations: Option<Value>,
    /// Set where upstream's code panicked.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub panics: Vec<Value>,
}

impl Expected {
    /// Returns how many instance types each claim of upstream's first run lists.
    pub fn types_per_claim(&self) -> Vec<usize> {
        match &self.claims {
            Some(claims) => claims.iter().map(|claim| claim.instance_types.len()).collect(),
            None => self.sample.iter().map(|claim| claim.types).collect(),
        }
    }
}

/// Smallest and largest value over the runs.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[allow(missing_docs, reason = "the fields are the file format's own names")]
pub struct Range {
    pub min: f64,
    pub max: f64,
}

/// A claim every upstream run opened.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "the fields are the file format's own names")]
pub struct ExpectedClaim {
    pub node_pool: String,
    pub pods_by_group: BTreeMap<String, usize>,
    #[serde(deserialize_with = "null_as_default")]
    pub instance_types: Vec<String>,
    pub price: f64,
}

/// The outline of a claim of one run.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the fields are the file format's own names")]
pub struct SampleClaim {
    pub types: usize,
}
