//! Rules of what a job does: how many pods, how often again, when it has failed or succeeded.

use serde_json::{Value, json};

use super::network::prefixed_path;
use super::pod;
use crate::error::FieldError;
use crate::kinds::format;
use crate::kinds::place::{Errors, Place};

const MANAGER_LENGTH_MAX: usize = 63;
const INDEXES_MAX: i64 = 100_000;
/// What a job with very many completions may not exceed.
const MANY_COMPLETIONS_LIMIT: i64 = 10_000;

/// Checks the spec of a job or of the jobs of a cron job.
pub(super) fn spec(spec: &Place<'_, '_>, errors: &mut Errors) {
    for name in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        errors.not_negative(&spec.field(name));
    }
    let per_index = spec.field("backoffLimitPerIndex");
    if spec.field("maxFailedIndexes").is_set() && !per_index.is_set() {
        errors.push(per_index.required("when maxFailedIndexes is specified"));
    }
    let manager = spec.field("managedBy");
    if manager.is_set() {
        prefixed_path(&manager, errors);
        if manager.text().len() > MANAGER_LENGTH_MAX {
            errors.push(FieldError::too_long(manager.path(), MANAGER_LENGTH_MAX));
        }
    }
    completion(spec, errors);
    failure_policy(spec, errors);
    success_policy(spec, errors);
    let replacement = spec.field("podReplacementPolicy");
    if spec.field("podFailurePolicy").is_set() {
        errors.one_of_or_none(&replacement, &["Failed"]);
    } else {
        errors.one_of_or_none(&replacement, &["Failed", "TerminatingOrFailed"]);
    }
    pod::template(&spec.field("template"), errors);
    restart_policy(spec, errors);
}

fn restart_policy(spec: &Place<'_, '_>, errors: &mut Errors) {
    let template = spec.field("template");
    let inner = template.field("spec");
    let policy = inner.field("restartPolicy");
    match policy.text() {
        "OnFailure" if spec.field("podFailurePolicy").is_set() => {
            errors.push(policy.invalid("only \"Never\" is supported when podFailurePolicy is specified"));
        }
        "OnFailure" | "Never" => {}
        "" | "Always" => errors.push(policy.required("valid values: \"OnFailure\", \"Never\"")),
        _ => errors.push(policy.unsupported(&["OnFailure", "Never"])),
    }
}

fn completion(spec: &Place<'_, '_>, errors: &mut Errors) {
    let mode = spec.field("completionMode");
    if mode.is_set() && !matches!(mode.text(), "NonIndexed" | "Indexed") {
        errors.push(mode.unsupported(&["NonIndexed", "Indexed"]));
    }
    let (per_index, failed) = (spec.field("backoffLimitPerIndex"), spec.field("maxFailedIndexes"));
    if !mode.is_set() || mode.text() == "NonIndexed" {
        for field in [&per_index, &failed] {
            if field.is_set() {
                errors.push(field.invalid("requires indexed completion mode"));
            }
        }
    }
    if mode.text() != "Indexed" {
        return;
    }
    let (completions, parallelism) = (spec.field("completions"), spec.field("parallelism"));
    if !completions.is_set() {
        errors.push(completions.required("when completion mode is Indexed"));
    }
    let above = |place: &Place<'_, '_>, limit: i64| place.number().is_some_and(|number| number > limit);
    if above(&parallelism, INDEXES_MAX) {
        let rule = format!("must be less than or equal to {INDEXES_MAX} when completion mode is Indexed");
        errors.push(parallelism.invalid(rule));
    }
    if completions.number().is_some_and(|completions| above(&failed, completions)) {
        errors.push(failed.invalid("must be less than or equal to completions"));
    }
    if above(&failed, INDEXES_MAX) {
        errors.push(failed.invalid(format!("must be less than or equal to {INDEXES_MAX}")));
    }
    if above(&completions, INDEXES_MAX) && per_index.is_set() {
        if !failed.is_set() {
            let rule = format!("must be specified when completions is above {INDEXES_MAX}");
            errors.push(failed.required(&rule));
        }
        for field in [&parallelism, &failed] {
            if above(field, MANY_COMPLETIONS_LIMIT) {
                errors.push(field.invalid(format!(
                    "must be less than or equal to {MANY_COMPLETIONS_LIMIT} when completions are above {INDEXES_MAX} \
                     and used with backoff limit per index"
                )));
            }
        }
    }
}

fn failure_policy(spec: &Place<'_, '_>, errors: &mut Errors) {
    const ACTIONS: &[&str] = &["Count", "FailIndex", "FailJob", "Ignore"];
    let policy = spec.field("podFailurePolicy");
    for rule in policy.field("rules").items() {
        let action = rule.field("action");
        match action.text() {
            "" => errors.push(action.required(&valid_values(ACTIONS))),
            "FailIndex" if !spec.field("backoffLimitPerIndex").is_set() => {
                errors.push(action.invalid("requires the backoffLimitPerIndex to be set"));
            }
            text if !ACTIONS.contains(&text) => errors.push(action.unsupported(ACTIONS)),
            _ => {}
        }
        let (codes, conditions) = (rule.field("onExitCodes"), rule.field("onPodConditions"));
        if codes.is_set() {
            exit_codes(&codes, spec, errors);
        }
        for pattern in conditions.items() {
            const STATUSES: &[&str] = &["False", "True", "Unknown"];
            let (kind, status) = (pattern.field("type"), pattern.field("status"));
            errors.form(&kind, format::label_key(kind.text()));
            match status.text() {
                "" => errors.push(status.required(&valid_values(STATUSES))),
                text if !STATUSES.contains(&text) => errors.push(status.unsupported(STATUSES)),
                _ => {}
            }
        }
        let which = match (codes.is_set(), conditions.len() > 0) {
            (true, true) => "specifying both OnExitCodes and OnPodConditions is not supported",
            (false, false) => "specifying one of OnExitCodes and OnPodConditions is required",
            _ => continue,
        };
        errors.push(FieldError::new("FieldValueInvalid", rule.path(), format!("Invalid value: {which}")));
    }
}

