//! What changed between two versions of an object, as sets of paths.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::FieldSet;
use super::elements::{Form, field_element, form, is_atomic, is_empty, item_element};
use crate::schema::Node;

/// The difference between two objects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Comparison {
    pub(super) added: FieldSet,
    pub(super) modified: FieldSet,
    pub(super) removed: FieldSet,
}

impl Comparison {
    /// Returns the paths whose value is new or different.
    pub(super) fn written(&self) -> FieldSet {
        let mut written = self.added.clone();
        written.extend(&self.modified);
        written
    }

    /// Leaves out everything at and below the paths of `ignored`.
    pub(super) fn without(self, ignored: &FieldSet) -> Self {
        Self {
            added: self.added.without(ignored),
            modified: self.modified.without(ignored),
            removed: self.removed.without(ignored),
        }
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

/// Compares two values of the same place; `None` is an absent value, and one of them is there.
pub(super) fn compare(old: Option<&Value>, new: Option<&Value>, node: &Node) -> Comparison {
    let mut result = Comparison::default();
    let forms = (old.map(|value| form(value, node)), new.map(|value| form(value, node)));
    let form = match forms {
        // One thing has become another: all of the one is gone, all of the other is new.
        (Some(before), Some(after)) if before != after => {
            result.modified.member = true;
            result.added.children = compare(None, new, node).added.children;
            result.removed.children = compare(old, None, node).removed.children;
            return result;
        }
        (old, new) => new.or(old).unwrap_or(Form::Whole),
    };
    if is_atomic(node, form) || (is_empty(old) && is_empty(new)) {
        match (old, new) {
            (None, _) => result.added.member = true,
            (_, None) => result.removed.member = true,
            (old, new) => result.modified.member = old != new,
        }
        return result;
    }
    if form == Form::Map {
        compare_fields(old, new, node, &mut result);
    } else {
        compare_items(old, new, node, &mut result);
    }
    match (old, new) {
        (None, _) => result.added.member = true,
        (_, None) => result.removed.member = true,
        _ => {}
    }
    result
}

fn compare_fields(old: Option<&Value>, new: Option<&Value>, node: &Node, result: &mut Comparison) {
    let old = old.and_then(Value::as_object);
    let new = new.and_then(Value::as_object);
    let names: BTreeSet<&String> = old.into_iter().chain(new).flat_map(serde_json::Map::keys).collect();
    for name in names {
        let (before, after) = (old.and_then(|old| old.get(name)), new.and_then(|new| new.get(name)));
        if before != after {
            result.hang(&field_element(name), compare(before, after, &node.field_or_any(name)));
        }
    }
}

/// Items by path element; one that occurs twice is compared as a whole.
fn compare_items(old: Option<&Value>, new: Option<&Value>, node: &Node, result: &mut Comparison) {
    let (old, new) = (indexed(old, node), indexed(new, node));
    let items = node.items();
    let elements: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let nothing = Vec::new();
    for element in elements {
        let before = old.get(element).unwrap_or(&nothing);
        let after = new.get(element).unwrap_or(&nothing);
        let mut below = Comparison::default();
        match (before.len(), after.len()) {
            (0 | 1, 0 | 1) => below = compare(before.first().copied(), after.first().copied(), &items),
            (0 | 1, _) => {
                if let Some(before) = before.first() {
                    below = compare(Some(before), None, &items);
                    // It is still there, twice.
                    below.removed.member = false;
                }
                below.added.member = true;
            }
            (_, 0 | 1) => {
                if let Some(after) = after.first() {
                    below = compare(None, Some(after), &items);
                } else {
                    below.removed.member = true;
                }
            }
            _ => below.modified.member = before != after,
        }
        result.hang(element, below);
    }
}

fn indexed<'v>(value: Option<&'v Value>, node: &Node) -> BTreeMap<String, Vec<&'v Value>> {
    let mut index: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    for item in value.and_then(Value::as_array).into_iter().flatten() {
        if let Ok(element) = item_element(item, node) {
            index.entry(element).or_default().push(item);
        }
    }
    index
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
