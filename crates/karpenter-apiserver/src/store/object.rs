//! One stored object: its JSON bytes and the few values that selectors, garbage collection and deletion ask for.
//!
//! The bytes are what a client gets; a list or a watch event copies them without parsing. A parsed
//! `serde_json::Value` of a pod takes five to ten times the room of its text, so values exist only while a request
//! works on them.

use std::cmp::Ordering;
use std::fmt::Write as _;

use bytes::Bytes;
use serde_json::Value;

/// Where an object lives within its resource. Cluster-scoped objects have an empty namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: Box<str>,
    /// The name.
    pub name: Box<str>,
}

impl Key {
    /// Builds a key.
    pub fn new(namespace: impl Into<Box<str>>, name: impl Into<Box<str>>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

/// One entry of `metadata.ownerReferences`, reduced to what garbage collection needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// `apiVersion` of the owner.
    pub api_version: Box<str>,
    /// `kind` of the owner.
    pub kind: Box<str>,
    /// `name` of the owner.
    pub name: Box<str>,
    /// `uid` of the owner.
    pub uid: Box<str>,
    /// Whether the dependent holds up a foreground deletion of the owner.
    pub blocks_deletion: bool,
}

/// An object as the store holds it; immutable, shared between the current state, the history and readers.
#[derive(Debug)]
pub struct StoredObject {
    /// The revision that wrote it, also in the bytes as `metadata.resourceVersion`.
    pub revision: u64,
    /// The JSON text: `kind`, `apiVersion`, `metadata`, then the other fields.
    pub bytes: Bytes,
    /// How many bytes `{"kind":…,"apiVersion":…,` take, so that lists can leave them out.
    pub header: u16,
    /// `metadata.uid`.
    pub uid: Box<str>,
    /// `metadata.labels`, sorted by key.
    pub labels: Box<[(Box<str>, Box<str>)]>,
    /// Values of the resource's selectable fields, in the order the resource declares them.
    pub fields: Box<[Box<str>]>,
    /// `metadata.ownerReferences`.
    pub owners: Box<[Owner]>,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
}

impl StoredObject {
    /// Extracts the indexed values of `value` and keeps its text.
    pub fn new(value: &Value, revision: u64, selectable_fields: &[String]) -> Self {
        let (bytes, header) = json_text(value);
        Self::indexed(value, bytes, header, revision, selectable_fields)
    }

    /// Builds an object from the text and header another [`StoredObject`] had.
    ///
    /// # Errors
    /// Returns why the text is no JSON.
    pub fn from_text(
        bytes: Bytes,
        header: u16,
        revision: u64,
        selectable_fields: &[String],
    ) -> Result<Self, serde_json::Error> {
        let value: Value = serde_json::from_slice(&bytes)?;
        if usize::from(header) >= bytes.len() {
            return Err(serde::de::Error::custom("its header is longer than its text"));
        }
        Ok(Self::indexed(&value, bytes, header, revision, selectable_fields))
    }

    fn indexed(
        value: &Value,
        bytes: Bytes,
        header: u16,
        revision: u64,
        selectable_fields: &[String],
    ) -> Self {
        let metadata = &value["metadata"];
        let mut labels: Vec<(Box<str>, Box<str>)> = metadata["labels"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, value)| (Box::from(key.as_str()), text(value)))
            .collect();
        labels.sort_by(|left, right| left.0.cmp(&right.0));
        Self {
            revision,
            bytes,
            header,
            uid: text(&metadata["uid"]),
            labels: labels.into(),
            fields: selectable_fields.iter().map(|path| field_text(value, path)).collect(),
            owners: metadata["ownerReferences"].as_array().into_iter().flatten().map(owner).collect(),
            deleting: metadata.get("deletionTimestamp").is_some_and(|time| !time.is_null()),
        }
    }

    /// Parses the object.
    ///
    /// # Panics
    /// Never: the text was written from a value.
    pub fn value(&self) -> Value {
        serde_json::from_slice(&self.bytes).expect("the store holds valid JSON")
    }

    /// Returns the value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        let order = |entry: &(Box<str>, Box<str>)| -> Ordering { entry.0.as_ref().cmp(key) };
        self.labels.binary_search_by(order).ok().map(|index| self.labels[index].1.as_ref())
    }
}

/// Writes an object in the order Kubernetes does.
fn json_text(value: &Value) -> (Bytes, u16) {
    let mut text = String::with_capacity(1024);
    let mut put = |arguments: std::fmt::Arguments<'_>| {
        text.write_fmt(arguments).expect("writing to a string never fails");
        text.len()
    };
    let header = put(format_args!("{{\"kind\":{},\"apiVersion\":{},", value["kind"], value["apiVersion"]));
    let header = u16::try_from(header).expect("kind and apiVersion are short names");
    put(format_args!("\"metadata\":{}", value["metadata"]));
    for (name, field) in value.as_object().into_iter().flatten() {
        if !matches!(name.as_str(), "kind" | "apiVersion" | "metadata") {
            put(format_args!(",{}:{field}", Value::String(name.clone())));
        }
    }
    text.push('}');
    (Bytes::from(text.into_boxed_str().into_string()), header)
}

fn owner(reference: &Value) -> Owner {
    Owner {
        api_version: text(&reference["apiVersion"]),
        kind: text(&reference["kind"]),
        name: text(&reference["name"]),
        uid: text(&reference["uid"]),
        blocks_deletion: reference["blockOwnerDeletion"].as_bool().unwrap_or(false),
    }
}

/// Field selectors compare text; absent fields are the empty text and booleans are `true` or `false`.
fn field_text(value: &Value, path: &str) -> Box<str> {
    let mut current = value;
    for part in path.split('.') {
        current = &current[part];
    }
    match current {
        Value::Null if BOOLEAN_FIELDS.contains(&path) => "false".into(),
        _ => text(current),
    }
}

/// Selectable fields that are booleans: absent means `false`.
const BOOLEAN_FIELDS: &[&str] = &["spec.unschedulable", "spec.hostNetwork"];

fn text(value: &Value) -> Box<str> {
    match value {
        Value::String(text) => text.as_str().into(),
        Value::Null => "".into(),
        other => other.to_string().into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectable_fields_default_to_empty_or_false() {
        let node = json!({"metadata": {"name": "a", "labels": {"z": "1", "a": "2"}}, "spec": {}});
        let fields = ["spec.unschedulable".to_owned(), "spec.nodeName".to_owned()];
        let object = StoredObject::new(&node, 1, &fields);
        assert_eq!(object.fields.as_ref(), ["false".into(), "".into()]);
        assert_eq!(object.label("z"), Some("1"));
        assert_eq!(object.label("b"), None);
    }
}
