//! The patch formats other than server-side apply: JSON patch, JSON merge patch, strategic merge patch.

mod json;
mod order;
mod strategic;

use serde_json::Value;

pub(crate) use json::json_patch;
pub(crate) use strategic::strategic_merge;

pub(crate) const JSON_PATCH: &str = "application/json-patch+json";
pub(crate) const MERGE_PATCH: &str = "application/merge-patch+json";
pub(crate) const STRATEGIC_MERGE_PATCH: &str = "application/strategic-merge-patch+json";
pub(crate) const APPLY_PATCH: &str = "application/apply-patch+yaml";

/// Applies an RFC 7396 patch.
pub(crate) fn merge_patch(target: &mut Value, patch: &Value) {
    let (Value::Object(fields), Value::Object(changes)) = (&mut *target, patch) else {
        *target = without_nulls(patch);
        return;
    };
    for (name, change) in changes {
        if change.is_null() {
            fields.remove(name);
        } else {
            merge_patch(fields.entry(name.clone()).or_insert(Value::Null), change);
        }
    }
}

/// What a patch sets where nothing was before.
fn without_nulls(patch: &Value) -> Value {
    match patch {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(_, value)| !value.is_null());
            kept.map(|(name, value)| (name.clone(), without_nulls(value))).collect()
        }
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

/// A value as Go prints it, which is how some of Kubernetes' messages show patches.
pub(crate) fn go_text(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(go_text).collect::<Vec<_>>().join(" ")),
        Value::Object(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|(name, value)| format!("{name}:{}", go_text(value))).collect();
            format!("map[{}]", fields.join(" "))
        }
        other => other.to_string(),
    }
}
