//! Which pods ReplicaSets should give up first when they shrink: those on nodes that are going anyway, then those on nodes that are likely to go.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::budget::{DisruptionReason, allowances};
use super::candidate::{Candidate, Candidates, DISRUPTED};
use super::plan::DisruptionOptions;
use crate::catalog::Catalog;
use crate::cluster::{ClusterSnapshot, Node};

/// What the pods of a node cost a ReplicaSet to give up, by node; pods of other nodes say nothing. `kept` are nodes with pods that nobody would make anew.
///
/// Nodes that are going have the least value there is. Drifted nodes and then nodes that may be consolidated follow, each group by what they save per
/// disturbance and as many as budgets let go now, with values up to -1.
pub fn deletion_costs(
    snapshot: &ClusterSnapshot,
    catalog: &Catalog,
    options: &DisruptionOptions,
    kept: &BTreeSet<Arc<str>>,
    now: Timestamp,
) -> BTreeMap<Arc<str>, i32> {
    let found = Candidates::new(snapshot, catalog, options, now);
    let going: BTreeSet<Arc<str>> =
        snapshot.nodes.iter().filter(|node| is_going(node, options)).map(|node| node.name.clone()).collect();
    let stays = |candidate: &Candidate<'_>| {
        let name = &candidate.node.name;
        candidate.refused || candidate.instance_type.is_none() || kept.contains(name) || going.contains(name)
    };
    let free: Vec<&Candidate<'_>> = found.all.iter().filter(|candidate| !stays(candidate)).collect();
    let likely = likely(free, snapshot, now);
    let count = i32::try_from(likely.len()).unwrap_or(i32::MAX);
    let mut costs: BTreeMap<Arc<str>, i32> =
        likely.into_iter().zip(0..).map(|(node, rank)| (node, rank - count)).collect();
    costs.extend(going.into_iter().map(|node| (node, i32::MIN)));
    costs
}

fn is_going(node: &Node, options: &DisruptionOptions) -> bool {
    let fenced = node.taints.iter().any(|taint| &*taint.key == DISRUPTED);
    node.node_pool.is_some() && (node.deleting || fenced || options.disrupting.contains(&node.name))
}

/// Nodes in the order in which they are likely to go, as many as budgets let go now. `free` are ordered by what they save.
fn likely(free: Vec<&Candidate<'_>>, snapshot: &ClusterSnapshot, now: Timestamp) -> Vec<Arc<str>> {
    let (drifted, rest): (Vec<_>, Vec<_>) =
        free.into_iter().partition(|candidate| candidate.replaceable.is_some());
    let quiet = rest.into_iter().filter(|candidate| candidate.quiet).collect();
    let mut likely = Vec::new();
    for (reason, group) in [(DisruptionReason::Drifted, drifted), (DisruptionReason::Underutilized, quiet)] {
        let allowed = allowances(snapshot, reason, now);
        let mut left: BTreeMap<&str, u32> =
            allowed.iter().map(|(pool, allowance)| (&**pool, allowance.remaining())).collect();
        for candidate in group {
            if let Some(left) = left.get_mut(&*candidate.pool.name).filter(|left| **left > 0) {
                *left -= 1;
                likely.push(candidate.node.name.clone());
            }
        }
    }
    likely
}
