//! Judging a custom object by its structural schema, with the findings and words of Kubernetes.
//!
//! A schema is compiled once. On an update, what is wrong in a value that did not change is forgiven; elements of a list
//! are the same value only when the list is a map by keys.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::{Map, Value, json};

use super::text_format;
use crate::error::FieldError;

/// One place of a compiled schema.
#[derive(Debug, Default)]
pub(crate) struct Structural {
    /// No type means any; two types are those of int-or-string.
    types: Vec<String>,
    nullable: bool,
    format: String,
    limits: Limits,
    pattern: Option<(String, Regex)>,
    allowed: Vec<Value>,
    required: Vec<String>,
    properties: BTreeMap<String, Structural>,
    additional: Option<Box<Structural>>,
    items: Option<Box<Structural>>,
    list: ListType,
    all_of: Vec<Structural>,
    any_of: Vec<Structural>,
    one_of: Vec<Structural>,
    not: Option<Box<Structural>>,
}

#[derive(Debug, Default)]
struct Limits {
    maximum: Option<f64>,
    minimum: Option<f64>,
    exclusive_maximum: bool,
    exclusive_minimum: bool,
    multiple_of: Option<f64>,
    max_length: Option<u64>,
    min_length: Option<u64>,
    max_items: Option<u64>,
    min_items: Option<u64>,
    max_properties: Option<u64>,
    min_properties: Option<u64>,
    unique_items: bool,
}

#[derive(Debug, Default, PartialEq)]
enum ListType {
    #[default]
    Atomic,
    Set,
    Map(Vec<String>),
}

/// What was found in a value.
#[derive(Default)]
struct Findings {
    errors: Vec<FieldError>,
    /// How much was in order; of several alternatives the one with most says what is wrong.
    matches: usize,
}

impl Findings {
    fn merge(&mut self, other: Self) {
        self.errors.extend(other.errors);
        self.matches += other.matches;
    }
}

impl Structural {
    /// Compiles a schema.
    ///
    /// # Errors
    /// Returns a sentence about a pattern that is no regular expression.
    pub(crate) fn compile(schema: &Value) -> Result<Self, String> {
        let part = |name: &str| match schema.get(name) {
            Some(part) if part.is_object() => Self::compile(part).map(|part| Some(Box::new(part))),
            _ => Ok(None),
        };
        let parts = |name: &str| {
            schema[name].as_array().into_iter().flatten().map(Self::compile).collect::<Result<Vec<_>, _>>()
        };
        let properties = schema["properties"].as_object().into_iter().flatten();
        let properties: Result<_, String> =
            properties.map(|(name, property)| Ok((name.clone(), Self::compile(property)?))).collect();
        let types = if schema["x-kubernetes-int-or-string"] == true {
            vec!["integer".to_owned(), "string".to_owned()]
        } else {
            schema["type"].as_str().map(str::to_owned).into_iter().collect()
        };
        let pattern = schema["pattern"].as_str().filter(|pattern| !pattern.is_empty()).map(|pattern| {
            Regex::new(pattern)
                .map(|regex| (pattern.to_owned(), regex))
                .map_err(|_| format!("{pattern} is not a regular expression"))
        });
        Ok(Self {
            format: known_format(&types, schema["format"].as_str().unwrap_or_default()),
            types,
            nullable: schema["nullable"] == true,
            limits: Limits::read(schema),
            pattern: pattern.transpose()?,
            allowed: schema["enum"].as_array().cloned().unwrap_or_default(),
            required: texts(&schema["required"]),
            properties: properties?,
            additional: part("additionalProperties")?,
            items: part("items")?,
            list: match schema["x-kubernetes-list-type"].as_str() {
                Some("set") => ListType::Set,
                Some("map") => ListType::Map(texts(&schema["x-kubernetes-list-map-keys"])),
                _ => ListType::Atomic,
            },
            all_of: parts("allOf")?,
            any_of: parts("anyOf")?,
            one_of: parts("oneOf")?,
            not: part("not")?,
        })
    }

    /// Returns what is wrong with an object.
    pub(crate) fn judge(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = self.check("", object, old).errors;
        let before = old.map_or(Vec::new(), |old| self.repeated("", old));
        if before.is_empty() {
            errors.extend(self.repeated("", object));
        }
        errors
    }

    /// Returns what is wrong with the status of an object; messages name places within the status.
    pub(crate) fn judge_status(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if let (Some(schema), Some(status)) = (self.properties.get("status"), object.get("status")) {
            errors = schema.check("", status, old.and_then(|old| old.get("status"))).errors;
        }
        for error in &mut errors {
            error.field = match error.field.as_str() {
                "<nil>" => "status".to_owned(),
                field => format!("status.{field}"),
            };
        }
        if old.is_none_or(|old| self.repeated("", old).is_empty()) {
            errors.extend(self.repeated("", object));
        }
        errors
    }

