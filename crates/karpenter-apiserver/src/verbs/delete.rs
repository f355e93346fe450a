//! delete and deletecollection: preconditions, finalizers, grace periods, propagation.

use serde_json::{Value, json};

use super::conversion::served;
use super::read::Selectors;
use crate::admission::Write;
use crate::error::ApiError;
use crate::kinds;
use crate::registry::Resource;
use crate::server::Core;
use crate::store::{Expected, Key, StoredObject};
use crate::wire::{Answer, Call, decode_yaml};
use karpenter_environment::format_time;

/// Finalizers that stand for a propagation policy until the collector has done its part.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
pub(crate) const ORPHAN: &str = "orphan";

/// What a client says about a deletion.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) grace_period_seconds: Option<i64>,
    pub(crate) propagation: Option<String>,
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
    pub(crate) dry_run: bool,
}

impl DeleteOptions {
    pub(super) fn from_value(value: &Value) -> Self {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let orphan = value["orphanDependents"].as_bool();
        let legacy = orphan.map(|orphan| if orphan { "Orphan" } else { "Background" }.to_owned());
        Self {
            grace_period_seconds: value["gracePeriodSeconds"].as_i64(),
            propagation: text(&value["propagationPolicy"]).or(legacy),
            uid: text(&value["preconditions"]["uid"]),
            resource_version: text(&value["preconditions"]["resourceVersion"]),
            dry_run: value["dryRun"].as_array().is_some_and(|values| !values.is_empty()),
        }
    }

    fn from_call(call: &Call<'_>) -> Result<Self, ApiError> {
        let body = if call.body.is_empty() { json!({}) } else { decode_yaml(call.body)? };
        let mut options = Self::from_value(&body);
        if let Some(seconds) = call.query.get("gracePeriodSeconds") {
            options.grace_period_seconds = seconds.parse().ok();
        }
        if let Some(policy) = call.query.get("propagationPolicy") {
            options.propagation = Some(policy.to_owned());
        }
        options.dry_run |= call.dry_run()?;
        if let Some(policy) = options.propagation.as_deref()
            && !matches!(policy, "Foreground" | "Background" | "Orphan")
        {
            return Err(ApiError::bad_request(format!(
                "propagationPolicy {policy:?} is not one of \"Foreground\", \"Background\", \"Orphan\""
            )));
        }
        Ok(options)
    }
}

/// What became of a deletion.
#[derive(Debug)]
pub(crate) enum Deletion {
    /// The object is gone; this was its last state.
    Removed(Value),
    /// The object waits for its grace period or finalizers.
    Pending(Value),
}

impl Core {
    pub(crate) fn delete(&self, call: &Call<'_>) -> Result<Answer, ApiError> {
        let options = DeleteOptions::from_call(call)?;
        let key = Key::new(call.namespace(), call.name());
        self.admit_deletion(call, &key, &options)?;
        let deletion = self.delete_object(&call.resource, &key, &options)?;
        Ok(match deletion {
            Deletion::Pending(object) => self.answer_object(call, &object),
            Deletion::Removed(object) if kinds::answers_deleted_object(&call.resource) => {
                self.answer_object(call, &object)
            }
            Deletion::Removed(object) => {
                let mut details = json!({
                    "name": call.name(), "kind": call.resource.plural, "uid": object["metadata"]["uid"],
                });
                if !call.resource.group.is_empty() {
                    details["group"] = call.resource.group.as_str().into();
                }
                let status = json!({
                    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
                });
                Answer::value(http::StatusCode::OK, &status)
            }
        })
    }

