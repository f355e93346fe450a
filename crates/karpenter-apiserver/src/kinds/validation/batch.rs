//! Rules of jobs and cron jobs.

use serde_json::{Value, json};

use super::{job, schedule, scheduling};
use crate::error::FieldError;
use crate::kinds::place::{Errors, Place};
use crate::kinds::{format, metadata};
use crate::selector::LabelSelector;

pub(super) fn job(job: &Place<'_, '_>, errors: &mut Errors) {
    let spec = job.field("spec");
    generated_selector(job, errors);
    job::spec(&spec, errors);
    let selector = spec.field("selector");
    if selector.is_set() {
        scheduling::label_selector(&selector, errors);
    } else {
        errors.push(selector.required(""));
    }
    let labels = &spec.value["template"]["metadata"]["labels"];
    if selects_others(&selector, labels) {
        let path = format!("{}.template.metadata.labels", spec.path());
        errors.push(FieldError::invalid(path, labels, "`selector` does not match template `labels`"));
    }
    hostnames(job, errors);
}

/// The pods of an indexed job are hosts with the name of the job and their number.
fn hostnames(job: &Place<'_, '_>, errors: &mut Errors) {
    let (metadata, spec) = (job.field("metadata"), job.field("spec"));
    let name = metadata.field("name");
    let completions = spec.field("completions").number().unwrap_or(0);
    if spec.field("completionMode").text() != "Indexed" || completions <= 0 {
        return;
    }
    let longest = format!("{}-{}", name.text(), completions - 1);
    if !format::dns_label(&longest).is_empty() {
        let rule = format!("will not able to create pod with invalid DNS label: {longest}");
        errors.push(name.invalid_value(&json!(name.text()), rule));
    }
}

/// Whether a selector leaves out what has these labels; one that makes no sense has errors enough of its own.
fn selects_others(selector: &Place<'_, '_>, labels: &Value) -> bool {
    let mut own = Errors::default();
    scheduling::label_selector(selector, &mut own);
    own.0.is_empty()
        && (!selector.is_set() || !LabelSelector::from_object(selector.value).matches_labels(labels))
}

/// A job that chooses its own pods carries the labels by which it does.
fn generated_selector(job: &Place<'_, '_>, errors: &mut Errors) {
    let spec = job.field("spec");
    if spec.field("manualSelector").flag() || !spec.field("selector").is_set() {
        return;
    }
    let labels = &spec.value["template"]["metadata"]["labels"];
    let text = |name: &str| json!(job.value["metadata"][name].as_str().unwrap_or_default());
    let (uid, name) = (&text("uid"), &text("name"));
    let selector = spec.field("selector");
    let expected = job::expected_labels(uid, name);
    if selects_others(&selector, &expected) {
        errors.push(selector.invalid("`selector` not auto-generated"));
    }
    let path = "spec.template.metadata.labels";
    for prefix in ["", "batch.kubernetes.io/"] {
        for (label, expected) in [("controller-uid", uid), ("job-name", name)] {
            let key = format!("{prefix}{label}");
            let text = expected.as_str().unwrap_or_default();
            match &labels[&key] {
                Value::Null => {
                    let path = format!("{path}[{key}]");
                    errors.push(FieldError::required(path, &format!("must be '{text}'")));
                }
                value if value != expected => {
                    let path = format!("{path}[{key}]");
                    errors.push(FieldError::invalid(path, labels, format!("must be '{text}'")));
                }
                _ => {}
            }
        }
    }
}