    fn check(&self, path: &str, value: &Value, old: Option<&Value>) -> Findings {
        let mut found = Findings::default();
        if value.is_null() {
            self.check_type(path, value, &mut found);
            self.check_allowed(path, value, &mut found);
        } else {
            self.check_type(path, value, &mut found);
            self.check_alternatives(path, value, &mut found);
            match value {
                Value::String(text) => self.check_text(path, text, &mut found),
                Value::Number(number) => self.limits.check_number(path, number, self, &mut found),
                Value::Array(items) => self.check_items(path, items, old, &mut found),
                Value::Object(fields) => self.check_fields(path, fields, old, &mut found),
                _ => {}
            }
            self.check_allowed(path, value, &mut found);
            found.matches += 1;
        }
        if old == Some(value) {
            found.errors.clear();
        }
        found
    }

    fn check_type(&self, path: &str, value: &Value, found: &mut Findings) {
        found.matches += 1;
        let actual = type_name(value);
        let expected = |name: &str| self.types.iter().any(|kind| kind == name);
        let suits = if value.is_null() {
            self.nullable
        } else if self.format.is_empty()
            || !(value.is_string() || value.is_array())
            || expected("number")
            || expected("integer")
        {
            let whole = value.as_f64().is_some_and(|number| number.fract() == 0.0);
            expected(actual)
                || (actual == "number" && whole && expected("integer"))
                || (actual == "integer" && expected("number"))
        } else {
            true
        };
        if self.types.is_empty() || suits {
            return;
        }
        // Of values that are no texts, the formats are told where one is asked for.
        if self.format.is_empty() || matches!(value, Value::Null | Value::String(_) | Value::Array(_)) {
            found.errors.push(wrong_type(path, &self.types.join(","), actual));
        } else {
            let format = match actual {
                "number" => "float64",
                "integer" => "int64",
                _ => "",
            };
            found.errors.push(wrong_type(path, &self.format, format));
        }
    }

    fn check_allowed(&self, path: &str, value: &Value, found: &mut Findings) {
        if self.allowed.is_empty() || (self.allowed.contains(value) && !value.is_null()) {
            return;
        }
        let names: Vec<String> = self
            .allowed
            .iter()
            .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        found.errors.push(FieldError::unsupported(shown(path), value, &names));
    }

    fn check_text(&self, path: &str, text: &str, found: &mut Findings) {
        let length = text.chars().count() as u64;
        let limits = &self.limits;
        if let Some(limit) = limits.max_length.filter(|limit| length > *limit) {
            let message = format!("Too long: may not be more than {limit} bytes");
            found.errors.push(FieldError::new("FieldValueTooLong", shown(path), message));
        } else if let Some(limit) = limits.min_length.filter(|limit| length < *limit) {
            found.errors.push(broken(path, &json!(text), &format!("should be at least {limit} chars long")));
        } else if let Some((pattern, regex)) = &self.pattern
            && !regex.is_match(text)
        {
            found.errors.push(broken(path, &json!(text), &format!("should match '{pattern}'")));
        } else {
            found.matches += 1;
        }
        let textual = !self.types.iter().any(|kind| kind == "integer" || kind == "number");
        if textual && !self.format.is_empty() && !text_format::is(&self.format, text) {
            found.errors.push(wrong_type(path, &self.format, text));
        }
    }

    fn check_items(&self, path: &str, items: &[Value], old: Option<&Value>, found: &mut Findings) {
        if let Some(schema) = &self.items {
            for (index, item) in items.iter().enumerate() {
                found.merge(schema.check(&format!("{path}[{index}]"), item, self.same_item(item, old)));
            }
        }
        let limits = &self.limits;
        let count = items.len() as u64;
        if let Some(limit) = limits.min_items.filter(|limit| count < *limit) {
            found.errors.push(broken(path, &json!(count), &format!("should have at least {limit} items")));
        }
        if let Some(limit) = limits.max_items.filter(|limit| count > *limit) {
            found.errors.push(too_many(path, count, limit));
        }
        if limits.unique_items && items.iter().enumerate().any(|(index, item)| items[..index].contains(item))
        {
            found.errors.push(broken(path, &json!(""), "shouldn't contain duplicates"));
        }
        found.matches += 1;
    }

