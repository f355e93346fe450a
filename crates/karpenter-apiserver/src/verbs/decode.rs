//! From a decoded body to an object of the right kind: identity checked, unknown fields dropped, defaults filled in.

use serde_json::{Value, json};

use crate::error::ApiError;
use crate::registry::Resource;
use crate::schema::{Nulls, apply_defaults, conform};
use crate::wire::{Call, Query};

/// Makes `object` an object of `resource` and returns warnings for the client.
///
/// # Errors
/// 400 when it is of another kind, has values of wrong types, or has unknown fields and the client asked for strict
/// validation.
pub(super) fn conformed(
    resource: &Resource,
    object: &mut Value,
    query: &Query,
) -> Result<Vec<String>, ApiError> {
    identify(resource, object)?;
    let nulls = if resource.is_custom() { Nulls::Kept } else { Nulls::Dropped };
    let conformance = conform(object, resource.schema(), nulls);
    if let (Some(mismatch), false) = (conformance.mismatch, resource.is_custom()) {
        let (kind, version) = (&resource.kind, &resource.version);
        let message = format!("{kind} in version {version:?} cannot be handled as a {kind}: {mismatch}");
        return Err(ApiError::bad_request(message));
    }
    let unknown: Vec<String> =
        conformance.unknown.iter().map(|path| format!("unknown field {path:?}")).collect();
    if resource.is_custom() {
        apply_defaults(object, resource.schema());
    }
    if !object["metadata"].is_object() {
        object["metadata"] = json!({});
    }
    match query.get("fieldValidation") {
        Some("Strict") if !unknown.is_empty() => {
            Err(ApiError::bad_request(format!("strict decoding error: {}", unknown.join(", "))))
        }
        Some("Ignore") => Ok(Vec::new()),
        _ => Ok(unknown),
    }
}

/// Checks or fills in `apiVersion` and `kind`.
fn identify(resource: &Resource, object: &mut Value) -> Result<(), ApiError> {
    if !object.is_object() {
        return Err(ApiError::bad_request(format!(
            "couldn't get version/kind; json parse error: a {} must be a JSON object",
            resource.kind
        )));
    }
    let (api_version, kind) = (resource.api_version(), resource.kind.as_str());
    let given = |name: &str| object[name].as_str().filter(|text| !text.is_empty());
    if let Some(given) = given("apiVersion").filter(|given| *given != api_version) {
        return Err(ApiError::bad_request(format!(
            "the API version in the data ({given}) does not match the expected API version ({api_version})"
        )));
    }
    if let Some(given) = given("kind").filter(|given| *given != kind) {
        return Err(ApiError::bad_request(format!(
            "the kind in the data ({given}) does not match the expected kind ({kind})"
        )));
    }
    object["apiVersion"] = api_version.into();
    object["kind"] = kind.into();
    Ok(())
}

/// Checks that the namespace in the object is the one in the path, and sets it.
pub(super) fn place(call: &Call<'_>, object: &mut Value) -> Result<(), ApiError> {
    let Some(metadata) = object["metadata"].as_object_mut() else { return Ok(()) };
    if !call.resource.namespaced {
        metadata.remove("namespace");
        return Ok(());
    }
    let given = metadata.get("namespace").and_then(Value::as_str).unwrap_or_default();
    if !given.is_empty() && given != call.namespace() {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    metadata.insert("namespace".into(), call.namespace().into());
    Ok(())
}
