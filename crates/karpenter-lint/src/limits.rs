//! Limits: whether a single node fits into them, and whether they bound anything.

use std::sync::Arc;

use karpenter_core::catalog::InstanceType;
use karpenter_core::cluster::NodePool;
use karpenter_quantity::{NODES, Quantity, ResourceList};

use crate::finding::{Code, Finding, Object};

/// What the limits of a pool leave of the machines it may use.
pub(crate) fn check(pool: &NodePool, machines: &[&Arc<InstanceType>], object: &Object) -> Vec<Finding> {
    let Some(limits) = pool.limits.as_ref() else { return Vec::new() };
    let zero: Vec<Finding> = limits
        .iter()
        .filter(|(_, limit)| *limit <= Quantity::ZERO)
        .map(|(name, _)| {
            let remedy = "raise or remove the limit, unless the pool shall rest";
            let cause = format!("a limit of 0 for {name} keeps the pool from getting any node");
            Finding::new(Code::LimitZero, object, format!("spec.limits.{name}"), cause, remedy)
        })
        .collect();
    if !zero.is_empty() {
        return zero;
    }
    let mut findings: Vec<Finding> = limits
        .names()
        .filter(|name| *name != NODES && machines.iter().all(|machine| !machine.capacity.contains(name)))
        .map(|name| without_effect(name, machines, object))
        .collect();
    if !machines.iter().any(|machine| fits(&machine.capacity, limits)) {
        findings.push(below_one_node(limits, machines, object));
    }
    findings
}

fn without_effect(name: &str, machines: &[&Arc<InstanceType>], object: &Object) -> Finding {
    let known = machines.iter().flat_map(|machine| machine.capacity.names());
    let remedy = match crate::spelling::nearest(name, known) {
        Some(meant) => format!("did you mean {meant}? Otherwise remove it"),
        None => "remove it, or bound a resource the machines have, such as cpu, memory or nodes".to_owned(),
    };
    let cause = format!("none of the pool's machines has {name}, so the limit bounds nothing");
    Finding::new(Code::LimitWithoutEffect, object, format!("spec.limits.{name}"), cause, remedy)
}

fn below_one_node(limits: &ResourceList, machines: &[&Arc<InstanceType>], object: &Object) -> Finding {
    let smallest = |name: &str| machines.iter().map(|machine| machine.capacity.get(name)).min();
    let tight: Vec<(&str, Quantity, Quantity)> = limits
        .iter()
        .filter_map(|(name, limit)| Some((name, limit, smallest(name)?)))
        .filter(|(name, limit, smallest)| *name != NODES && smallest > limit)
        .collect();
    let Some((name, limit, least)) = tight.first() else {
        let cause = "each limit leaves some machine, but no machine keeps all of them";
        let remedy = "raise the limits until one machine fits them all";
        return Finding::new(Code::LimitBelowOneNode, object, "spec.limits", cause, remedy);
    };
    let cause = format!("the limit is {limit} {name}, and the smallest machine the pool may use has {least}");
    let remedy = format!("raise the limit to at least {least}, or allow smaller machines");
    Finding::new(Code::LimitBelowOneNode, object, format!("spec.limits.{name}"), cause, remedy)
}

fn fits(capacity: &ResourceList, limits: &ResourceList) -> bool {
    limits.iter().all(|(name, limit)| name == NODES || capacity.get(name) <= limit)
}

/// What a static pool asks for beside what its limit allows.
pub(crate) fn of_static(
    written: &karpenter_api::NodePool,
    pool: &NodePool,
    object: &Object,
) -> Option<Finding> {
    let replicas = written.spec.replicas?;
    let limit = pool.limits.as_ref().filter(|limits| limits.contains(NODES))?.get(NODES);
    (i128::from(replicas) > i128::from(limit.ceil_units())).then(|| {
        let cause = format!("{replicas} nodes are wanted and the limit is {limit}");
        let remedy = "raise spec.limits.nodes or lower spec.replicas";
        Finding::new(Code::ReplicasAboveLimit, object, "spec.replicas", cause, remedy)
    })
}
