//! How a value is owned: as a map field by field, as a list item by item, or as a whole.

use serde_json::{Map, Value};

use crate::schema::{Merging, Node, Omission, Scalar, Shape};

/// The form in which a value is owned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Map,
    List,
    Whole,
}

/// Returns the form of a value at a place; null takes the form the schema gives it.
pub(super) fn form(value: &Value, node: &Node) -> Form {
    let by_value = match value {
        Value::Object(_) => Form::Map,
        Value::Array(_) => Form::List,
        Value::Null => match &node.shape {
            Shape::Array(_) => Form::List,
            Shape::Scalar(_) => Form::Whole,
            _ => Form::Map,
        },
        _ => Form::Whole,
    };
    match (&node.shape, by_value) {
        (Shape::Object(_) | Shape::Named(_) | Shape::Any | Shape::Flexible(_), Form::Map)
        | (Shape::Array(_) | Shape::Any | Shape::Flexible(_), Form::List) => by_value,
        _ => Form::Whole,
    }
}

/// Whether the parts of a map or list belong together.
pub(super) fn is_atomic(node: &Node, form: Form) -> bool {
    match form {
        Form::Map => node.is_atomic(),
        // Lists about which nothing is known are owned as a whole.
        Form::List => node.is_atomic() || !matches!(node.shape, Shape::Array(_)),
        Form::Whole => true,
    }
}

/// Whether a value holds nothing: absent, null, or an empty map or list.
pub(super) fn is_empty(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::Object(fields)) => fields.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        Some(_) => false,
    }
}

/// The path element of a field.
pub(super) fn field_element(name: &str) -> String {
    format!("f:{name}")
}

/// The path element of an item of a merged list.
///
/// # Errors
/// Returns why the item has none.
pub(super) fn item_element(item: &Value, node: &Node) -> Result<String, String> {
    let Merging::Keyed(keys) = &node.merging else { return set_element(item) };
    let Value::Object(fields) = item else {
        return Err(match item {
            Value::Null => "associative list with keys may not have a null element",
            _ => "associative list with keys may not have non-map elements",
        }
        .to_owned());
    };
    let items = node.items();
    let mut key = Map::new();
    for name in keys {
        let default = || items.field(name).and_then(|field| key_default(field));
        if let Some(value) = fields.get(name).cloned().or_else(default) {
            key.insert(name.clone(), value);
        }
    }
    if key.is_empty() {
        let keys: Vec<String> = keys.iter().map(|key| format!("{key:?}")).collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] (and doesn't have default \
             values for any key fields)",
            keys.join(" ")
        ));
    }
    Ok(format!("k:{}", Value::Object(key)))
}

/// What a key is when it is not given; keys of built-in kinds that are always written are empty then.
fn key_default(field: &Node) -> Option<Value> {
    if field.default.is_some() {
        return field.default.clone();
    }
    let written = field.omission == Omission::Never && !field.pointer && !field.go_type.is_empty();
    match field.shape {
        Shape::Scalar(Scalar::String) if written => Some("".into()),
        Shape::Scalar(Scalar::Integer(_)) if written => Some(0.into()),
        _ => None,
    }
}

fn set_element(item: &Value) -> Result<String, String> {
    match item {
        Value::Object(_) => Err("associative list without keys has an element that's a map type".to_owned()),
        Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
        Value::Null => Err("associative list without keys has an element that's an explicit null".to_owned()),
        plain => Ok(format!("v:{plain}")),
    }
}
