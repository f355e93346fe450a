//! What a webhook is asked, and what its answer means.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::StatusCode;
use ring::digest;
use serde_json::{Value, json};

use super::Write;
use super::route::Route;
use super::webhook::Webhook;
use crate::error::ApiError;
use crate::registry::Resource;
use crate::verbs::{served, stored};
use crate::wire::Call;

/// One request to one webhook.
#[derive(Debug, Clone, Default)]
pub(crate) struct Question {
    /// The same for the same question about the same objects.
    pub(super) key: String,
    pub(super) webhook: Option<Arc<Webhook>>,
    pub(super) body: Bytes,
    /// The way to the webhook.
    pub(super) route: Route,
    uid: String,
    mutating: bool,
}

/// What came of asking: the response of a review, or why there is none.
pub(crate) type Verdict = Result<Arc<Value>, String>;

impl Question {
    /// Puts a write before a webhook as a write of `resource`; `uid` names this request.
    pub(super) fn new(
        call: &Call<'_>,
        write: &Write<'_>,
        webhook: &Arc<Webhook>,
        resource: &Arc<Resource>,
        mutating: bool,
        uid: String,
    ) -> Self {
        let converted = |object: Option<&Value>| match object {
            Some(object)
                if resource.version != call.resource.version || resource.group != call.resource.group =>
            {
                served(resource, stored(&call.resource, object.clone()))
            }
            Some(object) => object.clone(),
            None => Value::Null,
        };
        let (mut object, old) = (converted(write.object), converted(write.old));
        complete(&mut object, &old, write);
        let key = key(webhook, write, &object, &old, mutating);
        let names = |resource: &Resource| json!({"group": resource.group, "version": resource.version, "resource": resource.plural});
        let kind = |resource: &Resource| match &write.kind {
            Some((group, version, kind)) => json!({"group": group, "version": version, "kind": kind}),
            None => json!({"group": resource.group, "version": resource.version, "kind": resource.kind}),
        };
        let mut request = json!({
            "uid": uid, "kind": kind(resource), "resource": names(resource),
            "requestKind": kind(&call.resource), "requestResource": names(&call.resource),
            "operation": write.operation, "userInfo": call.user.to_value(), "object": object, "oldObject": old,
            "dryRun": write.dry_run, "options": write.options,
        });
        for (name, text) in [
            ("name", write.name),
            ("namespace", write.namespace),
            ("subResource", write.subresource),
            ("requestSubResource", write.subresource),
        ] {
            if !text.is_empty() {
                request[name] = text.into();
            }
        }
        let version =
            if webhook.review_versions.iter().any(|version| version == "v1") { "v1" } else { "v1beta1" };
        let review = json!({
            "kind": "AdmissionReview", "apiVersion": format!("admission.k8s.io/{version}"), "request": request,
        });
        let body = Bytes::from(review.to_string());
        Self { key, webhook: Some(Arc::clone(webhook)), body, route: Route::Url, uid, mutating }
    }

    /// Takes a webhook's review apart.
    ///
    /// # Errors
    /// Returns what is wrong with it.
    pub(super) fn read(&self, body: &[u8]) -> Result<Arc<Value>, String> {
        let invalid = |why: String| format!("received invalid webhook response: {why}");
        let mut review: Value = serde_json::from_slice(body).map_err(|error| {
            format!("failed to call webhook: couldn't get version/kind; json parse error: {error}")
        })?;
        if !review["response"].is_object() {
            return Err(invalid("webhook response was absent".into()));
        }
        let response = review["response"].take();
        let version = review["apiVersion"].as_str().unwrap_or_default();
        if version != "admission.k8s.io/v1beta1" {
            let uid = response["uid"].as_str().unwrap_or_default();
            if uid != self.uid {
                return Err(invalid(format!("expected response.uid={:?}, got {uid:?}", self.uid)));
            }
            let kind = review["kind"].as_str().unwrap_or_default();
            if (version, kind) != ("admission.k8s.io/v1", "AdmissionReview") {
                return Err(invalid(format!(
                    "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {version}, Kind={kind}"
                )));
            }
            let (patch, kind) = (!response["patch"].is_null(), !response["patchType"].is_null());
            match (self.mutating, patch, kind) {
                (false, true, _) => {
                    return Err(invalid("validating webhook may not return response.patch".into()));
                }
                (false, _, true) => {
                    return Err(invalid("validating webhook may not return response.patchType".into()));
                }
                (true, true, false) => {
                    return Err(invalid("webhook returned response.patch but not response.patchType".into()));
                }
                (true, false, true) => {
                    return Err(invalid("webhook returned response.patchType but not response.patch".into()));
                }
                _ => {}
            }
        }
        Ok(Arc::new(response))
    }
}

