//! Schemas of kinds as a compact tree, one for built-in kinds and custom resources alike.
//!
//! A [`Node`] answers what the server asks of a schema while it works on an object: which fields exist (pruning),
//! what type they have, what they default to, and how lists and maps merge (strategic merge patch, server-side
//! apply). Rules about values (patterns, bounds, CEL) are not here; see `crd::validation`.

mod conform;
pub(crate) mod facts;
mod list_types;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use serde_json::Value;

pub(crate) use conform::{Nulls, apply_defaults, conform};

/// What a value may be.
#[derive(Debug, Clone)]
pub(crate) enum Shape {
    /// Anything; nothing is known about it.
    Any,
    /// Named fields and, for maps, a schema for all other keys.
    Object { properties: BTreeMap<String, Arc<Node>>, additional: Option<Arc<Node>> },
    /// A list.
    Array(Arc<Node>),
    /// A text.
    String,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// True or false.
    Boolean,
    /// A number or a text.
    IntOrString,
    /// A resource quantity; numbers become texts.
    Quantity,
}

/// How two writers' versions of a list or a map come together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Merging {
    /// Maps field by field, lists as a whole.
    #[default]
    Natural,
    /// As a whole.
    Atomic,
    /// A list whose values are a set.
    Set,
    /// A list whose items are identified by these fields.
    Keyed(Vec<String>),
}

/// One place in a kind's tree.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) shape: Shape,
    pub(crate) merging: Merging,
    /// The key by which strategic merge patch pairs list items; `Some("")` for lists of plain values.
    pub(crate) patch_key: Option<String>,
    pub(crate) preserve_unknown: bool,
    pub(crate) embedded_resource: bool,
    pub(crate) nullable: bool,
    pub(crate) default: Option<Value>,
}

impl Node {
    fn of(shape: Shape) -> Self {
        Self {
            shape,
            merging: Merging::Natural,
            patch_key: None,
            preserve_unknown: false,
            embedded_resource: false,
            nullable: false,
            default: None,
        }
    }

    /// A node about which nothing is known.
    pub(crate) fn any() -> Arc<Self> {
        static ANY: LazyLock<Arc<Node>> = LazyLock::new(|| Arc::new(Node::of(Shape::Any)));
        Arc::clone(&ANY)
    }

    /// Returns the node of a field.
    pub(crate) fn field(&self, name: &str) -> Option<&Arc<Self>> {
        match &self.shape {
            Shape::Object { properties, additional } => properties.get(name).or(additional.as_ref()),
            _ => None,
        }
    }

    /// Returns the node of a field, or the unknown node.
    pub(crate) fn field_or_any(&self, name: &str) -> Arc<Self> {
        self.field(name).cloned().unwrap_or_else(Self::any)
    }

    /// Returns the node of list items, or the unknown node.
    pub(crate) fn items(&self) -> Arc<Self> {
        match &self.shape {
            Shape::Array(items) => Arc::clone(items),
            _ => Self::any(),
        }
    }

    /// Builds the tree of a custom resource's `openAPIV3Schema`, with Kubernetes' own `metadata`.
    pub(crate) fn custom(schema: &Value) -> Self {
        let mut root = Builder { definitions: &Value::Null, known: BTreeMap::new() }.node(schema);
        if let Shape::Object { properties, .. } = &mut root.shape {
            properties.insert("apiVersion".into(), Arc::new(Self::of(Shape::String)));
            properties.insert("kind".into(), Arc::new(Self::of(Shape::String)));
            properties.insert("metadata".into(), object_meta());
        } else {
            root.preserve_unknown = true;
        }
        root
    }

    /// Builds the tree of a built-in kind from the schema its type generates.
    pub(crate) fn built_in(schema: &Value) -> Self {
        let mut builder = Builder { definitions: &schema["$defs"], known: BTreeMap::new() };
        let title = schema["title"].as_str().unwrap_or_default();
        builder.definition(title, schema)
    }
}

/// The tree of `metadata`.
pub(crate) fn object_meta() -> Arc<Node> {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    static META: LazyLock<Arc<Node>> =
        LazyLock::new(|| Arc::new(Node::built_in(&generated_schema::<ObjectMeta>())));
    Arc::clone(&META)
}

/// Generates the JSON schema of a Kubernetes type with its definitions under `$defs`.
pub(crate) fn generated_schema<T: schemars::JsonSchema>() -> Value {
    let mut schema = schemars::SchemaGenerator::default().into_root_schema_for::<T>().to_value();
    schema["title"] = T::schema_name().into_owned().into();
    schema
}

struct Builder<'s> {
    definitions: &'s Value,
    /// Finished definitions; `None` while one is being built, which is how recursion shows.
    known: BTreeMap<String, Option<Arc<Node>>>,
}

