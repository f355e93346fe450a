//! Making a custom object conform to its CRD: unknown fields dropped, defaults filled in. Types are left to validation.

use serde_json::{Map, Value};

use super::{Node, Shape};

/// Removes what the schema does not know and returns the paths of it.
pub(crate) fn prune(value: &mut Value, node: &Node) -> Vec<String> {
    let mut unknown = Vec::new();
    walk(value, node, &mut String::new(), &mut unknown);
    unknown
}

fn walk(value: &mut Value, node: &Node, path: &mut String, unknown: &mut Vec<String>) {
    match (&node.shape, value) {
        (Shape::Object(_) | Shape::Named(_), Value::Object(fields)) => {
            walk_object(fields, node, path, unknown);
        }
        (Shape::Any, Value::Object(fields)) if !node.preserve_unknown => {
            walk_object(fields, node, path, unknown);
        }
        (Shape::Array(items), Value::Array(values)) => {
            for (index, item) in values.iter_mut().enumerate() {
                within(path, &format!("[{index}]"), |path| walk(item, items, path, unknown));
            }
        }
        (_, value) if !node.preserve_unknown => drop_all(value, path, unknown),
        _ => {}
    }
}

/// Drops all fields below a value of another type, of which nothing is known.
fn drop_all(value: &mut Value, path: &mut String, unknown: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            unknown.extend(std::mem::take(fields).into_iter().map(|(name, _)| format!("{path}.{name}")));
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                within(path, &format!("[{index}]"), |path| drop_all(item, path, unknown));
            }
        }
        _ => {}
    }
}

fn walk_object(fields: &mut Map<String, Value>, node: &Node, path: &mut String, unknown: &mut Vec<String>) {
    fields.retain(|name, value| {
        let segment = if path.is_empty() { name.clone() } else { format!(".{name}") };
        let Some(child) = node.field(name) else {
            if !node.preserve_unknown {
                unknown.push(format!("{path}{segment}"));
            }
            return node.preserve_unknown;
        };
        // Where null is not allowed it is as if nothing was said, and a default takes its place.
        if value.is_null() && !child.nullable {
            return false;
        }
        within(path, &segment, |path| walk(value, child, path, unknown));
        true
    });
}

fn within(path: &mut String, segment: &str, visit: impl FnOnce(&mut String)) {
    let length = path.len();
    path.push_str(segment);
    visit(path);
    path.truncate(length);
}

/// Fills in the defaults of absent fields, outermost first.
pub(crate) fn apply_defaults(value: &mut Value, node: &Node) {
    match (&node.shape, value) {
        (Shape::Object(known), Value::Object(fields)) => {
            for (name, child) in &known.properties {
                if let (Some(default), false) = (&child.default, fields.contains_key(name)) {
                    fields.insert(name.clone(), default.clone());
                }
            }
            for (name, field) in fields.iter_mut() {
                if let Some(child) = known.properties.get(name).or(known.additional.as_ref()) {
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
        let mut unknown = prune(&mut value, &node());
        assert_eq!(value, json!({"spec": {"replicas": 1, "free": {"x": 1}}}));
        unknown.sort();
        assert_eq!(unknown, ["other", "spec.extra"]);
    }

    #[test]
    fn nothing_is_known_below_a_list_where_an_object_belongs() {
        let mut value = json!({"spec": ["x", [{"key": 1}]]});
        assert_eq!(prune(&mut value, &node()), ["spec[1][0].key"]);
        assert_eq!(value, json!({"spec": ["x", [{}]]}));
    }

    #[test]
    fn defaults_fill_in_nested_objects() {
        let mut value = json!({"spec": {"replicas": null}});
        prune(&mut value, &node());
        apply_defaults(&mut value, &node());
        assert_eq!(value, json!({"spec": {"replicas": 3, "inner": {"mode": "a"}}}));
    }
}
