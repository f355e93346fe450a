//! patch: the four formats, on objects and on their status.

use serde_json::{Value, json};

use super::author::Author;
use super::create::empty;
use super::decode::{check_name, conform, hollow_in, place};
use super::json_text;
use super::options::{FieldValidation, WriteOptions};
use super::update::{Proposal, Scope};
use crate::apply::{FieldSet, Manager, Managers, apply};
use crate::error::{ApiError, FieldError};
use crate::kinds;
use crate::patch::{
    APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, go_text, json_patch, merge_patch,
    strategic_merge,
};
use crate::server::Core;
use crate::wire::{Answer, Call};

impl Core {
    pub(crate) fn patch(&self, call: &Call<'_>) -> Result<Answer, ApiError> {
        self.patch_scope(call, Scope::Main)
    }

    pub(super) fn patch_scope(&self, call: &Call<'_>, scope: Scope) -> Result<Answer, ApiError> {
        match call.content_type() {
            APPLY_PATCH => self.apply_patch(call, scope),
            STRATEGIC_MERGE_PATCH if call.resource.is_custom() => {
                Err(ApiError::unsupported_patch(&[JSON_PATCH, MERGE_PATCH, APPLY_PATCH]))
            }
            JSON_PATCH | MERGE_PATCH | STRATEGIC_MERGE_PATCH => self.other_patch(call, scope),
            _ => Err(ApiError::unsupported_media_type()),
        }
    }

    fn other_patch(&self, call: &Call<'_>, scope: Scope) -> Result<Answer, ApiError> {
        let options = WriteOptions::read(call, "PatchOptions")?;
        self.current(call)?;
        let patch = Patch::read(call, options.validation)?;
        let body = self.change(call, scope, &options, |old| {
            let mut object = old.clone();
            patch.apply(call, &mut object)?;
            let patched = object.clone();
            let conformed = conform(&call.resource, &mut object);
            let unknown = conformed.map_err(|error| patch.refused(&patched, &error))?;
            let mut strict = patch.strict.clone();
            strict.extend(unknown.iter().map(|path| format!("unknown field {path:?}")));
            if options.validation == FieldValidation::Strict && !strict.is_empty() {
                return Err(patch.refused(&patched, &format!("strict decoding error: {}", strict.join(", "))));
            }
            if options.validation == FieldValidation::Warn {
                strict.into_iter().for_each(|warning| call.session.warn(warning));
            }
            place(call, &mut object)?;
            check_name(call, &object)?;
            Ok(Proposal { object, managers: None, hollow: hollow_in(&call.resource, &patched) })
        })?;
        Ok(Answer::ok(body))
    }

