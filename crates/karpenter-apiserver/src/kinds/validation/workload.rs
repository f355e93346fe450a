//! Rules of the kinds that make pods.

use serde_json::{Value, json};

use super::{claim, pod, scheduling};
use crate::error::FieldError;
use crate::kinds::format;
use crate::kinds::place::{Errors, Place};
use crate::selector::LabelSelector;

/// Checks a number or a share that is not negative.
pub(super) fn amount(place: &Place<'_, '_>, errors: &mut Errors) {
    if place.value.is_string() {
        errors.form(place, format::percent(place.text()));
    } else {
        errors.not_negative(place);
    }
}

/// A share of more than everything.
fn above_everything(place: &Place<'_, '_>, errors: &mut Errors) {
    let share = place.text().strip_suffix('%').and_then(|digits| digits.parse::<i64>().ok());
    if share.is_some_and(|share| share > 100) {
        errors.push(place.invalid("must not be greater than 100%"));
    }
}

/// Whether an amount is nothing; a text that is no amount counts as nothing.
fn is_zero(place: &Place<'_, '_>) -> bool {
    let number = match place.value {
        Value::String(text) => text.strip_suffix('%').unwrap_or(text).parse().ok(),
        value => value.as_i64(),
    };
    number.unwrap_or(0) == 0
}

pub(super) fn deployment(object: &Place<'_, '_>, errors: &mut Errors) {
    let spec = object.field("spec");
    errors.not_negative(&spec.field("replicas"));
    let selector = spec.field("selector");
    if pod_selector(&selector, "deployment", errors) {
        selected_template(&spec, &selector, errors);
    } else {
        errors.push(selector.invalid("invalid label selector"));
    }
    let strategy = spec.field("strategy");
    deployment_strategy(&strategy, errors);
    let ready = spec.field("minReadySeconds");
    errors.not_negative(&ready);
    errors.not_negative(&spec.field("revisionHistoryLimit"));
    let deadline = spec.field("progressDeadlineSeconds");
    if let Some(seconds) = deadline.number() {
        errors.not_negative(&deadline);
        if seconds <= ready.number().unwrap_or(0) {
            errors.push(deadline.invalid("must be greater than minReadySeconds"));
        }
    }
}

fn deployment_strategy(strategy: &Place<'_, '_>, errors: &mut Errors) {
    let rolling = strategy.field("rollingUpdate");
    match strategy.field("type").text() {
        "Recreate" => {
            if rolling.is_set() {
                let rule = "may not be specified when strategy `type` is 'Recreate'";
                errors.push(rolling.forbidden(rule));
            }
        }
        "RollingUpdate" => {
            if rolling.is_set() {
                rolling_update(&rolling, errors);
            } else {
                errors.push(rolling.required("this should be defaulted and never be nil"));
            }
        }
        _ => errors.push(strategy.unsupported(&["Recreate", "RollingUpdate"])),
    }
}

fn rolling_update(rolling: &Place<'_, '_>, errors: &mut Errors) {
    let (unavailable, surge) = (rolling.field("maxUnavailable"), rolling.field("maxSurge"));
    amount(&unavailable, errors);
    amount(&surge, errors);
    if is_zero(&unavailable) && is_zero(&surge) {
        errors.push(unavailable.invalid("may not be 0 when `maxSurge` is 0"));
    }
    above_everything(&unavailable, errors);
}

/// Checks the selector of a kind that makes pods, and returns whether it can be used.
fn pod_selector(selector: &Place<'_, '_>, kind: &str, errors: &mut Errors) -> bool {
    if !selector.is_set() {
        errors.push(selector.required(""));
        return true;
    }
    let before = errors.0.len();
    scheduling::label_selector(selector, errors);
    let usable = errors.0.len() == before;
    if is_empty_selector(selector.value) {
        errors.push(selector.invalid(format!("empty selector is invalid for {kind}")));
    }
    usable
}

fn is_empty_selector(selector: &Value) -> bool {
    let empty = |name: &str| {
        selector[name].as_object().is_none_or(serde_json::Map::is_empty)
            && selector[name].as_array().is_none_or(Vec::is_empty)
    };
    empty("matchLabels") && empty("matchExpressions")
}

/// Checks that a template makes pods that the selector selects, and that they may run for ever.
fn selected_template(spec: &Place<'_, '_>, selector: &Place<'_, '_>, errors: &mut Errors) {
    let template = spec.field("template");
    if !template.is_set() {
        errors.push(template.required(""));
        return;
    }
    let labels = &template.value["metadata"]["labels"];
    // A selector that is empty says so elsewhere.
    let agrees = selector.is_set()
        && (is_empty_selector(selector.value)
            || LabelSelector::from_object(selector.value).matches_labels(labels));
    if !agrees {
        let path = format!("{}.metadata.labels", template.path());
        let value = if labels.is_object() { labels.clone() } else { Value::Null };
        errors.push(FieldError::invalid(path, &value, "`selector` does not match template `labels`"));
    }
    pod::template(&template, errors);
    runs_for_ever(&template, "ReplicaSet", errors);
}

