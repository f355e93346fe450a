//! `metadata.managedFields`: reading, writing and crediting ordinary writes.

use serde_json::{Value, json};

use super::{FieldSet, compare};
use crate::schema::Node;

/// How a manager writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Apply,
    Update,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// Who is writing, through which version and subresource, and when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manager<'r> {
    pub(crate) name: &'r str,
    pub(crate) api_version: &'r str,
    pub(crate) subresource: &'r str,
    pub(crate) now: &'r str,
}

/// One entry of `managedFields`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) manager: String,
    pub(crate) operation: Operation,
    pub(crate) api_version: String,
    pub(crate) subresource: String,
    pub(crate) time: String,
    pub(crate) fields: FieldSet,
}

/// All entries of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Managers {
    pub(crate) entries: Vec<Entry>,
}

/// Fields of `metadata` and the object's identity that nobody owns.
const UNOWNED: &[&[&str]] = &[
    &["apiVersion"],
    &["kind"],
    &["metadata", "name"],
    &["metadata", "namespace"],
    &["metadata", "generateName"],
    &["metadata", "creationTimestamp"],
    &["metadata", "deletionTimestamp"],
    &["metadata", "deletionGracePeriodSeconds"],
    &["metadata", "generation"],
    &["metadata", "managedFields"],
    &["metadata", "resourceVersion"],
    &["metadata", "selfLink"],
    &["metadata", "uid"],
];

/// Removes what nobody can own from a set.
pub(crate) fn owned(set: FieldSet) -> FieldSet {
    let mut set = UNOWNED.iter().fold(set, |set, path| set.without(path));
    set.member = false;
    if let Some(metadata) = set.children.get_mut("f:metadata") {
        metadata.member = false;
        if metadata.is_empty() {
            set.children.remove("f:metadata");
        }
    }
    set
}

impl Managers {
    /// Takes `managedFields` out of an object.
    pub(crate) fn take(object: &mut Value) -> Self {
        let entries =
            object["metadata"].as_object_mut().and_then(|metadata| metadata.remove("managedFields"));
        let entries = entries.as_ref().and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        Self { entries: entries.iter().map(entry).collect() }
    }

    /// Puts `managedFields` into an object.
    pub(crate) fn put(&self, object: &mut Value) {
        if self.entries.is_empty() {
            return;
        }
        let entries: Vec<Value> = self.entries.iter().map(rendered).collect();
        object["metadata"]["managedFields"] = Value::Array(entries);
    }

    /// Finds the entry of a manager and operation.
    pub(crate) fn find(&self, manager: Manager<'_>, operation: Operation) -> Option<&Entry> {
        self.entries.iter().find(|entry| is_of(entry, manager, operation))
    }

    /// Credits a write: the writer owns what it set, others lose what it changed or removed.
    pub(crate) fn update(&mut self, old: Option<&Value>, new: &Value, node: &Node, manager: Manager<'_>) {
        let comparison = compare(old, Some(new), node);
        let written = owned(comparison.written());
        let removed = owned(comparison.removed);
        if written.is_empty() && removed.is_empty() {
            return;
        }
        for entry in &mut self.entries {
            let mut lost = removed.clone();
            if !is_of(entry, manager, Operation::Update) {
                lost.extend(&written);
            }
            entry.fields = entry.fields.difference(&lost);
        }
        if written.is_empty() {
            self.drop_empty();
            return;
        }
        let mut fields =
            self.find(manager, Operation::Update).map(|entry| entry.fields.clone()).unwrap_or_default();
        fields.extend(&written);
        self.set(manager, Operation::Update, fields);
    }

    /// Replaces the entry of a manager; the time moves only when the fields do.
    pub(crate) fn set(&mut self, manager: Manager<'_>, operation: Operation, fields: FieldSet) {
        let time = match self.find(manager, operation) {
            Some(entry) if entry.fields == fields => entry.time.clone(),
            _ => manager.now.to_owned(),
        };
        self.entries.retain(|entry| !is_of(entry, manager, operation));
        self.entries.push(Entry {
            manager: manager.name.to_owned(),
            operation,
            api_version: manager.api_version.to_owned(),
            subresource: manager.subresource.to_owned(),
            time,
            fields,
        });
        self.drop_empty();
        self.entries.sort_by(|left, right| order(left).cmp(&order(right)));
    }

    pub(crate) fn drop_empty(&mut self) {
        self.entries.retain(|entry| !entry.fields.is_empty());
    }
}

/// Applied configurations come first, then by time, as Kubernetes lists them.
fn order(entry: &Entry) -> (bool, &str, &str, &str) {
    (entry.operation == Operation::Update, &entry.time, &entry.manager, &entry.subresource)
}

fn is_of(entry: &Entry, manager: Manager<'_>, operation: Operation) -> bool {
    entry.operation == operation
        && entry.manager == manager.name
        && entry.subresource == manager.subresource
        && (operation == Operation::Apply || entry.api_version == manager.api_version)
}

fn entry(value: &Value) -> Entry {
    let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
    Entry {
        manager: text("manager"),
        operation: if value["operation"] == "Apply" { Operation::Apply } else { Operation::Update },
        api_version: text("apiVersion"),
        subresource: text("subresource"),
        time: text("time"),
        fields: FieldSet::from_json(&value["fieldsV1"]),
    }
}

fn rendered(entry: &Entry) -> Value {
    let mut value = json!({
        "manager": entry.manager, "operation": entry.operation.name(), "apiVersion": entry.api_version,
        "time": entry.time, "fieldsType": "FieldsV1", "fieldsV1": entry.fields.to_json(),
    });
    if !entry.subresource.is_empty() {
        value["subresource"] = entry.subresource.as_str().into();
    }
    value
}
