//! The patch formats other than server-side apply: JSON patch, JSON merge patch, strategic merge patch.

mod strategic;

use serde_json::Value;

use crate::error::ApiError;

pub(crate) use strategic::strategic_merge;

pub(crate) const JSON_PATCH: &str = "application/json-patch+json";
pub(crate) const MERGE_PATCH: &str = "application/merge-patch+json";
pub(crate) const STRATEGIC_MERGE_PATCH: &str = "application/strategic-merge-patch+json";
pub(crate) const APPLY_PATCH: &str = "application/apply-patch+yaml";

/// Applies an RFC 6902 patch.
///
/// # Errors
/// 400 when the patch is malformed, 422 when an operation cannot be done.
pub(crate) fn json_patch(target: &mut Value, patch: Value) -> Result<(), ApiError> {
    let patch: json_patch::Patch = serde_json::from_value(patch)
        .map_err(|error| ApiError::bad_request(format!("error decoding patch: {error}")))?;
    json_patch::patch(target, &patch).map_err(|error| {
        let message = format!("the server rejected our request due to an error in our request: {error}");
        ApiError {
            code: http::StatusCode::UNPROCESSABLE_ENTITY,
            reason: "Invalid".into(),
            message,
            details: Value::Null,
        }
    })
}

/// Applies an RFC 7396 patch.
pub(crate) fn merge_patch(target: &mut Value, patch: &Value) {
    json_patch::merge(target, patch);
}
