//! Rules of horizontal pod autoscalers.

use serde_json::json;

use super::resources::{container_resource_name, quantity};
use crate::kinds::format;
use crate::kinds::place::{Errors, Place};

const SOURCES: [(&str, &str); 5] = [
    ("Object", "object"),
    ("External", "external"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
];
const SOURCE_TYPES: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];
const WINDOW_SECONDS_MAX: i64 = 3600;
const PERIOD_SECONDS_MAX: i64 = 1800;

pub(super) fn validate(spec: &Place<'_, '_>, errors: &mut Errors) {
    let (min, max) = (spec.field("minReplicas"), spec.field("maxReplicas"));
    if min.number().is_some_and(|number| number < 1) {
        errors.push(min.invalid("must be greater than or equal to 1"));
    }
    let most = max.number().unwrap_or(0);
    if most == 0 {
        errors.push(max.required("must be set and greater than 0"));
    } else if most < 0 {
        errors.push(max.invalid("must be greater than or equal to 1"));
    }
    if min.number().is_some_and(|least| most < least) {
        errors.push(max.invalid_value(&json!(most), "must be greater than or equal to `minReplicas`"));
    }
    reference(&spec.field("scaleTargetRef"), false, errors);
    let metrics = spec.field("metrics");
    for metric in metrics.items() {
        self::metric(&metric, errors);
    }
    let from_outside =
        metrics.items().any(|metric| matches!(metric.field("type").text(), "Object" | "External"));
    if min.number() == Some(0) && !from_outside {
        let rule = "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.push(metrics.forbidden(rule));
    }
    let behavior = spec.field("behavior");
    for name in ["scaleUp", "scaleDown"] {
        let rules = behavior.field(name);
        if rules.is_set() {
            scaling_rules(&rules, errors);
        }
    }
}

/// Checks a reference to an object, which may be of the group without a name where that is said.
fn reference(target: &Place<'_, '_>, any_group: bool, errors: &mut Errors) {
    for name in ["kind", "name"] {
        let place = target.field(name);
        if place.text().is_empty() {
            errors.push(place.required(""));
        } else {
            errors.form(&place, format::path_segment(place.text()));
        }
    }
    let version = target.field("apiVersion");
    let group = version.text().split_once('/').map_or("", |(group, _)| group);
    match version.text().matches('/').count() {
        0 | 1 if any_group || !group.is_empty() => {}
        0 | 1 => {
            errors.push(version.invalid_value(&json!(version.text()), "apiVersion must specify API group"));
        }
        _ => errors.push(version.invalid(format!("unexpected GroupVersion string: {}", version.text()))),
    }
}

fn metric(metric: &Place<'_, '_>, errors: &mut Errors) {
    let kind = metric.field("type");
    if kind.text().is_empty() {
        errors.push(kind.required("must specify a metric source type"));
    }
    let expected = SOURCES.iter().find(|(name, _)| *name == kind.text()).map(|(_, field)| *field);
    if expected.is_none() {
        errors.push(kind.unsupported(&SOURCE_TYPES));
    }
    let present: Vec<&str> =
        SOURCES.iter().map(|(_, field)| *field).filter(|field| metric.field(field).is_set()).collect();
    if let Some(first) = present.first() {
        source(first, &metric.field(first), errors);
    }
    if let Some(expected) = expected.filter(|expected| !present.contains(expected)) {
        let rule = "must populate information for the given metric source";
        errors.push(metric.field(expected).required(rule));
    }
    if present.len() != 1 {
        for field in present.iter().filter(|field| expected != Some(**field)) {
            errors.push(metric.field(field).forbidden("must populate the given metric source only"));
        }
    }
}

