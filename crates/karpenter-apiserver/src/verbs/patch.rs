//! patch: the four formats, on objects and on their status.

use serde_json::{Value, json};

use super::conversion::served;
use super::decode::{conformed, place};
use super::update::{Ownership, Refusal, Scope};
use crate::apply::{Manager, Managers, Operation, apply};
use crate::error::ApiError;
use crate::patch::{
    APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, json_patch, merge_patch, strategic_merge,
};
use crate::schema::{Nulls, conform};
use crate::server::Core;
use crate::store::Key;
use crate::wire::{Answer, Call, decode_body};

/// How often a patch is tried again when the object changes under it.
const ATTEMPTS: usize = 5;

impl Core {
    pub(crate) fn patch(&self, call: &Call<'_>) -> Result<Answer, ApiError> {
        self.patch_scope(call, Scope::Main)
    }

    pub(super) fn patch_scope(&self, call: &Call<'_>, scope: Scope) -> Result<Answer, ApiError> {
        match call.content_type() {
            APPLY_PATCH => self.apply_patch(call, scope),
            STRATEGIC_MERGE_PATCH if call.resource.is_custom() => {
                Err(ApiError::unsupported_media_type(&[JSON_PATCH, MERGE_PATCH, APPLY_PATCH]))
            }
            JSON_PATCH | MERGE_PATCH | STRATEGIC_MERGE_PATCH => {
                let patch = decode_body(call.body)?;
                self.try_patch(call, scope, &patch)
            }
            _ => Err(ApiError::unsupported_media_type(&[
                JSON_PATCH,
                MERGE_PATCH,
                STRATEGIC_MERGE_PATCH,
                APPLY_PATCH,
            ])),
        }
    }

    fn try_patch(&self, call: &Call<'_>, scope: Scope, patch: &Value) -> Result<Answer, ApiError> {
        for _ in 0..ATTEMPTS {
            let current = self.current(call)?;
            let mut object = served(&call.resource, current.value());
            let revision = object["metadata"]["resourceVersion"].clone();
            apply_format(call, &mut object, patch)?;
            if object["metadata"]["resourceVersion"] != revision
                && !object["metadata"]["resourceVersion"].is_null()
            {
                return Err(ApiError::modified(&call.resource.name, call.name()));
            }
            let warnings = conformed(&call.resource, &mut object, call.query)?;
            place(call, &mut object)?;
            match self.replace(call, &current, object, scope, Ownership::Credited) {
                Ok(body) => return Ok(Answer::ok(body).warn(warnings)),
                Err(Refusal::Error(error)) => return Err(error),
                Err(Refusal::Raced) => {}
            }
        }
        Err(ApiError::modified(&call.resource.name, call.name()))
    }

    fn apply_patch(&self, call: &Call<'_>, scope: Scope) -> Result<Answer, ApiError> {
        let Some(manager_name) = call.query.get("fieldManager") else {
            return Err(ApiError::bad_request("fieldManager is required for apply patch"));
        };
        let mut configuration = crate::wire::decode_yaml(call.body)?;
        let unset = |name: &str| configuration[name].as_str().is_none_or(str::is_empty);
        if unset("apiVersion") || unset("kind") {
            return Err(ApiError::bad_request("apiVersion and kind must be set in an applied configuration"));
        }
        if configuration["metadata"].get("managedFields").is_some_and(|fields| !fields.is_null()) {
            return Err(ApiError::bad_request("metadata.managedFields must be nil"));
        }
        let name = configuration["metadata"]["name"].as_str().unwrap_or_default();
        if !name.is_empty() && name != call.name() {
            return Err(ApiError::bad_request(format!(
                "name in the configuration ({name}) does not match the name on the URL ({})",
                call.name()
            )));
        }
        let warnings = configured(call, &mut configuration)?;
        let (api_version, now) = (call.resource.api_version(), self.now());
        let manager = Manager {
            name: manager_name,
            api_version: &api_version,
            subresource: scope.subresource(),
            now: &now,
        };
        for _ in 0..ATTEMPTS {
            let Some(current) = self.store.get(&call.resource.name, &Key::new(call.namespace(), call.name()))
            else {
                return self.apply_new(call, scope, &configuration, manager, warnings);
            };
            let mut live = served(&call.resource, current.value());
            let given = configuration["metadata"]["resourceVersion"].as_str();
            if given.is_some_and(|given| given != current.revision.to_string()) {
                return Err(ApiError::modified(&call.resource.name, call.name()));
            }
            let managers = Managers::take(&mut live);
            let force = call.query.flag("force");
            let applied = apply(&live, managers, &configuration, call.resource.schema(), manager, force)?;
            let mut object = applied.object;
            conformed(&call.resource, &mut object, call.query)?;
            match self.replace(call, &current, object, scope, Ownership::Applied(applied.managers)) {
                Ok(body) => return Ok(Answer::ok(body).warn(warnings)),
                Err(Refusal::Error(error)) => return Err(error),
                Err(Refusal::Raced) => {}
            }
        }
        Err(ApiError::modified(&call.resource.name, call.name()))
    }

    fn apply_new(
        &self,
        call: &Call<'_>,
        scope: Scope,
        configuration: &Value,
        manager: Manager<'_>,
        warnings: Vec<String>,
    ) -> Result<Answer, ApiError> {
        if scope != Scope::Main {
            return Err(ApiError::not_found(&call.resource.name, call.name()));
        }
        let node = call.resource.schema();
        let applied = apply(&json!({}), Managers::default(), configuration, node, manager, true)?;
        let mut object = applied.object;
        conformed(&call.resource, &mut object, call.query)?;
        let mut managers = applied.managers;
        if call.resource.has_status() {
            // A new object starts without status, so its applier cannot own any.
            for entry in managers.entries.iter_mut().filter(|entry| entry.operation == Operation::Apply) {
                entry.fields = entry.fields.clone().without(&["status"]);
            }
        }
        let created = self.create_object(call, object, Some(&managers))?;
        Ok(Answer::ok(created).created().warn(warnings))
    }
}

/// Checks an applied configuration without filling in defaults, which its author does not own.
fn configured(call: &Call<'_>, configuration: &mut Value) -> Result<Vec<String>, ApiError> {
    let nulls = if call.resource.is_custom() { Nulls::Kept } else { Nulls::Dropped };
    let mut defaulted = configuration.clone();
    let warnings = conformed(&call.resource, &mut defaulted, call.query)?;
    conform(configuration, call.resource.schema(), nulls);
    if !configuration["metadata"].is_object() {
        configuration["metadata"] = json!({});
    }
    configuration["metadata"]["name"] = call.name().into();
    place(call, configuration)?;
    Ok(warnings)
}

fn apply_format(call: &Call<'_>, object: &mut Value, patch: &Value) -> Result<(), ApiError> {
    match call.content_type() {
        JSON_PATCH => return json_patch(object, patch.clone()),
        _ if !patch.is_object() => {
            return Err(ApiError::bad_request("the patch must be a JSON object"));
        }
        MERGE_PATCH => merge_patch(object, patch),
        _ => strategic_merge(object, patch, call.resource.schema()),
    }
    Ok(())
}