    /// The element of the old list that is the same by its keys.
    fn same_item<'o>(&self, item: &Value, old: Option<&'o Value>) -> Option<&'o Value> {
        let ListType::Map(keys) = &self.list else { return None };
        old?.as_array()?.iter().find(|other| keys.iter().all(|key| other.get(key) == item.get(key)))
    }

    fn check_fields(
        &self,
        path: &str,
        fields: &Map<String, Value>,
        old: Option<&Value>,
        found: &mut Findings,
    ) {
        let limits = &self.limits;
        let count = fields.len() as u64;
        if let Some(limit) = limits.min_properties.filter(|limit| count < *limit) {
            found.errors.push(broken(
                path,
                &json!(count),
                &format!("should have at least {limit} properties"),
            ));
        }
        if let Some(limit) = limits.max_properties.filter(|limit| count > *limit) {
            found.errors.push(too_many(path, count, limit));
        }
        for (name, value) in fields {
            let Some(schema) = self.properties.get(name).or(self.additional.as_deref()) else { continue };
            let place = if path.is_empty() && self.properties.contains_key(name) {
                name.clone()
            } else {
                format!("{path}.{name}")
            };
            found.merge(schema.check(&place, value, old.and_then(|old| old.get(name))));
        }
        for name in self.required.iter().filter(|name| !fields.contains_key(*name)) {
            found.errors.push(FieldError::required(shown(&format!("{path}.{name}")), ""));
        }
    }

    fn check_alternatives(&self, path: &str, value: &Value, found: &mut Findings) {
        let composite =
            |rule: String| FieldError::invalid("<nil>", &json!(""), format!("{} {rule}", json!(path)));
        if !self.any_of.is_empty() {
            let results: Vec<Findings> =
                self.any_of.iter().map(|part| part.check(path, value, None)).collect();
            if !results.iter().any(|result| result.errors.is_empty()) {
                found.errors.push(composite("must validate at least one schema (anyOf)".into()));
                found.merge(best(results));
            }
        }
        if !self.one_of.is_empty() {
            let results: Vec<Findings> =
                self.one_of.iter().map(|part| part.check(path, value, None)).collect();
            let valid = results.iter().filter(|result| result.errors.is_empty()).count();
            let count = if valid == 0 {
                "Found none valid".to_owned()
            } else {
                format!("Found {valid} valid alternatives")
            };
            if valid != 1 {
                found
                    .errors
                    .push(composite(format!("must validate one and only one schema (oneOf). {count}")));
            }
            if valid == 0 {
                found.merge(best(results));
            }
        }
        let mut valid = 0;
        for part in &self.all_of {
            let result = part.check(path, value, None);
            valid += usize::from(result.errors.is_empty());
            found.merge(result);
        }
        if valid != self.all_of.len() {
            let none = if valid == 0 { ". None validated" } else { "" };
            found.errors.push(composite(format!("must validate all the schemas (allOf){none}")));
        }
        if self.not.as_ref().is_some_and(|part| part.check(path, value, None).errors.is_empty()) {
            found.errors.push(composite("must not validate the schema (not)".into()));
        }
        found.matches += 1;
    }

    /// Elements that a set, or a list that is a map by keys, holds twice.
    fn repeated(&self, path: &str, value: &Value) -> Vec<FieldError> {
        match value {
            Value::Array(items) => {
                let mut errors = self.repeated_items(path, items);
                for (index, item) in items.iter().enumerate() {
                    if let Some(schema) = &self.items {
                        errors.extend(schema.repeated(&format!("{path}[{index}]"), item));
                    }
                }
                errors
            }
            Value::Object(fields) => fields
                .iter()
                .flat_map(|(name, value)| match (self.properties.get(name), &self.additional) {
                    (Some(schema), _) => schema.repeated(&format!("{path}.{name}"), value),
                    (None, Some(schema)) => schema.repeated(&format!("{path}[{name}]"), value),
                    _ => Vec::new(),
                })
                .collect(),
            _ => Vec::new(),
        }
    }

    fn repeated_items(&self, path: &str, items: &[Value]) -> Vec<FieldError> {
        let odd = items.iter().position(|item| !item.is_object() && !item.is_null());
        if let (ListType::Map(_), Some(index)) = (&self.list, odd) {
            let rule = "must be an object for an array of list-type map";
            return vec![FieldError::invalid(shown(&format!("{path}[{index}]")), &items[index], rule)];
        }
        let keys: Vec<Value> = match &self.list {
            ListType::Atomic => return Vec::new(),
            ListType::Set => items.to_vec(),
            ListType::Map(names) => {
                let given = |item: &Value, name: &String| Some((name.clone(), item.get(name)?.clone()));
                items
                    .iter()
                    .map(|item| Value::Object(names.iter().filter_map(|name| given(item, name)).collect()))
                    .collect()
            }
        };
        let second = |index: usize| keys[..index].iter().filter(|key| **key == keys[index]).count() == 1;
        (0..keys.len())
            .filter(|index| second(*index))
            .map(|index| FieldError::duplicate(shown(&format!("{path}[{index}]")), &keys[index]))
            .collect()
    }
}

