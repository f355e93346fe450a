//! Making a decoded object conform to its kind: types are checked, unknown fields dropped, defaults filled in.

use serde_json::{Map, Value};

use super::{Node, Shape};

/// What to do with fields that are null.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nulls {
    /// Built-in kinds: null is the same as absent.
    Dropped,
    /// Custom resources: null stays for validation to judge, unless a default takes its place.
    Kept,
}

/// What conforming found out.
#[derive(Debug, Default)]
pub(crate) struct Conformance {
    /// Paths of fields the schema does not know; they were removed.
    pub(crate) unknown: Vec<String>,
    /// The first value of a wrong type, as a sentence.
    pub(crate) mismatch: Option<String>,
}

/// Prunes `value` to what `node` knows and checks types; custom resources leave types to validation.
pub(crate) fn conform(value: &mut Value, node: &Node, nulls: Nulls) -> Conformance {
    let mut conformance = Conformance::default();
    walk(value, node, nulls, &mut String::new(), &mut conformance);
    conformance
}

fn walk(value: &mut Value, node: &Node, nulls: Nulls, path: &mut String, report: &mut Conformance) {
    if value.is_null() {
        return;
    }
    match (&node.shape, &mut *value) {
        (Shape::Any, _)
        | (Shape::String | Shape::IntOrString, Value::String(_))
        | (Shape::Boolean, Value::Bool(_))
        | (Shape::Number, Value::Number(_)) => {}
        (Shape::Integer | Shape::IntOrString, Value::Number(number))
            if number.is_i64() || number.is_u64() => {}
        (Shape::Quantity, Value::Number(number)) => {
            let text = number.to_string();
            quantity(value, &text, path, report);
        }
        (Shape::Quantity, Value::String(text)) => {
            let text = std::mem::take(text);
            quantity(value, &text, path, report);
        }
        (Shape::Object { .. }, Value::Object(fields)) => walk_object(fields, node, nulls, path, report),
        (Shape::Array(items), Value::Array(values)) => {
            for (index, item) in values.iter_mut().enumerate() {
                within(path, &format!("[{index}]"), |path| walk(item, items, nulls, path, report));
            }
        }
        (shape, actual) => {
            report.mismatch.get_or_insert_with(|| mismatch(path, shape, actual));
        }
    }
}

/// Writes a quantity in its canonical form, as the API does whatever form the client used.
fn quantity(value: &mut Value, text: &str, path: &str, report: &mut Conformance) {
    match text.parse::<karpenter_quantity::Quantity>() {
        Ok(quantity) => *value = Value::String(quantity.to_string()),
        Err(error) => {
            *value = Value::String(text.to_owned());
            report.mismatch.get_or_insert_with(|| format!("{path}: {error}"));
        }
    }
}

fn walk_object(
    fields: &mut Map<String, Value>,
    node: &Node,
    nulls: Nulls,
    path: &mut String,
    report: &mut Conformance,
) {
    fields.retain(|name, value| {
        let Some(child) = node.field(name) else {
            if !node.preserve_unknown {
                report.unknown.push(joined(path, name));
            }
            return node.preserve_unknown;
        };
        let replaced = nulls == Nulls::Dropped || (!child.nullable && child.default.is_some());
        if value.is_null() && replaced {
            return false;
        }
        let segment = if path.is_empty() { name.clone() } else { format!(".{name}") };
        within(path, &segment, |path| walk(value, child, nulls, path, report));
        true
    });
}

fn within(path: &mut String, segment: &str, visit: impl FnOnce(&mut String)) {
    let length = path.len();
    path.push_str(segment);
    visit(path);
    path.truncate(length);
}

fn joined(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn mismatch(path: &str, shape: &Shape, actual: &Value) -> String {
    let expected = match shape {
        Shape::Any => "any",
        Shape::Object { .. } => "object",
        Shape::Array(_) => "array",
        Shape::String | Shape::Quantity | Shape::IntOrString => "string",
        Shape::Integer => "int32",
        Shape::Number => "float64",
        Shape::Boolean => "bool",
    };
    let found = match actual {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    format!("json: cannot unmarshal {found} into Go struct field {path} of type {expected}")
}

/// Fills in the defaults of absent fields, outermost first.
pub(crate) fn apply_defaults(value: &mut Value, node: &Node) {
    match (&node.shape, value) {
        (Shape::Object { properties, additional }, Value::Object(fields)) => {
            for (name, child) in properties {
                if let (Some(default), false) = (&child.default, fields.contains_key(name)) {
                    fields.insert(name.clone(), default.clone());
                }
            }
            for (name, field) in fields.iter_mut() {
                if let Some(child) = properties.get(name).or(additional.as_ref()) {
                    apply_defaults(field, child);
                }
            }
        }
        (Shape::Array(items), Value::Array(values)) => {
            for item in values {
                apply_defaults(item, items);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node() -> Node {
        Node::custom(&json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "replicas": {"type": "integer", "default": 3},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "inner": {"type": "object", "default": {}, "properties": {"mode": {"type": "string", "default": "a"}}},
        }}}}))
    }

    #[test]
    fn unknown_fields_are_dropped_and_reported() {
        let mut value = json!({"spec": {"replicas": 1, "extra": true, "free": {"x": 1}}, "other": 1});
        let conformance = conform(&mut value, &node(), Nulls::Kept);
        assert_eq!(value, json!({"spec": {"replicas": 1, "free": {"x": 1}}}));
        let mut unknown = conformance.unknown;
        unknown.sort();
        assert_eq!(unknown, ["other", "spec.extra"]);
    }

    #[test]
    fn defaults_fill_in_nested_objects() {
        let mut value = json!({"spec": {"replicas": null}});
        conform(&mut value, &node(), Nulls::Kept);
        apply_defaults(&mut value, &node());
        assert_eq!(value, json!({"spec": {"replicas": 3, "inner": {"mode": "a"}}}));
    }

    #[test]
    fn wrong_types_are_named() {
        let mut value = json!({"spec": {"replicas": "many"}});
        let conformance = conform(&mut value, &node(), Nulls::Dropped);
        assert!(
            conformance
                .mismatch
                .unwrap()
                .contains("cannot unmarshal string into Go struct field spec.replicas")
        );
    }
}
