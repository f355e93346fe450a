//! Pools by themselves and beside each other: how long nodes live, whether anything bounds them, which pool comes first.

use jiff::SignedDuration;
use karpenter_api::{NillableDuration, NodePool};
use karpenter_core::requirements::RequirementSet;

use crate::Facts;
use crate::finding::{Code, Finding, Object};

/// A node that lives shorter spends much of its life starting and draining: it has a quarter of an hour to register.
const SHORT_LIFE: SignedDuration = SignedDuration::from_mins(30);

pub(crate) fn check(pool: &NodePool, object: &Object) -> Vec<Finding> {
    let mut findings = Vec::new();
    let defaulted = pool.clone().defaulted();
    let life = defaulted.spec.template.spec.expire_after.as_ref().and_then(NillableDuration::value);
    let disruption = defaulted.spec.disruption.as_ref();
    let quiet = disruption
        .and_then(|disruption| disruption.consolidate_after.as_ref())
        .and_then(NillableDuration::value);
    if let (Some(life), Some(quiet)) = (life, quiet)
        && quiet >= life
        && !pool.is_static()
    {
        findings.push(Finding::new(
            Code::NeverConsolidated,
            object,
            "spec.disruption.consolidateAfter",
            format!(
                "nodes expire after {life:#} and must be quiet for {quiet:#} before they are consolidated"
            ),
            "shorten consolidateAfter, or write Never if nothing shall be consolidated",
        ));
    }
    if let Some(life) = life.filter(|life| *life < SHORT_LIFE) {
        findings.push(Finding::new(
            Code::ShortLife,
            object,
            "spec.template.spec.expireAfter",
            format!("nodes are replaced when they are {life:#} old"),
            "give them at least some hours, or Never: expiration does not wait for budgets",
        ));
    }
    if pool.spec.limits.is_none() && !pool.is_static() {
        findings.push(Finding::new(
            Code::NoLimits,
            object,
            "spec",
            "nothing bounds how much the pool may launch",
            "set spec.limits, for example cpu and memory, to what you are ready to pay for",
        ));
    }
    findings
}

/// Pools of one weight that serve the same pods.
pub(crate) fn twins(facts: &Facts<'_>) -> Vec<Finding> {
    let read = |pool: &&NodePool| karpenter_kube::node_pool::node_pool(pool, facts.rules).ok();
    let dynamic = facts.node_pools.iter().copied().filter(|pool| !pool.is_static());
    let pools: Vec<_> = dynamic.filter_map(|pool| Some((pool, read(&pool)?))).collect();
    let mut findings = Vec::new();
    for (index, (pool, own)) in pools.iter().enumerate() {
        let twin = pools[..index].iter().find(|(_, other)| {
            let mine: RequirementSet = own.requirements.iter().collect();
            let theirs: RequirementSet = other.requirements.iter().collect();
            own.weight == other.weight
                && own.taints == other.taints
                && mine.intersect(&theirs).contradiction().is_none()
        });
        if let Some((_, other)) = twin {
            findings.push(Finding::new(
                Code::EqualWeights,
                &Object::node_pool(pool),
                "spec.weight",
                format!("pods that fit {} fit {} as well, and both have weight {}", own.name, other.name, own.weight),
                "give the pool you prefer a higher weight, or make their requirements or taints exclude each other",
            ));
        }
    }
    findings
}