impl Builder<'_> {
    fn node(&mut self, schema: &Value) -> Node {
        if let Some(reference) = schema["$ref"].as_str() {
            let name = reference.rsplit('/').next().unwrap_or_default();
            return (*self.referenced(name)).clone();
        }
        let mut node = Node::of(self.shape(schema));
        let flag = |name: &str| schema[name].as_bool().unwrap_or(false);
        // A built-in object without any declared field holds free JSON, such as `fieldsV1`.
        let free = !self.definitions.is_null()
            && matches!(&node.shape, Shape::Object { properties, additional: None } if properties.is_empty());
        node.preserve_unknown = free || flag("x-kubernetes-preserve-unknown-fields");
        node.embedded_resource = flag("x-kubernetes-embedded-resource");
        node.nullable = flag("nullable");
        node.default = schema.get("default").cloned();
        node.merging = merging(schema);
        if node.embedded_resource
            && let Shape::Object { properties, .. } = &mut node.shape
        {
            for name in ["apiVersion", "kind"] {
                properties.insert(name.into(), Arc::new(Node::of(Shape::String)));
            }
            properties.insert("metadata".into(), object_meta());
        }
        node
    }

    fn referenced(&mut self, name: &str) -> Arc<Node> {
        match self.known.get(name) {
            Some(Some(node)) => return Arc::clone(node),
            Some(None) => return Node::any(),
            None => {}
        }
        if name.ends_with(".resource.Quantity") {
            return Arc::new(Node::of(Shape::Quantity));
        }
        if name.ends_with(".v1.JSONSchemaProps") || name.ends_with(".v1.JSON") {
            return Node::any();
        }
        self.known.insert(name.to_owned(), None);
        let definitions = self.definitions;
        let node = Arc::new(self.definition(name, &definitions[name]));
        self.known.insert(name.to_owned(), Some(Arc::clone(&node)));
        node
    }

    /// Builds a named definition and adds what Kubernetes says about merging its fields.
    fn definition(&mut self, name: &str, schema: &Value) -> Node {
        let mut node = self.node(schema);
        if list_types::is_atomic(name) {
            node.merging = Merging::Atomic;
        }
        if let Shape::Object { properties, .. } = &mut node.shape {
            for (field, child) in properties.iter_mut() {
                if let Some(rule) = list_types::rule(name, field) {
                    let mut ruled = (**child).clone();
                    ruled.merging = rule.merging();
                    ruled.patch_key = rule.patch_key.map(str::to_owned);
                    *child = Arc::new(ruled);
                }
            }
        }
        node
    }

    fn shape(&mut self, schema: &Value) -> Shape {
        if schema["x-kubernetes-int-or-string"].as_bool() == Some(true) {
            return Shape::IntOrString;
        }
        match type_name(schema) {
            Some("object") => {
                let properties = schema["properties"].as_object().into_iter().flatten();
                let properties: BTreeMap<_, _> =
                    properties.map(|(name, schema)| (name.clone(), Arc::new(self.node(schema)))).collect();
                let additional = match &schema["additionalProperties"] {
                    Value::Object(_) => Some(Arc::new(self.node(&schema["additionalProperties"]))),
                    Value::Bool(true) => Some(Node::any()),
                    _ => None,
                };
                Shape::Object { properties, additional }
            }
            Some("array") => Shape::Array(Arc::new(self.node(&schema["items"]))),
            Some("string") => Shape::String,
            Some("integer") => Shape::Integer,
            Some("number") => Shape::Number,
            Some("boolean") => Shape::Boolean,
            _ => Shape::Any,
        }
    }
}

fn type_name(schema: &Value) -> Option<&str> {
    match &schema["type"] {
        Value::String(name) => Some(name),
        Value::Array(names) => names.iter().filter_map(Value::as_str).find(|name| *name != "null"),
        _ if schema["properties"].is_object() => Some("object"),
        _ => None,
    }
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

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;

    use super::*;

    #[test]
    fn built_in_kinds_know_types_and_merge_keys() {
        let pod = Node::built_in(&generated_schema::<Pod>());
        let containers = pod.field("spec").unwrap().field("containers").unwrap();
        assert_eq!(containers.patch_key.as_deref(), Some("name"));
        let ports = containers.items().field("ports").cloned().unwrap();
        assert_eq!(ports.merging, Merging::Keyed(vec!["containerPort".into(), "protocol".into()]));
        let requests = containers.items().field("resources").unwrap().field("requests").cloned().unwrap();
        assert!(matches!(requests.field("cpu").unwrap().shape, Shape::Quantity));
        let mut managed = serde_json::json!({"metadata": {"managedFields": [{"fieldsV1": {"f:spec": {}}}]}});
        assert!(conform(&mut managed, &pod, Nulls::Dropped).unknown.is_empty());
        let finalizers = pod.field("metadata").unwrap().field("finalizers").unwrap();
        assert_eq!(finalizers.merging, Merging::Set);
    }
}
