//! Errors as Kubernetes answers them: a `Status` object with a code, a reason and a sentence.
//!
//! Constructors are named after the reasons of the API; the sentences are the ones clients print and tests match.

use std::borrow::Cow;

use http::StatusCode;
use serde_json::{Value, json};

/// An error response.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct ApiError {
    /// The HTTP status code.
    pub(crate) code: StatusCode,
    /// The machine-readable reason.
    pub(crate) reason: Cow<'static, str>,
    /// The sentence for people.
    pub(crate) message: String,
    /// `details` of the Status object; null when there are none.
    pub(crate) details: Value,
    /// Where a list that has expired can go on, though no longer as it was; empty for all other errors.
    pub(crate) continuation: String,
}

/// One violated rule of an invalid object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FieldError {
    /// The reason, for example `FieldValueInvalid`.
    pub(crate) reason: &'static str,
    /// The path of the field, for example `spec.replicas`.
    pub(crate) field: String,
    /// The sentence without the path.
    pub(crate) message: String,
}

impl FieldError {
    /// A value that breaks a rule.
    pub(crate) fn invalid(field: impl Into<String>, value: &Value, rule: impl std::fmt::Display) -> Self {
        Self::new("FieldValueInvalid", field, format!("Invalid value: {}: {rule}", shown(value)))
    }

    /// A value that is missing.
    pub(crate) fn required(field: impl Into<String>, rule: &str) -> Self {
        let message =
            if rule.is_empty() { "Required value".into() } else { format!("Required value: {rule}") };
        Self::new("FieldValueRequired", field, message)
    }

    /// A value that must not be there.
    pub(crate) fn forbidden(field: impl Into<String>, rule: &str) -> Self {
        Self::new("FieldValueForbidden", field, format!("Forbidden: {rule}"))
    }

    /// A value that occurs twice.
    pub(crate) fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self::new("FieldValueDuplicate", field, format!("Duplicate value: {}", shown(value)))
    }

    /// A name that stands for nothing.
    pub(crate) fn not_found(field: impl Into<String>, value: &Value) -> Self {
        Self::new("FieldValueNotFound", field, format!("Not found: {}", shown(value)))
    }

    /// A value outside a fixed set.
    pub(crate) fn unsupported(field: impl Into<String>, value: &Value, supported: &[&str]) -> Self {
        let supported: Vec<String> = supported.iter().map(|value| format!("{value:?}")).collect();
        let message =
            format!("Unsupported value: {}: supported values: {}", shown(value), supported.join(", "));
        Self::new("FieldValueNotSupported", field, message)
    }

    /// A text or map that is too long.
    pub(crate) fn too_long(field: impl Into<String>, limit: usize) -> Self {
        Self::new("FieldValueTooLong", field, format!("Too long: may not be more than {limit} bytes"))
    }

    /// Builds an error with a ready sentence.
    pub(crate) fn new(reason: &'static str, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { reason, field: field.into(), message: message.into() }
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        other => other.to_string(),
    }
}

/// The formats that objects are written in.
const MEDIA_TYPES: [&str; 3] =
    ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
/// The formats that changes are written in.
const STREAM_TYPES: [&str; 2] =
    ["application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"];

