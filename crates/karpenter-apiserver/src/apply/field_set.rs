//! Sets of field paths in the form of `FieldsV1`.
//!
//! Path elements keep their wire form: `f:<field>`, `k:<key fields as JSON>`, `v:<value as JSON>`. A node says
//! whether its own path is in the set and holds the sets below it.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::schema::{Merging, Node};

/// A set of paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FieldSet {
    /// Whether the path that leads here is a member.
    pub(crate) member: bool,
    pub(crate) children: BTreeMap<String, FieldSet>,
}

impl FieldSet {
    /// The set with only the path that leads here.
    pub(crate) fn leaf() -> Self {
        Self { member: true, children: BTreeMap::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.member && self.children.is_empty()
    }

    /// Returns the paths in both sets.
    pub(crate) fn intersection(&self, other: &Self) -> Self {
        let shared = self.children.iter().filter_map(|(element, set)| {
            let shared = set.intersection(other.children.get(element)?);
            (!shared.is_empty()).then(|| (element.clone(), shared))
        });
        Self { member: self.member && other.member, children: shared.collect() }
    }

    /// Returns the paths in this set that are not in the other.
    pub(crate) fn difference(&self, other: &Self) -> Self {
        let rest = self.children.iter().filter_map(|(element, set)| {
            let rest = match other.children.get(element) {
                Some(theirs) => set.difference(theirs),
                None => set.clone(),
            };
            (!rest.is_empty()).then(|| (element.clone(), rest))
        });
        Self { member: self.member && !other.member, children: rest.collect() }
    }

    /// Adds the paths of another set.
    pub(crate) fn extend(&mut self, other: &Self) {
        self.member |= other.member;
        for (element, set) in &other.children {
            self.children.entry(element.clone()).or_default().extend(set);
        }
    }

    /// Returns the set without a field and all below it.
    pub(crate) fn without(mut self, path: &[&str]) -> Self {
        if let [first, rest @ ..] = path {
            let element = format!("f:{first}");
            if rest.is_empty() {
                self.children.remove(&element);
            } else if let Some(child) = self.children.remove(&element) {
                let child = child.without(rest);
                if !child.is_empty() {
                    self.children.insert(element, child);
                }
            }
        }
        self
    }

    /// Reads `fieldsV1`.
    pub(crate) fn from_json(json: &Value) -> Self {
        let fields = json.as_object();
        let mut set = Self { member: fields.is_some_and(Map::is_empty), children: BTreeMap::new() };
        for (element, below) in fields.into_iter().flatten() {
            if element == "." {
                set.member = true;
            } else {
                set.children.insert(element.clone(), Self::from_json(below));
            }
        }
        set
    }

    /// Writes `fieldsV1`.
    pub(crate) fn to_json(&self) -> Value {
        let mut fields = Map::new();
        if self.member && !self.children.is_empty() {
            fields.insert(".".into(), Value::Object(Map::new()));
        }
        for (element, set) in &self.children {
            fields.insert(element.clone(), set.to_json());
        }
        Value::Object(fields)
    }

    /// Returns the paths that an applied configuration names.
    pub(crate) fn of(value: &Value, node: &Node) -> Self {
        match value {
            Value::Object(fields) if node.merging != Merging::Atomic && !fields.is_empty() => {
                let children = fields
                    .iter()
                    .map(|(name, value)| (format!("f:{name}"), Self::of(value, &node.field_or_any(name))));
                Self { member: false, children: children.collect() }
            }
            Value::Array(items) if is_merged_list(node) && !items.is_empty() => {
                let item_node = node.items();
                let children = items.iter().map(|item| {
                    let mut set = Self::of(item, &item_node);
                    set.member = true;
                    (item_element(item, node), set)
                });
                Self { member: false, children: children.collect() }
            }
            _ => Self::leaf(),
        }
    }

    /// Returns the paths as Kubernetes prints them in conflicts: `.spec.containers[name="a"].image`.
    pub(crate) fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect_paths(&mut String::new(), &mut paths);
        paths
    }

    fn collect_paths(&self, prefix: &mut String, paths: &mut Vec<String>) {
        if self.member {
            paths.push(prefix.clone());
        }
        for (element, set) in &self.children {
            let length = prefix.len();
            prefix.push_str(&printed(element));
            set.collect_paths(prefix, paths);
            prefix.truncate(length);
        }
    }
}

fn printed(element: &str) -> String {
    match element.split_at_checked(2) {
        Some(("f:", name)) => format!(".{name}"),
        Some(("k:", keys)) => {
            let keys: Map<String, Value> = serde_json::from_str(keys).unwrap_or_default();
            let keys: Vec<String> = keys.iter().map(|(name, value)| format!("{name}={value}")).collect();
            format!("[{}]", keys.join(","))
        }
        Some(("v:", value)) => format!("[={value}]"),
        _ => element.to_owned(),
    }
}

/// Whether list items are merged one by one.
pub(crate) fn is_merged_list(node: &Node) -> bool {
    matches!(node.merging, Merging::Set | Merging::Keyed(_))
}

/// Returns the path element of an item in a merged list.
pub(crate) fn item_element(item: &Value, list: &Node) -> String {
    match &list.merging {
        Merging::Keyed(keys) => {
            let items = list.items();
            let keys: BTreeMap<&str, Value> = keys
                .iter()
                .filter_map(|key| {
                    let default = || match key.as_str() {
                        // The one key field Kubernetes defaults in its own lists.
                        "protocol" => Some(Value::String("TCP".into())),
                        _ => items.field(key).and_then(|node| node.default.clone()),
                    };
                    Some((key.as_str(), item.get(key).cloned().or_else(default)?))
                })
                .collect();
            format!("k:{}", serde_json::to_string(&keys).expect("keys have a JSON form"))
        }
        _ => format!("v:{item}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_set_survives_its_wire_form() {
        let wire = json!({"f:spec": {"f:list": {".": {}, "k:{\"name\":\"a\"}": {".": {}, "f:x": {}}}}});
        let set = FieldSet::from_json(&wire);
        assert_eq!(set.to_json(), wire);
        assert_eq!(set.paths(), [".spec.list", ".spec.list[name=\"a\"]", ".spec.list[name=\"a\"].x"]);
    }

    #[test]
    fn sets_subtract_and_intersect_by_path() {
        let left = FieldSet::from_json(&json!({"f:a": {"f:b": {}, "f:c": {}}}));
        let right = FieldSet::from_json(&json!({"f:a": {"f:c": {}, "f:d": {}}}));
        assert_eq!(left.difference(&right).to_json(), json!({"f:a": {"f:b": {}}}));
        assert_eq!(left.intersection(&right).to_json(), json!({"f:a": {"f:c": {}}}));
    }
}
