//! delete and deletecollection: preconditions, finalizers, grace periods, propagation.

use serde_json::{Value, json};

use super::conversion::served;
use super::list_options::ListOptions;
use super::read::{Continuation, Selectors};
use crate::admission::Write;
use crate::crd;
use crate::error::ApiError;
use crate::kinds::{self, DEFINITIONS, Dependents};
use crate::registry::Resource;
use crate::server::Core;
use crate::store::{Expected, Key, StoredObject};
use crate::wire::{Answer, Call};
use karpenter_environment::format_time;

pub(crate) use super::delete_options::DeleteOptions;

/// Finalizers that stand for a propagation policy until the collector has done its part.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
pub(crate) const ORPHAN: &str = "orphan";

/// What became of a deletion.
#[derive(Debug)]
pub(crate) enum Deletion {
    /// The object is gone; this was its last state.
    Removed(Value),
    /// The object waits for its grace period or finalizers.
    Pending(Value),
}

/// What a deletion has to do.
enum Plan {
    /// Remove the object as it is.
    Remove,
    /// Write the object with the marks of its deletion.
    Mark(Value),
    /// Write the marks and then remove the object.
    MarkAndRemove(Value),
    /// Nothing: a deletion is under way that ends sooner.
    Wait,
}

impl Core {
    pub(crate) fn delete(&self, call: &Call<'_>) -> Result<Answer, ApiError> {
        let options = DeleteOptions::from_call(call)?;
        let key = Key::new(call.namespace(), call.name());
        warn(call, &options);
        self.admit_deletion(call, &key, &options)?;
        let deletion = self.delete_object(&call.resource, &key, &options)?;
        Ok(match deletion {
            Deletion::Pending(object) => {
                let mut answer = self.answer_object(call, &object)?;
                // Whoever asks for dependents in the older way is told that they are still there.
                if options.orphan_dependents == Some(false) {
                    answer.code = http::StatusCode::ACCEPTED;
                }
                answer
            }
            Deletion::Removed(object) if kinds::answers_deleted_object(&call.resource) => {
                self.answer_object(call, &object)?
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

    fn answer_object(&self, call: &Call<'_>, object: &Value) -> Result<Answer, ApiError> {
        let revision = object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok());
        let object = StoredObject::new(object, revision.unwrap_or(0), &call.resource.selectable_fields);
        Ok(Answer::ok(self.rendered(call, &object)?))
    }

    pub(crate) fn delete_collection(&self, call: &Call<'_>) -> Result<Answer, ApiError> {
        let whole_cluster = call.resource.namespaced && call.target.namespace.is_none();
        if whole_cluster || &*call.resource.name == "namespaces" {
            return Err(ApiError::method_not_allowed());
        }
        let limit = ListOptions::read(call.query, false)?.limit;
        let selectors = Selectors::parse(call.query, &call.resource)?;
        let options = DeleteOptions::from_call(call)?;
        warn(call, &options);
        let page = self
            .store
            .list(&call.resource.name, call.target.namespace.as_deref(), None, None)
            .map_err(|compacted| ApiError::expired(compacted.to_string()))?;
        let mut metadata = json!({"resourceVersion": page.revision.to_string()});
        let mut chosen = Vec::new();
        for (index, (key, object)) in page.objects.iter().enumerate() {
            // Whoever asks for a page gets no more than that deleted.
            if limit > 0 && chosen.len() == limit {
                let after = (*page.objects[index - 1].0).clone();
                metadata["continue"] = Continuation { revision: Some(page.revision), after }.encode().into();
                if selectors.is_empty() {
                    metadata["remainingItemCount"] = (page.objects.len() - index).into();
                }
                break;
            }
            if selectors.matches(key, object) {
                chosen.push((key, object));
            }
        }
        if call.resource.is_custom() && metadata.get("continue").is_none() {
            metadata["continue"] = "".into();
        }
        for (key, _) in &chosen {
            self.admit_deletion(call, key, &options)?;
        }
        let mut deleted = Vec::new();
        for (key, object) in chosen {
            match self.delete_object(&call.resource, key, &options) {
                Ok(_) => deleted.push(object),
                Err(error) if error.reason == "NotFound" => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Answer::ok(self.rendered_list(call, metadata, &deleted)?))
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
                .ok_or_else(|| ApiError::not_found(&resource.qualified(), &key.name))?;
            let object = current.value();
            kinds::check_delete(resource, key)?;
            check_preconditions(resource, key, options, &object)?;
            let plan = self.plan(resource, &object, options);
            if options.dry_run {
                return Ok(match plan {
                    Plan::Remove => Deletion::Removed(object),
                    Plan::MarkAndRemove(marked) => Deletion::Removed(marked),
                    Plan::Mark(marked) => Deletion::Pending(marked),
                    Plan::Wait => Deletion::Pending(object),
                });
            }
            if let Some(deletion) = self.carry_out(resource, key, &current, object, plan) {
                return Ok(deletion);
            }
        }
    }

    /// Does what a deletion has to do; `None` when the object changed meanwhile.
    fn carry_out(
        &self,
        resource: &Resource,
        key: &Key,
        current: &StoredObject,
        mut object: Value,
        plan: Plan,
    ) -> Option<Deletion> {
        let fields = &resource.selectable_fields;
        match plan {
            Plan::Wait => Some(Deletion::Pending(object)),
            Plan::Remove => {
                self.store.remove(&resource.name, key, current.revision, &mut object, fields).ok()?;
                self.removed(resource, &object);
                Some(Deletion::Removed(object))
            }
            Plan::Mark(marked) if marked == object => Some(Deletion::Pending(object)),
            Plan::Mark(mut marked) => {
                let expected = Expected::Revision(current.revision);
                self.store.write(&resource.name, key, expected, &mut marked, fields).ok()?;
                Some(Deletion::Pending(marked))
            }
            Plan::MarkAndRemove(mut marked) => {
                let expected = Expected::Revision(current.revision);
                let written = self.store.write(&resource.name, key, expected, &mut marked, fields).ok()?;
                self.store.remove(&resource.name, key, written.revision, &mut marked, fields).ok()?;
                self.removed(resource, &marked);
                Some(Deletion::Removed(marked))
            }
        }
    }

    fn plan(&self, resource: &Resource, object: &Value, options: &DeleteOptions) -> Plan {
        if &*resource.name == "namespaces"
            && let Some(plan) = self.plan_namespace(object, options)
        {
            return plan;
        }
        let mut marked = object.clone();
        let graceful = &*resource.name == "pods";
        let mut grace = 0;
        if graceful {
            match self.mark_grace(&mut marked, options) {
                Grace::Waiting => return Plan::Wait,
                Grace::Over => {}
                Grace::Period(period) => grace = period,
            }
        }
        let in_grace = graceful && marked != *object;
        set_propagation(resource, &mut marked, options);
        kinds::mark_deletion(resource, &mut marked);
        let held = !kinds::is_free_of_finalizers(resource, &marked);
        if in_grace {
            return if held || grace > 0 { Plan::Mark(marked) } else { Plan::MarkAndRemove(marked) };
        }
        if !held {
            // What a last look shows of it still has the finalizers that were let go.
            return Plan::Remove;
        }
        let metadata = &mut marked["metadata"];
        if !metadata["deletionTimestamp"].is_string() {
            let generation = metadata["generation"].as_i64();
            if let Some(generation) = generation.filter(|_| &*resource.name != DEFINITIONS) {
                metadata["generation"] = (generation + 1).into();
            }
            metadata["deletionTimestamp"] = self.now().into();
            if &*resource.name == DEFINITIONS {
                crd::terminate(&mut marked, &self.now());
            }
        }
        let metadata = &mut marked["metadata"];
        if !kinds::has_no_grace(resource) {
            metadata["deletionGracePeriodSeconds"] = 0.into();
        }
        Plan::Mark(marked)
    }

    /// What the deletion of a namespace has to do before its content is gone; `None` when it is.
    ///
    /// The first deletion only marks it, whatever keeps it. Later ones wait for its content.
    fn plan_namespace(&self, object: &Value, options: &DeleteOptions) -> Option<Plan> {
        if object["metadata"]["deletionTimestamp"].is_string() {
            let empty = object["spec"]["finalizers"].as_array().is_none_or(Vec::is_empty);
            return (!empty).then_some(Plan::Wait);
        }
        let mut marked = object.clone();
        marked["metadata"]["deletionTimestamp"] = self.now().into();
        marked["status"]["phase"] = "Terminating".into();
        let policy = match (options.orphan_dependents, options.propagation.as_deref()) {
            (Some(true), _) => "Orphan",
            (Some(false), _) => "Foreground",
            (None, Some(policy)) => policy,
            (None, None) => return Some(Plan::Mark(marked)),
        };
        replace_policy(&mut marked, Some(policy));
        Some(Plan::Mark(marked))
    }

    /// Gives a pod the time it has left.
    fn mark_grace(&self, pod: &mut Value, options: &DeleteOptions) -> Grace {
        let now = self.environment.now();
        let metadata = &pod["metadata"];
        let previous = metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
        let end =
            metadata["deletionTimestamp"].as_str().and_then(|text| text.parse::<jiff::Timestamp>().ok());
        let Some(end) = end else {
            let period = kinds::grace_period(pod, options.grace_period_seconds);
            let end = now.checked_add(jiff::SignedDuration::from_secs(period)).unwrap_or(now);
            let metadata = &mut pod["metadata"];
            metadata["deletionTimestamp"] = format_time(end).into();
            metadata["deletionGracePeriodSeconds"] = period.into();
            if let Some(generation) = metadata["generation"].as_i64() {
                metadata["generation"] = (generation + 1).into();
            }
            return Grace::Period(period);
        };
        if previous == 0 {
            return Grace::Over;
        }
        let Some(mut period) = options.grace_period_seconds.filter(|period| *period < previous) else {
            return Grace::Waiting;
        };
        let sooner = jiff::SignedDuration::from_secs(period - previous);
        let mut end = end.checked_add(sooner).unwrap_or(now);
        if end < now {
            end = now;
            period = period.min(1);
        }
        pod["metadata"]["deletionTimestamp"] = format_time(end).into();
        pod["metadata"]["deletionGracePeriodSeconds"] = period.into();
        Grace::Period(period)
    }
}

/// How much longer a deleted pod lives.
enum Grace {
    /// A deletion is under way that ends no later.
    Waiting,
    /// Its time is over.
    Over,
    /// So many seconds from the deletion on.
    Period(i64),
}

/// Sets the finalizer that stands for what becomes of dependents.
fn set_propagation(resource: &Resource, object: &mut Value, options: &DeleteOptions) {
    let finalizers = object["metadata"]["finalizers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let has = |name: &str| finalizers.iter().any(|finalizer| finalizer == name);
    let policy = match (options.orphan_dependents, options.propagation.as_deref()) {
        (Some(true), _) => Some("Orphan"),
        (Some(false), _) => Some("Background"),
        (None, Some(policy)) => Some(policy),
        (None, None) if has(ORPHAN) => Some("Orphan"),
        (None, None) if has(FOREGROUND) => Some("Foreground"),
        (None, None) => None,
    };
    let policy = match (kinds::dependents(resource), policy) {
        (Dependents::None, _) => None,
        (Dependents::Orphaned, None) => Some("Orphan"),
        (_, policy) => policy,
    };
    replace_policy(object, policy);
}

/// Puts the finalizer of one policy in the place of those of all.
fn replace_policy(object: &mut Value, policy: Option<&str>) {
    let before = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    let mut finalizers = before.clone();
    finalizers.retain(|finalizer| finalizer != FOREGROUND && finalizer != ORPHAN);
    match policy {
        Some("Foreground") => finalizers.push(FOREGROUND.into()),
        Some("Orphan") => finalizers.push(ORPHAN.into()),
        _ => {}
    }
    // Another order is no change.
    if finalizers.len() == before.len() && finalizers.iter().all(|finalizer| before.contains(finalizer)) {
        return;
    }
    if finalizers.is_empty() {
        object["metadata"].as_object_mut().map(|metadata| metadata.remove("finalizers"));
    } else {
        object["metadata"]["finalizers"] = Value::Array(finalizers);
    }
}

/// Warns a client who says nothing about dependents that are kept.
fn warn(call: &Call<'_>, options: &DeleteOptions) {
    let silent = options.propagation.is_none() && options.orphan_dependents.is_none();
    if &*call.resource.name == "jobs.batch" && silent {
        let warning = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to \
                       remove them or set propagationPolicy=Orphan to suppress this warning";
        call.session.warn(warning.to_owned());
    }
}

pub(super) fn check_preconditions(
    resource: &Resource,
    key: &Key,
    options: &DeleteOptions,
    object: &Value,
) -> Result<(), ApiError> {
    let metadata = &object["metadata"];
    let is_namespace = &*resource.name == "namespaces";
    let kind = if is_namespace {
        resource.plural.clone()
    } else if resource.inner_group().is_empty() {
        resource.kind.clone()
    } else {
        format!("{}.{}", resource.kind, resource.inner_group())
    };
    for (what, wanted, actual, outcome) in [
        ("UID", &options.uid, &metadata["uid"], "deleted and then recreated"),
        ("ResourceVersion", &options.resource_version, &metadata["resourceVersion"], "modified"),
    ] {
        let actual = actual.as_str().unwrap_or_default();
        if let Some(wanted) = wanted.as_deref().filter(|wanted| *wanted != actual) {
            let short = format!(
                "Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {actual}"
            );
            let why = if is_namespace {
                short
            } else {
                format!(
                    "the {what} in the precondition ({wanted}) does not match the {what} in record ({actual}). The object \
                 might have been {outcome}"
                )
            };
            return Err(ApiError::conflict(&kind, &key.name, why));
        }
    }
    Ok(())
}
