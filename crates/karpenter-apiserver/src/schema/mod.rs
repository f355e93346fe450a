//! Schemas of kinds as a compact tree, one for built-in kinds and custom resources alike.
//!
//! A [`Node`] answers what the server asks of a schema while it works on an object: which fields exist, what type
//! they have, which empty values are written, what they default to, and how lists and maps merge (strategic merge
//! patch, server-side apply). Built-in kinds come from `kinds.txt`, the facts of Kubernetes' Go types; custom ones
//! from their CRD. Rules about values (patterns, bounds, CEL) are not here; see `crd::validation`.

mod built_in;
mod canonical;
mod conform;
mod custom;
pub(crate) mod facts;
mod typed;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use serde_json::Value;

pub(crate) use built_in::is_kind;
pub(crate) use canonical::{canonical, without_empty_lists, zero};
pub(crate) use conform::{apply_defaults, prune};
pub(crate) use typed::{decode_typed, kind_of};

/// What a value may be.
#[derive(Debug, Clone)]
pub(crate) enum Shape {
    /// Anything; nothing is known about it.
    Any,
    /// A struct or a map.
    Object(Arc<Fields>),
    /// A list.
    Array(Arc<Node>),
    /// A plain value.
    Scalar(Scalar),
    /// An object of the inner shape, a list of such, or a plain value.
    Flexible(Arc<Node>),
    /// A struct that contains itself, by its name in the facts.
    Named(&'static str),
}

/// A plain value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scalar {
    String,
    /// A whole number of so many bits.
    Integer(u8),
    Number,
    Boolean,
    IntOrString,
    Quantity,
    Time,
    MicroTime,
    Bytes,
}

/// The fields of a struct and, for maps, the shape of all other values.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fields {
    /// The Go name of the struct; empty for maps and custom resources.
    pub(crate) name: &'static str,
    /// The name of the struct in the facts, with its group and version.
    pub(crate) full_name: &'static str,
    pub(crate) properties: BTreeMap<String, Arc<Node>>,
    pub(crate) additional: Option<Arc<Node>>,
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

/// How a strategic merge patch treats a list or a map.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct PatchRule {
    /// Lists are merged rather than replaced.
    pub(crate) merge: bool,
    /// The field that pairs items of merged lists; empty for lists of plain values.
    pub(crate) key: String,
    /// Clients send `$retainKeys` along.
    pub(crate) retain_keys: bool,
    /// A map is replaced as a whole.
    pub(crate) replace: bool,
}

/// Which values a built-in kind does not write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Omission {
    /// A value is always written.
    #[default]
    Never,
    /// Empty texts, lists, maps, false and zero are left out.
    Empty,
    /// Zero values are left out, structs included.
    Zero,
}

/// One place in a kind's tree.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) shape: Shape,
    pub(crate) merging: Merging,
    pub(crate) patch: PatchRule,
    pub(crate) preserve_unknown: bool,
    pub(crate) nullable: bool,
    pub(crate) default: Option<Value>,
    pub(crate) omission: Omission,
    /// Whether the Go field is a pointer, so that zero differs from nothing.
    pub(crate) pointer: bool,
    /// The Go type as decoding errors name it.
    pub(crate) go_type: String,
    /// The embedded Go struct that a field belongs to, which decoding errors name.
    pub(crate) embedded_in: &'static str,
}

impl Node {
    fn of(shape: Shape) -> Self {
        Self {
            shape,
            merging: Merging::Natural,
            patch: PatchRule::default(),
            preserve_unknown: false,
            nullable: false,
            default: None,
            omission: Omission::Never,
            pointer: false,
            go_type: String::new(),
            embedded_in: "",
        }
    }

    /// A node about which nothing is known.
    pub(crate) fn any() -> Arc<Self> {
        static ANY: LazyLock<Arc<Node>> = LazyLock::new(|| Arc::new(Node::of(Shape::Any)));
        Arc::clone(&ANY)
    }

    /// Returns the fields of a struct or map.
    pub(crate) fn fields(&self) -> Option<&Fields> {
        match &self.shape {
            Shape::Object(fields) => Some(fields),
            Shape::Named(name) => built_in::named(name).map(AsRef::as_ref),
            _ => None,
        }
    }

    /// Returns the node of a field.
    pub(crate) fn field(&self, name: &str) -> Option<&Arc<Self>> {
        let fields = self.fields()?;
        fields.properties.get(name).or(fields.additional.as_ref())
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

    /// Whether lists and maps here are owned and replaced as a whole.
    pub(crate) fn is_atomic(&self) -> bool {
        matches!((&self.shape, &self.merging), (_, Merging::Atomic) | (Shape::Array(_), Merging::Natural))
    }

    /// The tree of a built-in kind; everything is known about the kinds in the registry.
    pub(crate) fn built_in(api_version: &str, kind: &str) -> Arc<Self> {
        built_in::kind(api_version, kind).unwrap_or_else(Self::any)
    }

    /// The tree of a struct that is no kind, by its name in the facts.
    pub(crate) fn of_struct(name: &str) -> Arc<Self> {
        built_in::structure(name).unwrap_or_else(Self::any)
    }

    /// Builds the tree of a custom resource's `openAPIV3Schema`, with Kubernetes' own `metadata`.
    pub(crate) fn custom(schema: &Value) -> Self {
        custom::root(schema)
    }
}

/// The tree of `metadata`.
pub(crate) fn object_meta() -> Arc<Node> {
    static META: LazyLock<Arc<Node>> = LazyLock::new(|| Node::of_struct("meta.v1.ObjectMeta"));
    Arc::clone(&META)
}

/// Generates the JSON schema of a Kubernetes type with its definitions under `$defs`.
pub(crate) fn generated_schema<T: schemars::JsonSchema>() -> Value {
    let mut schema = schemars::SchemaGenerator::default().into_root_schema_for::<T>().to_value();
    schema["title"] = T::schema_name().into_owned().into();
    schema
}
