//! `metadata.managedFields`: reading, writing and crediting ordinary writes.

use serde_json::{Map, Value, json};

use super::FieldSet;
use super::compare::{Comparison, compare};
use crate::schema::Node;

/// The most entries of ordinary writers; the oldest are joined beyond it.
const UPDATERS_MAX: usize = 10;

/// How a manager writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
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
    /// What this kind of write cannot change, such as `status` outside of its subresource.
    pub(crate) ignored: &'r FieldSet,
}

/// What tells entries apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) manager: String,
    pub(super) operation: Operation,
    pub(super) api_version: String,
    pub(super) subresource: String,
}

impl Identity {
    fn of(manager: Manager<'_>, operation: Operation) -> Self {
        Self {
            manager: if manager.name.is_empty() { "unknown" } else { manager.name }.to_owned(),
            operation,
            api_version: manager.api_version.to_owned(),
            subresource: manager.subresource.to_owned(),
        }
    }

    pub(super) fn applier(manager: Manager<'_>) -> Self {
        Self::of(manager, Operation::Apply)
    }

    /// Whoever applies is the same in all versions.
    fn is(&self, other: &Self) -> bool {
        self.manager == other.manager
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }

    /// The identity as a text that sorts as Kubernetes sorts conflicts.
    pub(super) fn encoded(&self) -> String {
        let version = if self.operation == Operation::Update { self.api_version.as_str() } else { "" };
        // The end of the text comes after everything that may follow instead.
        let rest =
            if self.subresource.is_empty() { "}".to_owned() } else { format!(",{}", self.subresource) };
        format!("{:?},{},{version}{rest}", self.manager, self.operation.name())
    }

    /// The identity in a sentence about a conflict.
    pub(super) fn shown(&self) -> String {
        let mut text = format!("{:?}", self.manager);
        if !self.subresource.is_empty() {
            text = format!("{text} with subresource {:?}", self.subresource);
        }
        if self.operation == Operation::Update {
            text = format!("{text} using {}", self.api_version);
        }
        text
    }
}

/// One entry of `managedFields`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(super) identity: Identity,
    pub(super) time: String,
    pub(super) fields: FieldSet,
}

/// All entries of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Managers {
    pub(super) entries: Vec<Entry>,
}

/// The object's identity and the fields of `metadata` that nobody owns.
const UNOWNED: &[&[&str]] = &[
    &["apiVersion"],
    &["kind"],
    &["metadata"],
    &["metadata", "name"],
    &["metadata", "namespace"],
    &["metadata", "creationTimestamp"],
    &["metadata", "selfLink"],
    &["metadata", "uid"],
    &["metadata", "clusterName"],
    &["metadata", "generation"],
    &["metadata", "managedFields"],
    &["metadata", "resourceVersion"],
];

/// Removes what nobody can own from a set.
pub(super) fn strip(set: &FieldSet) -> FieldSet {
    set.difference(&FieldSet::of_fields(UNOWNED))
}

impl Managers {
    /// Takes `managedFields` out of an object.
    pub(crate) fn take(object: &mut Value) -> Self {
        let entries = taken(object);
        Self::read(entries.as_ref()).unwrap_or_default()
    }

    /// Takes the entries to start from out of both versions of an object: those of the new one when it has some that
    /// can be read, nothing when it asks for a fresh start, those of the old one otherwise.
    pub(crate) fn take_either(old: &mut Value, new: &mut Value, old_only: bool) -> Self {
        let (before, given) = (Self::take(old), taken(new));
        if old_only {
            return before;
        }
        let reset = match given.as_ref().and_then(Value::as_array).map(Vec::as_slice) {
            Some([]) => true,
            Some([only]) => only.as_object().is_some_and(Map::is_empty),
            _ => false,
        };
        if reset {
            return Self::default();
        }
        match Self::read(given.as_ref()) {
            Some(managers) if !managers.entries.is_empty() => managers,
            _ => before,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Forgets the entries of versions that are not known.
    pub(crate) fn retain_versions(&mut self, known: impl Fn(&str) -> bool) {
        self.entries.retain(|entry| known(&entry.identity.api_version));
    }

    /// Whether two sets of entries differ in nothing but times.
    pub(crate) fn same_fields(&self, other: &Self) -> bool {
        self.entries.len() == other.entries.len()
            && self
                .entries
                .iter()
                .zip(&other.entries)
                .all(|(left, right)| left.identity == right.identity && left.fields == right.fields)
    }

    fn read(entries: Option<&Value>) -> Option<Self> {
        let Some(entries) = entries.and_then(Value::as_array) else { return Some(Self::default()) };
        let mut managers = Self::default();
        for entry in entries {
            let entry = read_entry(entry)?;
            managers.remove(&entry.identity);
            managers.entries.push(entry);
        }
        Some(managers)
    }

    /// Puts `managedFields` into an object.
    pub(crate) fn put(&self, object: &mut Value) {
        if self.entries.is_empty() {
            return;
        }
        let entries: Vec<Value> = self.entries.iter().map(rendered).collect();
        object["metadata"]["managedFields"] = Value::Array(entries);
    }

    pub(super) fn find(&self, identity: &Identity) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.identity.is(identity))
    }