/// Pods that are kept running have no end of their own.
fn runs_for_ever(template: &Place<'_, '_>, kind: &str, errors: &mut Errors) {
    let spec = template.field("spec");
    let policy = spec.field("restartPolicy");
    if policy.text() != "Always" {
        errors.push(policy.unsupported(&["Always"]));
    }
    let deadline = spec.field("activeDeadlineSeconds");
    if deadline.is_set() {
        errors.push(deadline.forbidden(&format!("activeDeadlineSeconds in {kind} is not Supported")));
    }
}

pub(super) fn replica_set(object: &Place<'_, '_>, errors: &mut Errors) {
    let spec = object.field("spec");
    errors.not_negative(&spec.field("replicas"));
    errors.not_negative(&spec.field("minReadySeconds"));
    let selector = spec.field("selector");
    if pod_selector(&selector, "deployment", errors) {
        selected_template(&spec, &selector, errors);
    } else {
        errors.push(selector.invalid("invalid label selector"));
    }
}

pub(super) fn replication_controller(object: &Place<'_, '_>, errors: &mut Errors) {
    let spec = object.field("spec");
    errors.not_negative(&spec.field("minReadySeconds"));
    let selector = spec.field("selector");
    if selector.len() == 0 {
        errors.push(selector.required(""));
    }
    errors.not_negative(&spec.field("replicas"));
    let template = spec.field("template");
    if !template.is_set() {
        errors.push(template.required(""));
        return;
    }
    let labels = &template.value["metadata"]["labels"];
    let chosen = selector.value.as_object().into_iter().flatten().all(|(key, value)| labels[key] == *value);
    if selector.len() > 0 && !chosen {
        let path = format!("{}.metadata.labels", template.path());
        errors.push(FieldError::invalid(path, labels, "`selector` does not match template `labels`"));
    }
    pod::template(&template, errors);
    runs_for_ever(&template, "ReplicationController", errors);
}

pub(super) fn daemon_set(object: &Place<'_, '_>, errors: &mut Errors) {
    let spec = object.field("spec");
    let selector = spec.field("selector");
    let before = errors.0.len();
    scheduling::label_selector(&selector, errors);
    let usable = errors.0.len() == before;
    let template = spec.field("template");
    let labels = &template.value["metadata"]["labels"];
    let chosen = selector.is_set() && LabelSelector::from_object(selector.value).matches_labels(labels);
    if usable && !chosen {
        let path = format!("{}.metadata.labels", template.path());
        errors.push(FieldError::invalid(path, labels, "`selector` does not match template `labels`"));
    }
    if selector.is_set() && is_empty_selector(selector.value) {
        errors.push(selector.invalid("empty selector is invalid for daemonset"));
    }
    pod::template(&template, errors);
    let pod = template.field("spec");
    let policy = pod.field("restartPolicy");
    if policy.text() != "Always" {
        errors.push(policy.unsupported(&["Always"]));
    }
    let deadline = pod.field("activeDeadlineSeconds");
    if deadline.is_set() {
        errors.push(deadline.forbidden("activeDeadlineSeconds in DaemonSet is not Supported"));
    }
    errors.not_negative(&spec.field("minReadySeconds"));
    daemon_set_strategy(&spec.field("updateStrategy"), errors);
    errors.not_negative(&spec.field("revisionHistoryLimit"));
}

fn daemon_set_strategy(strategy: &Place<'_, '_>, errors: &mut Errors) {
    let rolling = strategy.field("rollingUpdate");
    match strategy.field("type").text() {
        "OnDelete" => {}
        "RollingUpdate" => {
            if !rolling.is_set() {
                errors.push(rolling.required(""));
                return;
            }
            let (unavailable, surge) = (rolling.field("maxUnavailable"), rolling.field("maxSurge"));
            amount(&unavailable, errors);
            above_everything(&unavailable, errors);
            amount(&surge, errors);
            above_everything(&surge, errors);
            match (is_zero(&unavailable), is_zero(&surge)) {
                (true, true) => errors.push(unavailable.required("cannot be 0 when maxSurge is 0")),
                (false, false) => {
                    errors.push(surge.invalid("may not be set when maxUnavailable is non-zero"));
                }
                _ => {}
            }
        }
        _ => errors.push(strategy.unsupported(&["RollingUpdate", "OnDelete"])),
    }
}

