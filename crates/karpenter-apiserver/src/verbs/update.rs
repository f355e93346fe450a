//! update, and the rules every change of an existing object keeps.

use bytes::Bytes;
use serde_json::{Value, json};

use super::author::{Author, forget_unknown_versions};
use super::conversion::{served, stored};
use super::decode::{self, check_name, conform, place, single_owners};
use super::options::WriteOptions;
use crate::admission::Write;
use crate::apply::{FieldSet, Managers, can_be_owned};
use crate::error::{ApiError, FieldError};
use crate::kinds;
use crate::registry::Resource;
use crate::server::Core;
use crate::store::{Expected, Key, StoredObject};
use crate::wire::{Answer, Call};

/// Which part of an object a request may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Everything but the status, when that has its own URL.
    Main,
    /// Only the status.
    Status,
    /// Only the finalizers of a namespace.
    Finalize,
    /// Only the replicas.
    Scale,
}

impl Scope {
    pub(crate) fn subresource(self) -> &'static str {
        match self {
            Self::Main => "",
            Self::Status => "status",
            Self::Finalize => "finalize",
            Self::Scale => "scale",
        }
    }
}

/// What a request wants an object to become, in the version of the call and conformed.
#[derive(Debug)]
pub(super) struct Proposal {
    pub(super) object: Value,
    /// Who owns the fields, when server-side apply has worked it out; otherwise the caller gets what it changed.
    pub(super) managers: Option<Managers>,
    /// What the body changes although it is written as before.
    pub(super) hollow: FieldSet,
}