/// Values as Go prints a list of them.
fn valid_values(values: &[&str]) -> String {
    let shown: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
    format!("valid values: [{}]", shown.join(" "))
}

fn exit_codes(codes: &Place<'_, '_>, spec: &Place<'_, '_>, errors: &mut Errors) {
    const OPERATORS: &[&str] = &["In", "NotIn"];
    let operator = codes.field("operator");
    match operator.text() {
        "" => errors.push(operator.required(&valid_values(OPERATORS))),
        text if !OPERATORS.contains(&text) => errors.push(operator.unsupported(OPERATORS)),
        _ => {}
    }
    let name = codes.field("containerName");
    let named = |list: &str| {
        let containers = spec.value["template"]["spec"][list].as_array();
        containers.is_some_and(|list| list.iter().any(|container| container["name"] == *name.value))
    };
    if name.is_set() && !named("containers") && !named("initContainers") {
        let rule = "must be one of the container or initContainer names in the pod template";
        errors.push(name.invalid(rule));
    }
    let values = codes.field("values");
    if values.len() == 0 {
        errors.push(values.invalid("at least one value is required"));
    }
    let mut seen: Vec<i64> = Vec::new();
    let mut ordered = true;
    for value in values.items() {
        let number = value.number().unwrap_or(0);
        if operator.text() == "In" && number == 0 {
            errors.push(value.invalid("must not be 0 for the In operator"));
        }
        if seen.contains(&number) {
            errors.push(value.duplicate());
        }
        ordered &= seen.last().is_none_or(|last| *last <= number);
        seen.push(number);
    }
    if !ordered {
        errors.push(values.invalid("must be ordered"));
    }
}

fn success_policy(spec: &Place<'_, '_>, errors: &mut Errors) {
    let policy = spec.field("successPolicy");
    if !policy.is_set() {
        return;
    }
    if spec.field("completionMode").text() != "Indexed" {
        errors.push(policy.invalid("requires indexed completion mode"));
        return;
    }
    let rules = policy.field("rules");
    if rules.len() == 0 {
        errors
            .push(rules.required("at least one rules must be specified when the successPolicy is specified"));
    }
    let completions = spec.field("completions").number().unwrap_or(0);
    for rule in rules.items() {
        let (count, indexes) = (rule.field("succeededCount"), rule.field("succeededIndexes"));
        if !count.is_set() && !indexes.is_set() {
            errors
                .push(rule.required("at least one of succeededCount or succeededIndexes must be specified"));
        }
        let total = if indexes.is_set() { indexed(&indexes, completions, errors) } else { 0 };
        errors.not_negative(&count);
        let number = count.number().unwrap_or(0);
        if count.is_set() && number > completions {
            let what = "the number of specified completions";
            errors.push(count.invalid(format!("must be less than or equal to {completions} ({what})")));
        }
        if count.is_set() && indexes.is_set() && number > total {
            let what = "the number of indexes in the specified succeededIndexes field";
            errors.push(count.invalid(format!("must be less than or equal to {total} ({what})")));
        }
    }
}

/// Counts indexes such as `1,3-5`.
fn indexed(indexes: &Place<'_, '_>, completions: i64, errors: &mut Errors) -> i64 {
    match count_indexes(indexes.text(), completions) {
        Ok(total) => total,
        Err(why) => {
            errors.push(indexes.invalid(format!("error parsing succeededIndexes: {why}")));
            0
        }
    }
}

fn count_indexes(text: &str, completions: i64) -> Result<i64, String> {
    let (mut total, mut last): (i64, Option<i64>) = (0, None);
    for interval in text.split(',').filter(|_| !text.is_empty()) {
        let limits: Vec<&str> = interval.split('-').collect();
        if limits.len() > 2 {
            return Err(format!(
                "the fragment {interval:?} violates the requirement that an index interval can have at most two parts \
                 separated by '-'"
            ));
        }
        let number = |text: &str| {
            text.parse::<i64>().map_err(|_| format!("cannot convert string to integer for index: {text:?}"))
        };
        let first = number(limits[0])?;
        if first >= completions {
            return Err(format!("too large index: {:?}", limits[0]));
        }
        let end = limits.get(1).map_or(Ok(first), |text| number(text))?;
        if end >= completions {
            return Err(format!("too large index: {:?}", limits[1]));
        }
        if limits.len() == 2 && first >= end {
            return Err(format!("non-increasing order, previous: {first}, current: {end}"));
        }
        if let Some(last) = last.filter(|last| *last >= first) {
            return Err(format!("non-increasing order, previous: {last}, current: {first}"));
        }
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
}

/// Checks the labels by which a job that chooses its own pods does.
pub(super) fn expected_labels(uid: &Value, name: &Value) -> Value {
    json!({"controller-uid": uid, "job-name": name,
        "batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": name})
}
