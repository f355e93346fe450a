//! update, and the rules every change of an existing object keeps.

use bytes::Bytes;
use serde_json::Value;

use super::conversion::{served, stored};
use super::decode::{conformed, place};
use crate::admission::Write;
use crate::apply::{Manager, Managers};
use crate::error::{ApiError, FieldError};
use crate::kinds;
use crate::server::Core;
use crate::store::{Expected, Key, StoredObject};
use crate::wire::{Answer, Call};

/// Which part of an object a request may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// Everything but the status, when that has its own URL.
    Main,
    /// Only the status.
    Status,
    /// Only the finalizers of a namespace.
    Finalize,
}

impl Scope {
    pub(super) fn subresource(self) -> &'static str {
        match self {
            Self::Main => "",
            Self::Status => "status",
            Self::Finalize => "finalize",
        }
    }
}

/// Who owns the fields after a change.
#[derive(Debug, Clone)]
pub(super) enum Ownership {
    /// The caller gets what it changed.
    Credited,
    /// Server-side apply has worked it out.
    Applied(Managers),
}

/// Why a change was not made.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The object changed meanwhile; a patch may be tried again.
    Raced,
    Error(ApiError),
}

impl From<ApiError> for Refusal {
    fn from(error: ApiError) -> Self {
        Self::Error(error)
    }
}

impl Core {
    pub(crate) fn update(&self, call: &Call<'_>) -> Result<Answer, ApiError> {
        self.update_scope(call, Scope::Main)
    }