/// Why a change was not made.
#[derive(Debug)]
enum Refusal {
    /// The object changed meanwhile: propose again.
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
        let options = WriteOptions::read(call, "UpdateOptions")?;
        let (mut object, hollow) = decode::object(call, options.validation)?;
        place(call, &mut object)?;
        check_name(call, &object)?;
        single_owners(call, &mut object);
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        if scope == Scope::Main && kinds::allows_create_on_update(&call.resource) && self.find(call).is_none()
        {
            return self.create_by_update(call, object, &uid, &options);
        }
        let body = self.change(call, scope, &options, |old| {
            let actual = old["metadata"]["uid"].as_str().unwrap_or_default();
            if !uid.is_empty() && uid != actual {
                return Err(uid_conflict(call, &uid, actual, options.dry_run));
            }
            Ok(Proposal { object: object.clone(), managers: None, hollow: hollow.clone() })
        })?;
        Ok(Answer::ok(body))
    }

    /// Creates what a PUT names and nobody has.
    fn create_by_update(
        &self,
        call: &Call<'_>,
        mut object: Value,
        uid: &str,
        options: &WriteOptions,
    ) -> Result<Answer, ApiError> {
        if !uid.is_empty() {
            return Err(uid_conflict(call, uid, "", options.dry_run));
        }
        let managers = self.first_managers(call, &mut object, options);
        let created = self.create_object(call, object, &managers, options)?;
        Ok(Answer::ok(created).created())
    }

    /// Reads the object a call names, if it is there.
    pub(super) fn find(&self, call: &Call<'_>) -> Option<std::sync::Arc<StoredObject>> {
        self.store.get(&call.resource.name, &Key::new(call.namespace(), call.name()))
    }

    /// Reads the object a call names.
    pub(super) fn current(&self, call: &Call<'_>) -> Result<std::sync::Arc<StoredObject>, ApiError> {
        self.find(call).ok_or_else(|| ApiError::not_found(&call.resource.qualified(), call.name()))
    }

    /// Changes an object into what `propose` makes of its present state, again when it changes meanwhile.
    ///
    /// # Errors
    /// 404 when it is not there, 409 when the proposal is about another version of it, 422 when it breaks rules.
    pub(super) fn change(
        &self,
        call: &Call<'_>,
        scope: Scope,
        options: &WriteOptions,
        mut propose: impl FnMut(&Value) -> Result<Proposal, ApiError>,
    ) -> Result<Bytes, ApiError> {
        loop {
            let current = self.current(call)?;
            let old = served(&call.resource, current.value());
            let proposal = propose(&old)?;
            match self.replace(call, &current, old, proposal, scope, options) {
                Ok(body) => return Ok(body),
                Err(Refusal::Error(error)) => return Err(error),
                Err(Refusal::Raced) => {}
            }
        }
    }

    fn replace(
        &self,
        call: &Call<'_>,
        current: &StoredObject,
        mut old: Value,
        proposal: Proposal,
        scope: Scope,
        options: &WriteOptions,
    ) -> Result<Bytes, Refusal> {
        let resource = &call.resource;
        let Proposal { object: mut new, managers, hollow } = proposal;
        let entries = old["metadata"]["managedFields"].as_array().map_or(0, Vec::len);
        // It is never kept, only shown where nothing is.
        if !options.dry_run
            && let Some(metadata) = new["metadata"].as_object_mut()
        {
            metadata.remove("selfLink");
        }
        let (before, managers) = match managers {
            Some(applied) => {
                let before = Managers::take(&mut old);
                Managers::take(&mut new);
                (before, applied)
            }
            None => self.credited(call, &mut old, &mut new, &hollow, scope, options),
        };
        if scope == Scope::Main {
            kinds::admit_update(resource, &mut new);
        }
        // Of a scaling, webhooks see the Scale and not the object behind it.
        let scaling = scope == Scope::Scale;
        if !scaling && self.mutate(call, "UPDATE", &mut new, Some(&old))? {
            conform(resource, &mut new).map_err(ApiError::internal)?;
            single_owners(call, &mut new);
        }
        check_version(call, current, &mut new)?;
        new["metadata"]["generation"] = old["metadata"]["generation"].clone();
        let invalid = |errors: &[FieldError]| {
            ApiError::invalid(resource.inner_group(), &resource.kind, call.name(), errors)
        };
        kinds::prepare_update(self, resource, &old, &mut new, scope, options.dry_run)
            .map_err(|errors| invalid(&errors))?;
        keep_system_fields(&old, &mut new);
        let errors = kinds::validate(resource, &new, Some(&old), scope);
        if !errors.is_empty() {
            return Err(invalid(&errors).into());
        }
        self.check_escalation(call, &new, Some(&old))?;
        if scope == Scope::Main {
            kinds::warnings(resource, &new, Some(&old))
                .into_iter()
                .for_each(|warning| call.session.warn(warning));
        }
        if !scaling {
            self.admit(call, &Write::of(call, "UPDATE", Some(&new), Some(&old))?)?;
        }
        // A change of nothing but times is none.
        let managers = if new == old && managers.same_fields(&before) { before.clone() } else { managers };
        // Entries that say the same twice are written once.
        if new == old && managers == before && entries == before.len() {
            return Ok(self.rendered(call, current)?);
        }
        managers.put(&mut new);
        self.commit(call, current, &old, stored(resource, new), options.dry_run)
    }

    /// Takes the managers out of both versions and works out who owns the fields of the new one.
    fn credited(
        &self,
        call: &Call<'_>,
        old: &mut Value,
        new: &mut Value,
        hollow: &FieldSet,
        scope: Scope,
        options: &WriteOptions,
    ) -> (Managers, Managers) {
        let resource = &call.resource;
        let before = Managers::take(&mut old.clone());
        let mut managers = Managers::take_either(old, new, scope != Scope::Main);
        // Objects that nobody tracked from the start stay untracked.
        if managers.is_empty() {
            return (before, managers);
        }
        if !can_be_owned(new, resource.schema()) {
            return (before, Managers::default());
        }
        forget_unknown_versions(call, &mut managers);
        let author = Author::of(self, call, options, scope);
        managers.update_hollow(old, new, resource.schema(), author.manager(), hollow);
        (before, managers)
    }

    fn commit(
        &self,
        call: &Call<'_>,
        current: &StoredObject,
        old: &Value,
        mut new: Value,
        dry_run: bool,
    ) -> Result<Bytes, Refusal> {
        let resource = &call.resource;
        if dry_run {
            return Ok(self.rendered_value(call, new)?);
        }
        let key = Key::new(call.namespace(), call.name());
        let fields = &resource.selectable_fields;
        if kinds::is_deleted_by_update(resource, old, &new) {
            let answer = self.rendered_value(call, new.clone());
            let mut last = current.value();
            let removed = self.store.remove(&resource.name, &key, current.revision, &mut last, fields);
            removed.map_err(|_| Refusal::Raced)?;
            self.removed(resource, &last);
            return Ok(answer?);
        }
        let expected = Expected::Revision(current.revision);
        let written = self.store.write(&resource.name, &key, expected, &mut new, fields);
        let written = written.map_err(|_| Refusal::Raced)?;
        self.written(resource, &new);
        Ok(self.rendered(call, &written)?)
    }
}

