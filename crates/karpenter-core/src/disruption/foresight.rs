//! Foresight: a move whose result would be moved again at once is not made as it stands.
//!
//! The cluster is imagined with the move carried out and looked at once more. If that look would take a node away that the move has just made,
//! both moves become one: the nodes of both go, and only what is left of both in the end is made. So pods are moved once instead of twice, and
//! no machine is bought for minutes. The joined move is surely cheaper because both were, the second one even against the cheapest machines of the first.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::moves::{Draft, Field};
use super::plan::{DisruptionCommand, DisruptionMethod, DisruptionOptions};
use super::plan_disruption;
use crate::catalog::{CAPACITY_TYPE, Catalog, HOSTNAME, INSTANCE_TYPE, ZONE};
use crate::cluster::{ClusterSnapshot, Labels, Node, NodeLife, NodeStage, Pod};
use crate::plan::ClaimPlan;
use crate::solver::Placed;

/// A chain of moves longer than this is not followed.
const ROUNDS_MAX: usize = 4;
/// In larger clusters a second look costs more time than moving a few pods twice costs anybody.
const NODES_MAX: usize = 500;
/// What imagined nodes are called; no node can have such a name.
const IMAGINED: &str = "imagined node ";

/// The move, or one that takes in what would have followed it.
pub(crate) fn foreseen(
    field: &Field<'_>,
    (snapshot, catalog): (&ClusterSnapshot, &Catalog),
    first: DisruptionCommand,
    now: Timestamp,
) -> DisruptionCommand {
    let mut command = first;
    for _ in 0..ROUNDS_MAX {
        if command.replacements.is_empty() || snapshot.nodes.len() > NODES_MAX {
            break;
        }
        let after = imagined(field, snapshot, catalog, &command);
        let next = following(&after, catalog, field.options, now);
        match next.and_then(|(next, pods)| joined(field, &command, &next, &pods)) {
            Some(both) => command = both,
            None => break,
        }
    }
    command
}

/// The move that another look would make with a node that was just made, and the pods it speaks of.
fn following(
    after: &ClusterSnapshot,
    catalog: &Catalog,
    options: &DisruptionOptions,
    now: Timestamp,
) -> Option<(DisruptionCommand, Vec<Arc<Pod>>)> {
    let options = DisruptionOptions {
        methods: vec![DisruptionMethod::MultiNodeConsolidation, DisruptionMethod::SingleNodeConsolidation],
        foresight: false,
        ..options.clone()
    };
    let plan = plan_disruption(after, catalog, &options, now);
    let next = plan.commands.into_iter().find(|command| command.candidates.iter().any(is_imagined))?;
    Some((next, plan.pods))
}

/// Both moves as one, if that is possible and budgets and pools agree.
fn joined(
    field: &Field<'_>,
    first: &DisruptionCommand,
    next: &DisruptionCommand,
    pods: &[Arc<Pod>],
) -> Option<DisruptionCommand> {
    // A node that is not there yet cannot be told that it gets more pods than it is made for.
    if next.existing.iter().any(|(name, _)| is_imagined(name)) {
        return None;
    }
    let known = field.stage.pods().iter().enumerate();
    let numbers: BTreeMap<&str, u32> = known.map(|(number, pod)| (&*pod.id.uid, number as u32)).collect();
    let renumbered = |list: &[u32]| -> Option<Vec<u32>> {
        list.iter().map(|pod| numbers.get(&*pods[*pod as usize].id.uid).copied()).collect()
    };
    let goes_again = |number: usize| next.candidates.iter().any(|name| **name == *imagined_name(number));
    let kept = first.replacements.iter().enumerate().filter(|(number, _)| !goes_again(*number));
    let mut replacements: Vec<ClaimPlan> = kept.map(|(_, claim)| claim.clone()).collect();
    for claim in &next.replacements {
        replacements.push(ClaimPlan { pods: renumbered(&claim.pods)?, ..claim.clone() });
    }
    let mut existing: BTreeMap<Arc<str>, Vec<u32>> = BTreeMap::new();
    for (name, moved) in first.existing.iter().filter(|(name, _)| !next.candidates.contains(name)) {
        existing.entry(name.clone()).or_default().extend(moved);
    }
    for (name, moved) in &next.existing {
        existing.entry(name.clone()).or_default().extend(renumbered(moved)?);
    }
    let goes = |name: &Arc<str>| first.candidates.contains(name) || next.candidates.contains(name);
    let all = 0..field.found.all.len();
    let nodes: Vec<usize> = all.filter(|number| goes(&field.candidate(*number).node.name)).collect();
    // An empty node goes by itself, for another reason and another budget.
    if nodes.iter().any(|number| field.candidate(*number).is_empty()) {
        return None;
    }
    let savings = first.savings + next.savings;
    if !within_budgets(field, &nodes) || field.worth_it(&nodes, savings).is_err() {
        return None;
    }
    let placed = Placed { claims: replacements, existing: existing.into_iter().collect() };
    Some(field.command(DisruptionMethod::MultiNodeConsolidation, Draft { nodes, savings, placed }))
}

