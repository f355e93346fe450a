//! Which pods take part in a plan: pending pods that pass validation, and pods of nodes that are going away.

use std::sync::Arc;

use crate::catalog::NODE_POOL;
use crate::cluster::{ClusterSnapshot, DisruptionBudget, LabelRules, Pod, PodPhase, PodSpec};
use crate::plan::{Ignored, PodIndex};
use crate::requirements::{Operator, Requirement};

use super::volumes;

/// The pods of a plan, and which of them are left out.
pub(crate) struct Eligible {
    /// Pending pods, then pods of deleting nodes.
    pub(crate) pods: Vec<Arc<Pod>>,
    /// Indices of the pods that need a place.
    pub(crate) wanted: Vec<PodIndex>,
    pub(crate) ignored: Vec<(PodIndex, Ignored)>,
}

pub(crate) fn eligible(snapshot: &ClusterSnapshot) -> Eligible {
    let mut result = Eligible { pods: snapshot.pending.clone(), wanted: Vec::new(), ignored: Vec::new() };
    let mut checked: Option<(&Arc<PodSpec>, Result<(), Ignored>)> = None;
    for (index, pod) in snapshot.pending.iter().enumerate() {
        // Pods of one workload come together and share their spec: what was said of the last one holds for the next.
        let verdict = match &checked {
            Some((spec, verdict)) if Arc::ptr_eq(spec, &pod.spec) => verdict.clone(),
            _ => validate(&pod.spec, &snapshot.label_rules),
        };
        checked = Some((&pod.spec, verdict.clone()));
        match verdict.and_then(|()| volumes::validate(pod, snapshot)) {
            Ok(()) => result.wanted.push(index as PodIndex),
            Err(reason) => result.ignored.push((index as PodIndex, reason)),
        }
    }
    for node in snapshot.nodes.iter().filter(|node| node.deleting) {
        for pod in node.pods.iter().filter(|pod| leaves_with_node(pod, &snapshot.disruption_budgets)) {
            result.wanted.push(result.pods.len() as PodIndex);
            result.pods.push(pod.clone());
        }
    }
    result
}

/// Whether a pod of a leaving node can leave now and so needs a new place.
pub(crate) fn leaves_with_node(pod: &Pod, budgets: &[DisruptionBudget]) -> bool {
    if !pod.is_reschedulable() || (pod.is_active() && pod.do_not_disrupt) {
        return false;
    }
    let covering: Vec<_> = covering(pod, budgets).collect();
    let exempt = |budget: &DisruptionBudget| budget.always_allows_unhealthy && pod.phase != PodPhase::Running;
    covering.len() <= 1 && covering.iter().all(|budget| !budget.never_allows || exempt(budget))
}

/// The PodDisruptionBudgets that cover a pod.
pub(crate) fn covering<'b>(
    pod: &Pod,
    budgets: &'b [DisruptionBudget],
) -> impl Iterator<Item = &'b DisruptionBudget> {
    budgets.iter().filter(move |budget| {
        budget.namespace == pod.id.namespace
            && budget.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels))
    })
}

/// Checks what the pod asks of nodes.
fn validate(spec: &PodSpec, rules: &LabelRules) -> Result<(), Ignored> {
    if spec.uses_match_fields {
        return Err(Ignored(
            "node affinity with matchFields names nodes that exist; use matchExpressions on labels"
                .to_owned(),
        ));
    }
    for key in spec.node_selector.keys() {
        check_key(key, rules)?;
    }
    for requirement in spec.required_terms.iter().flatten() {
        check(requirement, rules)?;
    }
    Ok(())
}

fn check(requirement: &Requirement, rules: &LabelRules) -> Result<(), Ignored> {
    if &*requirement.key == NODE_POOL && requirement.operator == Operator::DoesNotExist {
        return Err(Ignored(format!("the pod refuses nodes of any NodePool ({NODE_POOL} DoesNotExist)")));
    }
    check_key(&requirement.key, rules)?;
    requirement.validate().map_err(|error| Ignored(format!("node affinity: {error}")))
}

fn check_key(key: &str, rules: &LabelRules) -> Result<(), Ignored> {
    if rules.is_restricted(key) {
        return Err(Ignored(format!("label {key} is restricted: pods cannot select nodes by it")));
    }
    Ok(())
}
