//! The kubelet's configuration: what users wrote, read and judged.
//!
//! A class carries the configuration as an open map. AL2023 passes all of it on; the other families know the fields of
//! [`Kubelet`] only.

mod expression;
mod fields;
mod validation;

use std::collections::BTreeMap;

use karpenter_quantity::Quantity;
use serde_json::{Map, Value};

use crate::family::AmiFamily;

pub use expression::{Expression, ExpressionError, TypeFacts};
pub use validation::{KubeletError, validate};

/// The fields of a kubelet's configuration that every family understands.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "fields have the kubelet's names and meaning")]
pub struct Kubelet {
    pub cluster_dns: Vec<String>,
    pub max_pods: Option<MaxPods>,
    pub pods_per_core: Option<i64>,
    pub system_reserved: BTreeMap<String, String>,
    pub kube_reserved: BTreeMap<String, String>,
    pub eviction_hard: BTreeMap<String, String>,
    pub eviction_soft: BTreeMap<String, String>,
    pub eviction_soft_grace_period: BTreeMap<String, String>,
    pub eviction_max_pod_grace_period: Option<i64>,
    pub image_gc_high_threshold_percent: Option<i64>,
    pub image_gc_low_threshold_percent: Option<i64>,
    pub cpu_cfs_quota: Option<bool>,
}

/// How many pods a node may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MaxPods {
    /// So many.
    Number(i64),
    /// As many as an expression says of its type.
    Expression(String),
}

/// Fields that every family passes on.
const MANAGED: &[&str] = &[
    "clusterDNS",
    "maxPods",
    "podsPerCore",
    "systemReserved",
    "kubeReserved",
    "evictionHard",
    "evictionSoft",
    "evictionSoftGracePeriod",
    "evictionMaxPodGracePeriod",
    "imageGCHighThresholdPercent",
    "imageGCLowThresholdPercent",
    "cpuCFSQuota",
];

impl Kubelet {
    /// Reads the fields of a configuration that [`validate`] accepts; others are left out.
    pub fn read(fields: &Map<String, Value>) -> Self {
        let texts = |name: &str| -> BTreeMap<String, String> {
            let map = fields.get(name).and_then(Value::as_object);
            let entries = map.into_iter().flatten();
            entries.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
        };
        let number = |name: &str| fields.get(name).and_then(Value::as_i64);
        let max_pods = fields.get("maxPods").and_then(|value| match value {
            Value::String(expression) => Some(MaxPods::Expression(expression.clone())),
            number => number.as_i64().map(MaxPods::Number),
        });
        let dns = fields.get("clusterDNS").and_then(Value::as_array).into_iter().flatten();
        Self {
            cluster_dns: dns.filter_map(Value::as_str).map(str::to_owned).collect(),
            max_pods,
            pods_per_core: number("podsPerCore"),
            system_reserved: texts("systemReserved"),
            kube_reserved: texts("kubeReserved"),
            eviction_hard: texts("evictionHard"),
            eviction_soft: texts("evictionSoft"),
            eviction_soft_grace_period: texts("evictionSoftGracePeriod"),
            eviction_max_pod_grace_period: number("evictionMaxPodGracePeriod"),
            image_gc_high_threshold_percent: number("imageGCHighThresholdPercent"),
            image_gc_low_threshold_percent: number("imageGCLowThresholdPercent"),
            cpu_cfs_quota: fields.get("cpuCFSQuota").and_then(Value::as_bool),
        }
    }

    /// The expressions in it, each with the field it stands in.
    pub fn expressions(&self) -> Vec<(String, &str)> {
        let pods = match &self.max_pods {
            Some(MaxPods::Expression(text)) => Some(("maxPods".to_owned(), text.as_str())),
            _ => None,
        };
        let reserved = [("kubeReserved", &self.kube_reserved), ("systemReserved", &self.system_reserved)];
        let reserved = reserved.into_iter().flat_map(|(field, map)| {
            let formulas = map.iter().filter(|(_, value)| is_expression(value));
            formulas.map(move |(resource, value)| (format!("{field}.{resource}"), value.as_str()))
        });
        pods.into_iter().chain(reserved).collect()
    }

    /// The configuration for one instance type: expressions become numbers, those that fail are left out.
    ///
    /// `default_max_pods` is what the family would take without `maxPods`. With `formulas` false, expressions count as absent.
    #[must_use]
    pub fn resolved(&self, facts: &TypeFacts, default_max_pods: i64, formulas: bool) -> Self {
        let pods = match &self.max_pods {
            Some(MaxPods::Number(number)) => Some(*number),
            Some(MaxPods::Expression(text)) if formulas => {
                let facts = TypeFacts { max_pods: default_max_pods, ..facts.clone() };
                Expression::compile(text).and_then(|formula| formula.max_pods(&facts)).ok()
            }
            _ => None,
        };
        let facts = TypeFacts { max_pods: pods.unwrap_or(default_max_pods), ..facts.clone() };
        let reserved = |map: &BTreeMap<String, String>| -> BTreeMap<String, String> {
            let value = |resource: &str, text: &String| match is_expression(text) {
                false => Some(text.clone()),
                true if formulas => {
                    Expression::compile(text).and_then(|formula| formula.reserved(resource, &facts)).ok()
                }
                true => None,
            };
            map.iter().filter_map(|(key, text)| Some((key.clone(), value(key, text)?))).collect()
        };
        Self {
            max_pods: pods.map(MaxPods::Number),
            kube_reserved: reserved(&self.kube_reserved),
            system_reserved: reserved(&self.system_reserved),
            ..self.clone()
        }
    }
}

/// Whether a reserved amount is a formula: whatever is not a quantity.
fn is_expression(text: &str) -> bool {
    text.parse::<Quantity>().is_err()
}

/// Why a family cannot pass a configuration on; `None` if it can.
pub fn unsupported(family: AmiFamily, fields: &Map<String, Value>) -> Option<String> {
    if family.takes_any_kubelet_field() || family == AmiFamily::Custom {
        return None;
    }
    let known =
        |name: &str| MANAGED.contains(&name) && (name != "podsPerCore" || family.supports_pods_per_core());
    let refused: Vec<&str> = fields.keys().map(String::as_str).filter(|name| !known(name)).collect();
    if !refused.is_empty() {
        return Some(format!(
            "{family} does not apply spec.kubelet.{}; remove it, or use the AL2023 family, which applies every field",
            refused.join(", spec.kubelet.")
        ));
    }
    let servers = fields.get("clusterDNS").and_then(Value::as_array).map_or(0, Vec::len);
    (servers > 1).then(|| {
        format!("{family} takes one entry of spec.kubelet.clusterDNS; leave one, or use the AL2023 family")
    })
}
