//! Rules of jobs and cron jobs.

use serde_json::{Value, json};

use super::{job, scheduling};
use crate::error::FieldError;
use crate::kinds::metadata;
use crate::kinds::place::{Errors, Place};
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
        schedule_form(&schedule, errors);
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

/// Checks the five fields of a schedule, or one of the words for common ones.
fn schedule_form(schedule: &Place<'_, '_>, errors: &mut Errors) {
    let text = schedule.text().trim();
    if text.contains("TZ") {
        let rule = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        errors.push(schedule.invalid(rule));
    }
    if let Some(word) = text.strip_prefix('@') {
        let known = ["yearly", "annually", "monthly", "weekly", "daily", "midnight", "hourly"];
        if !known.contains(&word) && !word.starts_with("every ") {
            errors.push(schedule.invalid(format!("unrecognized descriptor: {text}")));
        }
        return;
    }
    let fields: Vec<&str> = text.split_whitespace().collect();
    if fields.len() != 5 {
        let shown = fields.join(" ");
        errors
            .push(schedule.invalid(format!("expected exactly 5 fields, found {}: [{shown}]", fields.len())));
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
    if !is_suspended(old) {
        errors.immutable(&now.field("template"), &then.field("template"));
    }
}

fn is_suspended(job: &Value) -> bool {
    job["spec"]["suspend"] == true && job["status"]["startTime"].is_null()
}