fn source(kind: &str, source: &Place<'_, '_>, errors: &mut Errors) {
    let target = source.field("target");
    if kind == "object" {
        reference(&source.field("describedObject"), true, errors);
    }
    if matches!(kind, "object" | "external" | "pods") {
        let identifier = source.field("metric");
        let name = identifier.field("name");
        if name.text().is_empty() {
            errors.push(name.required("must specify a metric name"));
        } else {
            errors.form(&name, format::path_segment(name.text()));
        }
    } else {
        let name = source.field("name");
        if name.text().is_empty() {
            errors.push(name.required("must specify a resource name"));
        } else if kind == "containerResource" {
            container_resource_name(&name, name.text(), errors);
        }
        if kind == "containerResource" {
            let container = source.field("container");
            if container.text().is_empty() {
                errors.push(container.required("must specify a container"));
            } else {
                errors.form(&container, format::dns_label(container.text()));
            }
        }
    }
    metric_target(&target, errors);
    let (value, average) = (target.field("value"), target.field("averageValue"));
    let utilization = target.field("averageUtilization");
    match kind {
        "object" if !value.is_set() && !average.is_set() => {
            errors.push(average.required("must set either a target value or averageValue"));
        }
        "external" if !value.is_set() && !average.is_set() => {
            errors.push(average.required("must set either a target value for metric or a per-pod target"));
        }
        "external" if value.is_set() && average.is_set() => {
            errors.push(value.forbidden("may not set both a target value for metric and a per-pod target"));
        }
        "pods" if !average.is_set() => {
            errors.push(average.required("must specify a positive target averageValue"));
        }
        "resource" | "containerResource" if !utilization.is_set() && !average.is_set() => {
            errors.push(utilization.required("must set either a target raw value or a target utilization"));
        }
        "resource" | "containerResource" if utilization.is_set() && average.is_set() => {
            errors.push(average.forbidden("may not set both a target raw value and a target utilization"));
        }
        _ => {}
    }
}

fn metric_target(target: &Place<'_, '_>, errors: &mut Errors) {
    let kind = target.field("type");
    if kind.text().is_empty() {
        errors.push(kind.required("must specify a metric target type"));
    }
    if !matches!(kind.text(), "Utilization" | "Value" | "AverageValue") {
        let rule = "must be either Utilization, Value, or AverageValue";
        errors.push(kind.invalid_value(&json!(kind.text()), rule));
    }
    for name in ["value", "averageValue"] {
        let amount = target.field(name);
        let number = quantity(amount.value);
        if amount.is_set() && (number.is_negative() || number.is_zero()) {
            errors.push(amount.invalid("must be positive"));
        }
    }
    let utilization = target.field("averageUtilization");
    if utilization.number().is_some_and(|number| number < 1) {
        errors.push(utilization.invalid("must be greater than 0"));
    }
}

fn scaling_rules(rules: &Place<'_, '_>, errors: &mut Errors) {
    let window = rules.field("stabilizationWindowSeconds");
    if window.number().is_some_and(|seconds| seconds < 0) {
        errors.push(window.invalid("must be greater than or equal to zero"));
    }
    if window.number().is_some_and(|seconds| seconds > WINDOW_SECONDS_MAX) {
        errors.push(window.invalid(format!("must be less than or equal to {WINDOW_SECONDS_MAX}")));
    }
    errors.one_of_or_none(&rules.field("selectPolicy"), &["Disabled", "Max", "Min"]);
    let policies = rules.field("policies");
    if policies.len() == 0 {
        errors.push(policies.required("must specify at least one Policy"));
    }
    for policy in policies.items() {
        let kind = policy.field("type");
        if !matches!(kind.text(), "Pods" | "Percent") {
            errors.push(kind.unsupported(&["Percent", "Pods"]));
        }
        for name in ["value", "periodSeconds"] {
            let number = policy.field(name);
            if number.number().unwrap_or(0) <= 0 {
                let value = json!(number.number().unwrap_or(0));
                errors.push(number.invalid_value(&value, "must be greater than zero"));
            }
        }
        let period = policy.field("periodSeconds");
        if period.number().is_some_and(|seconds| seconds > PERIOD_SECONDS_MAX) {
            errors.push(period.invalid(format!("must be less than or equal to {PERIOD_SECONDS_MAX}")));
        }
    }
    let tolerance = rules.field("tolerance");
    if tolerance.is_set() && quantity(tolerance.value).is_negative() {
        errors.push(tolerance.invalid("must be greater than or equal to 0"));
    }
}
