//! PodDisruptionBudgets: whether they can ever let a pod go.

use k8s_openapi::api::policy::v1 as policy;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use karpenter_core::cluster::DisruptionBudget;

use crate::invalid::{At, Invalid};
use crate::selector::selector;

/// A PodDisruptionBudget.
pub fn disruption_budget(object: &policy::PodDisruptionBudget) -> Result<DisruptionBudget, Invalid> {
    let spec = object.spec.as_ref();
    let allowed = object.status.as_ref().and_then(|status| status.disruptions_allowed).unwrap_or(0);
    Ok(DisruptionBudget {
        name: object.metadata.name.as_deref().unwrap_or_default().into(),
        namespace: object.metadata.namespace.as_deref().unwrap_or("default").into(),
        selector: spec
            .and_then(|spec| spec.selector.as_ref())
            .map(selector)
            .transpose()
            .at("spec.selector")?,
        never_allows: spec.is_some_and(never_allows),
        disruptions_allowed: u32::try_from(allowed).unwrap_or(0),
        always_allows_unhealthy: spec
            .and_then(|spec| spec.unhealthy_pod_eviction_policy.as_deref())
            .is_some_and(|policy| policy == "AlwaysAllow"),
    })
}

fn never_allows(spec: &policy::PodDisruptionBudgetSpec) -> bool {
    let is = |value: &Option<IntOrString>, number: Option<i32>, text: &str| match value {
        Some(IntOrString::Int(value)) => Some(*value) == number,
        Some(IntOrString::String(value)) => value == text,
        None => false,
    };
    is(&spec.max_unavailable, Some(0), "0%") || is(&spec.min_available, None, "100%")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn only_a_spec_that_can_never_let_a_pod_go_blocks_for_good() {
        let blocks = |spec: Value| {
            let object = serde_json::from_value(json!({ "spec": spec })).unwrap();
            disruption_budget(&object).unwrap().never_allows
        };
        for blocking in [
            json!({ "maxUnavailable": 0 }),
            json!({ "maxUnavailable": "0%" }),
            json!({ "minAvailable": "100%" }),
        ] {
            assert!(blocks(blocking.clone()), "{blocking}");
        }
        for allowing in [
            json!({ "maxUnavailable": 1 }),
            json!({ "minAvailable": 100 }),
            json!({ "minAvailable": "99%" }),
            json!({}),
        ] {
            assert!(!blocks(allowing.clone()), "{allowing}");
        }
    }
}
