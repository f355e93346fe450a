//! Rules of nodes, budgets, leases, priority classes, autoscalers, devices, and of statuses.

use serde_json::Value;

use super::scheduling::{self, TAINT_EFFECTS};
use super::{autoscaler, resources, workload};
use crate::error::FieldError;
use crate::kinds::format;
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

pub(super) fn node(node: &Place<'_, '_>, errors: &mut Errors) {
    let spec = node.field("spec");
    // Kubernetes names another place than the one where they stand.
    taints(&Place::root("metadata.taints", spec.field("taints").value), errors);
    let status = node.field("status");
    resources::node_list(&status.field("capacity"), errors);
    resources::node_list(&status.field("allocatable"), errors);
    for range in spec.field("podCIDRs").items() {
        let parsed = range.text().split_once('/').is_some_and(|(address, length)| {
            address.parse::<std::net::IpAddr>().is_ok() && length.parse::<u8>().is_ok()
        });
        if !parsed {
            let rule = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
            errors.push(range.invalid(rule));
        }
    }
}

fn taints(list: &Place<'_, '_>, errors: &mut Errors) {
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for taint in list.items() {
        let (key, value, effect) = (taint.field("key"), taint.field("value"), taint.field("effect"));
        errors.form(&key, format::label_key(key.text()));
        let wrong = format::label_value(value.text());
        if !wrong.is_empty() {
            errors.push(value.invalid(wrong.join(";")));
        }
        errors.one_of(&effect, TAINT_EFFECTS);
        let identity = (effect.text(), key.text());
        if seen.contains(&identity) {
            let mut duplicate = FieldError::duplicate(taint.path(), taint.value);
            duplicate.message =
                format!("{}: taints must be unique by key and effect pair", duplicate.message);
            errors.push(duplicate);
            continue;
        }
        seen.push(identity);
    }
}

pub(super) fn node_update(new: &Value, old: &Value, errors: &mut Errors) {
    let text = |node: &Value, name: &str| node["spec"][name].as_str().unwrap_or_default().to_owned();
    let (before, after) = (text(old, "podCIDR"), text(new, "podCIDR"));
    if !before.is_empty() && before != after {
        errors.push(FieldError::forbidden(
            "spec.podCIDRs",
            "node updates may not change podCIDR except from \"\" to valid",
        ));
    }
    let (before, after) = (text(old, "providerID"), text(new, "providerID"));
    if !before.is_empty() && before != after {
        errors.push(FieldError::forbidden(
            "spec.providerID",
            "node updates may not change providerID except from \"\" to valid",
        ));
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
        let known = matches!(
            (name, number),
            ("system-cluster-critical", 2_000_000_000) | ("system-node-critical", 2_000_001_000)
        );
        if !known {
            let rule = "priority class names with 'system-' prefix are reserved for system use only. error: ";
            errors.push(FieldError::forbidden(
                "metadata.name",
                &format!("{rule}{name} is not a known system priority class"),
            ));
        }
    } else if number > 1_000_000_000 {
        errors.push(value.forbidden("maximum allowed value of a user defined priority is 1000000000"));
    }
    let policy = class.field("preemptionPolicy");
    if policy.is_set() {
        errors.one_of(&policy, &["PreemptLowerPriority", "Never"]);
    }
}

fn lease(spec: &Place<'_, '_>, errors: &mut Errors) {
    let duration = spec.field("leaseDurationSeconds");
    if duration.number().is_some_and(|seconds| seconds <= 0) {
        errors.push(duration.invalid("must be greater than 0"));
    }
    errors.not_negative(&spec.field("leaseTransitions"));
}

/// Checks what is written through the status subresource.
pub(super) fn status(resource: &str, object: &Value, errors: &mut Errors) {
    let root = Place::root("", object);
    let status = root.field("status");
    match resource {
        "deployments.apps" => counts(
            &status,
            &[
                "observedGeneration",
                "replicas",
                "updatedReplicas",
                "readyReplicas",
                "availableReplicas",
                "unavailableReplicas",
            ],
            errors,
        ),
        "replicasets.apps" | "replicationcontrollers" => {
            counts(
                &status,
                &[
                    "replicas",
                    "fullyLabeledReplicas",
                    "readyReplicas",
                    "availableReplicas",
                    "observedGeneration",
                ],
                errors,
            );
        }
        "statefulsets.apps" => counts(
            &status,
            &[
                "replicas",
                "readyReplicas",
                "currentReplicas",
                "updatedReplicas",
                "availableReplicas",
                "observedGeneration",
            ],
            errors,
        ),
        "daemonsets.apps" => counts(
            &status,
            &[
                "currentNumberScheduled",
                "numberMisscheduled",
                "desiredNumberScheduled",
                "numberReady",
                "observedGeneration",
                "updatedNumberScheduled",
                "numberAvailable",
                "numberUnavailable",
            ],
            errors,
        ),
        "poddisruptionbudgets.policy" => {
            counts(
                &status,
                &["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"],
                errors,
            );
        }
        "nodes" => node(&root, errors),
        "services" => load_balancer(&status, object["spec"]["type"] == "LoadBalancer", errors),
        "resourcequotas" => {
            resources::quota(&status.field("hard"), errors);
            resources::quota(&status.field("used"), errors);
        }
        _ => {}
    }
}

fn counts(status: &Place<'_, '_>, names: &[&str], errors: &mut Errors) {
    for name in names {
        errors.not_negative(&status.field(name));
    }
    let total = status.field("replicas").number();
    let Some(total) = total else { return };
    for name in
        ["updatedReplicas", "readyReplicas", "availableReplicas", "fullyLabeledReplicas", "currentReplicas"]
    {
        let place = status.field(name);
        if names.contains(&name) && place.number().is_some_and(|number| number > total) {
            errors.push(place.invalid("cannot be greater than status.replicas"));
        }
    }
    let (available, ready) = (status.field("availableReplicas"), status.field("readyReplicas"));
    if available.number().unwrap_or(0) > ready.number().unwrap_or(0) {
        errors.push(available.invalid("cannot be greater than readyReplicas"));
    }
}

fn load_balancer(status: &Place<'_, '_>, balanced: bool, errors: &mut Errors) {
    let outside = status.field("loadBalancer");
    let ingress = outside.field("ingress");
    if ingress.len() > 0 && !balanced {
        errors.push(ingress.forbidden("may only be used when `spec.type` is 'LoadBalancer'"));
    }
}
