//! Rules of what pods ask of nodes: selectors, affinity, spread, tolerations.

use serde_json::{Value, json};

use crate::error::FieldError;
use crate::kinds::place::{Errors, Place};
use crate::kinds::{format, metadata};

pub(super) const TAINT_EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Checks a `LabelSelector`.
pub(super) fn label_selector(selector: &Place<'_, '_>, errors: &mut Errors) {
    metadata::labels(&selector.field("matchLabels"), errors);
    for expression in selector.field("matchExpressions").items() {
        let values = expression.field("values");
        match expression.field("operator").text() {
            "In" | "NotIn" => {
                if values.len() == 0 {
                    errors.push(values.required("must be specified when `operator` is 'In' or 'NotIn'"));
                }
            }
            "Exists" | "DoesNotExist" => {
                if values.len() > 0 {
                    let rule = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                    errors.push(values.forbidden(rule));
                }
            }
            _ => {
                let operator = expression.field("operator");
                errors.push(operator.invalid_value(&json!(operator.text()), "not a valid selector operator"));
            }
        }
        let key = expression.field("key");
        errors.form(&key, format::label_key(key.text()));
        for value in values.items() {
            errors.form(&value, format::label_value(value.text()));
        }
    }
}

/// Checks a `NodeSelector`.
pub(super) fn node_selector(selector: &Place<'_, '_>, errors: &mut Errors) {
    let terms = selector.field("nodeSelectorTerms");
    if terms.len() == 0 {
        errors.push(terms.required("must have at least one node selector term"));
    }
    for term in terms.items() {
        node_selector_term(&term, false, errors);
    }
}

