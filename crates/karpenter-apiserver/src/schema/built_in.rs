//! The trees of built-in kinds, made from the facts of Kubernetes' Go types.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock};

use super::facts::{Facts, Field};
use super::{Fields, Merging, Node, Omission, PatchRule, Scalar, Shape};

static STRUCTS: LazyLock<HashMap<&'static str, Arc<Node>>> = LazyLock::new(|| {
    let mut reader = Reader { finished: HashMap::new(), open: Vec::new() };
    for name in Facts::get().names() {
        reader.structure(name);
    }
    reader.finished
});

/// Returns the tree of a kind.
pub(super) fn kind(api_version: &str, kind: &str) -> Option<Arc<Node>> {
    structure(Facts::get().kind_name(api_version, kind)?)
}

/// Whether the facts have a kind.
pub(crate) fn is_kind(api_version: &str, kind: &str) -> bool {
    Facts::get().kind_name(api_version, kind).is_some()
}

/// Returns the tree of a struct.
pub(super) fn structure(name: &str) -> Option<Arc<Node>> {
    STRUCTS.get(name).cloned()
}

/// Returns the fields of a struct.
pub(super) fn named(name: &str) -> Option<&'static Arc<Fields>> {
    match &STRUCTS.get(name)?.shape {
        Shape::Object(fields) => Some(fields),
        _ => None,
    }
}

struct Reader {
    finished: HashMap<&'static str, Arc<Node>>,
    /// Structs being read, outermost first, which is how recursion shows.
    open: Vec<&'static str>,
}

impl Reader {
    fn structure(&mut self, name: &'static str) -> Arc<Node> {
        if let Some(node) = self.finished.get(name) {
            return Arc::clone(node);
        }
        if self.open.contains(&name) {
            return Arc::new(Node { go_type: go_name(name), ..Node::of(Shape::Named(name)) });
        }
        let Some(facts) = Facts::get().named(name) else { return Node::any() };
        self.open.push(name);
        let mut properties = BTreeMap::new();
        for field in &facts.fields {
            self.field(field, &mut properties);
        }
        self.open.pop();
        let fields = Fields { name: short(name), full_name: name, properties, additional: None };
        let mut node = Node::of(Shape::Object(Arc::new(fields)));
        node.go_type = go_name(name);
        node.merging = merging(facts.merging);
        let node = Arc::new(node);
        self.finished.insert(name, Arc::clone(&node));
        node
    }

    fn field(&mut self, field: &'static Field, properties: &mut BTreeMap<String, Arc<Node>>) {
        let mut node = self.node(field.text);
        if field.name.is_empty() {
            let outer = short(field.text);
            // Type metadata is embedded everywhere and named nowhere.
            let embedded_in = if outer == "TypeMeta" { "" } else { outer };
            for (name, field) in node.fields().into_iter().flat_map(|fields| &fields.properties) {
                properties.insert(name.clone(), Arc::new(Node { embedded_in, ..(**field).clone() }));
            }
            return;
        }
        if field.merging.is_some() {
            node.merging = merging(field.merging);
        }
        // Rules have a type of their own in Go.
        if field.name == "x-kubernetes-validations" {
            "v1.ValidationRules".clone_into(&mut node.go_type);
        }
        node.patch = field.patching.map(patch_rule).unwrap_or_default();
        node.default.clone_from(&field.default);
        node.omission = match (field.omits_empty, field.omits_zero) {
            (_, true) => Omission::Zero,
            (true, _) => Omission::Empty,
            _ => Omission::Never,
        };
        properties.insert(field.name.to_owned(), Arc::new(node));
    }

    fn node(&mut self, text: &'static str) -> Node {
        if let Some(inner) = text.strip_prefix('*') {
            return Node { pointer: true, ..self.node(inner) };
        }
        if let Some(items) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
            let items = self.node(items);
            let go_type = format!("[]{}{}", if items.pointer { "*" } else { "" }, items.go_type);
            return Node { go_type, ..Node::of(Shape::Array(Arc::new(items))) };
        }
        if let Some(values) = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) {
            let values = self.node(values);
            let go_type = match values.shape {
                Shape::Scalar(Scalar::Quantity) => "v1.ResourceList".to_owned(),
                _ => format!("map[string]{}", values.go_type),
            };
            let fields = Fields { additional: Some(Arc::new(values)), ..Fields::default() };
            return Node { go_type, ..Node::of(Shape::Object(Arc::new(fields))) };
        }
        let (plain, go_type) = text.split_once('/').unwrap_or((text, ""));
        match scalar(plain) {
            Some((scalar, default)) => {
                let go_type = if go_type.is_empty() { default } else { go_type };
                Node { go_type: go_type.to_owned(), ..Node::of(Shape::Scalar(scalar)) }
            }
            None if text.contains('.') => (*self.structure(text)).clone(),
            None if text.starts_with("propsor") => {
                Node::of(Shape::Flexible(self.structure("apiextensions.v1.JSONSchemaProps")))
            }
            // Of a document nothing is known, and it is owned as a whole.
            None if plain == "raw" => {
                Node { preserve_unknown: true, merging: Merging::Atomic, ..Node::of(Shape::Any) }
            }
            None => Node { preserve_unknown: true, ..Node::of(Shape::Any) },
        }
    }
}

