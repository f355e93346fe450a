//! Which pods of a node marked for deletion will need a new place.

use serde_json::Value;

use crate::pod::Pod;
use crate::scenario::PodDisruptionBudget;
use crate::selector::selects;

/// Tells whether the pod of a node marked for deletion joins the pending pods.
///
/// Daemons and mirror pods go down with their node; a pod nobody may evict is not planned for until it may be.
pub(crate) fn leaves_deleting_node(pod: &Pod, budgets: &[PodDisruptionBudget]) -> bool {
    let stays_by_owner =
        pod.metadata.owner_references.iter().any(|o| o.kind == "DaemonSet" || o.kind == "Node");
    let refused = pod.metadata.annotations.get("karpenter.sh/do-not-disrupt").is_some_and(|v| v == "true");
    !stays_by_owner && !refused && !is_blocked(pod, budgets)
}

/// Several budgets on one pod make the eviction API refuse, as does one that never allows a disruption.
fn is_blocked(pod: &Pod, budgets: &[PodDisruptionBudget]) -> bool {
    let matching: Vec<&PodDisruptionBudget> = budgets
        .iter()
        .filter(|b| {
            b.metadata.namespace_or_default() == pod.metadata.namespace_or_default()
                && selects(b.spec.selector.as_ref(), &pod.metadata.labels)
        })
        .collect();
    matching.len() > 1 || matching.iter().any(|b| never_allows(b))
}

fn never_allows(budget: &PodDisruptionBudget) -> bool {
    let is = |value: &Option<Value>, text: &str| value.as_ref().and_then(Value::as_str) == Some(text);
    let zero = budget.spec.max_unavailable.as_ref().and_then(Value::as_i64) == Some(0);
    zero || is(&budget.spec.max_unavailable, "0%") || is(&budget.spec.min_available, "100%")
}
