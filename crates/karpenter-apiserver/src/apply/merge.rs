//! Server-side apply: merging an applied configuration into the live object.
//!
//! Fields the configuration names are set; fields the same manager applied before, names no longer, and nobody else
//! owns are removed; fields that differ and belong to others are conflicts unless forced.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::field_set::{is_merged_list, item_element};
use super::managers::owned;
use super::{FieldSet, Manager, Managers, Operation, compare};
use crate::error::ApiError;
use crate::schema::{Merging, Node};

/// The outcome of an apply.
#[derive(Debug)]
pub(crate) struct Applied {
    pub(crate) object: Value,
    pub(crate) managers: Managers,
}

/// Applies `configuration` to `live`.
///
/// # Errors
/// 409 with one cause per field when others own fields with different values and `force` is off.
pub(crate) fn apply(
    live: &Value,
    mut managers: Managers,
    configuration: &Value,
    node: &Node,
    manager: Manager<'_>,
    force: bool,
) -> Result<Applied, ApiError> {
    let wanted = owned(FieldSet::of(configuration, node));
    let merged = merged(live, configuration, node);
    let changed = owned(compare(Some(live), Some(&merged), node).written()).intersection(&wanted);
    let conflicts: Vec<(usize, FieldSet)> = managers
        .entries
        .iter()
        .enumerate()
        .filter(|(_, entry)| entry.operation == Operation::Update || entry.manager != manager.name)
        .map(|(index, entry)| (index, entry.fields.intersection(&changed)))
        .filter(|(_, conflict)| !conflict.is_empty())
        .collect();
    if !conflicts.is_empty() && !force {
        return Err(conflict(&managers, &conflicts));
    }
    for (index, lost) in conflicts {
        let fields = &mut managers.entries[index].fields;
        *fields = fields.difference(&lost);
    }
    let previous =
        managers.find(manager, Operation::Apply).map(|entry| entry.fields.clone()).unwrap_or_default();
    let mut kept = wanted.clone();
    for entry in &managers.entries {
        if entry.operation == Operation::Update || entry.manager != manager.name {
            kept.extend(&entry.fields);
        }
    }
    let mut object = merged;
    remove(&mut object, &previous.difference(&kept), &kept, node);
    managers.set(manager, Operation::Apply, wanted);
    Ok(Applied { object, managers })
}

fn merged(live: &Value, configuration: &Value, node: &Node) -> Value {
    match (live, configuration) {
        (Value::Object(current), Value::Object(wanted)) if node.merging != Merging::Atomic => {
            let mut result = current.clone();
            for (name, value) in wanted {
                let child = node.field_or_any(name);
                let value =
                    result.get(name).map_or_else(|| value.clone(), |live| merged(live, value, &child));
                result.insert(name.clone(), value);
            }
            Value::Object(result)
        }
        (Value::Array(current), Value::Array(wanted)) if is_merged_list(node) => {
            Value::Array(merged_list(current, wanted, node))
        }
        (_, wanted) => wanted.clone(),
    }
}

/// Applied items come in the applied order at the place of the first of them; other items keep theirs.
fn merged_list(current: &[Value], wanted: &[Value], node: &Node) -> Vec<Value> {
    let child = node.items();
    let named: BTreeSet<String> = wanted.iter().map(|item| item_element(item, node)).collect();
    let mut applied = wanted.iter().map(|item| {
        let element = item_element(item, node);
        let live = current.iter().find(|live| item_element(live, node) == element);
        live.map_or_else(|| item.clone(), |live| merged(live, item, &child))
    });
    let mut result = Vec::with_capacity(current.len() + wanted.len());
    for item in current {
        if named.contains(&item_element(item, node)) {
            result.extend(applied.next());
        } else {
            result.push(item.clone());
        }
    }
    result.extend(applied);
    result
}

/// Removes the paths of `gone`, but nothing that contains a path of `kept`.
fn remove(value: &mut Value, gone: &FieldSet, kept: &FieldSet, node: &Node) {
    let nothing = FieldSet::default();
    match value {
        Value::Object(fields) => {
            for (element, below) in &gone.children {
                let Some(name) = element.strip_prefix("f:") else { continue };
                let kept_below = kept.children.get(element).unwrap_or(&nothing);
                let Some(child) = fields.get_mut(name) else { continue };
                remove(child, below, kept_below, &node.field_or_any(name));
                let emptied = !below.children.is_empty() && is_empty(child);
                if (below.member || emptied) && kept_below.is_empty() {
                    fields.remove(name);
                }
            }
        }
        Value::Array(items) if is_merged_list(node) => {
            let child = node.items();
            items.retain_mut(|item| {
                let element = item_element(item, node);
                let Some(below) = gone.children.get(&element) else { return true };
                let kept_below = kept.children.get(&element).unwrap_or(&nothing);
                remove(item, below, kept_below, &child);
                !(below.member && kept_below.is_empty())
            });
        }
        _ => {}
    }
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty)
}