    pub(super) fn update_scope(&self, call: &Call<'_>, scope: Scope) -> Result<Answer, ApiError> {
        let mut object = call.decode()?;
        let warnings = conformed(&call.resource, &mut object, call.query)?;
        place(call, &mut object)?;
        let named = object["metadata"]["name"].as_str().unwrap_or_default();
        if named.is_empty() {
            object["metadata"]["name"] = call.name().into();
        } else if named != call.name() {
            return Err(ApiError::bad_request(format!(
                "the name of the object ({named}) does not match the name on the URL ({})",
                call.name()
            )));
        }
        let current = self.current(call)?;
        let given = object["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
        if given.is_empty() && !kinds::allows_unconditional_update(&call.resource) {
            let rule = "must be specified for an update";
            let error = FieldError::new(
                "FieldValueInvalid",
                "metadata.resourceVersion",
                format!("Invalid value: 0x0: {rule}"),
            );
            return Err(ApiError::invalid(&call.resource.group, &call.resource.kind, call.name(), &[error]));
        }
        let mut attempt = current;
        loop {
            if !given.is_empty() && given != attempt.revision.to_string() {
                return Err(ApiError::modified(&call.resource.name, call.name()));
            }
            match self.replace(call, &attempt, object.clone(), scope, Ownership::Credited) {
                Ok(body) => return Ok(Answer::ok(body).warn(warnings)),
                Err(Refusal::Error(error)) => return Err(error),
                Err(Refusal::Raced) => attempt = self.current(call)?,
            }
        }
    }

    /// Reads the object a call names.
    pub(super) fn current(&self, call: &Call<'_>) -> Result<std::sync::Arc<StoredObject>, ApiError> {
        self.store
            .get(&call.resource.name, &Key::new(call.namespace(), call.name()))
            .ok_or_else(|| ApiError::not_found(&call.resource.name, call.name()))
    }

    /// Replaces `current` by `new`, a conformed object in the version of the call.
    pub(super) fn replace(
        &self,
        call: &Call<'_>,
        current: &StoredObject,
        mut new: Value,
        scope: Scope,
        ownership: Ownership,
    ) -> Result<Bytes, Refusal> {
        let resource = &call.resource;
        let mut old = served(resource, current.value());
        let mut managers = Managers::take(&mut old);
        Managers::take(&mut new);
        Self::keep_system_fields(call, &old, &mut new)?;
        confine(call, &old, &mut new, scope);
        kinds::prepare_update(self, resource, &old, &mut new);
        // Of a scaling, webhooks see the Scale and not the object behind it.
        let scaling = call.target.subresource.as_deref() == Some("scale");
        if !scaling && self.mutate(call, "UPDATE", &mut new, Some(&old))? {
            conformed(resource, &mut new, call.query)?;
            Self::keep_system_fields(call, &old, &mut new)?;
            confine(call, &old, &mut new, scope);
            kinds::prepare_update(self, resource, &old, &mut new);
        }
        if kinds::tracks_generation(resource) && kinds::is_respecified(resource, &old, &new) {
            let generation = old["metadata"]["generation"].as_i64().unwrap_or(0);
            new["metadata"]["generation"] = (generation + 1).into();
        }
        let errors = kinds::validate(resource, &new, Some(&old));
        if !errors.is_empty() {
            return Err(ApiError::invalid(&resource.group, &resource.kind, call.name(), &errors).into());
        }
        self.check_escalation(call, &new, Some(&old))?;
        if !scaling {
            self.admit(call, &Write::of(call, "UPDATE", Some(&new), Some(&old))?)?;
        }
        let before = managers.clone();
        match ownership {
            Ownership::Applied(applied) => managers = applied,
            Ownership::Credited => {
                let (name, now) = (call.field_manager(), self.now());
                let manager = Manager {
                    name: &name,
                    api_version: &resource.api_version(),
                    subresource: scope.subresource(),
                    now: &now,
                };
                managers.update(Some(&old), &new, resource.schema(), manager);
            }
        }
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"].clone();
        if new == old && managers == before {
            return Ok(self.rendered(call, current));
        }
        managers.put(&mut new);
        self.commit(call, current, stored(resource, new))
    }

    fn commit(&self, call: &Call<'_>, current: &StoredObject, mut new: Value) -> Result<Bytes, Refusal> {
        let resource = &call.resource;
        if call.dry_run()? {
            return Ok(served(resource, new).to_string().into());
        }
        let key = Key::new(call.namespace(), call.name());
        let fields = &resource.selectable_fields;
        let written = if kinds::is_fully_deleted(resource, &new) {
            let removed = self.store.remove(&resource.name, &key, current.revision, &mut new, fields);
            let removed = removed.map_err(|_| Refusal::Raced)?;
            self.removed(resource, &new);
            removed
        } else {
            let expected = Expected::Revision(current.revision);
            let written = self.store.write(&resource.name, &key, expected, &mut new, fields);
            let written = written.map_err(|_| Refusal::Raced)?;
            self.written(resource, &new);
            written
        };
        Ok(self.rendered(call, &written))
    }

    /// Restores what only the server sets, and refuses to turn one object into another.
    fn keep_system_fields(call: &Call<'_>, old: &Value, new: &mut Value) -> Result<(), ApiError> {
        let (was, is) = (&old["metadata"], &new["metadata"]);
        if let (Some(was), Some(is)) = (was["uid"].as_str(), is["uid"].as_str())
            && was != is
            && !is.is_empty()
        {
            let why = format!("Precondition failed: UID in precondition: {is}, UID in object meta: {was}");
            return Err(ApiError::conflict(&call.resource.name, call.name(), why));
        }
        if is["name"] != was["name"] {
            let error = FieldError::invalid("metadata.name", &is["name"], "field is immutable");
            return Err(ApiError::invalid(&call.resource.group, &call.resource.kind, call.name(), &[error]));
        }
        for name in [
            "uid",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "generation",
            "generateName",
            "selfLink",
        ] {
            match old["metadata"].get(name) {
                Some(value) => new["metadata"][name] = value.clone(),
                None => {
                    new["metadata"].as_object_mut().map(|metadata| metadata.remove(name));
                }
            }
        }
        Ok(())
    }
}

/// Keeps the parts of the old object that the scope does not reach.
fn confine(call: &Call<'_>, old: &Value, new: &mut Value, scope: Scope) {
    match scope {
        Scope::Main if call.resource.has_status() => copy(old, new, "status"),
        Scope::Main => {}
        Scope::Status => {
            let status = new.get("status").cloned();
            let metadata = new["metadata"].clone();
            *new = old.clone();
            if !call.resource.is_custom() {
                new["metadata"] = metadata;
            }
            if let Some(fields) = new.as_object_mut() {
                fields.remove("status");
                fields.extend(status.map(|status| ("status".to_owned(), status)));
            }
        }
        Scope::Finalize => {
            let finalizers = new["spec"].get("finalizers").cloned();
            *new = old.clone();
            if let Some(spec) = new["spec"].as_object_mut() {
                spec.remove("finalizers");
                spec.extend(finalizers.map(|finalizers| ("finalizers".to_owned(), finalizers)));
            }
        }
    }
}

fn copy(from: &Value, to: &mut Value, name: &str) {
    let Some(fields) = to.as_object_mut() else { return };
    fields.remove(name);
    fields.extend(from.get(name).map(|value| (name.to_owned(), value.clone())));
}
