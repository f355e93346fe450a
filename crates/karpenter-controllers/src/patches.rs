//! The writes that turn an object as it is into the object as it should be.
//!
//! A reconcile changes a copy and asks for the difference. Every write carries the resourceVersion it was decided on, so a
//! decision on an old picture is refused and made again. Metadata and spec go first: where they differ, the status waits for the
//! next reconcile, which the first write brings about.

use karpenter_runtime::{Key, Kind, Write};
use serde_json::{Map, Value};

/// Returns the write that brings `old` a step closer to `new`; none if they are equal.
pub(crate) fn difference<K: Kind + PartialEq>(old: &K, new: &K) -> Option<Write> {
    // Most looks change nothing, and comparing is much cheaper than writing both down.
    if old == new {
        return None;
    }
    let mut patch = merge_patch(&old.json(), &new.json())?;
    let status = patch.as_object_mut().and_then(|fields| fields.remove("status"));
    let key = Key::of(old);
    let write = if patch.as_object().is_some_and(|fields| !fields.is_empty()) {
        Write::merge_patch::<K>(&key, patch)
    } else {
        Write::merge_patch::<K>(&key, Value::Object(Map::from_iter([("status".to_owned(), status?)])))
            .status()
    };
    Some(match old.meta().resource_version.as_deref() {
        Some(version) => write.if_version(version),
        None => write,
    })
}

/// The merge patch from `old` to `new`; none if they are equal. Lists are replaced whole.
fn merge_patch(old: &Value, new: &Value) -> Option<Value> {
    if old == new {
        return None;
    }
    let (Value::Object(old), Value::Object(new)) = (old, new) else { return Some(new.clone()) };
    let mut patch = Map::new();
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, value) in new {
        match old.get(key) {
            Some(known) => patch.extend(merge_patch(known, value).map(|change| (key.clone(), change))),
            None => {
                patch.insert(key.clone(), value.clone());
            }
        }
    }
    Some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;
    use serde_json::json;

    use super::*;

    fn node(value: Value) -> Node {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn only_what_differs_is_written_and_metadata_goes_first() {
        let old =
            node(json!({"metadata": {"name": "a", "resourceVersion": "7", "labels": {"x": "1", "y": "2"}}}));
        let mut new = node(
            json!({"metadata": {"name": "a", "resourceVersion": "7", "labels": {"x": "1", "z": "3"}}, "status": {"phase": "Running"}}),
        );
        let write = difference(&old, &new).unwrap();
        let expected = json!({"metadata": {"labels": {"y": null, "z": "3"}, "resourceVersion": "7"}});
        assert_eq!((write.body(), write.subresource()), (&expected, None));
        new.metadata = old.metadata.clone();
        let write = difference(&old, &new).unwrap();
        let expected = json!({"metadata": {"resourceVersion": "7"}, "status": {"phase": "Running"}});
        assert_eq!((write.body(), write.subresource()), (&expected, Some("status")));
        assert_eq!(difference(&old, &old.clone()), None);
    }
}
