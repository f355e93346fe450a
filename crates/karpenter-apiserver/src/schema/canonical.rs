//! The form in which built-in kinds are written: what Go's encoder would make of the same object.
//!
//! Structs are always there, if only as `{}`; empty texts, lists and maps mostly are not; fields without `omitempty`
//! show their zero value. Field ownership is worked out on this form, so it must be exact.

use serde_json::{Map, Value, json};

use super::{Node, Omission, Scalar, Shape};

/// Returns an object of a built-in kind in which nothing is set.
pub(crate) fn zero(node: &Node) -> Value {
    let mut value = Value::Object(Map::new());
    canonical(&mut value, node);
    value
}

/// Brings a value into canonical form.
pub(crate) fn canonical(value: &mut Value, node: &Node) {
    match (&node.shape, &mut *value) {
        (Shape::Object(_) | Shape::Named(_), Value::Object(fields)) => canonical_object(fields, node),
        (Shape::Array(items), Value::Array(values)) => {
            for value in values {
                canonical(value, items);
            }
        }
        (Shape::Flexible(inner), Value::Object(_)) => canonical(value, inner),
        (Shape::Flexible(inner), Value::Array(values)) => {
            for value in values {
                canonical(value, inner);
            }
        }
        _ => {}
    }
}

/// Writes lists and maps without content as null where they cannot be left out.
pub(crate) fn without_empty_lists(value: &mut Value, node: &Node) {
    match (&node.shape, &mut *value) {
        (Shape::Object(_) | Shape::Named(_), Value::Object(fields)) => {
            let Some(known) = node.fields() else { return };
            for (name, field) in fields {
                let Some(child) = known.properties.get(name).or(known.additional.as_ref()) else { continue };
                let is_list = matches!(child.shape, Shape::Array(_)) && !child.pointer;
                if is_list && field.as_array().is_some_and(Vec::is_empty) {
                    *field = Value::Null;
                } else {
                    without_empty_lists(field, child);
                }
            }
        }
        (Shape::Array(items), Value::Array(values)) => {
            for value in values {
                without_empty_lists(value, items);
            }
        }
        _ => {}
    }
}

fn canonical_object(fields: &mut Map<String, Value>, node: &Node) {
    let Some(known) = node.fields() else { return };
    if let Some(values) = &known.additional {
        for value in fields.values_mut() {
            canonical(value, values);
        }
    }
    for (name, child) in &known.properties {
        match fields.get_mut(name) {
            Some(value) => {
                canonical(value, child);
                if is_omitted(value, child) {
                    fields.remove(name);
                }
            }
            None if child.pointer || is_omitted_when_absent(child) => {
                if child.pointer && child.omission == Omission::Never {
                    fields.insert(name.clone(), Value::Null);
                }
            }
            None => {
                fields.insert(name.clone(), zero_of(child));
            }
        }
    }
}

fn is_struct(node: &Node) -> bool {
    node.fields().is_some_and(|fields| fields.additional.is_none())
}

/// Whether the Go type is a struct, which `omitempty` never leaves out, whatever its wire form.
fn is_struct_in_go(node: &Node) -> bool {
    match node.shape {
        Shape::Any => node.preserve_unknown,
        Shape::Scalar(scalar) => {
            matches!(scalar, Scalar::Time | Scalar::MicroTime | Scalar::Quantity | Scalar::IntOrString)
        }
        _ => is_struct(node),
    }
}

/// Whether a field is left out when its Go value is zero.
fn is_omitted_when_absent(node: &Node) -> bool {
    match node.omission {
        Omission::Never => false,
        Omission::Empty => !is_struct_in_go(node),
        Omission::Zero => true,
    }
}

fn is_omitted(value: &Value, node: &Node) -> bool {
    if node.omission == Omission::Never {
        return false;
    }
    if node.pointer {
        return value.is_null();
    }
    if is_struct_in_go(node) {
        return node.omission == Omission::Zero && *value == zero_of(node);
    }
    match value {
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Null => true,
    }
}

/// The value that a field without content shows.
fn zero_of(node: &Node) -> Value {
    match &node.shape {
        Shape::Scalar(scalar) => match scalar {
            Scalar::String => json!(""),
            Scalar::Integer(_) | Scalar::Number | Scalar::IntOrString => json!(0),
            Scalar::Boolean => json!(false),
            Scalar::Quantity => json!("0"),
            Scalar::Time | Scalar::MicroTime | Scalar::Bytes => Value::Null,
        },
        _ if is_struct(node) => zero(node),
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical_of(api_version: &str, kind: &str, mut value: Value) -> Value {
        canonical(&mut value, &Node::built_in(api_version, kind));
        value
    }

    #[test]
    fn structs_are_written_and_empty_values_are_not() {
        let pod = json!({"metadata": {"name": "a", "labels": {}}, "spec": {
            "hostNetwork": false, "tolerations": [], "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": "", "env": [{"name": "A", "value": ""}]}],
        }});
        assert_eq!(
            canonical_of("v1", "Pod", pod),
            json!({"metadata": {"name": "a"}, "status": {}, "spec": {
                "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "c", "resources": {}, "env": [{"name": "A"}]}],
            }})
        );
    }

    #[test]
    fn a_kind_without_content_shows_what_it_cannot_leave_out() {
        let deployment = canonical_of("apps/v1", "Deployment", json!({}));
        assert_eq!(
            deployment,
            json!({"metadata": {}, "status": {}, "spec": {
                "selector": null, "strategy": {}, "template": {"metadata": {}, "spec": {"containers": null}},
            }})
        );
    }
}