/// Adds what the server knows about an object that the client need not say.
fn complete(object: &mut Value, old: &Value, write: &Write<'_>) {
    if !object.is_object() {
        return;
    }
    if let Some((group, version, kind)) = write.kind {
        object["kind"] = kind.into();
        object["apiVersion"] =
            if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }.into();
        if !write.namespace.is_empty() {
            object["metadata"]["namespace"] = write.namespace.into();
        }
    }
    let version = &old["metadata"]["resourceVersion"];
    if object["metadata"]["resourceVersion"].is_null() && version.is_string() {
        object["metadata"]["resourceVersion"] = version.clone();
    }
}

/// Names a question by its content, less what differs between two runs of the same request.
fn key(webhook: &Webhook, write: &Write<'_>, object: &Value, old: &Value, mutating: bool) -> String {
    let steady = |object: &Value| {
        let mut object = object.clone();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
            metadata.remove("creationTimestamp");
        }
        object
    };
    let text = json!([
        webhook.identity,
        webhook.name,
        mutating,
        write.operation,
        write.subresource,
        write.name,
        write.namespace,
        steady(object),
        steady(old)
    ]);
    STANDARD.encode(digest::digest(&digest::SHA256, text.to_string().as_bytes()))
}

/// Returns the denial a response is, if it is one.
pub(super) fn denial(webhook: &Webhook, response: &Value) -> Option<ApiError> {
    if response["allowed"] == true {
        return None;
    }
    let result = &response["status"];
    let code = result["code"].as_u64().and_then(|code| u16::try_from(code).ok()).filter(|code| *code >= 400);
    let code = code.and_then(|code| StatusCode::from_u16(code).ok()).unwrap_or(StatusCode::BAD_REQUEST);
    let by = format!("admission webhook {:?} denied the request", webhook.name);
    let text = |name: &str| result[name].as_str().filter(|text| !text.is_empty());
    let message = match text("message").or(text("reason")) {
        Some(why) => format!("{by}: {why}"),
        None => format!("{by} without explanation"),
    };
    Some(ApiError::rejected(code, text("reason").unwrap_or_default(), message, result["details"].clone()))
}

/// Returns the JSON patch of a mutating response; `None` when it changes nothing.
///
/// # Errors
/// Returns what is wrong with the patch.
pub(super) fn patch(response: &Value) -> Result<Option<Value>, String> {
    let Some(text) = response["patch"].as_str() else { return Ok(None) };
    if let Some(kind) = response["patchType"].as_str().filter(|kind| *kind != "JSONPatch") {
        return Err(format!("unsupported patch type {kind:?}"));
    }
    let undecodable = |error: String| format!("received undecodable patch in webhook response: {error}");
    let bytes = STANDARD.decode(text).map_err(|error| undecodable(error.to_string()))?;
    let patch: Value = serde_json::from_slice(&bytes).map_err(|error| undecodable(error.to_string()))?;
    Ok(Some(patch).filter(|patch| patch.as_array().is_none_or(|operations| !operations.is_empty())))
}
