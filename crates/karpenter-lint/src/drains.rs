//! PodDisruptionBudgets that keep nodes from ever draining.

use std::collections::BTreeMap;

use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use karpenter_core::cluster::{Labels, Selector};

use crate::Facts;
use crate::finding::{Code, Finding, Object};

/// Something that runs equal pods: a Deployment, a StatefulSet, a ReplicaSet.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Its kind and name, for people.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// The labels of its pods.
    pub labels: BTreeMap<String, String>,
    /// How many pods it wants.
    pub replicas: i32,
}

pub(crate) fn check(facts: &Facts<'_>) -> Vec<Finding> {
    let mut findings: Vec<Finding> =
        facts.disruption_budgets.iter().filter_map(|budget| never_drains(facts, budget)).collect();
    findings.extend(overlaps(facts));
    findings
}

fn object(budget: &PodDisruptionBudget) -> Object {
    Object {
        kind: "PodDisruptionBudget",
        namespace: Some(namespace(budget).to_owned()),
        name: budget.metadata.name.clone().unwrap_or_default(),
    }
}

fn namespace(budget: &PodDisruptionBudget) -> &str {
    budget.metadata.namespace.as_deref().unwrap_or("default")
}

fn never_drains(facts: &Facts<'_>, budget: &PodDisruptionBudget) -> Option<Finding> {
    let spec = budget.spec.as_ref()?;
    let remedy = "let at least one pod go, for example with maxUnavailable: 1; a terminationGracePeriod in the NodePool ends such drains by force";
    let found = |field: &str, cause: String| {
        Some(Finding::new(Code::NeverDrains, &object(budget), field, cause, remedy))
    };
    let blocks = "nodes with its pods cannot be drained, neither for consolidation nor for drift";
    match (&spec.max_unavailable, &spec.min_available) {
        (Some(IntOrString::Int(0)), _) => {
            found("spec.maxUnavailable", format!("no pod may ever go: {blocks}"))
        }
        (Some(IntOrString::String(share)), _) if share == "0%" => {
            found("spec.maxUnavailable", format!("no pod may ever go: {blocks}"))
        }
        (_, Some(IntOrString::String(share))) if share == "100%" => {
            found("spec.minAvailable", format!("all pods must stay: {blocks}"))
        }
        (_, Some(IntOrString::Int(kept))) if *kept > 0 => {
            let pods = expected(facts, budget, spec)?;
            (pods > 0 && *kept >= pods).then(|| {
                found("spec.minAvailable", format!("{kept} pods must stay and there are {pods}: {blocks}"))
            })?
        }
        _ => None,
    }
}

/// How many pods the budget is about: what the cluster says, else what the workloads ask for.
fn expected(facts: &Facts<'_>, budget: &PodDisruptionBudget, spec: &PodDisruptionBudgetSpec) -> Option<i32> {
    if let Some(status) = &budget.status
        && status.observed_generation.is_some()
    {
        return status.expected_pods;
    }
    let selector = selector_of(spec)?;
    let selected = facts.workloads.iter().filter(|workload| selects(&selector, namespace(budget), workload));
    Some(selected.map(|workload| workload.replicas).sum())
}

fn selector_of(spec: &PodDisruptionBudgetSpec) -> Option<Selector> {
    spec.selector.as_ref().and_then(|selector| karpenter_kube::selector::selector(selector).ok())
}

fn selects(selector: &Selector, namespace: &str, workload: &Workload) -> bool {
    let labels: Labels =
        workload.labels.iter().map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect();
    workload.namespace == namespace && selector.matches(&labels)
}

/// Budgets that select pods which another one selects already: the eviction API refuses such pods.
fn overlaps(facts: &Facts<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let read: Vec<_> = facts
        .disruption_budgets
        .iter()
        .filter_map(|budget| Some((*budget, selector_of(budget.spec.as_ref()?)?)))
        .collect();
    for (index, (budget, selector)) in read.iter().enumerate() {
        let shared = facts.workloads.iter().filter(|workload| selects(selector, namespace(budget), workload));
        let with = shared.flat_map(|workload| {
            let others = read[..index].iter();
            let also = others.filter(move |(other, selector)| selects(selector, namespace(other), workload));
            also.map(move |(other, _)| (workload, object(other)))
        });
        if let Some((workload, other)) = with.into_iter().next() {
            findings.push(Finding::new(
                Code::BudgetsOverlap,
                &object(budget),
                "spec.selector",
                format!("it selects pods of {} as {other} does; Kubernetes refuses to evict a pod that two budgets select", workload.name),
                "narrow one of the selectors so that every pod has one budget",
            ));
        }
    }
    findings
}