fn conflict(managers: &Managers, conflicts: &[(usize, FieldSet)]) -> ApiError {
    let mut causes = Vec::new();
    let mut sentences = Vec::new();
    for (index, fields) in conflicts {
        let entry = &managers.entries[*index];
        let subresource = match entry.subresource.as_str() {
            "" => String::new(),
            name => format!(" with subresource {name:?}"),
        };
        let with = format!("{:?}{subresource} using {}", entry.manager, entry.api_version);
        let paths = fields.paths();
        causes.extend(paths.iter().map(|path| {
            json!({"reason": "FieldManagerConflict", "message": format!("conflict with {with}"), "field": path})
        }));
        sentences.push(match paths.as_slice() {
            [path] => format!("conflict with {with}: {path}"),
            paths => format!("conflicts with {with}:\n- {}", paths.join("\n- ")),
        });
    }
    let count = causes.len();
    let noun = if count == 1 { "conflict" } else { "conflicts" };
    ApiError::apply_conflict(format!("Apply failed with {count} {noun}: {}", sentences.join("\n")), &causes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manager(name: &str) -> Manager<'_> {
        Manager { name, api_version: "v1", subresource: "", now: "2026-01-01T00:00:00Z" }
    }

    fn node() -> Node {
        Node::custom(&json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "size": {"type": "integer"},
            "color": {"type": "string"},
            "items": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "properties": {"name": {"type": "string"}, "v": {"type": "integer"}}}},
        }}}}))
    }

    fn run(live: &Applied, name: &str, configuration: &Value, force: bool) -> Result<Applied, ApiError> {
        apply(&live.object, live.managers.clone(), configuration, &node(), manager(name), force)
    }

    fn empty() -> Applied {
        Applied { object: json!({}), managers: Managers::default() }
    }

    #[test]
    fn a_field_of_another_manager_is_a_conflict_until_forced() {
        let first = run(&empty(), "one", &json!({"spec": {"size": 1, "color": "red"}}), false).unwrap();
        let error = run(&first, "two", &json!({"spec": {"size": 2}}), false).unwrap_err();
        assert_eq!(error.message, "Apply failed with 1 conflict: conflict with \"one\" using v1: .spec.size");
        let same = run(&first, "two", &json!({"spec": {"size": 1}}), false).unwrap();
        assert_eq!(same.managers.entries.len(), 2);
        let forced = run(&first, "two", &json!({"spec": {"size": 2}}), true).unwrap();
        assert_eq!(forced.object["spec"], json!({"size": 2, "color": "red"}));
        let one = forced.managers.find(manager("one"), Operation::Apply).unwrap();
        assert_eq!(one.fields.paths(), [".spec.color"]);
    }

    #[test]
    fn what_is_no_longer_applied_and_owned_by_nobody_else_goes() {
        let items = json!({"spec": {"size": 1, "items": [{"name": "a", "v": 1}, {"name": "b", "v": 2}]}});
        let first = run(&empty(), "one", &items, false).unwrap();
        let shared = run(&first, "two", &json!({"spec": {"items": [{"name": "b"}]}}), false).unwrap();
        let second = run(&shared, "one", &json!({"spec": {"items": [{"name": "c"}]}}), false).unwrap();
        assert_eq!(second.object["spec"], json!({"items": [{"name": "b"}, {"name": "c"}]}));
    }

    #[test]
    fn an_update_takes_fields_over() {
        let first = run(&empty(), "one", &json!({"spec": {"size": 1, "color": "red"}}), false).unwrap();
        let mut managers = first.managers.clone();
        let updated = json!({"spec": {"size": 5, "color": "red"}});
        managers.update(Some(&first.object), &updated, &node(), manager("editor"));
        let one = managers.find(manager("one"), Operation::Apply).unwrap();
        assert_eq!(one.fields.paths(), [".spec.color"]);
        let live = Applied { object: updated, managers };
        let error = run(&live, "one", &json!({"spec": {"size": 1, "color": "red"}}), false).unwrap_err();
        assert!(error.message.contains("conflict with \"editor\" using v1: .spec.size"), "{}", error.message);
    }
}
