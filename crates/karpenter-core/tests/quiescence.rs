//! Sweeps repeated until nothing moves any more: every move saves, nothing that was just made is moved again, and there is an end.

use std::collections::BTreeSet;
use std::sync::Arc;

use karpenter_core::cluster::{Node, NodeStage};
use karpenter_core::disruption::{DisruptionCommand, PoolDisruption};
use karpenter_core::{DisruptionOptions, DisruptionPlan, SolverOptions, plan_provisioning};

use crate::disruption::{cluster, node, planned_at};

/// Numbers that look random and are the same every time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// A small cluster that grew without a plan.
fn generated(seed: u64) -> Vec<Node> {
    let mut numbers = Numbers(seed);
    let count = 3 + numbers.below(14);
    grown(&mut numbers, count)
}

/// Nodes of all sizes, partly empty.
fn grown(numbers: &mut Numbers, count: u64) -> Vec<Node> {
    (0..count)
        .map(|index| {
            let cores = [2, 4, 8, 16][numbers.below(4) as usize];
            let mut left = numbers.below(cores as u64 + 1) as i64;
            let mut pods = Vec::new();
            while left > 0 {
                let size = 1 + numbers.below(left.min(6) as u64) as i64;
                pods.push(size);
                left -= size;
            }
            node(&format!("n{index}"), cores, &pods)
        })
        .collect()
}

/// What machines cost by their cores: as much as cores, less for large ones, more for large ones, and with a jump.
const PRICES: [fn(i64) -> f64; 4] = [
    |cores| cores as f64,
    |cores| (cores as f64).powf(0.8),
    |cores| (cores as f64).powf(1.2),
    |cores| cores as f64 + if cores > 4 { 1.5 } else { 0.0 },
];

fn cost(nodes: &[Node], price: fn(i64) -> f64) -> f64 {
    let cores = |node: &Node| node.labels["node.kubernetes.io/instance-type"][1..].parse();
    nodes.iter().map(|node| price(cores(node).expect("named by its cores"))).sum()
}

fn pods(nodes: &[Node]) -> BTreeSet<String> {
    nodes.iter().flat_map(|node| node.pods.iter().map(|pod| pod.key())).collect()
}

/// The cluster after a command; names of new nodes begin with `made`.
fn carried_out(
    nodes: &[Node],
    plan: &DisruptionPlan,
    command: &DisruptionCommand,
    round: usize,
) -> Vec<Node> {
    let mut after: Vec<Node> =
        nodes.iter().filter(|node| !command.candidates.contains(&node.name)).cloned().collect();
    for (name, moved) in &command.existing {
        let place = after.iter_mut().find(|node| node.name == *name).expect("a node that stays");
        place.pods.extend(moved.iter().map(|pod| Arc::clone(&plan.pods[*pod as usize])));
    }
    for (index, claim) in command.replacements.iter().enumerate() {
        let cores: i64 = claim.cheapest.instance_type[1..].parse().expect("named by its cores");
        let mut new = node(&format!("made-{round}-{index}"), cores, &[]);
        new.stage = NodeStage::Initialized;
        new.pods = claim.pods.iter().map(|pod| Arc::clone(&plan.pods[*pod as usize])).collect();
        after.push(new);
    }
    after
}

/// Sweeps until nothing is found; returns the nodes, and how many nodes made on the way went again.
fn settled(mut nodes: Vec<Node>, price: fn(i64) -> f64, options: &DisruptionOptions) -> (Vec<Node>, usize) {
    let everything = pods(&nodes);
    let mut again = 0;
    for round in 0..100 {
        let plan = planned_at(price, nodes.clone(), options);
        let Some(command) = plan.commands.first() else { return (nodes, again) };
        again += command.candidates.iter().filter(|name| name.starts_with("made")).count();
        let after = carried_out(&nodes, &plan, command, round);
        assert_eq!(pods(&after), everything, "every pod has a place");
        assert!(cost(&after, price) < cost(&nodes, price), "a move that saves nothing: {command:?}");
        nodes = after;
    }
    panic!("a hundred sweeps were not enough");
}

/// Settles a hundred clusters; returns how many nodes made on the way went again.
fn made_in_vain(options: &DisruptionOptions) -> usize {
    let settle = |seed: usize| {
        let price = PRICES[seed % PRICES.len()];
        let (nodes, again) = settled(generated(seed as u64), price, options);
        assert!(planned_at(price, nodes, options).commands.is_empty(), "seed {seed}");
        again
    };
    (0..100).map(settle).sum()
}

#[test]
fn sweeps_come_to_an_end_and_nothing_is_moved_that_was_just_made() {
    assert_eq!(made_in_vain(&DisruptionOptions::default()), 0);
    let blind = DisruptionOptions { foresight: false, ..DisruptionOptions::default() };
    assert!(made_in_vain(&blind) > 0, "among these clusters are some where foresight is needed");
}

/// What all pods would cost if nothing were there yet.
fn cost_made_anew(nodes: &[Node], price: fn(i64) -> f64) -> f64 {
    let (mut snapshot, catalog) = cluster(PoolDisruption::default(), price, Vec::new());
    snapshot.pending = nodes.iter().flat_map(|node| node.pods.iter().cloned()).collect();
    let plan = plan_provisioning(&snapshot, &catalog, &SolverOptions::default());
    plan.claims.iter().map(|claim| claim.cheapest.price).sum()
}

#[test]
fn a_cluster_at_rest_costs_little_more_than_one_made_anew() {
    for seed in 0..12 {
        let price = PRICES[seed % PRICES.len()];
        let nodes = grown(&mut Numbers(seed as u64), 80);
        let anew = cost_made_anew(&nodes, price);
        let (rest, _) = settled(nodes, price, &DisruptionOptions::default());
        let rest = cost(&rest, price);
        assert!(rest < 1.02 * anew, "seed {seed}: {rest} at rest, {anew} made anew");
    }
}
