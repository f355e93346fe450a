//! The numbers that the scale subresource of a custom resource reads must be numbers of replicas.

use serde_json::{Value, json};

use crate::error::FieldError;
use crate::registry::{Resource, Subresource};

/// Returns what is wrong with the replicas of an object whose kind can be scaled.
pub(crate) fn check_replicas(resource: &Resource, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for subresource in &resource.subresources {
        let Subresource::Scale(paths) = subresource else { continue };
        for path in [&paths.spec_replicas, &paths.status_replicas] {
            let field = format!(".{}", path.join("."));
            let rule = match number_at(object, path) {
                Found::Number(count) if count < 0 => "should be a non-negative integer".to_owned(),
                Found::Number(count) if count > i64::from(i32::MAX) => {
                    format!("should be less than or equal to {}", i32::MAX)
                }
                Found::Nothing | Found::Number(_) => continue,
                Found::Other(value, expected) => {
                    format!(
                        "{field} accessor error: {} is of the type {}, expected {expected}",
                        shown(value),
                        go_type(value)
                    )
                }
            };
            let count = match number_at(object, path) {
                Found::Number(count) => count,
                _ => 0,
            };
            errors.push(FieldError::invalid(field, &json!(count), rule));
        }
    }
    errors
}

/// What is where a number of replicas should be.
enum Found<'v> {
    Nothing,
    Number(i64),
    /// A value of another type, on the way or at the end, and the type that was expected there.
    Other(&'v Value, &'static str),
}

fn number_at<'v>(object: &'v Value, path: &[String]) -> Found<'v> {
    let mut value = object;
    for part in path {
        match value {
            Value::Null => return Found::Nothing,
            Value::Object(fields) => match fields.get(part) {
                None => return Found::Nothing,
                Some(inner) => value = inner,
            },
            other => return Found::Other(other, "map[string]interface{}"),
        }
    }
    value.as_i64().map_or(Found::Other(value, "int64"), Found::Number)
}

/// A value as Go prints it.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "<nil>".to_owned(),
        Value::Array(items) => format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(" ")),
        Value::Object(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|(name, value)| format!("{name}:{}", shown(value))).collect();
            format!("map[{}]", fields.join(" "))
        }
        other => other.to_string(),
    }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}