    fn answer_object(&self, call: &Call<'_>, object: &Value) -> Answer {
        let revision = object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok());
        let object = StoredObject::new(object, revision.unwrap_or(0), &call.resource.selectable_fields);
        Answer::ok(self.rendered(call, &object))
    }

    pub(crate) fn delete_collection(&self, call: &Call<'_>) -> Result<Answer, ApiError> {
        if call.resource.namespaced && call.target.namespace.is_none() {
            return Err(ApiError::method_not_allowed());
        }
        if &*call.resource.name == "namespaces" {
            return Err(ApiError::method_not_allowed());
        }
        let options = DeleteOptions::from_call(call)?;
        let selectors = Selectors::parse(call.query, &call.resource)?;
        let page = self
            .store
            .list(&call.resource.name, call.target.namespace.as_deref(), None, None)
            .map_err(|compacted| ApiError::expired(compacted.to_string()))?;
        let chosen: Vec<_> =
            page.objects.iter().filter(|(key, object)| selectors.matches(key, object)).collect();
        for (key, _) in &chosen {
            self.admit_deletion(call, key, &options)?;
        }
        let mut items = Vec::new();
        for (key, object) in chosen {
            match self.delete_object(&call.resource, key, &options) {
                Ok(_) => items.push(object.value()),
                Err(error) if error.reason == "NotFound" => {}
                Err(error) => return Err(error),
            }
        }
        let list = json!({
            "kind": call.resource.list_kind, "apiVersion": call.resource.api_version(),
            "metadata": {"resourceVersion": self.store.revision().to_string()}, "items": items,
        });
        Ok(Answer::value(http::StatusCode::OK, &list))
    }

    /// Lets webhooks and policies judge a deletion.
    fn admit_deletion(&self, call: &Call<'_>, key: &Key, options: &DeleteOptions) -> Result<(), ApiError> {
        let Some(current) = self.store.get(&call.resource.name, key) else { return Ok(()) };
        let old = served(&call.resource, current.value());
        let mut write = Write::of(call, "DELETE", None, Some(&old))?;
        write.dry_run |= options.dry_run;
        self.admit(call, &write)
    }

    /// Deletes one object, or marks it as being deleted.
    ///
    /// # Errors
    /// 404 when it is not there, 409 when a precondition does not hold.
    pub(crate) fn delete_object(
        &self,
        resource: &Resource,
        key: &Key,
        options: &DeleteOptions,
    ) -> Result<Deletion, ApiError> {
        loop {
            let current = self
                .store
                .get(&resource.name, key)
                .ok_or_else(|| ApiError::not_found(&resource.name, &key.name))?;
            let object = current.value();
            check_preconditions(resource, key, options, &object)?;
            kinds::check_delete(resource, key)?;
            let marked = self.marked(resource, &object, options);
            if options.dry_run {
                return Ok(if kinds::is_fully_deleted(resource, &marked) {
                    Deletion::Removed(marked)
                } else {
                    Deletion::Pending(marked)
                });
            }
            if let Some(deletion) = self.commit_deletion(resource, key, &current, &object, marked) {
                return Ok(deletion);
            }
        }
    }

    /// Writes the outcome of a deletion; `None` when the object changed meanwhile.
    fn commit_deletion(
        &self,
        resource: &Resource,
        key: &Key,
        current: &StoredObject,
        before: &Value,
        mut marked: Value,
    ) -> Option<Deletion> {
        let fields = &resource.selectable_fields;
        if kinds::is_fully_deleted(resource, &marked) {
            // Watchers see the last stored state, not the mark that never was stored.
            let mut last = before.clone();
            self.store.remove(&resource.name, key, current.revision, &mut last, fields).ok()?;
            self.removed(resource, &last);
            return Some(Deletion::Removed(last));
        }
        if marked == *before {
            return Some(Deletion::Pending(marked));
        }
        let expected = Expected::Revision(current.revision);
        self.store.write(&resource.name, key, expected, &mut marked, fields).ok()?;
        Some(Deletion::Pending(marked))
    }

    /// Returns the object with the marks of its deletion.
    fn marked(&self, resource: &Resource, object: &Value, options: &DeleteOptions) -> Value {
        let mut marked = object.clone();
        set_propagation(&mut marked, options.propagation.as_deref());
        kinds::mark_deletion(resource, &mut marked);
        let grace = kinds::grace_period(resource, object, options.grace_period_seconds);
        let deleting = object["metadata"]["deletionTimestamp"].is_string();
        let previous = object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
        // A second deletion can only shorten the grace period.
        if deleting && grace >= previous {
            return marked;
        }
        let span = jiff::SignedDuration::from_secs(grace);
        let end = self.environment.now().checked_add(span).unwrap_or_else(|_| self.environment.now());
        let metadata = &mut marked["metadata"];
        metadata["deletionTimestamp"] = format_time(end).into();
        metadata["deletionGracePeriodSeconds"] = grace.into();
        if let (Some(generation), false) = (metadata["generation"].as_i64(), deleting) {
            metadata["generation"] = (generation + 1).into();
        }
        marked
    }
}

fn set_propagation(object: &mut Value, policy: Option<&str>) {
    let Some(policy) = policy else { return };
    let metadata = &mut object["metadata"];
    let mut finalizers = metadata["finalizers"].as_array().cloned().unwrap_or_default();
    finalizers.retain(|finalizer| finalizer != FOREGROUND && finalizer != ORPHAN);
    match policy {
        "Foreground" => finalizers.push(FOREGROUND.into()),
        "Orphan" => finalizers.push(ORPHAN.into()),
        _ => {}
    }
    if finalizers.is_empty() {
        metadata.as_object_mut().map(|metadata| metadata.remove("finalizers"));
    } else {
        metadata["finalizers"] = Value::Array(finalizers);
    }
}

fn check_preconditions(
    resource: &Resource,
    key: &Key,
    options: &DeleteOptions,
    object: &Value,
) -> Result<(), ApiError> {
    let metadata = &object["metadata"];
    for (what, wanted, actual) in [
        ("UID", &options.uid, &metadata["uid"]),
        ("ResourceVersion", &options.resource_version, &metadata["resourceVersion"]),
    ] {
        let actual = actual.as_str().unwrap_or_default();
        if let Some(wanted) = wanted.as_deref().filter(|wanted| *wanted != actual) {
            let why = format!(
                "Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {actual}"
            );
            return Err(ApiError::conflict(&resource.name, &key.name, why));
        }
    }
    Ok(())
}