pub(super) fn stateful_set(object: &Place<'_, '_>, new: bool, errors: &mut Errors) {
    let spec = object.field("spec");
    let management = spec.field("podManagementPolicy");
    if !matches!(management.text(), "" | "OrderedReady" | "Parallel") {
        errors.push(management.invalid("must be 'OrderedReady' or 'Parallel'"));
    }
    stateful_strategy(&spec.field("updateStrategy"), errors);
    let retention = spec.field("persistentVolumeClaimRetentionPolicy");
    for name in ["whenDeleted", "whenScaled"] {
        let policy = retention.field(name);
        if retention.is_set() && !matches!(policy.text(), "Retain" | "Delete") {
            errors.push(policy.unsupported(&["Retain", "Delete"]));
        }
    }
    if new {
        let claims = spec.field("volumeClaimTemplates");
        for claim in claims.items() {
            claim::spec(&claim.field("spec"), errors);
        }
        let service = spec.field("serviceName");
        if !service.text().is_empty() {
            errors.form(&service, format::dns_label(service.text()));
        }
    }
    for name in ["replicas", "minReadySeconds"] {
        errors.not_negative(&spec.field(name));
    }
    errors.not_negative(&spec.field("ordinals").field("start"));
    let selector = spec.field("selector");
    let template = spec.field("template");
    if pod_selector(&selector, "statefulset", errors) {
        let labels = &template.value["metadata"]["labels"];
        let agrees = selector.is_set()
            && (is_empty_selector(selector.value)
                || LabelSelector::from_object(selector.value).matches_labels(labels));
        if !agrees {
            let path = format!("{}.metadata.labels", template.path());
            errors.push(FieldError::invalid(path, labels, "`selector` does not match template `labels`"));
        }
        stateful_template(&template, &spec, errors);
    } else {
        errors.push(FieldError::new(
            "FieldValueInvalid",
            selector.path(),
            format!("Invalid value: {}", selector.value),
        ));
    }
    let policy = template.field("spec").field("restartPolicy").text().to_owned();
    if policy != "Always" {
        let spec = template.field("spec");
        errors.push(spec.field("restartPolicy").unsupported(&["Always"]));
    }
    let spec = template.field("spec");
    let deadline = spec.field("activeDeadlineSeconds");
    if deadline.is_set() {
        errors.push(deadline.forbidden("activeDeadlineSeconds in StatefulSet is not Supported"));
    }
}

/// The volumes of claim templates are there when the pods are made.
fn stateful_template(template: &Place<'_, '_>, spec: &Place<'_, '_>, errors: &mut Errors) {
    let mut completed = template.value.clone();
    // Pods get these from the set, whatever the template says.
    for name in ["subdomain", "hostname"] {
        completed["spec"].as_object_mut().map(|spec| spec.remove(name));
    }
    let claims: Vec<Value> = spec
        .field("volumeClaimTemplates")
        .items()
        .map(|claim| {
            let name = claim.value["metadata"]["name"].as_str().unwrap_or_default();
            json!({"name": name, "persistentVolumeClaim": {"claimName": name}})
        })
        .fold(Vec::new(), |mut claims, claim| {
            claims.retain(|other: &Value| other["name"] != claim["name"]);
            claims.push(claim);
            claims
        });
    let names: Vec<&Value> = claims.iter().map(|claim| &claim["name"]).collect();
    let own = completed["spec"]["volumes"].as_array().cloned().unwrap_or_default();
    let mut volumes = claims.clone();
    volumes.extend(own.into_iter().filter(|volume| !names.contains(&&volume["name"])));
    if !volumes.is_empty() {
        completed["spec"]["volumes"] = Value::Array(volumes);
    }
    let path = template.path();
    let place = Place::root(&path, &completed);
    pod::template(&place, errors);
}

fn stateful_strategy(strategy: &Place<'_, '_>, errors: &mut Errors) {
    let (kind, rolling) = (strategy.field("type"), strategy.field("rollingUpdate"));
    match kind.text() {
        "" => errors.push(strategy.required("")),
        "OnDelete" => {
            if rolling.is_set() {
                errors.push(rolling.invalid("only allowed for updateStrategy 'RollingUpdate'"));
            }
        }
        "RollingUpdate" => {
            if rolling.is_set() {
                errors.not_negative(&rolling.field("partition"));
                let unavailable = rolling.field("maxUnavailable");
                if unavailable.is_set() {
                    amount(&unavailable, errors);
                    above_everything(&unavailable, errors);
                    if is_zero(&unavailable) {
                        errors.push(unavailable.invalid("cannot be 0"));
                    }
                }
            }
        }
        _ => errors.push(strategy.invalid("must be 'RollingUpdate' or 'OnDelete'")),
    }
}

/// What a change of a stateful set may not touch.
pub(super) fn stateful_set_update(new: &Value, old: &Value, errors: &mut Errors) {
    const CHANGEABLE: &[&str] = &[
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    let fixed = |object: &Value| {
        let mut spec = object["spec"].clone();
        if let Some(fields) = spec.as_object_mut() {
            fields.retain(|name, _| !CHANGEABLE.contains(&name.as_str()));
        }
        spec
    };
    if fixed(old) != fixed(new) {
        let rule = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', \
                    'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
        errors.push(FieldError::forbidden("spec", rule));
    }
}
