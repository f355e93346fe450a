//! What is wrong with the schema of a custom resource: whether it is structural, and its extensions.

use serde_json::{Value, json};

use super::rules::{check_rules, check_texts};
use super::structural::Structural;
use crate::error::FieldError;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
/// What a schema within `allOf`, `anyOf`, `oneOf` or `not` may not say, and how that is told.
const NOT_NESTED: [(&str, &str); 13] = [
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
];

#[derive(Clone, Copy, PartialEq)]
enum Level {
    Root,
    Field,
    Item,
}

/// Adds what is wrong with a schema.
pub(super) fn check_schema(schema: &Value, place: &str, with_status: bool, errors: &mut Vec<FieldError>) {
    if with_status && !text(schema, "type").is_empty() && schema["type"] != "object" {
        let rule = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
        errors.push(FieldError::invalid(format!("{place}.type"), &schema["type"], rule));
    }
    let mut structural = Vec::new();
    check_structure(schema, place, Level::Root, &mut structural);
    if structural.is_empty() {
        check_defaults(schema, place, &mut structural);
    }
    let sound = structural.is_empty();
    errors.extend(structural);
    let mut extensions = Vec::new();
    check_extensions(schema, place, &mut extensions);
    check_texts(schema, place, &mut extensions);
    if sound {
        let rules = check_rules(schema, place, &extensions);
        extensions.extend(rules);
    }
    errors.extend(extensions);
}

fn check_structure(schema: &Value, place: &str, level: Level, errors: &mut Vec<FieldError>) {
    let kind = text(schema, "type");
    if kind == "array" && schema.get("items").is_none() {
        errors.push(FieldError::required(format!("{place}.items"), "must be specified"));
    }
    if let Some(items) = schema.get("items") {
        check_structure(items, &format!("{place}.items"), Level::Item, errors);
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        check_structure(property, &format!("{place}.properties[{name}]"), Level::Field, errors);
    }
    if let Some(additional) = schema.get("additionalProperties") {
        if level == Level::Root {
            let rule = "must not be used at the root";
            errors.push(FieldError::forbidden(format!("{place}.additionalProperties"), rule));
        }
        if additional.is_object() {
            check_structure(additional, &format!("{place}.additionalProperties"), Level::Field, errors);
        }
    }
    check_values(schema, place, is_int_or_string(schema), errors);
    let free = ["x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields"];
    if kind.is_empty() && free.iter().all(|name| schema[*name] != true) {
        let rule = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.push(FieldError::required(format!("{place}.type"), rule));
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        let rule = "must be object at the root";
        errors.push(FieldError::invalid(format!("{place}.type"), &schema["type"], rule));
    }
}

/// The one place where alternatives may have types.
fn is_int_or_string(schema: &Value) -> bool {
    schema["x-kubernetes-int-or-string"] == true
        && schema["anyOf"] == json!([{"type": "integer"}, {"type": "string"}])
}

fn check_values(schema: &Value, place: &str, skip_any_of: bool, errors: &mut Vec<FieldError>) {
    for name in ["anyOf", "allOf", "oneOf"] {
        for (index, part) in schema[name].as_array().into_iter().flatten().enumerate() {
            let int_or_string = name == "allOf" && schema["x-kubernetes-int-or-string"] == true && index == 0;
            if !(name == "anyOf" && skip_any_of) {
                check_nested(part, &format!("{place}.{name}[{index}]"), int_or_string, errors);
            }
        }
    }
    if let Some(part) = schema.get("not") {
        check_nested(part, &format!("{place}.not"), false, errors);
    }
    let pattern = text(schema, "pattern");
    if let Err(error) = regex::Regex::new(pattern) {
        let rule =
            format!("must be a valid regular expression, but isn't: {}", go_regex_error(&error, pattern));
        errors.push(FieldError::invalid(format!("{place}.pattern"), &schema["pattern"], rule));
    }
}

/// The complaint about a regular expression in the words of Go, where it is the common one.
fn go_regex_error(error: &regex::Error, pattern: &str) -> String {
    let text = error.to_string();
    let last = |open: char| pattern.rfind(open).map_or(pattern, |at| &pattern[at..]);
    if text.contains("unclosed character class") {
        format!("error parsing regexp: missing closing ]: `{}`", last('['))
    } else if text.contains("unclosed group") {
        format!("error parsing regexp: missing closing ): `{pattern}`")
    } else {
        format!("error parsing regexp: {text}")
    }
}

fn check_nested(schema: &Value, place: &str, skip_any_of: bool, errors: &mut Vec<FieldError>) {
    check_values(schema, place, skip_any_of, errors);
    if let Some(items) = schema.get("items") {
        check_nested(items, &format!("{place}.items"), false, errors);
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        check_nested(property, &format!("{place}.properties[{name}]"), false, errors);
    }
    for (name, rule) in NOT_NESTED {
        let said = schema.get(name).is_some_and(|value| *value != json!(false) && *value != json!(""));
        if said {
            errors.push(FieldError::forbidden(format!("{place}.{name}"), rule));
        }
    }
}

