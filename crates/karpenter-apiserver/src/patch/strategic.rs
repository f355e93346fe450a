//! Strategic merge patch: a merge patch that knows which lists are merged and by which key.
//!
//! Directives: `$patch` (`replace`, `delete`), `$retainKeys`, `$deleteFromPrimitiveList/<field>` and
//! `$setElementOrder/<field>`. Keys come from the schema tree.

use serde_json::{Map, Value};

use super::go_text;
use super::order::{ordered, partitioned};
use crate::error::ApiError;
use crate::schema::{Node, Shape};

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
const ORDER_OF: &str = "$setElementOrder/";

type Fields = Map<String, Value>;

/// Merges `patch` into `target`.
///
/// # Errors
/// 400 for malformed directives, 500 for patches that cannot be merged, as Kubernetes answers.
pub(crate) fn strategic_merge(target: &mut Value, patch: &Value, node: &Node) -> Result<(), ApiError> {
    let original = target.as_object_mut().map(std::mem::take).unwrap_or_default();
    let patch = patch.as_object().cloned().unwrap_or_default();
    *target = Value::Object(merge_map(original, patch, node)?);
    Ok(())
}

fn failure(message: impl Into<String>) -> ApiError {
    ApiError::unknown_failure(message)
}

fn merge_map(mut original: Fields, mut patch: Fields, node: &Node) -> Result<Fields, ApiError> {
    match patch.get(PATCH).cloned() {
        Some(directive) if directive == "replace" => {
            patch.remove(PATCH);
            return Ok(patch);
        }
        Some(directive) if directive == "delete" => return Ok(Fields::new()),
        Some(directive) => return Err(unknown_directive(&directive, &patch)),
        None => {}
    }
    retain_keys(&mut original, &mut patch)?;
    set_orders(&mut original, &mut patch, node)?;
    for (key, change) in patch {
        let deletion = key.strip_prefix(DELETE_FROM);
        let name = deletion.unwrap_or(&key);
        if change.is_null() {
            original.remove(name);
            continue;
        }
        match (original.get_mut(name), &change) {
            (Some(Value::Object(current)), Value::Object(change)) => {
                let child = known(node, name)?;
                if child.patch.replace {
                    original.insert(name.to_owned(), Value::Object(change.clone()));
                    continue;
                }
                let merged = merge_map(std::mem::take(current), change.clone(), &child)?;
                original.insert(name.to_owned(), Value::Object(merged));
            }
            (Some(Value::Array(current)), Value::Array(items)) => {
                let child = known(node, name)?;
                let current = std::mem::take(current);
                let merged = merge_list(current, items.clone(), &child, deletion.is_some())?;
                original.insert(name.to_owned(), Value::Array(merged));
            }
            _ if deletion.is_some() => {}
            _ => match plain(&change) {
                Some(value) => {
                    original.insert(name.to_owned(), value);
                }
                None => {
                    original.remove(name);
                }
            },
        }
    }
    Ok(original)
}

/// Returns the node of a field that is merged, which must exist.
fn known(node: &Node, name: &str) -> Result<std::sync::Arc<Node>, ApiError> {
    match node.field(name) {
        Some(child) => Ok(child.clone()),
        None if matches!(node.shape, Shape::Any) => Ok(Node::any()),
        None => Err(failure(format!(
            "unable to find api field in struct {} for the json field {name:?}",
            node.go_type.rsplit('.').next().unwrap_or_default()
        ))),
    }
}

fn unknown_directive(directive: &Value, patch: &Fields) -> ApiError {
    let shown = go_text(&Value::Object(patch.clone()));
    failure(format!("unknown patch type: {} in map: {shown}", go_text(directive)))
}

fn retain_keys(original: &mut Fields, patch: &mut Fields) -> Result<(), ApiError> {
    let Some(kept) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let malformed = || ApiError::bad_request("invalid patch format of retainKeys");
    let kept = kept.as_array().ok_or_else(malformed)?;
    let is_kept = |name: &String| kept.iter().any(|keep| keep == name);
    let strays = patch.iter().any(|(name, value)| {
        !value.is_null() && !name.starts_with(DELETE_FROM) && !name.starts_with(ORDER_OF) && !is_kept(name)
    });
    if strays {
        return Err(malformed());
    }
    original.retain(|name, _| is_kept(name));
    Ok(())
}