    pub(super) fn remove(&mut self, identity: &Identity) {
        self.entries.retain(|entry| !entry.identity.is(identity));
    }

    /// Adds an entry in its place: applied ones first, then by time and name.
    pub(super) fn insert(&mut self, entry: Entry) {
        self.remove(&entry.identity);
        self.entries.push(entry);
        self.entries.sort_by(|left, right| order(left).cmp(&order(right)));
    }

    /// Takes from every entry what a write changed or removed.
    ///
    /// # Errors
    /// Returns what was owned of the changed fields, unless the write is forced.
    pub(super) fn lose(
        &mut self,
        comparison: &Comparison,
        force: bool,
    ) -> Result<(), Vec<(Identity, FieldSet)>> {
        let written = comparison.written();
        let conflicts: Vec<(Identity, FieldSet)> = self
            .entries
            .iter()
            .map(|entry| (entry.identity.clone(), entry.fields.intersection(&written)))
            .filter(|(_, fields)| !fields.is_empty())
            .collect();
        if !force && !conflicts.is_empty() {
            return Err(conflicts);
        }
        for entry in &mut self.entries {
            entry.fields = entry.fields.difference(&written).difference(&comparison.removed);
        }
        self.entries.retain(|entry| !entry.fields.is_empty());
        Ok(())
    }

