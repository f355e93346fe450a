//! What changed between two versions of an object, as sets of paths.

use std::collections::BTreeMap;

use serde_json::Value;

use super::FieldSet;
use super::field_set::{is_merged_list, item_element};
use crate::schema::{Merging, Node};

/// The difference between two objects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Comparison {
    pub(crate) added: FieldSet,
    pub(crate) modified: FieldSet,
    pub(crate) removed: FieldSet,
}

impl Comparison {
    /// Returns the paths whose value is new or different.
    pub(crate) fn written(&self) -> FieldSet {
        let mut written = self.added.clone();
        written.extend(&self.modified);
        written
    }

    fn hang(&mut self, element: &str, below: Self) {
        for (target, set) in [
            (&mut self.added, below.added),
            (&mut self.modified, below.modified),
            (&mut self.removed, below.removed),
        ] {
            if !set.is_empty() {
                target.children.insert(element.to_owned(), set);
            }
        }
    }
}

/// Structs that the API's own types always contain, so they are never newly added by a writer.
const ALWAYS_PRESENT: &[&str] =
    &["f:metadata", "f:spec", "f:status", "f:template", "f:strategy", "f:containers"];

/// Compares two values of the same place; `None` is an absent value.
pub(crate) fn compare(old: Option<&Value>, new: Option<&Value>, node: &Node) -> Comparison {
    if old == new {
        return Comparison::default();
    }
    let before = old.and_then(|value| elements(value, node));
    let after = new.and_then(|value| elements(value, node));
    let mut result = Comparison::default();
    if before.is_none() && after.is_none() {
        match (old, new) {
            (None, Some(_)) => result.added.member = true,
            (Some(_), None) => result.removed.member = true,
            _ => result.modified.member = true,
        }
        return result;
    }
    match (old, new) {
        (None, Some(_)) => result.added.member = true,
        (Some(_), None) => result.removed.member = true,
        _ => {}
    }
    let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
    for (element, (value, child)) in &after {
        let previous = before.get(element).map(|(value, _)| *value);
        let mut below = compare(previous, Some(value), child);
        if ALWAYS_PRESENT.contains(&element.as_str()) && !below.added.children.is_empty() {
            below.added.member = false;
        }
        result.hang(element, below);
    }
    for (element, (value, child)) in &before {
        if !after.contains_key(element) {
            result.hang(element, compare(Some(value), None, child));
        }
    }
    result
}

type Elements<'v> = BTreeMap<String, (&'v Value, std::sync::Arc<Node>)>;

/// Splits a value into the parts that are owned one by one; `None` when it is owned as a whole.
fn elements<'v>(value: &'v Value, node: &Node) -> Option<Elements<'v>> {
    match value {
        Value::Object(fields) if node.merging != Merging::Atomic && !fields.is_empty() => Some(
            fields
                .iter()
                .map(|(name, value)| (format!("f:{name}"), (value, node.field_or_any(name))))
                .collect(),
        ),
        Value::Array(items) if is_merged_list(node) && !items.is_empty() => {
            let child = node.items();
            Some(items.iter().map(|item| (item_element(item, node), (item, child.clone()))).collect())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn changes_are_sorted_into_added_modified_and_removed() {
        let old = json!({"spec": {"a": 1, "b": 2, "keep": {"x": 1}}});
        let new = json!({"spec": {"a": 3, "c": {"d": 1}, "keep": {"x": 1}}});
        let comparison = compare(Some(&old), Some(&new), &Node::any());
        assert_eq!(comparison.modified.paths(), [".spec.a"]);
        assert_eq!(comparison.removed.paths(), [".spec.b"]);
        assert_eq!(comparison.added.paths(), [".spec.c", ".spec.c.d"]);
    }
}