fn within_budgets(field: &Field<'_>, nodes: &[usize]) -> bool {
    let mut of_pool: BTreeMap<&str, u32> = BTreeMap::new();
    for number in nodes {
        *of_pool.entry(&field.candidate(*number).pool.name).or_default() += 1;
    }
    let within = |number: &usize| field.budget(*number) >= of_pool[&*field.candidate(*number).pool.name];
    nodes.len() <= field.options.nodes_per_command && nodes.iter().all(within)
}

fn imagined_name(number: usize) -> Arc<str> {
    format!("{IMAGINED}{number}").into()
}

fn is_imagined(name: &Arc<str>) -> bool {
    name.starts_with(IMAGINED)
}

/// The cluster once the move has been made and everything is quiet again.
fn imagined(
    field: &Field<'_>,
    snapshot: &ClusterSnapshot,
    catalog: &Catalog,
    command: &DisruptionCommand,
) -> ClusterSnapshot {
    let pod = |index: &u32| Arc::clone(&field.stage.pods()[*index as usize]);
    let joining: BTreeMap<&Arc<str>, &Vec<u32>> =
        command.existing.iter().map(|(name, pods)| (name, pods)).collect();
    let mut after = snapshot.clone();
    after.nodes.retain(|node| !command.candidates.contains(&node.name));
    for node in &mut after.nodes {
        if let Some(pods) = joining.get(&node.name) {
            let grown = Arc::make_mut(node);
            grown.pods.extend(pods.iter().map(pod));
        }
    }
    for (number, claim) in command.replacements.iter().enumerate() {
        let made = made(claim, number, snapshot, catalog);
        let pods = claim.pods.iter().map(pod).collect();
        after.nodes.extend(made.map(|node| Arc::new(Node { pods, ..node })));
    }
    after
}

/// The node a claim becomes if it is launched as cheaply as can be.
fn made(claim: &ClaimPlan, number: usize, snapshot: &ClusterSnapshot, catalog: &Catalog) -> Option<Node> {
    let pool = snapshot.node_pools.iter().find(|pool| pool.name == claim.node_pool)?;
    let types = catalog.types(&claim.node_pool);
    let bought = types.iter().find(|known| known.name == claim.cheapest.instance_type)?;
    let name = imagined_name(number);
    let mut labels: Labels = pool.labels.clone();
    let settled =
        bought.requirements.iter().filter_map(|(key, set)| Some((key.clone(), set.single()?.clone())));
    labels.extend(settled);
    let asked = claim.requirements.iter().filter(|line| line.values.len() == 1);
    labels.extend(asked.map(|line| (line.key.clone(), line.values[0].clone())));
    labels.insert(INSTANCE_TYPE.into(), bought.name.clone());
    labels.insert(ZONE.into(), claim.cheapest.zone.clone());
    labels.insert(CAPACITY_TYPE.into(), claim.cheapest.capacity_type.clone());
    labels.insert(HOSTNAME.into(), name.clone());
    Some(Node {
        name,
        node_pool: Some(pool.name.clone()),
        stage: NodeStage::Initialized,
        labels: Arc::new(labels),
        taints: pool.taints.clone(),
        capacity: bought.capacity.clone(),
        allocatable: bought.allocatable(),
        // As old as can be: what it would come to in the end counts, not when.
        created: Timestamp::UNIX_EPOCH,
        deleting: false,
        volume_limits: bought.volume_limits.clone(),
        life: NodeLife::default(),
        pods: Vec::new(),
    })
}