    fn apply_patch(&self, call: &Call<'_>, scope: Scope) -> Result<Answer, ApiError> {
        let options = WriteOptions::read(call, "PatchOptions")?;
        let found = self.find(call);
        // The status of what an update may create is written by a storage that makes whole objects, too.
        if found.is_none() && scope != Scope::Main && !kinds::allows_create_on_update(&call.resource) {
            return Err(ApiError::not_found(&call.resource.qualified(), call.name()));
        }
        let configuration = configuration(call)?;
        if found.is_none() {
            let mut live = empty(&call.resource);
            let (mut object, managers) = self.applied(call, scope, &mut live, &configuration, &options)?;
            let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
            if !uid.is_empty() {
                let why = format!(
                    "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                );
                return Err(ApiError::conflict(&call.resource.qualified(), call.name(), why));
            }
            place(call, &mut object)?;
            check_name(call, &object)?;
            let created = self.create_object(call, object, &managers, &options)?;
            return Ok(Answer::ok(created).created());
        }
        let body = self.change(call, scope, &options, |old| {
            let (mut object, managers) =
                self.applied(call, scope, &mut old.clone(), &configuration, &options)?;
            place(call, &mut object)?;
            check_name(call, &object)?;
            Ok(Proposal { object, managers: Some(managers), hollow: FieldSet::default() })
        })?;
        Ok(Answer::ok(body))
    }

    /// Applies a configuration to an object and returns what both become.
    fn applied(
        &self,
        call: &Call<'_>,
        scope: Scope,
        live: &mut Value,
        configuration: &Value,
        options: &WriteOptions,
    ) -> Result<(Value, Managers), ApiError> {
        let resource = &call.resource;
        let mut managers = Managers::take(live);
        let author = Author::of(self, call, options, scope);
        let manager = author.manager();
        if managers.is_empty() {
            let earlier = Manager { name: "before-first-apply", ..manager };
            managers.update(&empty(resource), live, resource.schema(), earlier);
        }
        let node = resource.schema();
        let applied = apply(live, managers, configuration, node, manager, options.force)?;
        let mut object = applied.object;
        // Nulls stand for what was pruned.
        conform(resource, &mut object).map_err(|error| {
            ApiError::unknown_failure(format!("failed to convert new typed object to object: {error}"))
        })?;
        Ok((object, applied.managers))
    }
}

/// Reads an applied configuration, which must be of the call's kind.
fn configuration(call: &Call<'_>) -> Result<Value, ApiError> {
    let mut configuration = crate::wire::decode_yaml(call.body)?;
    if configuration.is_null() {
        configuration = json!({});
    }
    if !configuration.is_object() {
        return Err(ApiError::bad_request(format!(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go value \
             of type map[string]interface {{}}",
            crate::schema::kind_of(&configuration)
        )));
    }
    let text = |name: &str| configuration[name].as_str().unwrap_or_default().to_owned();
    let (version, kind) = (text("apiVersion"), text("kind"));
    if version != call.resource.api_version() || kind != call.resource.kind {
        let shown = if version.contains('/') { version } else { format!("/{version}") };
        return Err(ApiError::bad_request(format!("invalid object type: {shown}, Kind={kind}")));
    }
    if configuration["metadata"].get("managedFields").is_some_and(|fields| !fields.is_null()) {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    Ok(configuration)
}

/// A patch in one of the formats other than apply.
struct Patch {
    format: String,
    value: Value,
    /// What a strict reader objects to in the patch itself.
    strict: Vec<String>,
}

impl Patch {
    fn read(call: &Call<'_>, validation: FieldValidation) -> Result<Self, ApiError> {
        let format = call.content_type().to_owned();
        let strategic = format == STRATEGIC_MERGE_PATCH;
        let prefix = if strategic { "" } else { "error decoding patch: " };
        let malformed = |error: String| ApiError::bad_request(format!("{prefix}{error}"));
        let parsed = match json_text::parse(call.body) {
            Ok(parsed) => parsed,
            Err(_) if validation == FieldValidation::Ignore && format == MERGE_PATCH => {
                return Err(ApiError::bad_request("Invalid JSON Patch"));
            }
            Err(error) => return Err(malformed(error)),
        };
        let found = crate::schema::kind_of(&parsed.value);
        let value = match (format.as_str(), parsed.value) {
            (_, Value::Null) if strategic => json!({}),
            (JSON_PATCH, Value::Null) => json!([]),
            (MERGE_PATCH, Value::Null) => return Err(ApiError::bad_request("Invalid JSON Patch")),
            (JSON_PATCH, Value::Array(operations)) => {
                if let Some(odd) = operations.iter().find(|operation| !operation.is_object()) {
                    let found = crate::schema::kind_of(odd);
                    return Err(malformed(format!(
                        "json: cannot unmarshal {found} into Go value of type handlers.jsonPatchOp"
                    )));
                }
                Value::Array(operations)
            }
            (JSON_PATCH, _) => {
                let kind = "[]handlers.jsonPatchOp";
                return Err(malformed(format!(
                    "json: cannot unmarshal {found} into Go value of type {kind}"
                )));
            }
            (_, value @ Value::Object(_)) => value,
            _ => {
                let kind = "map[string]interface {}";
                return Err(malformed(format!(
                    "json: cannot unmarshal {found} into Go value of type {kind}"
                )));
            }
        };
        let strict = parsed.duplicates.iter().map(|path| format!("duplicate field {path:?}")).collect();
        Ok(Self { format, value, strict })
    }

    fn apply(&self, call: &Call<'_>, object: &mut Value) -> Result<(), ApiError> {
        match self.format.as_str() {
            JSON_PATCH => {
                let operations = self.value.as_array().map(Vec::as_slice).unwrap_or_default();
                json_patch(object, operations).map_err(|_| ApiError::rejected_patch())
            }
            MERGE_PATCH => {
                merge_patch(object, &self.value);
                Ok(())
            }
            _ => strategic_merge(object, &self.value, call.resource.schema()),
        }
    }

    /// The error of a patch whose outcome is no object of the kind.
    fn refused(&self, patched: &Value, why: &str) -> ApiError {
        let shown =
            if self.format == STRATEGIC_MERGE_PATCH { go_text(&self.value) } else { patched.to_string() };
        let decoding = self.format == STRATEGIC_MERGE_PATCH && why.starts_with("illegal base64");
        let why = if decoding { format!("error decoding from json: {why}") } else { why.to_owned() };
        let error = FieldError::invalid("patch", &json!(shown), why);
        ApiError::invalid("", "", "", &[error])
    }
}

/// Applies a patch of a JSON format to a value that is not a whole object, such as a Scale.
pub(super) fn patched(
    call: &Call<'_>,
    value: &mut Value,
    validation: FieldValidation,
) -> Result<(), ApiError> {
    match call.content_type() {
        JSON_PATCH | MERGE_PATCH | STRATEGIC_MERGE_PATCH => {
            let patch = Patch::read(call, validation)?;
            if patch.format == STRATEGIC_MERGE_PATCH {
                merge_patch(value, &patch.value);
                return Ok(());
            }
            patch.apply(call, value)
        }
        _ => Err(ApiError::unsupported_media_type()),
    }
}
