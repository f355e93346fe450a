//! Rules of events. Places have the names of the core group, whichever group an event is written through.

use serde_json::{Value, json};

use crate::error::FieldError;
use crate::kinds::format;
use crate::kinds::place::Errors;

const NAME_LENGTH_MAX: usize = 128;
const MESSAGE_LENGTH_MAX: usize = 1024;

/// An event with the name of each field as its group has it.
struct Event<'v> {
    value: &'v Value,
    /// Whether it is one of `events.k8s.io`, which is stricter.
    strict: bool,
}

impl<'v> Event<'v> {
    fn new(value: &'v Value) -> Self {
        Self { value, strict: value["apiVersion"] == "events.k8s.io/v1" }
    }

    fn field(&self, name: &str) -> &'v Value {
        let name = match (self.strict, name) {
            (true, "involvedObject") => "regarding",
            (true, "message") => "note",
            (true, "count") => "deprecatedCount",
            (true, "firstTimestamp") => "deprecatedFirstTimestamp",
            (true, "lastTimestamp") => "deprecatedLastTimestamp",
            (true, "source") => "deprecatedSource",
            (false, "reportingController") => "reportingComponent",
            (_, name) => name,
        };
        &self.value[name]
    }

    fn text(&self, name: &str) -> &'v str {
        self.field(name).as_str().unwrap_or_default()
    }
}

/// Checks an event.
pub(super) fn validate(object: &Value, errors: &mut Errors) {
    let event = Event::new(object);
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
    let about = event.field("involvedObject")["namespace"].as_str().unwrap_or_default();
    let misplaced = match (event.field("eventTime").is_null(), about) {
        (true, "") => namespace != "default",
        (true, about) => namespace != about,
        (false, "") => !matches!(namespace, "default" | "kube-system"),
        (false, _) => false,
    };
    if misplaced {
        let rule = "does not match event.namespace";
        errors.push(FieldError::invalid("involvedObject.namespace", &json!(about), rule));
    }
    if !event.field("eventTime").is_null() {
        reported(&event, errors);
    }
}

/// Checks what events with an exact time must say.
fn reported(event: &Event<'_>, errors: &mut Errors) {
    let controller = event.text("reportingController");
    let field = if event.strict { "reportingController" } else { "reportingComponent" };
    for rule in format::label_key(controller) {
        errors.push(FieldError::invalid(field, &json!(controller), rule));
    }
    for (name, field) in [
        ("reportingController", field),
        ("reportingInstance", "reportingInstance"),
        ("action", "action"),
        ("reason", "reason"),
    ] {
        if event.text(name).is_empty() {
            errors.push(FieldError::required(field, ""));
        }
    }
    let too_long = |name: &str, limit: usize| {
        let rule = format!("can have at most {limit} characters");
        (event.text(name).len() > limit).then(|| FieldError::invalid(name, &json!(""), rule))
    };
    for name in ["reportingInstance", "action", "reason"] {
        errors.add(too_long(name, NAME_LENGTH_MAX));
    }
    errors.add(too_long("message", MESSAGE_LENGTH_MAX));
}

/// Checks a new event.
pub(super) fn create(object: &Value, errors: &mut Errors) {
    let event = Event::new(object);
    if !event.strict {
        return;
    }
    series(&event, errors);
    if event.field("eventTime").is_null() {
        errors.push(FieldError::required("eventTime", ""));
    }
    let kind = event.text("type");
    if !matches!(kind, "Normal" | "Warning") {
        errors.push(FieldError::invalid("type", &json!(""), format!("has invalid value: {kind}")));
    }
    let source = event.field("source");
    let named = |name: &str| source[name].as_str().is_some_and(|text| !text.is_empty());
    for (name, set) in [
        ("firstTimestamp", !event.field("firstTimestamp").is_null()),
        ("lastTimestamp", !event.field("lastTimestamp").is_null()),
        ("count", event.field("count").as_i64().is_some_and(|count| count != 0)),
        ("source", named("component") || named("host")),
    ] {
        if set {
            errors.push(FieldError::invalid(name, &json!(""), "needs to be unset"));
        }
    }
}

/// What a change of an event may not touch.
pub(super) fn update(new: &Value, old: &Value, errors: &mut Errors) {
    let (after, before) = (Event::new(new), Event::new(old));
    if !after.strict {
        return;
    }
    if after.field("series") != before.field("series") {
        series(&after, errors);
    }
    for name in [
        "involvedObject",
        "reason",
        "message",
        "source",
        "firstTimestamp",
        "lastTimestamp",
        "count",
        "type",
        "eventTime",
        "action",
        "related",
        "reportingController",
        "reportingInstance",
    ] {
        if after.field(name) != before.field(name) {
            let value = match (after.field(name), name) {
                (Value::Null, "count") => json!(0),
                (
                    Value::Null,
                    "reason" | "message" | "type" | "action" | "reportingController" | "reportingInstance",
                ) => {
                    json!("")
                }
                (value, _) => value.clone(),
            };
            errors.push(FieldError::invalid(name, &value, "field is immutable"));
        }
    }
}

fn series(event: &Event<'_>, errors: &mut Errors) {
    let series = event.field("series");
    if !series.is_object() {
        return;
    }
    if series["count"].as_i64().unwrap_or(0) < 2 {
        errors.push(FieldError::invalid("series.count", &json!(""), "should be at least 2"));
    }
    if series["lastObservedTime"].is_null() {
        errors.push(FieldError::required("series.lastObservedTime", ""));
    }
}
