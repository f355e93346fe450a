//! Merging a configuration into a live object, and taking items out of an object.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::FieldSet;
use super::elements::{Form, field_element, form, is_atomic, is_empty, item_element};
use crate::schema::Node;

/// Returns `live` with everything the configuration names; nothing is removed.
pub(super) fn merged(live: Option<&Value>, configuration: Option<&Value>, node: &Node) -> Option<Value> {
    let (Some(left), Some(right)) = (live, configuration) else {
        return configuration.or(live).cloned();
    };
    let (left_form, right_form) = (form(left, node), form(right, node));
    if left_form != right_form || is_atomic(node, right_form) || (is_empty(live) && is_empty(configuration)) {
        return Some(right.clone());
    }
    if right_form == Form::Map {
        return merged_fields(left, right, node);
    }
    let items = merged_items(left, right, node);
    (!items.is_empty()).then_some(Value::Array(items))
}

fn merged_fields(left: &Value, right: &Value, node: &Node) -> Option<Value> {
    let nothing = Map::new();
    let (left, right) = (left.as_object().unwrap_or(&nothing), right.as_object().unwrap_or(&nothing));
    let names: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
    let mut result = Map::new();
    for name in names {
        if let Some(value) = merged(left.get(name), right.get(name), &node.field_or_any(name)) {
            result.insert(name.clone(), value);
        }
    }
    (!result.is_empty()).then_some(Value::Object(result))
}

/// Items keep the live order where the configuration does not give another; configured items come in its order.
fn merged_items(left: &Value, right: &Value, node: &Node) -> Vec<Value> {
    let list = |value: &Value| -> Vec<(String, Value)> {
        let items = value.as_array().into_iter().flatten();
        items.filter_map(|item| Some((item_element(item, node).ok()?, item.clone()))).collect()
    };
    let (left, right) = (list(left), list(right));
    let mut merger = Merger {
        known: BTreeMap::new(),
        wanted: right.iter().map(|(element, item)| (element.as_str(), item)).collect(),
        items: node.items(),
        finished: BTreeSet::new(),
        result: Vec::new(),
    };
    for (element, item) in &left {
        // What occurs twice is not merged with anything.
        let twice = merger.known.contains_key(element.as_str());
        merger.known.insert(element, (!twice).then_some(item));
    }
    let mut shared = right.iter().map(|(element, _)| element.as_str());
    let known: BTreeSet<&str> = merger.known.keys().copied().collect();
    let mut next_shared = shared.find(|element| known.contains(element));
    let (mut at, mut by) = (0, 0);
    while at < left.len() || by < right.len() {
        if let (Some((element, _)), Some((other, _))) = (left.get(at), right.get(by)) {
            if element == other {
                merger.take_both(element);
                at += 1;
                by += 1;
                next_shared = shared.find(|element| known.contains(element));
                continue;
            }
            if merger.wanted.contains_key(element.as_str()) && next_shared.is_some_and(|next| next != element)
            {
                // Shared, but its turn comes later.
                at += 1;
                continue;
            }
        }
        if let Some((element, item)) = left.get(at) {
            if !merger.wanted.contains_key(element.as_str()) {
                merger.result.push(item.clone());
                at += 1;
                continue;
            }
            if merger.finished.contains(element.as_str()) {
                at += 1;
            }
        }
        if let Some((element, _)) = right.get(by) {
            merger.take_both(element);
            by += 1;
            if next_shared.is_some_and(|next| next == element) {
                next_shared = shared.find(|element| known.contains(element));
            }
        }
    }
    merger.result
}

struct Merger<'v> {
    known: BTreeMap<&'v str, Option<&'v Value>>,
    wanted: BTreeMap<&'v str, &'v Value>,
    items: std::sync::Arc<Node>,
    finished: BTreeSet<&'v str>,
    result: Vec<Value>,
}

impl<'v> Merger<'v> {
    fn take_both(&mut self, element: &'v str) {
        self.finished.insert(element);
        let live = self.known.get(element).copied().flatten();
        self.result.extend(merged(live, self.wanted.get(element).copied(), &self.items));
    }
}

/// Returns the value without the paths of `gone`; null when nothing is left.
pub(super) fn removed(value: &Value, gone: &FieldSet, node: &Node) -> Value {
    match form(value, node) {
        Form::Whole => value.clone(),
        form if is_empty(Some(value)) || is_atomic(node, form) => Value::Null,
        Form::Map => {
            let mut result = Map::new();
            for (name, field) in value.as_object().into_iter().flatten() {
                match gone.children.get(&field_element(name)) {
                    Some(below) if below.member => {}
                    Some(below) => {
                        result.insert(name.clone(), removed(field, below, &node.field_or_any(name)));
                    }
                    None => {
                        result.insert(name.clone(), field.clone());
                    }
                }
            }
            if result.is_empty() { Value::Null } else { Value::Object(result) }
        }
        Form::List => {
            let items = node.items();
            let mut result = Vec::new();
            for item in value.as_array().into_iter().flatten() {
                let below = item_element(item, node).ok().and_then(|element| gone.children.get(&element));
                match below {
                    Some(below) if below.member => {}
                    Some(below) => result.push(removed(item, below, &items)),
                    None => result.push(item.clone()),
                }
            }
            if result.is_empty() { Value::Null } else { Value::Array(result) }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node() -> Node {
        Node::custom(&json!({"type": "object", "properties": {"items": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"],
            "items": {"type": "object", "properties": {"n": {"type": "string"}, "v": {"type": "integer"}}},
        }}}))
    }

    fn order(live: &[&str], configured: &[&str]) -> String {
        let list = |names: &[&str]| -> Value {
            json!({"items": names.iter().map(|name| json!({"n": name})).collect::<Vec<_>>()})
        };
        let merged = merged(Some(&list(live)), Some(&list(configured)), &node()).unwrap();
        let names = merged["items"].as_array().unwrap().iter().filter_map(|item| item["n"].as_str());
        names.collect::<Vec<_>>().join("")
    }

    #[test]
    fn configured_items_keep_their_order_and_others_their_place() {
        assert_eq!(order(&["a", "b", "c"], &["b"]), "abc");
        assert_eq!(order(&["a", "b"], &["b", "a"]), "ba");
        assert_eq!(order(&["a", "b"], &["c", "a"]), "cab");
        assert_eq!(order(&[], &["x", "y"]), "xy");
    }

    #[test]
    fn removing_all_of_a_list_leaves_null() {
        let value = json!({"items": [{"n": "a", "v": 1}]});
        let mut gone = FieldSet::default();
        gone.children
            .entry("f:items".into())
            .or_default()
            .children
            .insert("k:{\"n\":\"a\"}".into(), FieldSet::leaf());
        assert_eq!(removed(&value, &gone, &node()), json!({"items": null}));
    }
}
