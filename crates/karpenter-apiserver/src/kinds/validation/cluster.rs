//! Rules of budgets, leases, priority classes and autoscalers.

use super::{autoscaler, scheduling, workload};
use crate::error::FieldError;
use crate::kinds::place::{Errors, Place};

pub(super) fn validate(resource: &str, object: &Place<'_, '_>, errors: &mut Errors) {
    match resource {
        "poddisruptionbudgets.policy" => disruption_budget(&object.field("spec"), errors),
        "priorityclasses.scheduling.k8s.io" => priority_class(object, errors),
        "leases.coordination.k8s.io" => lease(&object.field("spec"), errors),
        "horizontalpodautoscalers.autoscaling" => autoscaler::validate(&object.field("spec"), errors),
        _ => {}
    }
}

fn disruption_budget(spec: &Place<'_, '_>, errors: &mut Errors) {
    let (min, max) = (spec.field("minAvailable"), spec.field("maxUnavailable"));
    if min.is_set() && max.is_set() {
        errors.push(spec.invalid("minAvailable and maxUnavailable cannot be both set"));
    }
    for bound in [&min, &max] {
        if bound.is_set() {
            workload::amount(bound, errors);
            let share = bound.text().strip_suffix('%').and_then(|digits| digits.parse::<i64>().ok());
            if share.is_some_and(|share| share > 100) {
                errors.push(bound.invalid("must not be greater than 100%"));
            }
        }
    }
    scheduling::label_selector(&spec.field("selector"), errors);
    errors.one_of_or_none(&spec.field("unhealthyPodEvictionPolicy"), &["AlwaysAllow", "IfHealthyBudget"]);
}

fn priority_class(class: &Place<'_, '_>, errors: &mut Errors) {
    let name = class.value["metadata"]["name"].as_str().unwrap_or_default();
    let value = class.field("value");
    let number = value.number().unwrap_or(0);
    if name.starts_with("system-") {
        if let Some(why) = not_of_the_system(name, number, class.field("globalDefault").flag()) {
            let rule = "priority class names with 'system-' prefix are reserved for system use only. error: ";
            errors.push(FieldError::forbidden("metadata.name", &format!("{rule}{why}")));
        }
    } else if number > 1_000_000_000 {
        errors.push(value.forbidden("maximum allowed value of a user defined priority is 1000000000"));
    }
    let policy = class.field("preemptionPolicy");
    if policy.is_set() {
        errors.one_of(&policy, &["PreemptLowerPriority", "Never"]);
    }
}

/// Why a class is none of those that every cluster has.
fn not_of_the_system(name: &str, value: i64, is_default: bool) -> Option<String> {
    let known = match name {
        "system-cluster-critical" => 2_000_000_000,
        "system-node-critical" => 2_000_001_000,
        _ => return Some(format!("{name} is not a known system priority class")),
    };
    if value != known {
        return Some(format!("value of {name} PriorityClass must be {known}"));
    }
    is_default.then(|| format!("globalDefault of {name} PriorityClass must be false"))
}

fn lease(spec: &Place<'_, '_>, errors: &mut Errors) {
    let duration = spec.field("leaseDurationSeconds");
    if duration.number().is_some_and(|seconds| seconds <= 0) {
        errors.push(duration.invalid("must be greater than 0"));
    }
    errors.not_negative(&spec.field("leaseTransitions"));
}
