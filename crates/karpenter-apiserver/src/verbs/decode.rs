//! From a body to an object of the right kind: syntax, identity, types, unknown fields, defaults.

use serde_json::{Value, json};

use super::json_text::{self, Parsed};
use super::options::FieldValidation;
use crate::apply::{FieldSet, hollow};
use crate::error::ApiError;
use crate::kinds;
use crate::registry::Resource;
use crate::schema::{Node, apply_defaults, canonical, decode_typed, prune};
use crate::wire::{Call, decode_yaml, protobuf};

/// How much of a body that is not understood is shown.
const SHOWN_MAX: usize = 30;

/// Reads the body as an object of the call's resource, and which of its fields hold something empty that is not
/// written; what a client should know is left as warnings.
///
/// # Errors
/// 400 when it is malformed, of another kind, has values of wrong types, or has unknown fields and the client asked
/// for strict validation; 415 when it is in an unknown format.
pub(super) fn object(call: &Call<'_>, validation: FieldValidation) -> Result<(Value, FieldSet), ApiError> {
    let parsed = parsed(call)?;
    let resource = &call.resource;
    let mut object = parsed.value;
    let found = identify(call, &mut object)?;
    let handled = |error: String| {
        ApiError::bad_request(format!("{found} cannot be handled as a {}: {error}", resource.kind))
    };
    let hollow = hollow_in(resource, &object);
    let unknown = conform(resource, &mut object).map_err(handled)?;
    let mut strict: Vec<String> = unknown.iter().map(|path| format!("unknown field {path:?}")).collect();
    strict.extend(parsed.duplicates.iter().map(|path| format!("duplicate field {path:?}")));
    // What is not known is not known twice.
    strict.retain(|text| !unknown.iter().any(|path| *text == format!("duplicate field {path:?}")));
    match validation {
        FieldValidation::Strict if !strict.is_empty() => {
            Err(handled(format!("strict decoding error: {}", strict.join(", "))))
        }
        FieldValidation::Ignore | FieldValidation::Strict => Ok((object, hollow)),
        FieldValidation::Warn => {
            strict.into_iter().for_each(|warning| call.session.warn(warning));
            Ok((object, hollow))
        }
    }
}

/// Reads the body of a request for a subresource with a kind of its own.
///
/// # Errors
/// As [`object`].
pub(super) fn body_as(call: &Call<'_>, api_version: &str, kind: &str) -> Result<Value, ApiError> {
    let mut value = parsed(call)?.value;
    let node = Node::built_in(api_version, kind);
    if !value.is_object() {
        value = json!({});
    }
    let version = api_version.rsplit('/').next().unwrap_or_default();
    if let Some(error) = decode_typed(&mut value, &node).error {
        return Err(ApiError::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {kind}: {error}"
        )));
    }
    canonical(&mut value, &node);
    Ok(value)
}

fn parsed(call: &Call<'_>) -> Result<Parsed, ApiError> {
    let unrecognized = |error: String| {
        ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): {error} ({})",
            call.resource.kind,
            summary(call.body)
        ))
    };
    match call.content_type() {
        _ if call.body.starts_with(protobuf::MAGIC) => {
            Ok(Parsed { value: call.decode()?, duplicates: Vec::new() })
        }
        protobuf::PROTOBUF => Err(unrecognized(
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
                .to_owned(),
        )),
        "application/json" | "" => {
            let parse_error =
                |error: String| unrecognized(format!("couldn't get version/kind; json parse error: {error}"));
            let mut parsed = json_text::parse(call.body).map_err(parse_error)?;
            parsed.value = fields_of(parsed.value).map_err(parse_error)?;
            Ok(parsed)
        }
        "application/yaml" => {
            let value = decode_yaml(call.body).map_err(|error| unrecognized(error.message))?;
            let value = fields_of(value).map_err(|error| {
                unrecognized(format!("couldn't get version/kind; json parse error: {error}"))
            })?;
            Ok(Parsed { value, duplicates: Vec::new() })
        }
        _ => Err(ApiError::unsupported_body()),
    }
}

/// Takes an object as it is and null for one in which nothing is set.
///
/// # Errors
/// Returns what Go says about anything else.
fn fields_of(value: Value) -> Result<Value, String> {
    match value {
        Value::Object(_) => Ok(value),
        Value::Null => Ok(json!({})),
        other => Err(format!(
            "json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \
             \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
            crate::schema::kind_of(&other)
        )),
    }
}

fn summary(body: &[u8]) -> String {
    let (shown, more) = match body.get(..SHOWN_MAX) {
        Some(start) if body.len() > SHOWN_MAX => (start, " ..."),
        _ => (body, ""),
    };
    match body.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(shown)),
        Some(_) => {
            let hex: Vec<String> = shown.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{}{more}", hex.concat())
        }
    }
}