/// The plain types with the names Go gives them.
fn scalar(name: &str) -> Option<(Scalar, &'static str)> {
    Some(match name {
        "s" | "duration" => (Scalar::String, "string"),
        "b" => (Scalar::Boolean, "bool"),
        "i" => (Scalar::Integer(64), "int"),
        "i16" => (Scalar::Integer(16), "int16"),
        "i32" => (Scalar::Integer(32), "int32"),
        "i64" => (Scalar::Integer(64), "int64"),
        "u16" => (Scalar::Integer(17), "uint16"),
        "u32" => (Scalar::Integer(33), "uint32"),
        "f64" => (Scalar::Number, "float64"),
        "intstr" => (Scalar::IntOrString, "int32"),
        "quantity" => (Scalar::Quantity, "resource.Quantity"),
        "time" => (Scalar::Time, "string"),
        "microtime" => (Scalar::MicroTime, "string"),
        "bytes" => (Scalar::Bytes, "[]uint8"),
        _ => return None,
    })
}

/// `core.v1.Container` is `Container` in errors about its fields.
fn short(name: &'static str) -> &'static str {
    name.rsplit('.').next().unwrap_or_default()
}

/// `core.v1.Container` is `v1.Container` in errors about its own type.
fn go_name(name: &str) -> String {
    name.split_once('.').map_or(name, |(_, rest)| rest).to_owned()
}

fn merging(mark: Option<&str>) -> Merging {
    match mark.map(parameters) {
        Some(("atomic", _)) => Merging::Atomic,
        Some(("set", _)) => Merging::Set,
        Some(("map", keys)) => Merging::Keyed(keys.split(',').map(str::to_owned).collect()),
        _ => Merging::Natural,
    }
}

fn patch_rule(mark: &str) -> PatchRule {
    let (strategy, key) = parameters(mark);
    PatchRule {
        merge: strategy.split(',').any(|word| word == "merge"),
        retain_keys: strategy.split(',').any(|word| word == "retainKeys"),
        replace: strategy == "replace",
        key: key.to_owned(),
    }
}

/// `map(a,b)` is `map` with `a,b`.
fn parameters(text: &str) -> (&str, &str) {
    match text.split_once('(') {
        Some((name, rest)) => (name, rest.trim_end_matches(')')),
        None => (text, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_kinds_know_types_and_merge_keys() {
        let pod = kind("v1", "Pod").unwrap();
        let containers = pod.field("spec").unwrap().field("containers").unwrap();
        assert_eq!(containers.patch, PatchRule { merge: true, key: "name".into(), ..PatchRule::default() });
        assert_eq!(containers.go_type, "[]v1.Container");
        let ports = containers.items().field("ports").cloned().unwrap();
        assert_eq!(ports.merging, Merging::Keyed(vec!["containerPort".into(), "protocol".into()]));
        assert_eq!(ports.items().field("protocol").unwrap().default, Some("TCP".into()));
        let requests = containers.items().field("resources").unwrap().field("requests").cloned().unwrap();
        assert!(matches!(requests.field("cpu").unwrap().shape, Shape::Scalar(Scalar::Quantity)));
        let finalizers = pod.field("metadata").unwrap().field("finalizers").unwrap();
        assert_eq!(finalizers.merging, Merging::Set);
        let empty_dir = pod.field("spec").unwrap().field("volumes").unwrap().items();
        assert_eq!(empty_dir.field("emptyDir").unwrap().embedded_in, "VolumeSource");
    }

    #[test]
    fn a_schema_that_contains_itself_can_be_followed() {
        let definition = kind("apiextensions.k8s.io/v1", "CustomResourceDefinition").unwrap();
        let version = definition.field("spec").unwrap().field("versions").unwrap().items();
        let schema = version.field("schema").unwrap().field("openAPIV3Schema").unwrap();
        let inner = schema.field("properties").unwrap().field("x").unwrap();
        assert!(inner.field("properties").unwrap().field("y").unwrap().field("type").is_some());
    }
}
