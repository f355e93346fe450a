//! The objects of the files that lint looks at, and where each of them stands.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use karpenter_api::nodepool::NodeClassReference;
use karpenter_api::{NodePool, Provider};
use karpenter_lint::{Code, Finding, Object, Severity, Workload};
use serde_json::Value;

use super::document::Document;

/// A line of a file.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) file: String,
    pub(super) line: u64,
}

/// Everything in the files that matters to lint.
#[derive(Debug, Default)]
pub(super) struct Objects {
    pub(super) node_pools: Vec<NodePool>,
    pub(super) disruption_budgets: Vec<PodDisruptionBudget>,
    pub(super) workloads: Vec<Workload>,
    node_classes: BTreeSet<NodeClassReference>,
    documents: BTreeMap<Object, (String, Document)>,
    /// What was found while reading.
    found: Vec<(Finding, Place)>,
}

/// The NodeClasses that a provider serves.
pub(super) fn served(provider: Provider) -> Vec<(&'static str, &'static str)> {
    match provider {
        Provider::Kwok => vec![("karpenter.kwok.sh", "KWOKNodeClass")],
        Provider::Aws => vec![("karpenter.k8s.aws", "EC2NodeClass")],
        // Its dialects have kinds of their own.
        Provider::AlibabaCloud => Vec::new(),
    }
}

impl Objects {
    /// Takes an object in; kinds that nobody asks about are passed over.
    pub(super) fn add(&mut self, file: &str, document: Document) {
        let mut value = document.value();
        let text =
            |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (kind, name) = (text("/kind"), text("/metadata/name"));
        let namespace = Some(text("/metadata/namespace")).filter(|namespace| !namespace.is_empty());
        let group =
            text("/apiVersion").split_once('/').map(|(group, _)| group.to_owned()).unwrap_or_default();
        match kind.as_str() {
            "NodePool" if group == "karpenter.sh" => {
                limits_as_text(&mut value);
                let object = Object { kind: "NodePool", namespace: None, name };
                if let Some(pool) = self.read(file, document, value, object) {
                    self.node_pools.push(pool);
                }
            }
            "PodDisruptionBudget" => {
                let namespace = namespace.or_else(|| Some("default".to_owned()));
                let object = Object { kind: "PodDisruptionBudget", namespace, name };
                if let Some(budget) = self.read(file, document, value, object) {
                    self.disruption_budgets.push(budget);
                }
            }
            "Deployment" | "StatefulSet" | "ReplicaSet" => {
                self.workloads.push(workload(&kind, &name, namespace, &value));
            }
            _ if kind.ends_with("NodeClass") => {
                self.node_classes.insert(NodeClassReference { group, kind, name });
            }
            _ => {}
        }
    }

    fn read<T: serde::de::DeserializeOwned>(
        &mut self,
        file: &str,
        document: Document,
        value: Value,
        object: Object,
    ) -> Option<T> {
        let start = document.line_of("");
        let place = |line| Place { file: file.to_owned(), line };
        let read = serde_json::from_value(value);
        if let Err(error) = &read {
            let finding = Finding {
                code: Code::Invalid,
                severity: Severity::Error,
                object: object.clone(),
                field: "spec".to_owned(),
                cause: format!("it cannot be read: {error}"),
                remedy: "write the field as the CustomResourceDefinition says; kubectl explain shows it"
                    .to_owned(),
            };
            self.found.push((finding, place(start)));
        }
        self.documents.entry(object).or_insert((file.to_owned(), document));
        read.ok()
    }

    /// The provider that all pools name by their NodeClass, if it is one.
    pub(super) fn provider(&self) -> Option<Provider> {
        let of_pool = |pool: &NodePool| {
            let class = &pool.spec.template.spec.node_class_ref;
            let serves = |provider: &&Provider| served(**provider).contains(&(&*class.group, &*class.kind));
            Provider::ALL.iter().find(serves).copied()
        };
        let named: BTreeSet<Option<Provider>> = self.node_pools.iter().map(of_pool).collect();
        let only = named.into_iter().collect::<Vec<_>>();
        if let [one] = only[..] { one } else { None }
    }

    /// The NodeClasses of the files. A file without any says nothing about which there are.
    pub(super) fn node_classes(&self) -> Option<BTreeSet<NodeClassReference>> {
        (!self.node_classes.is_empty()).then(|| self.node_classes.clone())
    }

    /// Findings with their lines, those made while reading first, in the order of files and lines.
    pub(super) fn placed(&mut self, findings: Vec<Finding>) -> Vec<(Finding, Place)> {
        let mut placed = std::mem::take(&mut self.found);
        for finding in findings {
            let place = match self.documents.get(&finding.object) {
                Some((file, document)) => {
                    Place { file: file.clone(), line: document.line_of(&finding.field) }
                }
                None => Place { file: String::new(), line: 0 },
            };
            placed.push((finding, place));
        }
        placed.sort_by(|(_, one), (_, other)| (&one.file, one.line).cmp(&(&other.file, other.line)));
        placed
    }
}

/// The API server takes quantities as numbers too; our types know them as text.
fn limits_as_text(pool: &mut Value) {
    let Some(limits) = pool.pointer_mut("/spec/limits").and_then(Value::as_object_mut) else { return };
    for limit in limits.values_mut().filter(|limit| limit.is_number()) {
        *limit = Value::String(limit.to_string());
    }
}

fn workload(kind: &str, name: &str, namespace: Option<String>, value: &Value) -> Workload {
    let labels = value.pointer("/spec/template/metadata/labels").and_then(Value::as_object);
    let text = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
    let replicas = value.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1);
    Workload {
        name: format!("{kind} {name}"),
        namespace: namespace.unwrap_or_else(|| "default".to_owned()),
        labels: labels.into_iter().flatten().filter_map(text).collect(),
        replicas: i32::try_from(replicas).unwrap_or(i32::MAX),
    }
}