    /// Credits a write through the scale subresource. The real server works out there who owns the replicas and puts
    /// the result beside the entries of the object: owners by an update get an entry of their own, without a time, even
    /// when nothing changed. `writer` is given when the replicas changed; replicas that nobody owns stay so.
    pub(crate) fn scale(&mut self, replicas: &FieldSet, changed: bool, writer: Option<Manager<'_>>) {
        let owns = |entry: &Entry| !entry.fields.intersection(replicas).is_empty();
        let owners: Vec<Identity> =
            self.entries.iter().filter(|entry| owns(entry)).map(|entry| entry.identity.clone()).collect();
        if owners.is_empty() {
            return;
        }
        let stay = |identity: &Identity| !changed && identity.operation == Operation::Apply;
        for entry in self.entries.iter_mut().filter(|entry| !stay(&entry.identity)) {
            entry.fields = entry.fields.difference(replicas);
        }
        self.entries.retain(|entry| !entry.fields.is_empty());
        let owners = match writer {
            Some(writer) => vec![Identity::of(writer, Operation::Update)],
            None if changed => Vec::new(),
            None => owners.into_iter().filter(|identity| !stay(identity)).collect(),
        };
        let bare = |identity| Entry { identity, time: String::new(), fields: replicas.clone() };
        self.entries.extend(owners.into_iter().map(bare));
        self.entries.sort_by(|left, right| order(left).cmp(&order(right)));
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Credits a write: the writer owns what it set, others lose what it changed or removed.
    pub(crate) fn update(&mut self, old: &Value, new: &Value, node: &Node, manager: Manager<'_>) {
        self.update_hollow(old, new, node, manager, &FieldSet::default());
    }

    /// Credits a write of a body in which the fields of `hollow` hold something empty that is not written.
    pub(crate) fn update_hollow(
        &mut self,
        old: &Value,
        new: &Value,
        node: &Node,
        manager: Manager<'_>,
        hollow: &FieldSet,
    ) {
        let mut comparison = compare(Some(old), Some(new), node);
        comparison.modified.extend(hollow);
        let comparison = comparison.without(manager.ignored);
        let written = strip(&comparison.written().difference(&comparison.removed));
        self.lose(&comparison, true).unwrap_or_else(|_| unreachable!("a forced write has no conflicts"));
        if written.is_empty() {
            return;
        }
        let identity = Identity::of(manager, Operation::Update);
        let mut fields = self.find(&identity).map(|entry| entry.fields.clone()).unwrap_or_default();
        fields.extend(&written);
        self.insert(Entry { identity, time: manager.now.to_owned(), fields });
        self.join_oldest();
    }

    /// Joins the oldest entries of a version when there are too many.
    fn join_oldest(&mut self) {
        let is_update = |entry: &Entry| entry.identity.operation == Operation::Update;
        let mut count = self.entries.iter().filter(|entry| is_update(entry)).count();
        let mut candidates: Vec<Identity> = self
            .entries
            .iter()
            .filter(|entry| is_update(entry))
            .map(|entry| entry.identity.clone())
            .collect();
        let mut first: Vec<Identity> = Vec::new();
        candidates.reverse();
        while count > UPDATERS_MAX {
            let Some(identity) = candidates.pop() else { return };
            let Some(earlier) = first.iter().position(|other| other.api_version == identity.api_version)
            else {
                first.push(identity);
                continue;
            };
            let bucket = Identity {
                manager: "ancient-changes".into(),
                subresource: String::new(),
                ..identity.clone()
            };
            let mut fields = FieldSet::default();
            let mut time = String::new();
            for part in [&first[earlier], &bucket, &identity] {
                if let Some(entry) = self.find(part) {
                    fields.extend(&entry.fields);
                    time.clone_from(&entry.time);
                }
                self.remove(part);
            }
            first[earlier] = bucket.clone();
            self.insert(Entry { identity: bucket, time, fields });
            count -= 1;
        }
    }
}

fn taken(object: &mut Value) -> Option<Value> {
    object["metadata"].as_object_mut().and_then(|metadata| metadata.remove("managedFields"))
}

/// Applied configurations come first, then by time, as Kubernetes lists them.
fn order(entry: &Entry) -> (Operation, &str, &str, &str, &str) {
    let Identity { manager, operation, api_version, subresource } = &entry.identity;
    (*operation, &entry.time, manager, api_version, subresource)
}

fn read_entry(value: &Value) -> Option<Entry> {
    let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
    let operation = match value["operation"].as_str()? {
        "Apply" => Operation::Apply,
        "Update" => Operation::Update,
        _ => return None,
    };
    if text("apiVersion").is_empty() || value["fieldsType"] != "FieldsV1" {
        return None;
    }
    let identity = Identity {
        manager: text("manager"),
        operation,
        api_version: text("apiVersion"),
        subresource: text("subresource"),
    };
    Some(Entry { identity, time: text("time"), fields: FieldSet::from_json(&value["fieldsV1"]) })
}

fn rendered(entry: &Entry) -> Value {
    let identity = &entry.identity;
    let mut value = json!({
        "manager": identity.manager, "operation": identity.operation.name(), "apiVersion": identity.api_version,
        "fieldsType": "FieldsV1", "fieldsV1": entry.fields.to_json(),
    });
    for (name, text) in [("time", &entry.time), ("subresource", &identity.subresource)] {
        if !text.is_empty() {
            value[name] = text.as_str().into();
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    static NOTHING: FieldSet = FieldSet { member: false, children: std::collections::BTreeMap::new() };

    #[test]
    fn the_oldest_of_too_many_writers_are_joined() {
        let node = Node::any();
        let mut managers = Managers::default();
        let mut object = json!({"spec": {}});
        for index in 0..12 {
            let old = object.clone();
            object["spec"][format!("f{index}")] = json!(index);
            let (name, now) = (format!("m{index:02}"), format!("2026-01-01T00:00:{index:02}Z"));
            let manager =
                Manager { name: &name, api_version: "v1", subresource: "", now: &now, ignored: &NOTHING };
            managers.update(&old, &object, &node, manager);
        }
        let names: Vec<&str> = managers.entries.iter().map(|entry| entry.identity.manager.as_str()).collect();
        assert_eq!(names.len(), 10);
        assert_eq!(names[0], "ancient-changes");
    }

    #[test]
    fn an_empty_list_asks_for_a_fresh_start() {
        let entry = json!([{"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {}}}]);
        let old = || json!({"metadata": {"managedFields": entry}});
        let started = |mut new: Value| Managers::take_either(&mut old(), &mut new, false).entries.len();
        assert_eq!(started(json!({"metadata": {}})), 1);
        assert_eq!(started(json!({"metadata": {"managedFields": []}})), 0);
        assert_eq!(started(json!({"metadata": {"managedFields": [{"operation": "Other"}]}})), 1);
    }
}
