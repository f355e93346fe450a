//! A disruption plan in the result format of scenario files.

use karpenter_core::DisruptionPlan;
use karpenter_core::disruption::{
    DisruptionCommand, DisruptionMethod, DisruptionOptions, DisruptionReason, Outlook,
};
use serde::Serialize;

use super::Problem;
use super::outcome::{Claim, ExistingNode, claim_outcome, pod_keys};

/// The answer to a scenario with `mode: disrupt`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DisruptionOutcome {
    /// The scenario's name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// One command for every method that found something, each for the cluster as it is.
    pub disruption: Vec<Command>,
    /// What each node's future looks like, by name.
    pub explanations: Vec<NodeExplanation>,
    /// The plan in numbers.
    pub stats: DisruptionFigures,
}

/// Nodes to disrupt together.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Command {
    /// What found them.
    pub method: DisruptionMethod,
    /// Why they go.
    pub reason: DisruptionReason,
    /// `delete`, or `replace` where NodeClaims come in their place.
    pub decision: &'static str,
    /// The nodes, by name.
    pub candidates: Vec<String>,
    /// NodeClaims to create before they go.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replacements: Vec<Claim>,
    /// Nodes that stay and the pods they get, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub existing_nodes: Vec<ExistingNode>,
    /// What is saved per hour.
    pub savings: f64,
    /// What the nodes cost per hour.
    pub source_cost: f64,
}

/// Why a node stays, or that it goes.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeExplanation {
    /// The node.
    pub node: String,
    /// Its future, structured.
    pub reason: Outlook,
    /// The same as a sentence.
    pub message: String,
}

/// The plan in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DisruptionFigures {
    /// Nodes of the cluster.
    pub nodes: usize,
    /// Commands found.
    pub commands: usize,
    /// The largest saving of a command, per hour.
    pub savings: f64,
}

impl Problem {
    /// The settings under which the scenario asks for disruption: every method of consolidation, each on its own.
    pub fn disruption_options(&self) -> DisruptionOptions {
        DisruptionOptions {
            solver: self.options.clone(),
            methods: vec![
                DisruptionMethod::Emptiness,
                DisruptionMethod::MultiNodeConsolidation,
                DisruptionMethod::SingleNodeConsolidation,
            ],
            spot_to_spot: self.spot_to_spot,
            ..DisruptionOptions::default()
        }
    }
}

/// The plan in the result format.
pub fn disruption_outcome(problem: &Problem, plan: &DisruptionPlan) -> DisruptionOutcome {
    let explanation = |node: &karpenter_core::disruption::NodeOutlook| NodeExplanation {
        node: node.node.to_string(),
        reason: node.outlook.clone(),
        message: format!("{} {}", node.node, node.outlook),
    };
    DisruptionOutcome {
        name: problem.name.clone(),
        disruption: plan.commands.iter().map(|command| written(plan, command)).collect(),
        explanations: plan.nodes.iter().map(explanation).collect(),
        stats: DisruptionFigures {
            nodes: plan.nodes.len(),
            commands: plan.commands.len(),
            savings: plan.commands.iter().map(|command| rounded(command.savings)).fold(0.0, f64::max),
        },
    }
}

fn written(plan: &DisruptionPlan, command: &DisruptionCommand) -> Command {
    let existing = command
        .existing
        .iter()
        .map(|(node, pods)| ExistingNode { name: node.to_string(), pods: pod_keys(&plan.pods, pods) });
    Command {
        method: command.method,
        reason: command.reason,
        decision: if command.replacements.is_empty() { "delete" } else { "replace" },
        candidates: command.candidates.iter().map(ToString::to_string).collect(),
        replacements: command.replacements.iter().map(|claim| claim_outcome(&plan.pods, claim)).collect(),
        existing_nodes: existing.collect(),
        savings: rounded(command.savings),
        source_cost: rounded(command.source_cost),
    }
}

/// To a millionth: prices have no more digits, sums of them only seem to.
fn rounded(price: f64) -> f64 {
    (price * 1e6).round() / 1e6
}
