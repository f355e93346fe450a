//! A plan in the result format of scenario files.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_api::labels::{HOSTNAME, INITIALIZED, REGISTERED};
use karpenter_core::cluster::Pod;
use karpenter_core::plan::{PodIndex, Unschedulable};
use karpenter_core::requirements::Requirement;
use karpenter_core::{ClaimPlan, ProvisioningPlan};
use serde::Serialize;

use super::Problem;

/// The answer to one scenario.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// The scenario's name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// NodeClaims to create.
    pub new_node_claims: Vec<Claim>,
    /// Nodes that got pods, by name.
    pub existing_nodes: Vec<ExistingNode>,
    /// Pods without a place, and why.
    pub errors: BTreeMap<String, String>,
    /// Pods that were not considered, and why.
    pub ignored: BTreeMap<String, String>,
    /// NodeOverlays that were left out because they contradict others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conflicting_node_overlays: Vec<String>,
    /// Why pods have no place, by pod group.
    pub explanations: Vec<Explanation>,
    /// The plan in numbers.
    pub stats: PlanFigures,
}

/// One NodeClaim to create.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Claim {
    /// Its NodePool.
    pub node_pool: String,
    /// Its requirements by key and operator.
    pub requirements: Vec<Requirement>,
    /// What its pods and the smallest DaemonSet overhead ask.
    pub requests: BTreeMap<String, String>,
    /// The types it may become, cheapest first.
    pub instance_types: Vec<String>,
    /// The cheapest of them.
    pub cheapest: Cheapest,
    /// Its pods by name.
    pub pods: Vec<String>,
}

/// The cheapest way to launch a claim.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cheapest {
    /// Instance type.
    pub instance_type: String,
    /// Zone.
    pub zone: String,
    /// Capacity type.
    pub capacity_type: String,
    /// Price per hour.
    pub price: f64,
}

/// A node that got pods.
#[derive(Debug, Serialize)]
pub struct ExistingNode {
    /// Its name.
    pub name: String,
    /// The pods it got, by name.
    pub pods: Vec<String>,
}

/// Why pods of one group have no place.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// `namespace/name` of the group.
    pub group: String,
    /// How many of its pods.
    pub pods: usize,
    /// One of them.
    pub example: String,
    /// The reason, structured.
    pub reason: Arc<Unschedulable>,
    /// The reason as a sentence.
    pub message: String,
}

/// The plan in numbers. They depend on the plan alone, so the same scenario gives the same ones.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanFigures {
    /// Pods that were to be placed.
    pub pods: usize,
    /// NodeClaims to create.
    pub nodes: usize,
    /// Their price per hour, each at its cheapest.
    pub price: f64,
    /// The median number of instance types per claim.
    pub types_per_claim_median: f64,
    /// Pods without a place.
    pub unschedulable: usize,
}

/// The plan in numbers.
pub fn figures(plan: &ProvisioningPlan) -> PlanFigures {
    PlanFigures {
        pods: plan.pods.len(),
        nodes: plan.claims.len(),
        // The sum of no prices is a negative zero, which nobody wants to read.
        price: plan.price() + 0.0,
        types_per_claim_median: median(plan.claims.iter().map(|claim| claim.instance_types.len()).collect()),
        unschedulable: plan.unschedulable.len(),
    }
}

fn median(mut counts: Vec<usize>) -> f64 {
    counts.sort_unstable();
    match (counts.len(), counts.len() / 2) {
        (0, _) => 0.0,
        (length, middle) if length % 2 == 1 => counts[middle] as f64,
        (_, middle) => (counts[middle - 1] + counts[middle]) as f64 / 2.0,
    }
}

/// The plan in the result format.
pub fn outcome(problem: &Problem, plan: &ProvisioningPlan) -> Outcome {
    let unschedulable = plan.unschedulable.iter();
    let mut ignored: BTreeMap<String, String> =
        plan.ignored.iter().map(|(index, why)| (pod_key(plan, *index), why.to_string())).collect();
    ignored.extend(problem.refused.iter().cloned());
    let mut existing_nodes: Vec<ExistingNode> = plan
        .existing
        .iter()
        .filter(|(_, pods)| !pods.is_empty())
        .map(|(name, pods)| ExistingNode { name: name.to_string(), pods: pod_keys(&plan.pods, pods) })
        .collect();
    existing_nodes.sort_by(|a, b| a.name.cmp(&b.name));
    Outcome {
        name: problem.name.clone(),
        new_node_claims: plan.claims.iter().map(|claim| claim_outcome(&plan.pods, claim)).collect(),
        existing_nodes,
        errors: unschedulable.map(|(index, why)| (pod_key(plan, *index), why.to_string())).collect(),
        ignored,
        conflicting_node_overlays: problem.conflicting_node_overlays.clone(),
        explanations: explanations(problem, plan),
        stats: figures(plan),
    }
}

pub(super) fn claim_outcome(pods: &[Arc<Pod>], claim: &ClaimPlan) -> Claim {
    let is_shown =
        |requirement: &&Requirement| !matches!(&*requirement.key, HOSTNAME | REGISTERED | INITIALIZED);
    let mut requirements: Vec<Requirement> = claim.requirements.iter().filter(is_shown).cloned().collect();
    for requirement in &mut requirements {
        requirement.values.sort();
    }
    requirements
        .sort_by_cached_key(|requirement| (requirement.key.clone(), requirement.operator.to_string()));
    let launch = &claim.cheapest;
    Claim {
        node_pool: claim.node_pool.to_string(),
        requirements,
        requests: claim
            .requests
            .iter()
            .map(|(name, quantity)| (name.to_owned(), quantity.to_string()))
            .collect(),
        instance_types: claim
            .instance_types
            .iter()
            .map(|instance_type| instance_type.name.to_string())
            .collect(),
        cheapest: Cheapest {
            instance_type: launch.instance_type.to_string(),
            zone: launch.zone.to_string(),
            capacity_type: launch.capacity_type.to_string(),
            price: launch.price,
        },
        pods: pod_keys(pods, &claim.pods),
    }
}

fn pod_key(plan: &ProvisioningPlan, index: PodIndex) -> String {
    plan.pods[index as usize].key()
}

pub(super) fn pod_keys(all: &[Arc<Pod>], pods: &[PodIndex]) -> Vec<String> {
    let mut keys: Vec<String> = pods.iter().map(|index| all[*index as usize].key()).collect();
    keys.sort();
    keys
}

/// One explanation per group and reason, groups by name.
fn explanations(problem: &Problem, plan: &ProvisioningPlan) -> Vec<Explanation> {
    let mut by_group: BTreeMap<(String, String), Explanation> = BTreeMap::new();
    for (index, reason) in &plan.unschedulable {
        let pod = &plan.pods[*index as usize];
        let group = problem.groups.of(*index as usize, pod).map_or_else(|| pod.key(), ToString::to_string);
        let message = reason.to_string();
        let explanation = by_group.entry((group.clone(), message.clone())).or_insert_with(|| Explanation {
            group,
            pods: 0,
            example: pod.key(),
            reason: reason.clone(),
            message,
        });
        explanation.pods += 1;
    }
    by_group.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_median_of_an_even_number_of_counts_is_their_middle() {
        assert!((median(vec![4, 1, 2, 3]) - 2.5).abs() < f64::EPSILON);
        assert!((median(vec![3, 1, 2]) - 2.0).abs() < f64::EPSILON);
        assert!(median(vec![]).abs() < f64::EPSILON);
    }
}
