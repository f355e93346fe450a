//! What is wrong with objects that the API server admits: pools that can never get a node, budgets that never open, drains that never end.
//!
//! One pure function, [`lint`], from what is known about a cluster, or a file, to findings. `karpenter lint`, the condition `LintPassed` of NodePools and the
//! webhook all print what it returns. It judges with the core's own algebra of requirements, so it calls impossible what planning finds impossible. Each file
//! holds the checks of one subject; start at [`Facts`].

mod budgets;
mod classes;
mod drains;
mod finding;
mod limits;
mod machines;
mod pools;
mod requirements;
mod spelling;
mod validity;

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use karpenter_api::nodepool::NodeClassReference;
use karpenter_api::{LabelRules, NodePool};
use karpenter_core::catalog::Catalog;

pub use drains::Workload;
pub use finding::{Code, Finding, Object, Severity};

/// What is known. What is not known is not judged.
pub struct Facts<'a> {
    /// When it is: schedules are looked at from here on.
    pub now: Timestamp,
    /// Which labels there are.
    pub rules: &'a LabelRules,
    /// The pools to judge. Pools are also compared with each other.
    pub node_pools: Vec<&'a NodePool>,
    /// What each pool may buy; a pool that is not listed is not compared with machines.
    pub catalog: &'a Catalog,
    /// Group and kind of the NodeClasses that the provider serves; empty if that is not known.
    pub served: Vec<(&'a str, &'a str)>,
    /// The NodeClasses there are, if that is known.
    pub node_classes: Option<BTreeSet<NodeClassReference>>,
    /// The PodDisruptionBudgets there are.
    pub disruption_budgets: Vec<&'a PodDisruptionBudget>,
    /// What runs pods.
    pub workloads: Vec<Workload>,
}

/// Everything that is wrong, object by object in the order given.
pub fn lint(facts: &Facts<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for pool in &facts.node_pools {
        findings.extend(lint_pool(facts, pool));
    }
    findings.extend(pools::twins(facts));
    findings.extend(drains::check(facts));
    findings
}

/// What is wrong with one pool, whatever else there is.
pub fn lint_pool(facts: &Facts<'_>, pool: &NodePool) -> Vec<Finding> {
    let object = Object::node_pool(pool);
    let mut findings = validity::check(pool, facts.rules, &object);
    let can_be_read = findings.iter().all(|finding| finding.severity != Severity::Error);
    findings.extend(classes::check(facts, pool, &object));
    findings.extend(budgets::check(pool, facts.now, &object));
    findings.extend(pools::check(pool, &object));
    // What cannot be read cannot be compared with machines either, and saying so twice helps nobody.
    if can_be_read {
        findings.extend(machines::check(facts, pool, &object));
    }
    findings
}