impl ApiError {
    fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason: reason.into(),
            message: message.into(),
            details: Value::Null,
            continuation: String::new(),
        }
    }

    fn on(mut self, resource: &str, name: &str) -> Self {
        let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
        let mut details = json!({"name": name, "kind": plural});
        if !group.is_empty() {
            details["group"] = group.into();
        }
        if name.is_empty() {
            details.as_object_mut().expect("built as an object").remove("name");
        }
        self.details = details;
        self
    }

    /// The request is malformed.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    /// The caller is not known.
    pub(crate) fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
    }

    /// The caller may not do this, or the state of the cluster forbids it.
    pub(crate) fn forbidden(resource: &str, name: &str, why: impl std::fmt::Display) -> Self {
        let object = if name.is_empty() { resource.to_owned() } else { format!("{resource} {name:?}") };
        let message = format!("{object} is forbidden: {why}");
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message).on(resource, name)
    }

    /// The caller may not use a path that is no resource.
    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self { details: json!({}), ..Self::new(StatusCode::FORBIDDEN, "Forbidden", message) }
    }

    /// No object has this name.
    pub(crate) fn not_found(resource: &str, name: &str) -> Self {
        let message = format!("{resource} {name:?} not found");
        Self::new(StatusCode::NOT_FOUND, "NotFound", message).on(resource, name)
    }

    /// The server has no such resource type or subresource.
    pub(crate) fn unknown_resource() -> Self {
        let message = "the server could not find the requested resource";
        Self { details: json!({}), ..Self::new(StatusCode::NOT_FOUND, "NotFound", message) }
    }

    /// The resource does not offer this verb.
    pub(crate) fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self { details: json!({}), ..Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message) }
    }

    /// The name is taken.
    pub(crate) fn already_exists(resource: &str, name: &str) -> Self {
        let message = format!("{resource} {name:?} already exists");
        Self::new(StatusCode::CONFLICT, "AlreadyExists", message).on(resource, name)
    }

    /// A name is taken, and a name was to be generated.
    pub(crate) fn about_generated_name(mut self, resource: &str) -> Self {
        let name = self.details["name"].as_str().unwrap_or_default();
        self.message = format!(
            "{resource} {name:?} already exists, the server was not able to generate a unique name for the object"
        );
        self.details["retryAfterSeconds"] = 1.into();
        if let (false, Some(details)) = (resource.contains('.'), self.details.as_object_mut()) {
            details.remove("group");
        }
        self
    }

    /// The state changed under the caller, or a precondition does not hold.
    pub(crate) fn conflict(resource: &str, name: &str, why: impl std::fmt::Display) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} {name:?}: {why}");
        Self::new(StatusCode::CONFLICT, "Conflict", message).on(resource, name)
    }

    /// The object was modified since the caller read it.
    pub(crate) fn modified(resource: &str, name: &str) -> Self {
        const WHY: &str =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, WHY)
    }

    /// A server-side apply met fields that others own.
    pub(crate) fn apply_conflict(message: impl Into<String>, causes: &[Value]) -> Self {
        Self { details: json!({ "causes": causes }), ..Self::new(StatusCode::CONFLICT, "Conflict", message) }
    }

    /// The asked revision is too old.
    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, "Expired", message)
    }

    /// The list of a page is forgotten; `continuation` is how to get at the rest of it as it is now.
    pub(crate) fn expired_page(continuation: String) -> Self {
        let message = "The provided continue parameter is too old to display a consistent list result. You can start a \
                       new list without the continue parameter, or use the continue token in this response to retrieve \
                       the remainder of the results. Continuing with the provided token results in an inconsistent \
                       list - objects that were created, modified, or deleted between the time the first chunk was \
                       returned and now may show up in the list.";
        Self { continuation, ..Self::expired(message) }
    }

    /// The asked revision is in the future.
    pub(crate) fn too_large_resource_version(asked: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
        let causes = json!([{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]);
        Self {
            details: json!({"causes": causes, "retryAfterSeconds": 1}),
            ..Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message)
        }
    }

    /// The object breaks rules of its kind.
    pub(crate) fn invalid(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Self {
        let qualified = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let mut sentences: Vec<String> = Vec::new();
        for error in errors {
            let sentence = format!("{}: {}", error.field, error.message);
            if !sentences.contains(&sentence) {
                sentences.push(sentence);
            }
        }
        let summary = match sentences.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let causes: Vec<Value> = errors
            .iter()
            .map(|error| json!({"reason": error.reason, "message": error.message, "field": error.field}))
            .collect();
        let mut details = json!({ "causes": causes });
        for (key, text) in [("name", name), ("kind", kind), ("group", group)] {
            if !text.is_empty() {
                details[key] = text.into();
            }
        }
        Self {
            details,
            ..Self::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "Invalid",
                format!("{qualified} {name:?} is invalid: {summary}"),
            )
        }
    }

    /// The body is in a format the server does not read.
    pub(crate) fn unsupported_body() -> Self {
        Self::unsupported_patch(&MEDIA_TYPES)
    }

    /// The patch is in a format that the resource does not take.
    pub(crate) fn unsupported_patch(accepted: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        );
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
    }

    /// The patch is in a format that nothing takes.
    pub(crate) fn unsupported_media_type() -> Self {
        let message = "415: Unsupported Media Type";
        Self {
            details: json!({}),
            ..Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
        }
    }

    /// A JSON patch has an operation that cannot be done.
    pub(crate) fn rejected_patch() -> Self {
        let message = "the server rejected our request due to an error in our request";
        Self { details: json!({}), ..Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message) }
    }

    /// A failure for which Kubernetes has no reason but the sentence.
    pub(crate) fn unknown_failure(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "", message)
    }

    /// The client accepts only formats the server does not write.
    pub(crate) fn not_acceptable() -> Self {
        Self::only_acceptable(&MEDIA_TYPES)
    }

    /// The client accepts only formats in which changes cannot be told apart.
    pub(crate) fn not_a_stream() -> Self {
        Self::only_acceptable(&STREAM_TYPES)
    }

    fn only_acceptable(types: &[&str]) -> Self {
        Self::not_that_form(format!("only the following media types are accepted: {}", types.join(", ")))
    }

    /// The client wants an object in a form that it does not have.
    pub(crate) fn not_that_form(message: String) -> Self {
        Self::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    }

    /// The client accepts only formats that no built-in resource is written in; lists can be streams, too.
    pub(crate) fn no_representation(streams: bool) -> Self {
        let types =
            if streams { [&MEDIA_TYPES[..], &STREAM_TYPES[..]].concat() } else { MEDIA_TYPES.to_vec() };
        let message = format!("406: Not Acceptable\n\nAvailable representations: {}", types.join(", "));
        Self { details: json!({}), ..Self::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message) }
    }

    /// The body is larger than the server takes.
    pub(crate) fn too_large(limit: usize) -> Self {
        let message = format!("Request entity too large: limit is {limit}");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message)
    }

    /// The caller must wait, for example because a disruption budget is used up.
    pub(crate) fn too_many_requests(message: impl Into<String>, details: Value) -> Self {
        Self { details, ..Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message) }
    }

    /// The server cannot answer now.
    pub(crate) fn unavailable(why: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", why.to_string())
    }

    /// A webhook said no, in its own words.
    pub(crate) fn rejected(code: StatusCode, reason: &str, message: String, details: Value) -> Self {
        Self { code, reason: reason.to_owned().into(), message, details, continuation: String::new() }
    }

    /// Something that should be impossible happened.
    pub(crate) fn internal(message: impl std::fmt::Display) -> Self {
        let cause = message.to_string();
        let message = format!("Internal error occurred: {cause}");
        let details = json!({"causes": [{"message": cause}]});
        Self { details, ..Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message) }
    }

    /// Renders the `Status` object.
    pub(crate) fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code.as_u16(),
        });
        if self.reason.is_empty() {
            status.as_object_mut().map(|status| status.remove("reason"));
        }
        if !self.continuation.is_empty() {
            status["metadata"]["continue"] = self.continuation.as_str().into();
        }
        if !self.details.is_null() {
            status["details"] = self.details.clone();
        }
        status
    }
}
