//! Strategic merge patch: a merge patch that knows which lists are merged and by which key.
//!
//! Directives: `$patch` (`replace`, `delete`, `merge`), `$retainKeys`, `$deleteFromPrimitiveList/<field>` and
//! `$setElementOrder/<field>`. Keys come from the schema tree.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::schema::Node;

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
const ORDER_OF: &str = "$setElementOrder/";

/// Merges `patch` into `target`.
pub(crate) fn strategic_merge(target: &mut Value, patch: &Value, node: &Node) {
    let (Value::Object(fields), Value::Object(changes)) = (&mut *target, patch) else {
        *target = plain(patch, node);
        return;
    };
    match changes.get(PATCH).and_then(Value::as_str) {
        Some("replace") => {
            *target = plain(patch, node);
            return;
        }
        Some("delete") => {
            fields.clear();
            return;
        }
        _ => {}
    }
    if let Some(Value::Array(kept)) = changes.get(RETAIN_KEYS) {
        fields.retain(|name, _| kept.iter().any(|keep| keep == name));
    }
    for (name, change) in changes.iter().filter(|(name, _)| !name.starts_with('$')) {
        let child = node.field_or_any(name);
        match (fields.get_mut(name), change) {
            (_, Value::Null) => {
                fields.remove(name);
            }
            (Some(current @ Value::Object(_)), Value::Object(_)) => strategic_merge(current, change, &child),
            (Some(Value::Array(current)), Value::Array(items)) if child.patch_key.is_some() => {
                merge_list(current, items, &child);
            }
            (_, change) => {
                fields.insert(name.clone(), plain(change, &child));
            }
        }
    }
    apply_list_directives(fields, changes, node);
}

fn merge_list(current: &mut Vec<Value>, items: &[Value], node: &Node) {
    let key = node.patch_key.as_deref().unwrap_or_default();
    let item_node = node.items();
    if items
        .iter()
        .any(|item| item[PATCH] == "replace" && item.as_object().is_some_and(|item| item.len() == 1))
    {
        current.clear();
    }
    for item in items {
        if key.is_empty() {
            if !current.contains(item) {
                current.push(item.clone());
            }
            continue;
        }
        let position = current.iter().position(|existing| existing.get(key) == item.get(key));
        match (item[PATCH].as_str(), position) {
            (Some("delete"), Some(position)) => {
                current.remove(position);
            }
            (Some("delete"), None) => {}
            (Some("replace"), _) if item.get(key).is_none() => {}
            (_, Some(position)) => strategic_merge(&mut current[position], item, &item_node),
            (_, None) => current.push(plain(item, &item_node)),
        }
    }
}

fn apply_list_directives(fields: &mut Map<String, Value>, changes: &Map<String, Value>, node: &Node) {
    for (name, directive) in changes {
        let Some(values) = directive.as_array() else { continue };
        if let Some(field) = name.strip_prefix(DELETE_FROM) {
            if let Some(Value::Array(current)) = fields.get_mut(field) {
                current.retain(|value| !values.contains(value));
            }
        } else if let Some(field) = name.strip_prefix(ORDER_OF)
            && let Some(Value::Array(current)) = fields.get_mut(field)
        {
            reorder(current, values, &node.field_or_any(field));
        }
    }
}

/// Puts the items named in `order` into that order, in the places such items have; others stay where they are.
fn reorder(current: &mut [Value], order: &[Value], node: &Arc<Node>) {
    let key = node.patch_key.as_deref().unwrap_or_default();
    let rank = |item: &Value| {
        order.iter().position(|wanted| match key {
            "" => wanted == item,
            key => wanted.get(key) == item.get(key),
        })
    };
    let mut listed: Vec<(usize, Value)> =
        current.iter().filter_map(|item| rank(item).map(|rank| (rank, item.clone()))).collect();
    listed.sort_by_key(|(rank, _)| *rank);
    let mut listed = listed.into_iter();
    for slot in current.iter_mut() {
        if rank(slot).is_some()
            && let Some((_, item)) = listed.next()
        {
            *slot = item;
        }
    }
}

/// Returns what a patch sets where nothing was before: itself without directives, nulls and deletions.
fn plain(patch: &Value, node: &Node) -> Value {
    match patch {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(name, value)| !name.starts_with('$') && !value.is_null());
            kept.map(|(name, value)| (name.clone(), plain(value, &node.field_or_any(name)))).collect()
        }
        Value::Array(items) => {
            let item_node = node.items();
            items.iter().filter(|item| item[PATCH] != "delete").map(|item| plain(item, &item_node)).collect()
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    use super::*;
    use crate::schema::generated_schema;

    fn patched(mut target: Value, patch: &Value) -> Value {
        strategic_merge(&mut target, patch, &Node::built_in(&generated_schema::<Pod>()));
        target
    }

    fn pod() -> Value {
        json!({
            "metadata": {"finalizers": ["a", "b"], "labels": {"x": "1"}},
            "spec": {
                "containers": [{"name": "a", "image": "one"}, {"name": "b", "image": "two"}],
                "tolerations": [{"key": "k"}],
            },
        })
    }

    #[test]
    fn keyed_lists_merge_and_other_lists_are_replaced() {
        let patch = json!({"spec": {
            "containers": [{"name": "b", "image": "three"}, {"name": "c", "image": "new"}],
            "tolerations": [{"key": "other"}],
        }});
        let result = patched(pod(), &patch);
        let images: Vec<_> = result["spec"]["containers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["image"].clone())
            .collect();
        assert_eq!(images, ["one", "three", "new"]);
        assert_eq!(result["spec"]["tolerations"], json!([{"key": "other"}]));
    }

    #[test]
    fn directives_delete_replace_and_order() {
        let patch = json!({
            "metadata": {"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"], "labels": null},
            "spec": {
                "containers": [{"name": "a", "$patch": "delete"}, {"name": "c"}],
                "$setElementOrder/containers": [{"name": "c"}, {"name": "b"}],
            },
        });
        let result = patched(pod(), &patch);
        assert_eq!(result["metadata"], json!({"finalizers": ["b", "c"]}));
        let names: Vec<_> = result["spec"]["containers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["name"].clone())
            .collect();
        assert_eq!(names, ["c", "b"]);
        let replaced = patched(pod(), &json!({"spec": {"$patch": "replace", "nodeName": "n"}}));
        assert_eq!(replaced["spec"], json!({"nodeName": "n"}));
    }
}
