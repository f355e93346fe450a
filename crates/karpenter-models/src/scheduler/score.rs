//! Which of the nodes that would take a pod is best: the plugins and weights of kube-scheduler's default profile, in whole
//! numbers.
//!
//! Least allocated and balanced cpu and memory, taints the pod dislikes, preferred node affinity, soft spreading, preferred pod
//! affinity. Images play no part: models pull none. Equal scores go to the node tried first, where the real one draws lots.

use super::cluster::{ClassState, Cluster, CounterKind};
use super::nodes::NodeState;

const FULL: i64 = 100;
const TAINT_WEIGHT: i64 = 3;
const NODE_AFFINITY_WEIGHT: i64 = 2;
const SPREAD_WEIGHT: i64 = 2;
const POD_AFFINITY_WEIGHT: i64 = 2;

/// Returns the best of `nodes`, which must not be empty, for a pod of a class.
pub(crate) fn best_node(cluster: &Cluster, class_id: u32, nodes: &[u32]) -> u32 {
    let class = cluster.classes.get(class_id);
    let mut totals: Vec<i64> = nodes.iter().map(|node| room(class, cluster.nodes.get(*node))).collect();
    add_disliked_taints(cluster, class_id, nodes, &mut totals);
    add_preferred_nodes(cluster, class_id, nodes, &mut totals);
    add_spread(cluster, class_id, nodes, &mut totals);
    add_preferred_pods(cluster, class, nodes, &mut totals);
    let mut best = 0;
    for (place, total) in totals.iter().enumerate() {
        if *total > totals[best] {
            best = place;
        }
    }
    nodes[best]
}

/// Room left and how evenly cpu and memory are used.
fn room(class: &ClassState, node: &NodeState) -> i64 {
    // Cpu and memory are the first two resources any cluster names; one that lacks them scores nothing.
    let mut used = [FULL; 2];
    for (place, name) in [karpenter_quantity::CPU, karpenter_quantity::MEMORY].iter().enumerate() {
        let offered =
            node.facts.allocatable.iter().find(|(held, _)| held == name).map_or(0, |(_, amount)| *amount);
        if offered > 0 {
            let taken = node.weighed[place] + class.weighed[place];
            used[place] =
                (i128::from(taken) * i128::from(FULL) / i128::from(offered)).min(i128::from(FULL)) as i64;
        }
    }
    let least = (FULL - used[0] + FULL - used[1]) / 2;
    let balance = FULL - (used[0] - used[1]).abs() / 2;
    least + balance
}

fn add_disliked_taints(cluster: &Cluster, class: u32, nodes: &[u32], totals: &mut [i64]) {
    let rules = &cluster.classes.key(class).rules;
    let disliked: Vec<i64> = nodes
        .iter()
        .map(|node| rules.count_disliked(&cluster.nodes.get(*node).facts.taints) as i64)
        .collect();
    add_scaled(&disliked, totals, -TAINT_WEIGHT);
}

fn add_preferred_nodes(cluster: &Cluster, class: u32, nodes: &[u32], totals: &mut [i64]) {
    let preferred = &cluster.classes.key(class).preferred_nodes;
    if preferred.is_empty() {
        return;
    }
    let liked = |node: &NodeState| {
        let matching = preferred.iter().filter(|(_, term)| term.matches(&node.name, &node.facts.labels));
        matching.map(|(weight, _)| *weight).sum()
    };
    let sums: Vec<i64> = nodes.iter().map(|node| liked(cluster.nodes.get(*node))).collect();
    add_scaled(&sums, totals, NODE_AFFINITY_WEIGHT);
}

fn add_spread(cluster: &Cluster, class_id: u32, nodes: &[u32], totals: &mut [i64]) {
    let class = cluster.classes.get(class_id);
    let by_default = cluster.classes.key(class_id).spreads_by_default;
    if class.soft_spread.is_empty() {
        return;
    }
    let crowd = |node: &NodeState| {
        let mut crowd = 0;
        for spread in &class.soft_spread {
            let counts = &cluster.counters.get(spread.counter).counts;
            let domains = i64::from((counts.domains() + 2).ilog2());
            crowd += node.domain(spread.key).map_or(0, |domain| i64::from(counts.pods(domain)) * domains);
        }
        if by_default {
            let place = node.tallies.binary_search_by_key(&class_id, |tally| tally.class);
            let alike = place.map_or(0, |place| i64::from(node.tallies[place].pods));
            crowd += alike * i64::from((cluster.node_count() + 2).ilog2());
        }
        crowd
    };
    let crowds: Vec<i64> = nodes.iter().map(|node| crowd(cluster.nodes.get(*node))).collect();
    add_scaled(&crowds, totals, -SPREAD_WEIGHT);
}

fn add_preferred_pods(cluster: &Cluster, class: &ClassState, nodes: &[u32], totals: &mut [i64]) {
    let mut pulls = class.drawn_to.clone();
    for matcher in &class.matched {
        for id in cluster.matchers.get(*matcher) {
            let spec = cluster.counters.key(*id);
            if let CounterKind::Drawn { weight } = spec.kind {
                pulls.push((weight, spec.key, *id));
            }
        }
    }
    if pulls.is_empty() {
        return;
    }
    let pull = |node: &NodeState| {
        let each = pulls.iter().filter_map(|(weight, key, counter)| {
            let counts = &cluster.counters.get(*counter).counts;
            node.domain(*key).map(|domain| weight * i64::from(counts.pods(domain)))
        });
        each.sum()
    };
    let sums: Vec<i64> = nodes.iter().map(|node| pull(cluster.nodes.get(*node))).collect();
    add_scaled(&sums, totals, POD_AFFINITY_WEIGHT);
}

/// Adds values, brought to the range from 0 to 100 between the smallest and the largest, times a weight.
fn add_scaled(values: &[i64], totals: &mut [i64], weight: i64) {
    let (Some(least), Some(most)) = (values.iter().min(), values.iter().max()) else { return };
    if least == most {
        return;
    }
    for (total, value) in totals.iter_mut().zip(values) {
        *total += weight * (FULL * (value - least) / (most - least));
    }
}
