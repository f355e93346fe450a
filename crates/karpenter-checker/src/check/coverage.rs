//! Every pending pod has exactly one fate, and the plan names nothing that does not exist.

use std::collections::{BTreeMap, BTreeSet};

use crate::plan::PlanResult;
use crate::violation::{Violation, ViolationKind};
use crate::world::World;

pub(super) fn violations(world: &World<'_>, result: &PlanResult) -> Vec<Violation> {
    let mut violations = unknown_names(world, result);
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for pod in fates(result) {
        *seen.entry(pod).or_default() += 1;
    }
    for pod in world.pending.keys() {
        match seen.remove(pod.as_str()).unwrap_or(0) {
            1 => {}
            0 => violations.push(Violation::new(
                ViolationKind::Coverage,
                pod,
                "the plan does not mention the pod",
            )),
            n => {
                let message = format!("the plan mentions the pod {n} times");
                violations.push(Violation::new(ViolationKind::Coverage, pod, message));
            }
        }
    }
    let strangers = seen.into_keys();
    violations.extend(
        strangers.map(|pod| Violation::new(ViolationKind::UnknownPod, pod, "the pod is not pending")),
    );
    violations
}

fn fates(result: &PlanResult) -> impl Iterator<Item = &str> {
    let on_claims = result.new_node_claims.iter().flat_map(|claim| &claim.pods);
    let on_nodes = result.existing_nodes.iter().flat_map(|node| &node.pods);
    let placed = on_claims.chain(on_nodes);
    placed.chain(result.errors.keys()).chain(result.ignored.keys()).map(String::as_str)
}

fn unknown_names(world: &World<'_>, result: &PlanResult) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (index, claim) in result.new_node_claims.iter().enumerate() {
        let subject = format!("newNodeClaims[{index}]");
        match world.pools.get(claim.node_pool.as_str()) {
            None => {
                let message = format!("there is no node pool `{}`", claim.node_pool);
                violations.push(Violation::new(ViolationKind::UnknownPool, subject, message));
            }
            Some(facts) if facts.pool.spec.replicas.is_some() => {
                let message = format!("node pool `{}` has a fixed size and takes no claims", claim.node_pool);
                violations.push(Violation::new(ViolationKind::UnknownPool, subject, message));
            }
            Some(_) => {}
        }
    }
    let mut named = BTreeSet::new();
    for assignment in &result.existing_nodes {
        let node = world.nodes.iter().find(|n| n.name == assignment.name);
        let message = match node {
            None => "there is no such node",
            Some(node) if node.node.deleting => "the node is being deleted and takes no pods",
            Some(_) if !named.insert(&assignment.name) => "the plan mentions the node twice",
            Some(_) => continue,
        };
        violations.push(Violation::new(ViolationKind::UnknownNode, &assignment.name, message));
    }
    violations
}
