//! Whether commands that disrupt nodes are allowed, feasible, cheaper, and save no less than upstream's.
//!
//! Every command is held against the scenario as written: who may be disrupted and how many (`permission`), whether the pods
//! have places afterwards, which is the question [`check`] answers once the nodes are marked for deletion, and what the replacements
//! cost whatever they become.

mod permission;

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::Value;

use crate::cases::DisruptionCase;
use crate::check::check;
use crate::claim::ClaimView;
use crate::plan::{NodeAssignment, PlanResult, PlannedClaim};
use crate::scenario::{Scenario, null_as_default};
use crate::world::World;

/// Prices are printed to a millionth, and sums of them are off by as much for every node.
const PRICE_TOLERANCE: f64 = 5e-6;

const METHODS: [&str; 3] = ["Emptiness", "MultiNodeConsolidation", "SingleNodeConsolidation"];

/// A command as `karpenter solve` and the upstream oracle print it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Command {
    method: String,
    reason: String,
    decision: String,
    #[serde(deserialize_with = "null_as_default")]
    candidates: Vec<String>,
    #[serde(deserialize_with = "null_as_default")]
    replacements: Vec<PlannedClaim>,
    #[serde(deserialize_with = "null_as_default")]
    existing_nodes: Vec<NodeAssignment>,
    savings: f64,
    source_cost: f64,
}

/// Returns everything that is wrong with the commands of a result.
///
/// # Panics
///
/// If the result or the case does not have the format of results and cases.
pub fn judge_disruption(case: &DisruptionCase, result: &Value) -> Vec<String> {
    let commands = commands(&result["disruption"]);
    let mut complaints = Vec::new();
    for command in &commands {
        let of_command = violations(&case.scenario, command);
        complaints.extend(of_command.into_iter().map(|complaint| format!("{}: {complaint}", command.method)));
    }
    let variants: Vec<Vec<Command>> =
        case.expected["variants"].as_array().map_or(&[][..], Vec::as_slice).iter().map(commands_of).collect();
    for method in METHODS {
        let find = |commands: &[Command]| commands.iter().find(|command| command.method == method).cloned();
        let ours = find(&commands);
        let theirs: Vec<Option<Command>> = variants.iter().map(|commands| find(commands)).collect();
        complaints.extend(saves_less(method, ours.as_ref(), &theirs));
    }
    complaints
}

fn commands_of(value: &Value) -> Vec<Command> {
    commands(value)
}

fn commands(value: &Value) -> Vec<Command> {
    if value.is_null() {
        return Vec::new();
    }
    serde_json::from_value(value.clone()).expect("commands have the format of commands")
}

/// A decision is right that upstream came to as well, or that saves at least as much as its best.
fn saves_less(method: &str, ours: Option<&Command>, theirs: &[Option<Command>]) -> Option<String> {
    let nodes = |command: Option<&Command>| command.map(|command| command.candidates.clone());
    if theirs.iter().any(|command| nodes(command.as_ref()) == nodes(ours)) {
        return None;
    }
    let saved = |command: &Command| command.savings;
    let best = theirs.iter().flatten().map(saved).fold(0.0, f64::max);
    let own = ours.map_or(0.0, saved);
    (own < best - PRICE_TOLERANCE).then(|| format!("{method}: saves {own:.6}, upstream {best:.6}"))
}

fn violations(scenario: &Value, command: &Command) -> Vec<String> {
    let mut complaints = permission::violations(scenario, command);
    complaints.extend(prices(scenario, command));
    if command.method != "Emptiness" {
        complaints.extend(places(scenario, command));
    }
    let several = command.candidates.len() > 1;
    match command.method.as_str() {
        "SingleNodeConsolidation" if several || command.replacements.len() > 1 => {
            complaints.push("one node is replaced by one node at most".to_owned());
        }
        "MultiNodeConsolidation" if !several => complaints.push("only one node leaves".to_owned()),
        _ => {}
    }
    let replaces = !command.replacements.is_empty();
    if (command.decision == "replace") != replaces {
        complaints.push(format!("{} with {} replacements", command.decision, command.replacements.len()));
    }
    complaints
}

/// With the nodes marked for deletion, the command is a plan for their pods.
fn places(scenario: &Value, command: &Command) -> Vec<String> {
    let before: Scenario = serde_json::from_value(scenario.clone()).expect("a case holds a scenario");
    let mut after = before.clone();
    for node in &mut after.nodes {
        node.deleting |= command.candidates.contains(&node.name);
    }
    let mut result = PlanResult {
        new_node_claims: command.replacements.clone(),
        existing_nodes: command.existing_nodes.clone(),
        ..PlanResult::default()
    };
    let on_claims = result.new_node_claims.iter().flat_map(|claim| &claim.pods);
    let on_nodes = result.existing_nodes.iter().flat_map(|node| &node.pods);
    let placed: BTreeSet<&String> = on_claims.chain(on_nodes).collect();
    // Pods that waited anyway are somebody else's business, unless the command speaks of them.
    let waiting = World::new(&before).pending;
    let others: Vec<String> = waiting.keys().filter(|pod| !placed.contains(pod)).cloned().collect();
    result.errors = others.into_iter().map(|pod| (pod, "waits".to_owned())).collect();
    check(&after, &result).iter().map(ToString::to_string).collect()
}

/// What leaves costs what is said, what comes is cheaper whatever it becomes, and the saving is the difference.
fn prices(scenario: &Value, command: &Command) -> Vec<String> {
    let parsed: Scenario = serde_json::from_value(scenario.clone()).expect("a case holds a scenario");
    let world = World::new(&parsed);
    let source: f64 = command.candidates.iter().map(|name| node_price(scenario, name)).sum();
    let (mut dearest, mut cheapest) = (0.0, 0.0);
    for (index, claim) in command.replacements.iter().enumerate() {
        let Some(view) = ClaimView::new(index, claim, &world) else { continue };
        let prices =
            || view.types.iter().flat_map(|listed| listed.offerings.iter().map(|offering| offering.price));
        dearest += prices().fold(0.0, f64::max);
        cheapest += prices().fold(f64::INFINITY, f64::min);
    }
    let mut complaints = Vec::new();
    if !command.replacements.is_empty() && dearest >= source {
        complaints.push(format!("the replacements may cost {dearest:.6}, the nodes cost {source:.6}"));
    }
    if (source - command.source_cost).abs() > PRICE_TOLERANCE {
        complaints.push(format!("sourceCost is {:.6}, the nodes cost {source:.6}", command.source_cost));
    }
    if (source - cheapest - command.savings).abs() > PRICE_TOLERANCE {
        complaints.push(format!("savings are {:.6}, not {:.6}", command.savings, source - cheapest));
    }
    complaints
}

fn node_price(scenario: &Value, name: &str) -> f64 {
    let by_name = |list: &'static str, name: &str| {
        let items = scenario[list].as_array().map_or(&[][..], Vec::as_slice);
        items.iter().find(|item| item["name"] == name).cloned().unwrap_or_default()
    };
    let node = by_name("nodes", name);
    let known = by_name("instanceTypes", node["instanceType"].as_str().unwrap_or_default());
    let offerings = known["offerings"].as_array().map_or(&[][..], Vec::as_slice);
    let matches = |offering: &&Value| offering[0] == node["zone"] && offering[1] == node["capacityType"];
    offerings.iter().find(matches).and_then(|offering| offering[2].as_f64()).unwrap_or(0.0)
}