/// Where Kubernetes keeps the objects of a resource.
fn folder(resource: &Resource) -> &str {
    match &*resource.name {
        "replicationcontrollers" => "controllers",
        "endpoints" => "services/endpoints",
        "nodes" => "minions",
        "services" => "services/specs",
        "ingresses.networking.k8s.io" => "ingress",
        _ => &resource.plural,
    }
}

fn uid_conflict(call: &Call<'_>, wanted: &str, actual: &str, dry_run: bool) -> ApiError {
    let namespace = call.namespace();
    let place = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {}/{}/{place}{}, ResourceVersion: 0, AdditionalErrorMsg: \
         Precondition failed: UID in precondition: {wanted}, UID in object meta: {actual}",
        // What is only tried out never gets to where objects are kept.
        if dry_run { "" } else { "/registry" },
        folder(&call.resource),
        call.name()
    );
    ApiError::conflict(&call.resource.qualified(), call.name(), why)
}

/// Says as Go does why a text is no version.
pub(super) fn parse_error(text: &str) -> String {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let why = if digits { "value out of range" } else { "invalid syntax" };
    format!("strconv.ParseUint: parsing {text:?}: {why}")
}

/// Checks the version a proposal was made from; a proposal without one takes the present version where that is allowed.
fn check_version(call: &Call<'_>, current: &StoredObject, new: &mut Value) -> Result<(), ApiError> {
    let given = new["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    let version: u64 = match given {
        "" => 0,
        text => text.parse().map_err(|_| ApiError::unknown_failure(parse_error(text)))?,
    };
    if version == 0 && kinds::allows_unconditional_update(&call.resource) {
        new["metadata"]["resourceVersion"] = current.revision.to_string().into();
        return Ok(());
    }
    if version == 0 {
        let rule = "must be specified for an update";
        let error = FieldError::invalid("metadata.resourceVersion", &json!(0), rule);
        return Err(ApiError::invalid(
            call.resource.inner_group(),
            &call.resource.plural,
            call.name(),
            &[error],
        ));
    }
    if version != current.revision {
        return Err(ApiError::modified(&call.resource.qualified(), call.name()));
    }
    Ok(())
}

/// Restores what only the server sets.
fn keep_system_fields(old: &Value, new: &mut Value) {
    let Some(metadata) = new["metadata"].as_object_mut() else { return };
    let was = &old["metadata"];
    if metadata.get("uid").and_then(Value::as_str).is_none_or(str::is_empty) {
        metadata.insert("uid".into(), was["uid"].clone());
    }
    metadata.insert("creationTimestamp".into(), was["creationTimestamp"].clone());
    if was["deletionTimestamp"].is_string() {
        metadata.insert("deletionTimestamp".into(), was["deletionTimestamp"].clone());
    }
    if !was["deletionGracePeriodSeconds"].is_null() {
        metadata
            .entry("deletionGracePeriodSeconds")
            .or_insert_with(|| was["deletionGracePeriodSeconds"].clone());
    }
    if metadata.get("generation").is_some_and(Value::is_null) {
        metadata.remove("generation");
    }
}