impl Limits {
    fn read(schema: &Value) -> Self {
        let (number, count) = (|name: &str| schema[name].as_f64(), |name: &str| schema[name].as_u64());
        Self {
            maximum: number("maximum"),
            minimum: number("minimum"),
            exclusive_maximum: schema["exclusiveMaximum"] == true,
            exclusive_minimum: schema["exclusiveMinimum"] == true,
            multiple_of: number("multipleOf"),
            max_length: count("maxLength"),
            min_length: count("minLength"),
            max_items: count("maxItems"),
            min_items: count("minItems"),
            max_properties: count("maxProperties"),
            min_properties: count("minProperties"),
            unique_items: schema["uniqueItems"] == true,
        }
    }

    fn check_number(
        &self,
        path: &str,
        number: &serde_json::Number,
        place: &Structural,
        found: &mut Findings,
    ) {
        let value = json!(number);
        let amount = number.as_f64().unwrap_or_default();
        if place.types == ["integer"] {
            let small = amount <= f64::from(i32::MAX) && amount >= f64::from(i32::MIN);
            if amount.fract() != 0.0 || (place.format == "int32" && !small) {
                let format = match place.format.as_str() {
                    "" => "(default format)".to_owned(),
                    format => format!("with format {format}"),
                };
                let rule = format!("Checked value must be of type integer {format} in {path}");
                found.errors.push(FieldError::invalid("<nil>", &json!(""), rule));
            }
        }
        if let Some(factor) = self.multiple_of {
            // A whole number is compared with the whole part of the factor.
            let factor = if number.is_f64() { factor } else { factor.trunc() };
            if factor <= 0.0 {
                let rule = format!("factor MultipleOf declared for {path} must be positive: {factor}");
                found.errors.push(FieldError::invalid(shown(path), &json!(factor as i64), rule));
            } else if (amount / factor).fract() != 0.0 {
                found.errors.push(broken(path, &value, &format!("should be a multiple of {factor}")));
            }
        }
        if let Some(limit) = self.maximum {
            if self.exclusive_maximum && amount >= limit {
                found.errors.push(broken(path, &value, &format!("should be less than {limit}")));
            } else if amount > limit {
                found.errors.push(broken(path, &value, &format!("should be less than or equal to {limit}")));
            }
        }
        if let Some(limit) = self.minimum {
            if self.exclusive_minimum && amount <= limit {
                found.errors.push(broken(path, &value, &format!("should be greater than {limit}")));
            } else if amount < limit {
                found.errors.push(broken(
                    path,
                    &value,
                    &format!("should be greater than or equal to {limit}"),
                ));
            }
        }
        found.matches += 1;
    }
}

/// The alternative with most in order.
fn best(results: Vec<Findings>) -> Findings {
    let most = results.iter().map(|result| result.matches).max().unwrap_or_default();
    results.into_iter().find(|result| result.matches == most).unwrap_or_default()
}

/// Formats that Kubernetes does not know for a type are ignored.
fn known_format(types: &[String], format: &str) -> String {
    let known = match types {
        [] => text_format::is_known(format),
        [kind] => match kind.as_str() {
            "string" => text_format::is_known(format),
            "integer" => matches!(format, "int32" | "int64"),
            "number" => matches!(format, "float" | "double"),
            _ => false,
        },
        _ => false,
    };
    if known { format.to_owned() } else { String::new() }
}

fn broken(path: &str, value: &Value, rule: &str) -> FieldError {
    FieldError::invalid(shown(path), value, format!("{path} in body {rule}"))
}

fn wrong_type(path: &str, expected: &str, actual: &str) -> FieldError {
    let quoted = json!(actual);
    let message = format!("Invalid value: {quoted}: {path} in body must be of type {expected}: {quoted}");
    FieldError::new("FieldValueTypeInvalid", shown(path), message)
}

fn too_many(path: &str, count: u64, limit: u64) -> FieldError {
    let message = format!("Too many: {count}: must have at most {limit} items");
    FieldError::new("FieldValueTooMany", shown(path), message)
}

/// A path as the name of a field.
fn shown(path: &str) -> String {
    match path.trim_start_matches('.') {
        "" => "<nil>".to_owned(),
        path => path.to_owned(),
    }
}

/// The type of a value in the words of schemas.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn texts(values: &Value) -> Vec<String> {
    values.as_array().into_iter().flatten().filter_map(|value| value.as_str().map(str::to_owned)).collect()
}