pub(super) fn cron_job(cron_job: &Place<'_, '_>, old: Option<&Value>, errors: &mut Errors) {
    let spec = cron_job.field("spec");
    let schedule = spec.field("schedule");
    if schedule.text().is_empty() {
        errors.push(schedule.required(""));
    } else if old.is_none_or(|old| old["spec"]["schedule"] != *schedule.value) {
        if let Err(rule) = schedule::check(schedule.text()) {
            errors.push(schedule.invalid(rule));
        }
        if schedule.text().contains("TZ") {
            let rule = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
            errors.push(schedule.invalid(rule));
        }
    }
    errors.not_negative(&spec.field("startingDeadlineSeconds"));
    errors.one_of(&spec.field("concurrencyPolicy"), &["Allow", "Forbid", "Replace"]);
    let zone = spec.field("timeZone");
    if zone.is_set() {
        if zone.text().is_empty() {
            errors.push(zone.invalid("timeZone must be nil or non-empty string"));
        } else if zone.text().eq_ignore_ascii_case("local") {
            errors.push(zone.invalid(
                "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones",
            ));
        } else if jiff::tz::TimeZone::get(zone.text()).is_err() {
            errors.push(zone.invalid(format!("unknown time zone {}", zone.text())));
        }
    }
    errors.not_negative(&spec.field("successfulJobsHistoryLimit"));
    errors.not_negative(&spec.field("failedJobsHistoryLimit"));
    let template = spec.field("jobTemplate");
    let metadata_place = template.field("metadata");
    metadata::labels(&metadata_place.field("labels"), errors);
    metadata::annotations(&metadata_place.field("annotations"), errors);
    let job = template.field("spec");
    job::spec(&template.field("spec"), errors);
    let selector = job.field("selector");
    if selector.is_set() {
        errors.push(selector.invalid("`selector` will be auto-generated"));
    }
    if job.field("manualSelector").flag() {
        let manual = job.field("manualSelector");
        errors.push(manual.unsupported(&["nil", "false"]));
    }
    let name = cron_job.field("metadata");
    let name = name.field("name");
    if name.text().len() > 52 {
        errors.push(name.invalid("must be no more than 52 characters"));
    }
}

/// What a change of a job may not touch.
pub(super) fn job_update(new: &Value, old: &Value, errors: &mut Errors) {
    let (after, before) = (Place::root("", new), Place::root("", old));
    let (now, then) = (after.field("spec"), before.field("spec"));
    for name in [
        "selector",
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
        "managedBy",
        "successPolicy",
    ] {
        errors.immutable(&now.field(name), &then.field(name));
    }
    let completions = now.field("completions");
    if new["spec"]["completionMode"] != "Indexed" {
        errors.immutable(&completions, &then.field("completions"));
    } else if completions.is_set()
        && *completions.value != old["spec"]["completions"]
        && *completions.value != new["spec"]["parallelism"]
    {
        errors.push(completions.invalid("can only be modified in tandem with spec.parallelism"));
    }
    let (template, before) = (now.field("template"), then.field("template"));
    if is_at_rest(old) {
        let (spec, before) = (template.field("spec"), before.field("spec"));
        if fixed_part(spec.value, before.value) != fixed_part(before.value, spec.value) {
            errors.push(spec.invalid("field is immutable"));
        }
    } else {
        errors.immutable(&template, &before);
    }
}

/// Whether a job is suspended and has no pods, so that those to come may still be told where to run and what they get.
fn is_at_rest(job: &Value) -> bool {
    let status = &job["status"];
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let mut suspensions = conditions.filter(|condition| condition["type"] == "Suspended");
    job["spec"]["suspend"] == true
        && (status["startTime"].is_null() || suspensions.any(|condition| condition["status"] == "True"))
        && status["active"].as_i64().unwrap_or(0) == 0
}

/// What of a pod's spec cannot change while its job rests; `other` is what it is compared with.
fn fixed_part(spec: &Value, other: &Value) -> Value {
    let mut spec = spec.clone();
    let Some(fields) = spec.as_object_mut() else { return spec };
    for name in ["nodeSelector", "tolerations", "schedulingGates"] {
        fields.remove(name);
    }
    if let Some(affinity) = fields.get_mut("affinity").and_then(Value::as_object_mut) {
        affinity.remove("nodeAffinity");
        if affinity.is_empty() {
            fields.remove("affinity");
        }
    }
    for list in ["containers", "initContainers"] {
        let containers = fields.get_mut(list).and_then(Value::as_array_mut);
        let others = other[list].as_array().map_or(&[][..], Vec::as_slice);
        let Some(containers) = containers.filter(|containers| containers.len() == others.len()) else {
            continue;
        };
        for (container, other) in containers.iter_mut().zip(others) {
            if container["name"] == other["name"] {
                container.as_object_mut().map(|container| container.remove("resources"));
            }
        }
    }
    spec
}
