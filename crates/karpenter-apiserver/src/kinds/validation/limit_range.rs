//! Rules of limit ranges: names, and how the amounts of one resource relate.

use karpenter_quantity::Quantity;
use serde_json::json;

use super::resources;
use crate::error::FieldError;
use crate::kinds::format;
use crate::kinds::place::{Errors, Place};

const LISTS: &[&str] = &["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"];

pub(super) fn validate(spec: &Place<'_, '_>, errors: &mut Errors) {
    let mut seen = Vec::new();
    for limit in spec.field("limits").items() {
        let kind = limit.field("type");
        let wrong = format::label_key(kind.text());
        let standard = matches!(kind.text(), "Pod" | "Container" | "PersistentVolumeClaim");
        if wrong.is_empty() && !kind.text().contains('/') && !standard {
            let rule = "must be a standard limit type or fully qualified";
            errors.push(kind.invalid_value(&json!(kind.text()), rule));
        }
        errors.form(&kind, wrong);
        if seen.contains(&kind.text()) {
            errors.push(kind.duplicate());
        }
        seen.push(kind.text());
        names(&limit, kind.text(), errors);
        let mut names: Vec<&str> = LISTS
            .iter()
            .flat_map(|list| limit.value[*list].as_object().into_iter().flatten())
            .map(|(name, _)| &**name)
            .collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            amounts(&limit, kind.text() == "Pod", name, errors);
        }
    }
}

fn names(limit: &Place<'_, '_>, kind: &str, errors: &mut Errors) {
    for list in LISTS {
        let place = limit.field(list);
        if kind == "Pod" && list.starts_with("default") {
            if place.len() > 0 {
                errors.push(place.forbidden("may not be specified when `type` is 'Pod'"));
            }
            continue;
        }
        for (name, amount) in place.entries() {
            if matches!(kind, "Pod" | "Container") {
                resources::container_resource_name(&amount, name, errors);
            } else {
                resources::resource_name(&amount, name, errors);
            }
        }
    }
    let bounded = ["min", "max"].iter().any(|list| limit.value[*list].get("storage").is_some());
    if kind == "PersistentVolumeClaim" && !bounded {
        let rule = "either minimum or maximum storage value is required, but neither was provided";
        errors.push(limit.field("limits").required(rule));
    }
}

/// Checks the amounts of one resource against each other.
fn amounts(limit: &Place<'_, '_>, is_pod: bool, name: &str, errors: &mut Errors) {
    let get = |list: &str| {
        let skipped = is_pod && list.starts_with("default");
        let text = limit.value[list].get(name).filter(|_| !skipped)?;
        Some((resources::quantity(text), text.as_str().unwrap_or_default().to_owned()))
    };
    let words = |list: &str| match list {
        "defaultRequest" => "default request",
        "default" => "default",
        other => {
            if other == "min" {
                "min"
            } else {
                "max"
            }
        }
    };
    // Where the lower of two amounts is above the higher one: which is named, and whose value is shown.
    for (low, high, named, shown) in [
        ("min", "max", "min", "min"),
        ("min", "defaultRequest", "defaultRequest", "defaultRequest"),
        ("defaultRequest", "max", "defaultRequest", "defaultRequest"),
        ("defaultRequest", "default", "defaultRequest", "defaultRequest"),
        ("min", "default", "default", "min"),
        ("default", "max", "default", "max"),
    ] {
        let (Some((lower, lower_text)), Some((upper, upper_text))) = (get(low), get(high)) else { continue };
        if lower > upper {
            let limit_word = if (low, high) == ("defaultRequest", "default") { " limit" } else { "" };
            let rule = format!(
                "{} value {lower_text} is greater than {}{limit_word} value {upper_text}",
                words(low),
                words(high)
            );
            let value = if shown == low { lower_text } else { upper_text };
            errors.push(FieldError::invalid(
                format!("{}.{named}[{name}]", limit.path()),
                &json!(value),
                rule,
            ));
        }
    }
    ratio(limit, name, get, errors);
    if let (Some((default, default_text)), Some((request, request_text))) =
        (get("default"), get("defaultRequest"))
        && default != request
        && !resources::may_overcommit(name)
    {
        let path = format!("{}.defaultRequest[{name}]", limit.path());
        let rule = format!(
            "default value {default_text} must equal to defaultRequest value {request_text} in {name}"
        );
        errors.push(FieldError::invalid(path, &json!(request_text), rule));
    }
}

fn ratio(
    limit: &Place<'_, '_>,
    name: &str,
    get: impl Fn(&str) -> Option<(Quantity, String)>,
    errors: &mut Errors,
) {
    let Some((ratio, text)) = get("maxLimitRequestRatio") else { return };
    let path = format!("{}.maxLimitRequestRatio[{name}]", limit.path());
    if ratio < Quantity::from_units(1) {
        errors.push(FieldError::invalid(path.clone(), &json!(text), format!("ratio {text} is less than 1")));
    }
    let (Some((min, _)), Some((max, _))) = (get("min"), get("max")) else { return };
    #[expect(clippy::cast_precision_loss, reason = "the ratio is only shown and compared as a float")]
    let (asked, most) =
        (ratio.ceil_milli() as f64 / 1000.0, max.ceil_milli() as f64 / min.ceil_milli() as f64);
    if asked > most {
        let rule = format!("ratio {text} is greater than max/min = {most:.6}");
        errors.push(FieldError::invalid(path, &json!(text), rule));
    }
}