/// Defaults must be what the schema lets pass.
fn check_defaults(schema: &Value, place: &str, errors: &mut Vec<FieldError>) {
    if let (Some(default), Ok(structural)) = (schema.get("default"), Structural::compile(schema)) {
        for mut error in structural.judge(default, None) {
            error.field = match error.field.as_str() {
                "<nil>" => format!("{place}.default"),
                field => format!("{place}.default.{field}"),
            };
            errors.push(error);
        }
    }
    if let Some(items) = schema.get("items") {
        check_defaults(items, &format!("{place}.items"), errors);
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        check_defaults(property, &format!("{place}.properties[{name}]"), errors);
    }
}

fn check_extensions(schema: &Value, place: &str, errors: &mut Vec<FieldError>) {
    let kind = text(schema, "type");
    if !kind.is_empty() && !TYPES.contains(&kind) {
        errors.push(FieldError::unsupported(format!("{place}.type"), &schema["type"], &TYPES));
    }
    for (name, said) in
        [("$ref", "$ref"), ("definitions", "definitions"), ("patternProperties", "patternProperties")]
    {
        if schema.get(name).is_some() {
            errors
                .push(FieldError::forbidden(format!("{place}.{said}"), &format!("{said} is not supported")));
        }
    }
    if schema["uniqueItems"] == true {
        let rule = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(FieldError::forbidden(format!("{place}.uniqueItems"), rule));
    }
    let has_properties = schema["properties"].as_object().is_some_and(|properties| !properties.is_empty());
    if has_properties && schema.get("additionalProperties").is_some_and(|value| *value != json!(true)) {
        let rule = "additionalProperties and properties are mutual exclusive";
        errors.push(FieldError::forbidden(format!("{place}.additionalProperties"), rule));
    }
    check_list(schema, place, errors);
    for (part, place) in parts(schema, place) {
        check_extensions(part, &place, errors);
    }
}

/// The schemas below a schema with their places.
pub(super) fn parts<'s>(schema: &'s Value, place: &str) -> Vec<(&'s Value, String)> {
    let mut parts = Vec::new();
    for name in ["items", "additionalProperties", "not"] {
        parts.extend(
            schema.get(name).filter(|part| part.is_object()).map(|part| (part, format!("{place}.{name}"))),
        );
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        parts.push((property, format!("{place}.properties[{name}]")));
    }
    for name in ["allOf", "anyOf", "oneOf"] {
        for (index, part) in schema[name].as_array().into_iter().flatten().enumerate() {
            parts.push((part, format!("{place}.{name}[{index}]")));
        }
    }
    parts
}

fn check_list(schema: &Value, place: &str, errors: &mut Vec<FieldError>) {
    const KINDS: [&str; 3] = ["atomic", "set", "map"];
    let field = |name: &str| format!("{place}.{name}");
    let list_type = &schema["x-kubernetes-list-type"];
    let keys = &schema["x-kubernetes-list-map-keys"];
    let names: Vec<&str> = keys.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if list_type.is_null() {
        if !names.is_empty() {
            let rule = "must be map if x-kubernetes-list-map-keys is non-empty";
            errors.push(FieldError::required(field("x-kubernetes-list-type"), rule));
        }
        return;
    }
    if schema["type"] != "array" {
        let rule = "must be array if x-kubernetes-list-type is specified";
        errors.push(match text(schema, "type") {
            "" => FieldError::required(field("type"), rule),
            _ => FieldError::invalid(field("type"), &schema["type"], rule),
        });
    }
    if !list_type.as_str().is_some_and(|kind| KINDS.contains(&kind)) {
        errors.push(FieldError::unsupported(field("x-kubernetes-list-type"), list_type, &KINDS));
    }
    if list_type != "map" {
        if !names.is_empty() {
            let rule = "must be map if x-kubernetes-list-map-keys is non-empty";
            errors.push(FieldError::invalid(field("x-kubernetes-list-type"), list_type, rule));
        }
        return;
    }
    if names.is_empty() {
        let rule = "must not be empty if x-kubernetes-list-type is map";
        errors.push(FieldError::required(field("x-kubernetes-list-map-keys"), rule));
    }
    let Some(items) = schema.get("items") else {
        let rule = "must have a schema if x-kubernetes-list-type is map";
        errors.push(FieldError::required(field("items"), rule));
        return;
    };
    if items["type"] != "object" {
        let rule = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(FieldError::invalid(field("items.type"), &json!(text(items, "type")), rule));
        return;
    }
    for name in &names {
        let Some(key) = items["properties"].get(*name) else {
            let rule = "entries must all be names of item properties";
            errors.push(FieldError::invalid(field("x-kubernetes-list-map-keys"), keys, rule));
            continue;
        };
        let required =
            items["required"].as_array().is_some_and(|required| required.iter().any(|other| other == name));
        if !required && key.get("default").is_none() {
            let rule = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.push(FieldError::required(field(&format!("items.properties[{name}].default")), rule));
        }
    }
}

fn text<'v>(schema: &'v Value, name: &str) -> &'v str {
    schema[name].as_str().unwrap_or_default()
}