/// Checks or fills in `apiVersion` and `kind`, and returns how errors name what was found.
fn identify(call: &Call<'_>, object: &mut Value) -> Result<String, ApiError> {
    let resource = &call.resource;
    let expected = resource.api_version();
    let text = |name: &str| match &object[name] {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text.clone()),
        other => Err(ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): couldn't get version/kind; json parse error: \
             json: cannot unmarshal {} into Go struct field .{name} of type string ({})",
            resource.kind,
            crate::schema::kind_of(other),
            summary(call.body)
        ))),
    };
    let (given_version, given_kind) = (text("apiVersion")?, text("kind")?);
    if given_version.matches('/').count() > 1 {
        return Err(ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): unexpected GroupVersion string: {given_version} \
             ({})",
            resource.kind,
            summary(call.body)
        )));
    }
    let version = if given_version.is_empty() { &expected } else { &given_version };
    let kind = if given_kind.is_empty() { &resource.kind } else { &given_kind };
    let found = format!("{kind} in version {:?}", version.rsplit('/').next().unwrap_or_default());
    if *version != expected || *kind != resource.kind {
        return Err(other_kind(resource, &found, version, kind, object));
    }
    object["apiVersion"] = expected.into();
    object["kind"] = resource.kind.as_str().into();
    Ok(found)
}

fn other_kind(resource: &Resource, found: &str, version: &str, kind: &str, object: &Value) -> ApiError {
    if resource.is_custom() {
        let expected = resource.api_version();
        return ApiError::bad_request(if version == expected {
            format!("{found} cannot be handled as a {}: {version}, Kind={kind} not supported", resource.kind)
        } else {
            format!(
                "the API version in the data ({version}) does not match the expected API version ({expected})"
            )
        });
    }
    let is_status = (version, kind) == ("v1", "Status");
    let node = if is_status {
        Some(Node::of_struct("meta.v1.Status"))
    } else {
        kinds::is_known(version, kind).then(|| Node::built_in(version, kind))
    };
    // What is no object of its own kind is not looked at any further.
    let error = node.as_ref().and_then(|node| decode_typed(&mut object.clone(), node).error);
    let why = if let Some(error) = error {
        error
    } else if node.is_some() {
        let (from, into) = (version.rsplit('/').next().unwrap_or_default(), resource.group.split('.').next());
        let into = into.filter(|group| !group.is_empty()).unwrap_or("core");
        format!("converting ({from}.{kind}) to ({into}.{}): unknown conversion", resource.kind)
    } else {
        format!(
            "no kind {kind:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:111\""
        )
    };
    ApiError::bad_request(format!("{found} cannot be handled as a {}: {why}", resource.kind))
}

/// Returns which fields of a body of a built-in kind hold something empty that is not written.
pub(super) fn hollow_in(resource: &Resource, body: &Value) -> FieldSet {
    if resource.is_custom() { FieldSet::default() } else { hollow(body, resource.schema()) }
}

/// Gives an object the form and the defaults of its kind and returns the paths of unknown fields, which are gone.
///
/// # Errors
/// Returns the first value of a wrong type of a built-in kind.
pub(super) fn conform(resource: &Resource, object: &mut Value) -> Result<Vec<String>, String> {
    let node = resource.schema();
    if resource.is_custom() {
        let metadata =
            object.get_mut("metadata").map(|metadata| decode_typed(metadata, &crate::schema::object_meta()));
        if let Some(error) = metadata.and_then(|decoded| decoded.error) {
            return Err(error);
        }
        let unknown = prune(object, node);
        apply_defaults(object, node);
        if !object["metadata"].is_object() {
            object["metadata"] = json!({});
        }
        canonical_metadata(object);
        return Ok(unknown);
    }
    let decoded = decode_typed(object, node);
    if let Some(error) = decoded.error {
        return Err(error);
    }
    let managed = object["metadata"].get("managedFields").cloned();
    let emptied = kinds::emptied_lists(&resource.name, object);
    canonical(object, node);
    kinds::default(&resource.name, object, node);
    kinds::empty_lists(&emptied, object);
    canonical(object, node);
    // An empty list of managers means something to whoever takes it out.
    if let Some(managed) = managed.filter(|managed| managed.as_array().is_some_and(Vec::is_empty)) {
        object["metadata"]["managedFields"] = managed;
    }
    Ok(decoded.unknown)
}

fn canonical_metadata(object: &mut Value) {
    let managed = object["metadata"].get("managedFields").cloned();
    canonical(&mut object["metadata"], &crate::schema::object_meta());
    if let Some(managed) = managed.filter(|managed| managed.as_array().is_some_and(Vec::is_empty)) {
        object["metadata"]["managedFields"] = managed;
    }
}

/// Checks that the namespace in the object is the one in the path, and sets it.
///
/// # Errors
/// 400 when it is another.
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

/// Checks that the object has the name in the path.
///
/// # Errors
/// 400 when it has none or another.
pub(super) fn check_name(call: &Call<'_>, object: &Value) -> Result<(), ApiError> {
    match object["metadata"]["name"].as_str().unwrap_or_default() {
        "" => Err(ApiError::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            call.name()
        ))),
        name if name != call.name() => Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            call.name()
        ))),
        _ => Ok(()),
    }
}

/// Drops owner references that are there twice and warns about them.
pub(super) fn single_owners(call: &Call<'_>, object: &mut Value) {
    let Some(owners) = object["metadata"].get_mut("ownerReferences").and_then(Value::as_array_mut) else {
        return;
    };
    let mut kept: Vec<Value> = Vec::new();
    let mut twice = Vec::new();
    for owner in owners.drain(..) {
        if kept.contains(&owner) {
            twice.push(owner["uid"].as_str().unwrap_or_default().to_owned());
        } else {
            kept.push(owner);
        }
    }
    *owners = kept;
    if !twice.is_empty() {
        call.session.warn(format!(
            ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and \
             may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            twice.join(", ")
        ));
    }
}