fn node_selector_term(term: &Place<'_, '_>, any_value: bool, errors: &mut Errors) {
    for requirement in term.field("matchExpressions").items() {
        let (operator, values) = (requirement.field("operator"), requirement.field("values"));
        match operator.text() {
            "In" | "NotIn" if values.len() == 0 => {
                errors.push(values.required("must be specified when `operator` is 'In' or 'NotIn'"));
            }
            "Exists" | "DoesNotExist" if values.len() > 0 => {
                let rule = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(values.forbidden(rule));
            }
            "Gt" | "Lt" if values.len() != 1 => {
                errors
                    .push(values.required("must be specified single value when `operator` is 'Lt' or 'Gt'"));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            other => errors.push(operator.invalid_value(&json!(other), "not a valid selector operator")),
        }
        let key = requirement.field("key");
        errors.form(&key, format::label_key(key.text()));
        if !any_value {
            for value in values.items() {
                errors.form(&value, format::label_value(value.text()));
            }
        }
    }
    for requirement in term.field("matchFields").items() {
        let (operator, values) = (requirement.field("operator"), requirement.field("values"));
        match operator.text() {
            "In" | "NotIn" => {
                if values.len() != 1 {
                    let rule =
                        "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
                    errors.push(values.required(rule));
                }
            }
            other => errors.push(operator.invalid_value(&json!(other), "not a valid selector operator")),
        }
        let key = requirement.field("key");
        if key.text() == "metadata.name" {
            for value in values.items() {
                errors.form(&value, format::dns_subdomain(value.text()));
            }
        } else {
            errors.push(key.invalid_value(&json!(key.text()), "not a valid field selector key"));
        }
    }
}

/// What a pod that is held by gates asks of nodes may only be added to.
pub(super) fn narrowed(new: &Place<'_, '_>, old: &Place<'_, '_>, errors: &mut Errors) {
    let selector = new.field("nodeSelector");
    if old.field("nodeSelector").entries().any(|(key, place)| selector.value.get(key) != Some(place.value)) {
        let rule = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        errors.push(selector.invalid(rule));
    }
    let (affinity, before) = (new.field("affinity"), old.field("affinity"));
    let (nodes, nodes_before) = (affinity.field("nodeAffinity"), before.field("nodeAffinity"));
    let (required, required_before) = (nodes.field(REQUIRED), nodes_before.field(REQUIRED));
    let terms = required.field("nodeSelectorTerms");
    let kept = required_before.value["nodeSelectorTerms"].as_array().map_or(&[][..], Vec::as_slice);
    if !kept.is_empty() && kept.len() != terms.len() {
        errors.push(terms.invalid("no additions/deletions to non-empty NodeSelectorTerms list are allowed"));
        return;
    }
    for (term, then) in terms.items().zip(kept) {
        if !is_extended(term.value, then) {
            errors.push(term.invalid("only additions are allowed (no mutations or deletions)"));
        }
    }
}

/// Whether a term still begins with all it asked for; one that asked for nothing matches no node and stays so.
fn is_extended(new: &Value, old: &Value) -> bool {
    let list = |term: &Value, name: &str| term[name].as_array().cloned().unwrap_or_default();
    let (mut said, mut says) = (false, false);
    for name in ["matchExpressions", "matchFields"] {
        let (now, then) = (list(new, name), list(old, name));
        if !now.starts_with(&then) {
            return false;
        }
        (said, says) = (said || !then.is_empty(), says || !now.is_empty());
    }
    said || !says
}

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub(super) fn affinity(affinity: &Place<'_, '_>, errors: &mut Errors) {
    let nodes = affinity.field("nodeAffinity");
    let required = nodes.field(REQUIRED);
    if required.is_set() {
        node_selector(&required, errors);
    }
    for term in nodes.field(PREFERRED).items() {
        weight(&term, errors);
        node_selector_term(&term.field("preference"), true, errors);
    }
    for name in ["podAffinity", "podAntiAffinity"] {
        let pods = affinity.field(name);
        for term in pods.field(REQUIRED).items() {
            pod_affinity_term(&term, errors);
        }
        for term in pods.field(PREFERRED).items() {
            weight(&term, errors);
            pod_affinity_term(&term.field("podAffinityTerm"), errors);
        }
    }
}

fn weight(term: &Place<'_, '_>, errors: &mut Errors) {
    let weight = term.field("weight");
    if !weight.number().is_some_and(|weight| (1..=100).contains(&weight)) {
        let value = json!(weight.number().unwrap_or(0));
        errors.push(weight.invalid_value(&value, "must be in the range 1-100"));
    }
}

fn pod_affinity_term(term: &Place<'_, '_>, errors: &mut Errors) {
    label_selector(&term.field("labelSelector"), errors);
    label_selector(&term.field("namespaceSelector"), errors);
    for name in term.field("namespaces").items() {
        for rule in format::dns_label(name.text()) {
            errors.push(term.field("namespace").invalid_value(name.value, rule));
        }
    }
    match_label_keys(term, errors);
    let key = term.field("topologyKey");
    if key.text().is_empty() {
        errors.push(key.required("can not be empty"));
    }
    errors.form(&key, format::label_key(key.text()));
}

/// Keys whose values are taken from the pod itself.
fn match_label_keys(term: &Place<'_, '_>, errors: &mut Errors) {
    let has_selector = term.field("labelSelector").is_set();
    let mut seen: Vec<&str> = Vec::new();
    for name in ["matchLabelKeys", "mismatchLabelKeys"] {
        let keys = term.field(name);
        if keys.len() > 0 && !has_selector {
            errors.push(keys.forbidden("must not be specified when labelSelector is not set"));
            continue;
        }
        for (index, key) in keys.value.as_array().into_iter().flatten().enumerate() {
            let text = key.as_str().unwrap_or_default();
            for rule in format::label_key(text) {
                let path = format!("{}[{index}]", keys.path());
                errors.push(FieldError::invalid(path, key, rule));
            }
            if name == "mismatchLabelKeys" && seen.contains(&text) {
                let path = format!("{}[{index}]", keys.path());
                errors.push(FieldError::invalid(
                    path,
                    key,
                    "exists in both matchLabelKeys and mismatchLabelKeys",
                ));
            }
            seen.push(text);
        }
    }
}

pub(super) fn spread_constraints(list: &Place<'_, '_>, errors: &mut Errors) {
    for (index, constraint) in list.items().enumerate() {
        let skew = constraint.field("maxSkew");
        if skew.number().unwrap_or(0) <= 0 {
            errors.push(skew.invalid_value(&json!(skew.number().unwrap_or(0)), "must be greater than zero"));
        }
        let key = constraint.field("topologyKey");
        if key.text().is_empty() {
            errors.push(key.required("can not be empty"));
        }
        let action = constraint.field("whenUnsatisfiable");
        if !matches!(action.text(), "DoNotSchedule" | "ScheduleAnyway") {
            errors.push(action.unsupported(&["DoNotSchedule", "ScheduleAnyway"]));
        }
        let same =
            |other: &Value| other["topologyKey"] == *key.value && other["whenUnsatisfiable"] == *action.value;
        let later = list.value.as_array().map(Vec::as_slice).unwrap_or_default();
        if later.iter().skip(index + 1).any(same) {
            let path = constraint.field("{topologyKey, whenUnsatisfiable}").path();
            let pair = format!("{{{}, {}}}", key.text(), action.text());
            errors.push(FieldError::duplicate(path, &json!(pair)));
        }
        let domains = constraint.field("minDomains");
        if domains.number().is_some_and(|number| number <= 0) {
            errors.push(domains.invalid("must be greater than zero"));
        }
        if domains.is_set() && action.text() != "DoNotSchedule" {
            let rule = "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway";
            let rule = rule.replace("ScheduleAnyway", action.text());
            errors.push(domains.invalid(rule));
        }
        for name in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            errors.one_of_or_none(&constraint.field(name), &["Honor", "Ignore"]);
        }
        match_label_keys(&constraint, errors);
        label_selector(&constraint.field("labelSelector"), errors);
    }
}

pub(super) fn tolerations(list: &Place<'_, '_>, errors: &mut Errors) {
    for toleration in list.items() {
        let (key, operator) = (toleration.field("key"), toleration.field("operator"));
        let (value, effect) = (toleration.field("value"), toleration.field("effect"));
        if !key.text().is_empty() {
            errors.form(&key, format::label_key(key.text()));
        }
        if key.text().is_empty() && operator.text() != "Exists" {
            let rule =
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.push(operator.invalid_value(&json!(operator.text()), rule));
        }
        if toleration.field("tolerationSeconds").is_set() && effect.text() != "NoExecute" {
            let rule = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.push(effect.invalid_value(&json!(effect.text()), rule));
        }
        match operator.text() {
            "Equal" | "" => {
                let wrong = format::label_value(value.text());
                if !wrong.is_empty() {
                    errors.push(operator.invalid_value(value.value, wrong.join(";")));
                }
            }
            "Exists" => {
                if !value.text().is_empty() {
                    let rule = "value must be empty when `operator` is 'Exists'";
                    errors.push(operator.invalid_value(value.value, rule));
                }
            }
            "Lt" | "Gt" => errors.push(operator.unsupported(&["Equal", "Exists", "Lt", "Gt"])),
            _ => errors.push(operator.unsupported(&["Equal", "Exists"])),
        }
        if !effect.text().is_empty() {
            errors.one_of(&effect, TAINT_EFFECTS);
        }
    }
}
