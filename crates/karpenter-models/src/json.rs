//! Statuses as JSON: what to send so that an object's status becomes another.

use serde::Serialize;
use serde_json::{Map, Value};

/// Returns the merge patch that makes the status `held` into `wanted`, or `None` if it is so already.
///
/// Counts of zero are left out, as Kubernetes leaves them out, unless `kept`.
pub(crate) fn status_patch(held: Option<&impl Serialize>, wanted: Value, kept: &[&str]) -> Option<Value> {
    let held = held.map(|held| serde_json::to_value(held).expect("an API object is JSON"));
    let Value::Object(held) = held.unwrap_or_default() else { return status_of(wanted, kept, &Map::new()) };
    status_of(wanted, kept, &held)
}

fn status_of(wanted: Value, kept: &[&str], held: &Map<String, Value>) -> Option<Value> {
    let Value::Object(mut wanted) = wanted else { return None };
    wanted.retain(|name, value| !value.is_null() && (*value != 0 || kept.contains(&name.as_str())));
    if wanted == *held {
        return None;
    }
    for name in held.keys() {
        wanted.entry(name).or_insert(Value::Null);
    }
    Some(serde_json::json!({ "status": wanted }))
}

/// Merges `extra` into `base`, object by object.
#[cfg(test)]
pub(crate) fn merge(base: &mut Value, extra: Value) {
    match (base, extra) {
        (Value::Object(base), Value::Object(extra)) => {
            for (key, value) in extra {
                merge(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, extra) => *base = extra,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_patch_says_what_changes_and_what_goes() {
        let held = json!({"replicas": 1, "readyReplicas": 1});
        let zero = json!({"replicas": 0, "readyReplicas": 0});
        assert_eq!(status_patch(Some(&held), held.clone(), &[]), None);
        let expected = json!({"status": {"replicas": 0, "readyReplicas": null}});
        assert_eq!(status_patch(Some(&held), zero, &["replicas"]), Some(expected));
        assert_eq!(status_patch(None::<&Value>, json!({"readyReplicas": 0}), &[]), None);
    }
}
