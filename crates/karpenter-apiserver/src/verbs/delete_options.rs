//! What a client says about a deletion.

use serde_json::{Value, json};

use super::json_text;
use super::options::check_dry_run;
use crate::error::{ApiError, FieldError};
use crate::schema::{Node, decode_typed};
use crate::wire::{Call, decode_yaml, protobuf};

/// The options of one deletion.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) grace_period_seconds: Option<i64>,
    pub(crate) propagation: Option<String>,
    /// The older way to say what becomes of dependents.
    pub(crate) orphan_dependents: Option<bool>,
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
    pub(crate) dry_run: bool,
}

impl DeleteOptions {
    pub(super) fn from_value(value: &Value) -> Self {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        Self {
            // A negative period means at once, but not without notice.
            grace_period_seconds: value["gracePeriodSeconds"]
                .as_i64()
                .map(|period| if period < 0 { 1 } else { period }),
            propagation: text(&value["propagationPolicy"]),
            orphan_dependents: value["orphanDependents"].as_bool(),
            uid: text(&value["preconditions"]["uid"]),
            resource_version: text(&value["preconditions"]["resourceVersion"]),
            dry_run: value["dryRun"].as_array().is_some_and(|values| !values.is_empty()),
        }
    }

    /// Reads the options from the body or, without one, from the query.
    ///
    /// # Errors
    /// 400 when they cannot be read, 422 when they contradict each other.
    pub(super) fn from_call(call: &Call<'_>) -> Result<Self, ApiError> {
        let value = if call.body.is_empty() { from_query(call)? } else { from_body(call)? };
        check(&value)?;
        Ok(Self::from_value(&value))
    }
}

fn from_query(call: &Call<'_>) -> Result<Value, ApiError> {
    let mut value = json!({});
    if let Some(text) = call.query.get("gracePeriodSeconds") {
        let seconds: i64 = text.parse().map_err(|_| {
            ApiError::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax"))
        })?;
        value["gracePeriodSeconds"] = seconds.into();
    }
    if let Some(policy) = call.query.get("propagationPolicy") {
        value["propagationPolicy"] = policy.into();
    }
    if let Some(orphan) = call.query.get("orphanDependents") {
        value["orphanDependents"] = (!matches!(orphan, "false" | "0")).into();
    }
    let dry_run = call.query.all("dryRun");
    if !dry_run.is_empty() {
        value["dryRun"] = json!(dry_run);
    }
    Ok(value)
}

fn from_body(call: &Call<'_>) -> Result<Value, ApiError> {
    let mut value = match call.content_type() {
        _ if call.body.starts_with(protobuf::MAGIC) => call.decode()?,
        "application/json" | "" => {
            let parse_error = |error: String| {
                ApiError::bad_request(format!("couldn't get version/kind; json parse error: {error}"))
            };
            let value = json_text::parse(call.body).map_err(parse_error)?.value;
            match &value {
                Value::Object(_) => value,
                Value::Null => json!({}),
                other => {
                    return Err(parse_error(format!(
                        "json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \
                         \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
                        crate::schema::kind_of(other)
                    )));
                }
            }
        }
        "application/yaml" => decode_yaml(call.body)?,
        _ => return Err(ApiError::unsupported_body()),
    };
    let text = |name: &str| value[name].as_str().unwrap_or_default();
    let (version, kind) = (text("apiVersion"), text("kind"));
    if !matches!(kind, "" | "DeleteOptions") {
        let version = if version.is_empty() { "v1" } else { version };
        return Err(ApiError::bad_request(format!(
            "no kind {kind:?} is registered for version {version:?} in scheme \
             \"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:32\""
        )));
    }
    if let Some(error) = decode_typed(&mut value, &Node::of_struct("meta.v1.DeleteOptions")).error {
        return Err(ApiError::bad_request(error));
    }
    Ok(value)
}

fn check(value: &Value) -> Result<(), ApiError> {
    let mut errors = Vec::new();
    let policy = &value["propagationPolicy"];
    if policy.is_string() && value["orphanDependents"].is_boolean() {
        let rule = "orphanDependents and deletionPropagation cannot be both set";
        errors.push(FieldError::invalid("propagationPolicy", policy, rule));
    }
    if policy.is_string() && !matches!(policy.as_str(), Some("Foreground" | "Background" | "Orphan")) {
        let supported = ["Foreground", "Background", "Orphan", "nil"];
        errors.push(FieldError::unsupported("propagationPolicy", policy, &supported));
    }
    let dry_run: Vec<&str> =
        value["dryRun"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    errors.extend(check_dry_run(&dry_run));
    if errors.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid("meta.k8s.io", "DeleteOptions", "", &errors))
}
