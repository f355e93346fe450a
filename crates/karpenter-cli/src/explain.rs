//! A plan as a text for people: what would be created, and why some pods have no place.

use std::collections::BTreeMap;
use std::fmt::Write;

use karpenter_kube::scenario::{Claim, Command, DisruptionOutcome, ExistingNode, Explanation, Outcome};

/// How many existing nodes are listed before the rest is only counted.
const EXISTING_NODES_SHOWN: usize = 20;

/// The text for one scenario.
pub(crate) fn explain(outcome: &Outcome) -> String {
    let mut text = String::new();
    write_summary(&mut text, outcome).expect("a string takes any text");
    text
}

/// The text for one scenario with `mode: disrupt`.
pub(crate) fn explain_disruption(outcome: &DisruptionOutcome) -> String {
    let mut text = String::new();
    write_disruption(&mut text, outcome).expect("a string takes any text");
    text
}

fn write_disruption(text: &mut String, outcome: &DisruptionOutcome) -> std::fmt::Result {
    let title = if outcome.name.is_empty() { "scenario" } else { outcome.name.as_str() };
    let stats = &outcome.stats;
    writeln!(
        text,
        "{title}: {}; up to {:.4} per hour can be saved",
        counted(stats.nodes, "node"),
        stats.savings
    )?;
    for command in &outcome.disruption {
        write_command(text, command)?;
    }
    outcome.explanations.iter().try_for_each(|explanation| writeln!(text, "  {}", explanation.message))
}

fn write_command(text: &mut String, command: &Command) -> std::fmt::Result {
    writeln!(
        text,
        "  {:?}: {} {} ({:.4} per hour), saving {:.4} per hour",
        command.method,
        command.decision,
        command.candidates.join(", "),
        command.source_cost,
        command.savings
    )?;
    write_claims(text, &command.replacements)
}

fn write_summary(text: &mut String, outcome: &Outcome) -> std::fmt::Result {
    let title = if outcome.name.is_empty() { "scenario" } else { outcome.name.as_str() };
    let stats = &outcome.stats;
    let existing: usize = outcome.existing_nodes.iter().map(|node| node.pods.len()).sum();
    writeln!(
        text,
        "{title}: {} to place; {} for {:.4} per hour; {existing} fit on existing nodes; {} without a place",
        counted(stats.pods, "pod"),
        counted(stats.nodes, "new node"),
        stats.price,
        stats.unschedulable,
    )?;
    write_claims(text, &outcome.new_node_claims)?;
    write_existing(text, &outcome.existing_nodes)?;
    for explanation in &outcome.explanations {
        write_explanation(text, explanation)?;
    }
    for (reason, pods) in by_reason(&outcome.ignored) {
        writeln!(text, "  not considered: {}{}: {reason}", pods[0], and_others(pods.len()))?;
    }
    Ok(())
}

fn write_existing(text: &mut String, nodes: &[ExistingNode]) -> std::fmt::Result {
    for node in nodes.iter().take(EXISTING_NODES_SHOWN) {
        writeln!(text, "  existing node {} takes {}", node.name, counted(node.pods.len(), "pod"))?;
    }
    match nodes.len().checked_sub(EXISTING_NODES_SHOWN) {
        None | Some(0) => Ok(()),
        Some(more) => writeln!(text, "  {} more take pods", counted(more, "existing node")),
    }
}

/// One line per NodePool, because each has its own obstacle.
fn write_explanation(text: &mut String, explanation: &Explanation) -> std::fmt::Result {
    let pods = counted(explanation.pods, "pod");
    writeln!(text, "  no place for {pods} of {} (such as {}):", explanation.group, explanation.example)?;
    let pools = &explanation.reason.node_pools;
    if explanation.reason.cause.is_some() || pools.is_empty() {
        return writeln!(text, "    {}", explanation.message);
    }
    pools.iter().try_for_each(|pool| writeln!(text, "    nodepool {}: {}", pool.node_pool, pool.obstacle))
}

fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

fn and_others(count: usize) -> String {
    if count == 1 { String::new() } else { format!(" and {} others", count - 1) }
}

fn by_reason(pods: &BTreeMap<String, String>) -> BTreeMap<&str, Vec<&str>> {
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (pod, reason) in pods {
        reasons.entry(reason).or_default().push(pod);
    }
    reasons
}

/// A table with one line per kind of claim: claims that would be bought alike are counted, not repeated.
fn write_claims(text: &mut String, claims: &[Claim]) -> std::fmt::Result {
    let header = ["NODES", "NODEPOOL", "PODS", "CHEAPEST TYPE", "ZONE", "CAPACITY", "PRICE", "TYPES"];
    let mut kinds: Vec<([String; 7], usize)> = Vec::new();
    for claim in claims {
        let row = row(claim);
        match kinds.iter_mut().find(|(known, _)| *known == row) {
            Some((_, count)) => *count += 1,
            None => kinds.push((row, 1)),
        }
    }
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    rows.extend(kinds.into_iter().map(|(row, count)| [vec![count.to_string()], row.to_vec()].concat()));
    if rows.len() == 1 {
        return Ok(());
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    for row in &rows {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        writeln!(text, "  {}", cells.join("  ").trim_end())?;
    }
    Ok(())
}

fn row(claim: &Claim) -> [String; 7] {
    let cheapest = &claim.cheapest;
    [
        claim.node_pool.clone(),
        claim.pods.len().to_string(),
        cheapest.instance_type.clone(),
        cheapest.zone.clone(),
        cheapest.capacity_type.clone(),
        format!("{:.4}", cheapest.price),
        claim.instance_types.len().to_string(),
    ]
}
