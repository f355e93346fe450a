//! Sets of field paths in the form of `FieldsV1`.
//!
//! Path elements keep their wire form: `f:<field>`, `k:<key fields as JSON>`, `v:<value as JSON>`. A node says
//! whether its own path is in the set and holds the sets below it.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::elements::{Form, field_element, form, is_atomic, item_element};
use crate::schema::Node;

/// A set of paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FieldSet {
    /// Whether the path that leads here is a member.
    pub(super) member: bool,
    pub(super) children: BTreeMap<String, FieldSet>,
}

impl FieldSet {
    /// The set with only the path that leads here.
    pub(super) fn leaf() -> Self {
        Self { member: true, children: BTreeMap::new() }
    }

    /// The set of these fields, each given by the names that lead to it.
    pub(crate) fn of_fields(paths: &[&[&str]]) -> Self {
        let mut set = Self::default();
        for path in paths {
            let mut place = &mut set;
            for name in *path {
                place = place.children.entry(field_element(name)).or_default();
            }
            place.member = true;
        }
        set
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.member && self.children.is_empty()
    }

    /// Returns the paths in both sets.
    pub(super) fn intersection(&self, other: &Self) -> Self {
        let shared = self.children.iter().filter_map(|(element, set)| {
            let shared = set.intersection(other.children.get(element)?);
            (!shared.is_empty()).then(|| (element.clone(), shared))
        });
        Self { member: self.member && other.member, children: shared.collect() }
    }

    /// Returns the paths in this set that are not in the other.
    pub(super) fn difference(&self, other: &Self) -> Self {
        let rest = self.children.iter().filter_map(|(element, set)| {
            let rest = match other.children.get(element) {
                Some(theirs) => set.difference(theirs),
                None => set.clone(),
            };
            (!rest.is_empty()).then(|| (element.clone(), rest))
        });
        Self { member: self.member && !other.member, children: rest.collect() }
    }

    /// Returns the paths in this set that are neither in the other nor below one of its paths.
    pub(super) fn without(&self, other: &Self) -> Self {
        let rest = self.children.iter().filter_map(|(element, set)| {
            let rest = match other.children.get(element) {
                Some(theirs) if theirs.member => return None,
                Some(theirs) => set.without(theirs),
                None => set.clone(),
            };
            (!rest.is_empty()).then(|| (element.clone(), rest))
        });
        Self { member: self.member && !other.member, children: rest.collect() }
    }

    /// Adds the paths of another set.
    pub(super) fn extend(&mut self, other: &Self) {
        self.member |= other.member;
        for (element, set) in &other.children {
            self.children.entry(element.clone()).or_default().extend(set);
        }
    }

    /// Returns the set in which every declared field with a path below it is a member itself.
    pub(super) fn with_named_fields(&self, node: &Node) -> Self {
        let children = self.children.iter().map(|(element, set)| {
            let name = element.strip_prefix("f:");
            let inner = match name {
                Some(name) => node.field_or_any(name),
                None => node.items(),
            };
            let mut set = set.with_named_fields(&inner);
            let declared =
                name.zip(node.fields()).is_some_and(|(name, fields)| fields.properties.contains_key(name));
            set.member |= declared && !set.children.is_empty();
            (element.clone(), set)
        });
        Self { member: self.member, children: children.collect() }
    }

    /// Reads `fieldsV1`.
    pub(super) fn from_json(json: &Value) -> Self {
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
    pub(super) fn to_json(&self) -> Value {
        let mut fields = Map::new();
        if self.member && !self.children.is_empty() {
            fields.insert(".".into(), Value::Object(Map::new()));
        }
        for (element, set) in &self.children {
            fields.insert(element.clone(), set.to_json());
        }
        Value::Object(fields)
    }

    /// Returns the paths that an object names.
    pub(super) fn of(value: &Value, node: &Node) -> Self {
        let form = form(value, node);
        if is_atomic(node, form) {
            return Self::leaf();
        }
        let mut set = Self::default();
        if form == Form::Map {
            for (name, field) in value.as_object().into_iter().flatten() {
                let mut below = Self::of(field, &node.field_or_any(name));
                let declared = node.fields().is_some_and(|fields| fields.properties.contains_key(name));
                let empty = field.is_null() || field.as_object().is_some_and(Map::is_empty);
                below.member |= empty || !declared;
                if !below.is_empty() {
                    set.children.insert(field_element(name), below);
                }
            }
            return set;
        }
        let items = node.items();
        for item in value.as_array().into_iter().flatten() {
            let Ok(element) = item_element(item, node) else { continue };
            // An item that occurs twice is owned, its fields are not.
            let below = if set.children.contains_key(&element) {
                Self::leaf()
            } else {
                Self { member: true, ..Self::of(item, &items) }
            };
            set.children.insert(element, below);
        }
        set
    }

    /// Returns the paths as Kubernetes prints them in conflicts: `.spec.containers[name="a"].image`.
    pub(super) fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect_paths("", &mut paths);
        paths
    }

    /// Members of one level come before everything below.
    fn collect_paths(&self, prefix: &str, paths: &mut Vec<String>) {
        let members = self.children.iter().filter(|(_, set)| set.member);
        paths.extend(members.map(|(element, _)| format!("{prefix}{}", shown(element))));
        for (element, set) in &self.children {
            set.collect_paths(&format!("{prefix}{}", shown(element)), paths);
        }
    }
}

/// A path element as people read it.
pub(super) fn shown(element: &str) -> String {
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
        let status = FieldSet::of_fields(&[&["a"]]);
        assert!(left.without(&status).is_empty());
        assert!(!left.difference(&status).is_empty());
    }

    #[test]
    fn an_object_names_its_leaves_items_and_keys() {
        let pod = Node::built_in("v1", "Pod");
        let value = json!({"metadata": {"labels": {"a": "b"}}, "spec": {
            "containers": [{"name": "c", "resources": {}}], "tolerations": [{"key": "k"}],
        }});
        assert_eq!(
            FieldSet::of(&value, &pod).to_json(),
            json!({
                "f:metadata": {"f:labels": {"f:a": {}}},
                "f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:name": {}, "f:resources": {}}}, "f:tolerations": {}},
            })
        );
    }
}