/// Merges the lists that come with an order.
fn set_orders(original: &mut Fields, patch: &mut Fields, node: &Node) -> Result<(), ApiError> {
    let keys: Vec<String> = patch.keys().filter(|key| key.starts_with(ORDER_OF)).cloned().collect();
    for key in keys {
        let order = patch.remove(&key).unwrap_or_default();
        let name = key.trim_start_matches(ORDER_OF);
        let order = order.as_array().ok_or_else(|| not_a_list(&order))?;
        let child = known(node, name)?;
        let live = original.get(name).and_then(Value::as_array).cloned();
        let items = patch.remove(name);
        let items = match &items {
            Some(Value::Array(items)) => Some(items.clone()),
            Some(other) => return Err(not_a_list(other)),
            None => None,
        };
        check_order(items.as_deref().unwrap_or_default(), order, &child.patch.key)?;
        let merged = match (&live, items) {
            (Some(live), None) => live.clone(),
            (None, Some(items)) => items.iter().filter_map(plain).collect(),
            (Some(live), Some(items)) => merge_list(live.clone(), items, &child, false)?,
            (None, None) => continue,
        };
        let (listed, others) = partitioned(merged, order, &child.patch.key)?;
        let live = live.unwrap_or_default();
        let all = ordered(listed, others, order, &live, &child.patch.key);
        original.insert(name.to_owned(), Value::Array(all));
    }
    Ok(())
}

/// Says as Go does that something else stands where a list is needed.
fn not_a_list(value: &Value) -> ApiError {
    let kind = match value {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    };
    failure(format!("expected a []interface {{}}, but received a {kind}"))
}

/// The items of a patch must come in the order that comes with them.
fn check_order(items: &[Value], order: &[Value], key: &str) -> Result<(), ApiError> {
    if items.is_empty() || order.is_empty() {
        return Ok(());
    }
    let same = |item: &Value, wanted: &Value| {
        if key.is_empty() { item == wanted } else { item.get(key) == wanted.get(key) }
    };
    let is_item = |item: &&Value| item.get(PATCH).is_none();
    if let Some(nameless) =
        items.iter().filter(is_item).find(|item| !key.is_empty() && item.get(key).is_none())
    {
        return Err(failure(format!(
            "map: {} does not contain declared merge key: {key}",
            go_text(nameless)
        )));
    }
    let mut wanted = order.iter();
    for item in items.iter().filter(|item| item.get(PATCH).is_none()) {
        if !wanted.any(|wanted| same(item, wanted)) {
            let text = |list: &[Value]| go_text(&Value::Array(list.to_vec()));
            return Err(failure(format!(
                "The order in patch list:\n{}\n doesn't match $setElementOrder list:\n{}\n",
                text(items),
                text(order)
            )));
        }
    }
    Ok(())
}

fn merge_list(
    original: Vec<Value>,
    items: Vec<Value>,
    node: &Node,
    deletion: bool,
) -> Result<Vec<Value>, ApiError> {
    if !node.patch.merge && !deletion {
        return Ok(items);
    }
    if original.is_empty() && items.is_empty() {
        return Ok(original);
    }
    check_types(&original, &items)?;
    let key = &node.patch.key;
    let maps = original.iter().chain(&items).any(Value::is_object);
    if !maps {
        if deletion {
            return Ok(original.into_iter().filter(|value| !items.contains(value)).collect());
        }
        let mut merged: Vec<Value> = Vec::new();
        for value in original.iter().chain(&items) {
            if !merged.contains(value) {
                merged.push(value.clone());
            }
        }
        let (listed, others) = partitioned(merged, &items, "")?;
        return Ok(ordered(listed, others, &items, &original, ""));
    }
    if key.is_empty() {
        return Err(failure(format!("cannot merge lists without merge key for {}", node.items().go_type)));
    }
    let (original, items) = special_items(original, items, key)?;
    let merged = merge_items(original.clone(), &items, key, &node.items())?;
    let (listed, others) = partitioned(merged, &items, key)?;
    Ok(ordered(listed, others, &items, &original, key))
}

/// All elements of lists that are merged must be of one type. Nulls at the beginning are of none.
fn check_types(original: &[Value], items: &[Value]) -> Result<(), ApiError> {
    let mut typed = original.iter().chain(items).skip_while(|value| value.is_null()).map(type_of);
    let Some(first) = typed.next() else { return Err(failure("no elements in any given slices")) };
    if typed.all(|next| next == first) {
        return Ok(());
    }
    let lists = Value::Array(vec![original.into(), items.into()]);
    Err(failure(format!("list element types are not identical: {}", go_text(&lists))))
}

/// What tells types apart; whole numbers are not of the type of others.
fn type_of(value: &Value) -> (std::mem::Discriminant<Value>, bool) {
    (std::mem::discriminant(value), value.is_f64())
}

/// Does what the directives among the items ask for and returns what is left of both lists.
fn special_items(
    mut original: Vec<Value>,
    items: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), ApiError> {
    let mut rest = Vec::new();
    let mut replace = false;
    for item in items {
        match item.get(PATCH) {
            None => rest.push(item),
            Some(directive) if directive == "delete" => {
                let gone = item.get(key).ok_or_else(|| no_key(&item, key))?;
                original.retain(|existing| existing.get(key) != Some(gone));
            }
            Some(directive) if directive == "replace" => replace = true,
            Some(directive) if directive == "merge" => {
                return Err(failure("merging lists cannot yet be specified in the patch"));
            }
            Some(directive) => {
                return Err(unknown_directive(directive, item.as_object().unwrap_or(&Map::new())));
            }
        }
    }
    Ok(if replace { (rest, Vec::new()) } else { (original, rest) })
}

