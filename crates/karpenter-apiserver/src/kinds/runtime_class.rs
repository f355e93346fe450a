//! Pods of a `RuntimeClass`: what the runtime needs for itself, and the nodes that have it.

use karpenter_quantity::Quantity;
use serde_json::{Map, Value};

use super::format;
use super::validation::quantity;
use crate::error::ApiError;
use crate::server::Core;
use crate::store::Key;

/// Gives a new pod what its class says.
///
/// # Errors
/// 403 when there is no such class, or the pod says otherwise.
pub(super) fn admit(core: &Core, pod: &mut Value) -> Result<(), ApiError> {
    let Some(class) = class(core, pod)? else { return Ok(()) };
    let refused = |why: String, pod: &Value| Err(forbidden(pod, &why));
    if let Some(overhead) = overhead(&class) {
        let own = &pod["spec"]["overhead"];
        let says_nothing = own.as_object().is_none_or(Map::is_empty);
        if !says_nothing && !is_same(overhead, own) {
            let why = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";
            return refused(why.to_owned(), pod);
        }
        pod["spec"]["overhead"] = overhead.clone();
    }
    let scheduling = &class["scheduling"];
    if scheduling.is_null() {
        return Ok(());
    }
    let mut selector = pod["spec"]["nodeSelector"].as_object().cloned().unwrap_or_default();
    for (key, value) in scheduling["nodeSelector"].as_object().into_iter().flatten() {
        if let Some(own) = selector.get(key).filter(|own| *own != value) {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (wanted, own) = (text(value), text(own));
            let why = format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {wanted}; pod.spec.nodeSelector[{key}] = {own}"
            );
            return refused(why, pod);
        }
        selector.insert(key.clone(), value.clone());
    }
    if !selector.is_empty() {
        pod["spec"]["nodeSelector"] = Value::Object(selector);
    }
    let merged = merged(&pod["spec"]["tolerations"], &scheduling["tolerations"]);
    if !merged.is_empty() {
        pod["spec"]["tolerations"] = Value::Array(merged);
    }
    Ok(())
}

/// Checks that a pod does not make up what its runtime needs.
///
/// # Errors
/// 403 when it does.
pub(crate) fn check(core: &Core, pod: &Value) -> Result<(), ApiError> {
    let class = class(core, pod)?;
    let own = &pod["spec"]["overhead"];
    match class.as_ref().and_then(overhead) {
        None if own.is_object() => {
            let why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
            Err(forbidden(pod, why))
        }
        Some(overhead) if !is_same(overhead, own) => {
            let why = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";
            Err(forbidden(pod, why))
        }
        _ => Ok(()),
    }
}

fn class(core: &Core, pod: &Value) -> Result<Option<Value>, ApiError> {
    let Some(name) = pod["spec"]["runtimeClassName"].as_str() else { return Ok(None) };
    // The real server asks itself for the class, and fails where no path can name it.
    let wrong = format::path_segment(name);
    if name.is_empty() {
        return Err(ApiError::unknown_failure("resource name may not be empty"));
    } else if !wrong.is_empty() {
        let why = format!("invalid resource name {name:?}: [{}]", wrong.join(" "));
        return Err(ApiError::unknown_failure(why));
    }
    let found = core.store.get("runtimeclasses.node.k8s.io", &Key::new("", name));
    let missing = || forbidden(pod, &format!("pod rejected: RuntimeClass {name:?} not found"));
    found.map(|class| Some(class.value())).ok_or_else(missing)
}

fn forbidden(pod: &Value, why: &str) -> ApiError {
    ApiError::forbidden("pods", pod["metadata"]["name"].as_str().unwrap_or_default(), why)
}

fn overhead(class: &Value) -> Option<&Value> {
    class.get("overhead").filter(|overhead| overhead.is_object()).map(|overhead| &overhead["podFixed"])
}

/// Whether two lists of amounts say the same, however it is written.
fn is_same(left: &Value, right: &Value) -> bool {
    let amounts = |list: &Value| -> Vec<(String, Quantity)> {
        let list = list.as_object().into_iter().flatten();
        list.map(|(name, amount)| (name.clone(), quantity(amount))).collect()
    };
    amounts(left) == amounts(right)
}

/// Both lists of tolerations without those that another covers.
fn merged(first: &Value, second: &Value) -> Vec<Value> {
    let items = |list: &Value| list.as_array().cloned().unwrap_or_default();
    let all = [items(first), items(second)].concat();
    let mut merged: Vec<Value> = Vec::new();
    for (index, toleration) in all.iter().enumerate() {
        let later = all[index + 1..].iter().filter(|other| *other != toleration);
        let covered = merged.iter().chain(later).any(|other| covers(other, toleration));
        if !covered {
            merged.push(toleration.clone());
        }
    }
    merged
}

/// Whether whoever has the wide toleration needs no narrow one.
fn covers(wide: &Value, narrow: &Value) -> bool {
    let text = |toleration: &Value, name: &str| toleration[name].as_str().unwrap_or_default().to_owned();
    let exists = text(wide, "operator") == "Exists";
    let any_key = exists && text(wide, "key").is_empty();
    let same = |name: &str| text(wide, name) == text(narrow, name);
    let is_equal = |toleration: &Value| matches!(text(toleration, "operator").as_str(), "" | "Equal");
    let long_enough = text(wide, "effect") != "NoExecute"
        || wide["tolerationSeconds"]
            .as_i64()
            .is_none_or(|limit| narrow["tolerationSeconds"].as_i64().is_some_and(|seconds| seconds <= limit));
    wide == narrow
        || ((any_key || same("key"))
            && (text(wide, "effect").is_empty() || same("effect"))
            && long_enough
            && (exists || (is_equal(wide) && is_equal(narrow) && same("value"))))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tolerations_that_another_covers_are_left_out() {
        let any = json!({"operator": "Exists"});
        let one = json!({"key": "a", "operator": "Equal", "value": "x", "effect": "NoSchedule"});
        let all = json!({"key": "a", "operator": "Exists"});
        assert_eq!(merged(&json!([one]), &json!([all])), vec![all.clone()]);
        assert_eq!(merged(&json!([any]), &json!([one, all])), vec![any.clone()]);
        let short = json!({"key": "b", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5});
        let long = json!({"key": "b", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 9});
        assert_eq!(merged(&json!([short, one]), &json!([long])), [one.clone(), long.clone()]);
        assert_eq!(merged(&json!([one]), &json!([one])), vec![one.clone()]);
    }

    #[test]
    fn amounts_are_the_same_however_they_are_written() {
        assert!(is_same(&json!({"cpu": "1", "memory": "1Gi"}), &json!({"cpu": "1000m", "memory": "1024Mi"})));
        assert!(!is_same(&json!({"cpu": "1"}), &json!({})));
    }
}
