//! One stored object: its JSON text and the few values that selectors, garbage collection and deletion ask for.
//!
//! The text is what a client gets; a list or a watch event copies it without parsing. A parsed
//! `serde_json::Value` of a pod takes five to ten times the room of its text, so values exist only while a request
//! works on them.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use super::pool::{self, Labels, Wanted};
use super::text::{Draft, Text};

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
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
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
    /// The revision that wrote it, also in the text as `metadata.resourceVersion`.
    pub revision: u64,
    text: Text,
    /// `metadata.uid`.
    pub uid: Box<str>,
    /// `metadata.labels`, sorted by key.
    pub labels: Arc<Labels>,
    /// Values of the resource's selectable fields, in the order the resource declares them.
    pub fields: Box<[Arc<str>]>,
    /// `metadata.ownerReferences`.
    pub owners: Box<[Arc<Owner>]>,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
}

impl StoredObject {
    /// Extracts the indexed values of `value` and keeps its text.
    pub fn new(value: &Value, revision: u64, selectable_fields: &[String]) -> Self {
        let metadata = &value["metadata"];
        let mut labels: Vec<(Box<str>, Box<str>)> = metadata["labels"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, value)| (Box::from(key.as_str()), text(value).into()))
            .collect();
        labels.sort_by(|left, right| left.0.cmp(&right.0));
        let draft = Draft::new(value);
        let fields: Vec<Cow<'_, str>> =
            selectable_fields.iter().map(|path| field_text(value, path)).collect();
        let parts = draft.parts.iter().map(|(_, part)| part.as_str());
        let mut shared = pool::share(Wanted {
            texts: parts.chain(fields.iter().map(AsRef::as_ref)).collect(),
            labels,
            owners: metadata["ownerReferences"].as_array().into_iter().flatten().map(owner).collect(),
        });
        let fields = shared.texts.split_off(draft.parts.len());
        Self {
            revision,
            text: draft.finish(shared.texts),
            uid: text(&metadata["uid"]).into(),
            labels: shared.labels,
            fields: fields.into(),
            owners: shared.owners,
            deleting: metadata.get("deletionTimestamp").is_some_and(|time| !time.is_null()),
        }
    }

    /// Returns the JSON text: `kind`, `apiVersion`, `metadata`, then the other fields.
    pub fn to_bytes(&self) -> Bytes {
        self.text.to_bytes()
    }

    /// Returns how many bytes the JSON text has.
    pub fn text_len(&self) -> usize {
        self.text.len()
    }

    /// Appends the JSON text.
    pub fn write_text(&self, output: &mut Vec<u8>) {
        self.text.write(output);
    }

    /// Appends the JSON text without `kind` and `apiVersion`, as items of lists are written.
    pub fn write_item(&self, output: &mut Vec<u8>) {
        self.text.write_item(output);
    }

    /// Parses the object.
    ///
    /// # Panics
    /// Never: the text was written from a value.
    pub fn value(&self) -> Value {
        serde_json::from_slice(&self.to_bytes()).expect("the store holds valid JSON")
    }

    /// Returns the value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        let order = |entry: &(Box<str>, Box<str>)| -> Ordering { entry.0.as_ref().cmp(key) };
        self.labels.binary_search_by(order).ok().map(|index| self.labels[index].1.as_ref())
    }
}

fn owner(reference: &Value) -> Owner {
    Owner {
        api_version: text(&reference["apiVersion"]).into(),
        kind: text(&reference["kind"]).into(),
        name: text(&reference["name"]).into(),
        uid: text(&reference["uid"]).into(),
        blocks_deletion: reference["blockOwnerDeletion"].as_bool().unwrap_or(false),
    }
}

/// Field selectors compare text; absent fields are the empty text and booleans are `true` or `false`.
fn field_text<'v>(value: &'v Value, path: &str) -> Cow<'v, str> {
    // Some are named otherwise than where they stand.
    let place = match path {
        "status.successful" => "status.succeeded",
        "source" if value["source"]["component"].as_str().is_none_or(str::is_empty) => "reportingComponent",
        "source" => "source.component",
        other => other,
    };
    let mut current = value;
    for part in place.split('.') {
        current = &current[part];
    }
    match current {
        Value::Null if BOOLEAN_FIELDS.contains(&path) => "false".into(),
        Value::Null if COUNTED_FIELDS.contains(&path) => "0".into(),
        _ => text(current),
    }
}

/// Selectable fields that are numbers: absent means `0`.
const COUNTED_FIELDS: &[&str] = &["status.successful", "status.replicas"];
/// Selectable fields that are booleans: absent means `false`.
const BOOLEAN_FIELDS: &[&str] = &["spec.unschedulable", "spec.hostNetwork"];

fn text(value: &Value) -> Cow<'_, str> {
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
