//! Whether an applied configuration fits the schema: fields exist, values have the right type, list items can be
//! told apart.

use serde_json::Value;

use super::elements::item_element;
use crate::schema::{Merging, Node, Scalar, Shape};

/// Whether it can be said who owns which field of an object; items that are there twice do not stand in the way.
pub(crate) fn can_be_owned(object: &Value, node: &Node) -> bool {
    check(object, node).iter().all(|problem| problem.contains(": duplicate entries for key "))
}

/// Returns what does not fit, one sentence per place, each with its path.
pub(super) fn check(value: &Value, node: &Node) -> Vec<String> {
    let mut problems = Vec::new();
    walk(value, node, "", &mut problems);
    problems
}

fn walk(value: &Value, node: &Node, path: &str, problems: &mut Vec<String>) {
    let mut report = |problem: String| {
        problems.push(if path.is_empty() { problem } else { format!("{path}: {problem}") });
    };
    match (&node.shape, value) {
        (Shape::Any | Shape::Flexible(_), _) | (_, Value::Null) => {}
        (Shape::Object(_) | Shape::Named(_), Value::Object(fields)) => {
            for (name, field) in fields {
                let path = format!("{path}.{name}");
                match node.field(name) {
                    Some(child) => walk(field, child, &path, problems),
                    None if node.preserve_unknown => {}
                    None => {
                        problems.push(format!("{path}: field not declared in schema"));
                        return;
                    }
                }
            }
        }
        (Shape::Object(_) | Shape::Named(_), other) => report(format!("expected map, got {}", shown(other))),
        (Shape::Array(items), Value::Array(values)) => list(values, items, node, path, problems),
        (Shape::Array(_), other) => report(format!("expected list, got {}", shown(other))),
        // What a CRD says may be a number or a text can be anything to whoever applies it, except that no map has fields.
        (Shape::Scalar(Scalar::IntOrString), Value::Array(_)) if node.go_type.is_empty() => {}
        (Shape::Scalar(Scalar::IntOrString), Value::Object(fields)) if node.go_type.is_empty() => {
            if let Some(name) = fields.keys().next() {
                problems.push(format!("{path}.{name}: field not declared in schema"));
            }
        }
        (Shape::Scalar(scalar), other) => {
            if let Some(problem) = misfit(*scalar, other) {
                report(problem);
            }
        }
    }
}

fn list(values: &[Value], items: &Node, node: &Node, path: &str, problems: &mut Vec<String>) {
    let associative = matches!(node.merging, Merging::Keyed(_) | Merging::Set);
    let mut seen = Vec::new();
    for (index, value) in values.iter().enumerate() {
        let mut inner = format!("{path}[{index}]");
        if associative {
            let element = match item_element(value, node) {
                Ok(element) => element,
                Err(problem) => {
                    problems.push(format!("{path}: element {index}: {problem}"));
                    return;
                }
            };
            let shown = super::field_set::shown(&element);
            if seen.contains(&element) {
                problems.push(format!("{path}: duplicate entries for key {shown}"));
            }
            seen.push(element);
            inner = format!("{path}{shown}");
        }
        walk(value, items, &inner, problems);
    }
}

fn misfit(scalar: Scalar, value: &Value) -> Option<String> {
    match (scalar, value) {
        (Scalar::Integer(_) | Scalar::Number, Value::Number(_))
        | (Scalar::Boolean, Value::Bool(_))
        | (Scalar::IntOrString | Scalar::Quantity, Value::String(_) | Value::Number(_))
        | (Scalar::String | Scalar::Time | Scalar::MicroTime | Scalar::Bytes, Value::String(_)) => None,
        (Scalar::Integer(_) | Scalar::Number, other) => {
            Some(format!("expected numeric (int or float), got {}", go_type(other)))
        }
        (Scalar::Boolean, other) => Some(format!("expected boolean, got {}", shown(other))),
        (Scalar::IntOrString | Scalar::Quantity, other) => {
            Some(format!("expected any scalar, got {}", shown(other)))
        }
        (_, other) => {
            Some(format!("expected string, got &value.valueUnstructured{{Value:{}}}", go_literal(other)))
        }
    }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
        Value::Null => "<nil>",
    }
}

fn go_literal(value: &Value) -> String {
    match value {
        Value::Array(_) | Value::Object(_) => format!("{}{{…}}", go_type(value)),
        other => other.to_string(),
    }
}

fn shown(value: &Value) -> String {
    format!(
        "&{{{}}}",
        match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    )
}
