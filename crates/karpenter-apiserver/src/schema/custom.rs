//! From a CRD's `openAPIV3Schema` to a tree.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::{Fields, Merging, Node, Scalar, Shape, object_meta};

pub(super) fn root(schema: &Value) -> Node {
    let mut root = node(schema);
    match &mut root.shape {
        Shape::Object(fields) => {
            let mut extended = (**fields).clone();
            identify(&mut extended);
            *fields = Arc::new(extended);
        }
        _ => root.preserve_unknown = true,
    }
    root
}

/// Adds the fields every object has.
fn identify(fields: &mut Fields) {
    for name in ["apiVersion", "kind"] {
        fields.properties.insert(name.into(), Arc::new(Node::of(Shape::Scalar(Scalar::String))));
    }
    fields.properties.insert("metadata".into(), object_meta());
}

fn node(schema: &Value) -> Node {
    let flag = |name: &str| schema[name].as_bool().unwrap_or(false);
    let embedded_resource = flag("x-kubernetes-embedded-resource");
    let mut shape = shape(schema);
    if let (true, Shape::Object(fields)) = (embedded_resource, &mut shape) {
        let mut extended = (**fields).clone();
        identify(&mut extended);
        *fields = Arc::new(extended);
    }
    Node {
        preserve_unknown: flag("x-kubernetes-preserve-unknown-fields"),
        nullable: flag("nullable"),
        default: schema.get("default").cloned(),
        merging: merging(schema),
        ..Node::of(shape)
    }
}

fn shape(schema: &Value) -> Shape {
    if schema["x-kubernetes-int-or-string"].as_bool() == Some(true) {
        return Shape::Scalar(Scalar::IntOrString);
    }
    match schema["type"].as_str() {
        Some("object") => Shape::Object(Arc::new(object(schema))),
        None if schema["properties"].is_object() => Shape::Object(Arc::new(object(schema))),
        Some("array") => Shape::Array(Arc::new(node(&schema["items"]))),
        Some("string") => Shape::Scalar(Scalar::String),
        Some("integer") => Shape::Scalar(Scalar::Integer(64)),
        Some("number") => Shape::Scalar(Scalar::Number),
        Some("boolean") => Shape::Scalar(Scalar::Boolean),
        _ => Shape::Any,
    }
}

fn object(schema: &Value) -> Fields {
    let properties = schema["properties"].as_object().into_iter().flatten();
    let properties: BTreeMap<_, _> =
        properties.map(|(name, schema)| (name.clone(), Arc::new(node(schema)))).collect();
    let additional = match &schema["additionalProperties"] {
        inner @ Value::Object(_) => Some(Arc::new(node(inner))),
        Value::Bool(true) => Some(Node::any()),
        _ => None,
    };
    Fields { name: "", full_name: "", properties, additional }
}

fn merging(schema: &Value) -> Merging {
    match (schema["x-kubernetes-list-type"].as_str(), schema["x-kubernetes-map-type"].as_str()) {
        (Some("set"), _) => Merging::Set,
        (Some("map"), _) => {
            let keys = schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten();
            Merging::Keyed(keys.filter_map(Value::as_str).map(str::to_owned).collect())
        }
        (Some("atomic"), _) | (_, Some("atomic")) => Merging::Atomic,
        _ => Merging::Natural,
    }
}