fn merge_items(
    mut original: Vec<Value>,
    items: &[Value],
    key: &str,
    node: &Node,
) -> Result<Vec<Value>, ApiError> {
    for item in items {
        let value = item.get(key).ok_or_else(|| no_key(item, key))?;
        match original.iter_mut().find(|existing| existing.get(key) == Some(value)) {
            Some(existing) => strategic_merge(existing, item, node)?,
            None => original.push(item.clone()),
        }
    }
    Ok(original)
}

pub(super) fn no_key(item: &Value, key: &str) -> ApiError {
    failure(format!("map: {} does not contain declared merge key: {key}", go_text(item)))
}

/// Returns what a patch sets where nothing was before: itself without nulls and directives; `None` when it is one.
fn plain(patch: &Value) -> Option<Value> {
    match patch {
        Value::Object(fields) if fields.contains_key(PATCH) => None,
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(_, value)| !value.is_null());
            Some(kept.filter_map(|(name, value)| Some((name.clone(), plain(value)?))).collect())
        }
        Value::Array(items) => Some(items.iter().filter_map(plain).collect()),
        other => Some(other.clone()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn patched(mut target: Value, patch: &Value) -> Result<Value, String> {
        let pod = Node::built_in("v1", "Pod");
        strategic_merge(&mut target, patch, &pod).map(|()| target).map_err(|error| error.message)
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

    fn values(list: &Value, name: &str) -> Vec<Value> {
        list.as_array().unwrap().iter().map(|item| item[name].clone()).collect()
    }

    #[test]
    fn keyed_lists_merge_and_other_lists_are_replaced() {
        let patch = json!({"spec": {
            "containers": [{"name": "b", "image": "three"}, {"name": "c", "image": "new"}],
            "tolerations": [{"key": "other"}],
        }});
        let result = patched(pod(), &patch).unwrap();
        assert_eq!(values(&result["spec"]["containers"], "image"), ["one", "three", "new"]);
        assert_eq!(result["spec"]["tolerations"], json!([{"key": "other"}]));
    }

    #[test]
    fn new_items_come_first_as_kubernetes_puts_them() {
        let patch = json!({"spec": {"containers": [{"name": "c", "image": "new"}]}});
        let result = patched(pod(), &patch).unwrap();
        assert_eq!(values(&result["spec"]["containers"], "name"), ["c", "a", "b"]);
    }

    #[test]
    fn directives_delete_replace_and_order() {
        let patch = json!({
            "metadata": {"$deleteFromPrimitiveList/finalizers": ["a"], "labels": null},
            "spec": {
                "containers": [{"name": "a", "$patch": "delete"}, {"name": "c"}],
                "$setElementOrder/containers": [{"name": "c"}, {"name": "b"}],
            },
        });
        let result = patched(pod(), &patch).unwrap();
        assert_eq!(result["metadata"], json!({"finalizers": ["b"]}));
        assert_eq!(values(&result["spec"]["containers"], "name"), ["c", "b"]);
        let replaced = patched(pod(), &json!({"spec": {"$patch": "replace", "nodeName": "n"}})).unwrap();
        assert_eq!(replaced["spec"], json!({"nodeName": "n"}));
    }

    #[test]
    fn an_order_needs_lists() {
        let order = |containers: Value, order: Value| {
            let patch = json!({"spec": {"containers": containers, "$setElementOrder/containers": order}});
            patched(pod(), &patch).unwrap_err()
        };
        let expected = "expected a []interface {}, but received a ";
        assert_eq!(order(Value::Null, json!([{"name": "a"}])), format!("{expected}%!s(<nil>)"));
        assert_eq!(order(json!([]), json!("a")), format!("{expected}string"));
    }

    #[test]
    fn lists_of_mixed_types_are_not_merged() {
        let merge = |patch: Value| {
            let pod = json!({"spec": {"containers": [{"name": "a"}]}});
            patched(pod, &json!({"spec": {"containers": patch}})).unwrap_err()
        };
        assert_eq!(merge(json!([null])), "list element types are not identical: [[map[name:a]] [<nil>]]");
        assert_eq!(merge(json!(["b"])), "list element types are not identical: [[map[name:a]] [b]]");
    }

    #[test]
    fn what_cannot_be_merged_is_refused() {
        let nameless = json!({"spec": {"containers": [{"image": "x"}]}});
        assert_eq!(
            patched(pod(), &nameless).unwrap_err(),
            "map: map[image:x] does not contain declared merge key: name"
        );
        let stray = json!({"spec": {"$retainKeys": ["containers"], "nodeName": "n"}});
        assert_eq!(patched(pod(), &stray).unwrap_err(), "invalid patch format of retainKeys");
    }
}
