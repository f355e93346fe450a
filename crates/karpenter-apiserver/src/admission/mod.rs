//! Admission by others: webhooks that judge or change writes, and policies written in CEL.
//!
//! A verb shows what it is about to write to [`Core::mutate`] and then [`Core::admit`]. Where nothing is configured
//! both cost a look into an empty table. Where a webhook matches, the verb is run again once it has answered; see
//! [`Session`].

mod configuration;
mod exchange;
mod expression;
mod policy;
mod question;
mod route;
mod rules;
mod session;
mod trust;
mod webhook;

use std::sync::Arc;

use serde_json::{Value, json};

use crate::derived::Derived;
use crate::error::ApiError;
use crate::patch::json_patch;
use crate::registry::Resource;
use crate::server::Core;
use crate::store::Key;
use crate::wire::{Call, decode_yaml};

pub(crate) use configuration::{apply_defaults, validate};
use policy::Policies;
pub(crate) use question::Question;
use question::{denial, patch};
use session::waiting;
pub(crate) use session::{ROUNDS_MAX, Session};
use webhook::Webhook;

pub(crate) const VALIDATING: &str = "validatingwebhookconfigurations.admissionregistration.k8s.io";
pub(crate) const MUTATING: &str = "mutatingwebhookconfigurations.admissionregistration.k8s.io";
const POLICIES: &str = "validatingadmissionpolicies.admissionregistration.k8s.io";
const BINDINGS: &str = "validatingadmissionpolicybindings.admissionregistration.k8s.io";

/// A write that is about to happen. Fields that do not apply are empty.
#[derive(Debug, Clone, Default)]
pub(crate) struct Write<'w> {
    /// `CREATE`, `UPDATE` or `DELETE`.
    pub(crate) operation: &'static str,
    pub(crate) subresource: &'w str,
    pub(crate) name: &'w str,
    pub(crate) namespace: &'w str,
    pub(crate) object: Option<&'w Value>,
    pub(crate) old: Option<&'w Value>,
    /// Group, version and kind of the object when it is not of the resource's own kind.
    pub(crate) kind: Option<(&'static str, &'static str, &'static str)>,
    pub(crate) dry_run: bool,
    /// The options of the request, as an object of their own kind.
    pub(crate) options: Value,
}

impl<'w> Write<'w> {
    /// Describes what a call writes.
    ///
    /// # Errors
    /// 400 when `dryRun` is malformed.
    pub(crate) fn of(
        call: &'w Call<'_>,
        operation: &'static str,
        object: Option<&'w Value>,
        old: Option<&'w Value>,
    ) -> Result<Self, ApiError> {
        let dry_run = call.dry_run()?;
        let named = object.or(old).and_then(|object| object["metadata"]["name"].as_str());
        // Of the objects of a collection that is deleted, requests name none.
        let named = named.filter(|_| operation != "DELETE");
        let name = call.target.name.as_deref().or(named).unwrap_or_default();
        let is_namespace = &*call.resource.name == "namespaces";
        Ok(Self {
            operation,
            subresource: call.target.subresource.as_deref().unwrap_or_default(),
            name,
            namespace: if is_namespace { name } else { call.namespace() },
            object,
            old,
            kind: None,
            dry_run,
            options: options(call, operation, dry_run),
        })
    }
}

fn options(call: &Call<'_>, operation: &str, dry_run: bool) -> Value {
    let kind = match operation {
        "CREATE" => "CreateOptions",
        "DELETE" => "DeleteOptions",
        _ => "UpdateOptions",
    };
    let mut options = json!({});
    if operation == "DELETE" && call.method == http::Method::DELETE && !call.body.is_empty() {
        // A body that cannot be read has been refused by now.
        options = decode_yaml(call.body).unwrap_or(options);
    }
    options["kind"] = kind.into();
    options["apiVersion"] = "meta.k8s.io/v1".into();
    for name in ["fieldManager", "fieldValidation", "propagationPolicy"] {
        if let Some(value) = call.query.get(name) {
            options[name] = value.into();
        }
    }
    if let Some(seconds) = call.query.get("gracePeriodSeconds").and_then(|text| text.parse::<i64>().ok()) {
        options["gracePeriodSeconds"] = seconds.into();
    }
    if dry_run {
        options["dryRun"] = json!(["All"]);
    }
    options
}

/// What is configured, read once for each state of the configurations.
#[derive(Debug)]
pub(crate) struct Admission {
    validating: Derived<Vec<Arc<Webhook>>, 1>,
    mutating: Derived<Vec<Arc<Webhook>>, 1>,
    policies: Derived<Policies, 2>,
}

impl Admission {
    pub(crate) fn new() -> Self {
        Self {
            validating: Derived::from([VALIDATING]),
            mutating: Derived::from([MUTATING]),
            policies: Derived::from([POLICIES, BINDINGS]),
        }
    }
}

/// The failure of a webhook that must not fail.
fn failure(webhook: &Webhook, why: &str) -> ApiError {
    ApiError::internal(format!("failed calling webhook {:?}: {why}", webhook.name))
}

/// Whether writes of a resource pass without webhooks and policies: nobody may lock themselves out.
fn is_exempt(resource: &Resource) -> bool {
    matches!(&*resource.name, VALIDATING | MUTATING | POLICIES | BINDINGS)
}

impl Core {
    /// Lets policies and validating webhooks judge a write.
    ///
    /// # Errors
    /// The denial, or the failure of a webhook that must not fail.
    pub(crate) fn admit(&self, call: &Call<'_>, write: &Write<'_>) -> Result<(), ApiError> {
        if is_exempt(&call.resource) {
            return Ok(());
        }
        if write.operation == "DELETE" {
            self.announce_deletion(call, write)?;
        }
        if self.store.len(POLICIES) > 0 {
            self.apply_policies(call, write)?;
        }
        if self.store.len(VALIDATING) == 0 {
            return Ok(());
        }
        let webhooks = self.admission.validating.current(&self.store, |[objects]| Webhook::read_all(objects));
        let (registry, namespace) = (self.registry(), self.namespace_object(call, write));
        let mut open = false;
        let mut first_error = None;
        for webhook in webhooks.iter() {
            let Some(resource) = webhook.concerns(call, write, namespace.as_ref(), &registry)? else {
                continue;
            };
            match self.ask(call, write, webhook, &resource, false) {
                Ok(Some(_)) => {}
                Ok(None) => open = true,
                Err(error) => {
                    first_error.get_or_insert(error);
                }
            }
        }
        match first_error {
            _ if open => Err(waiting()),
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Tells mutating webhooks of a deletion, which they may deny but not change.
    fn announce_deletion(&self, call: &Call<'_>, write: &Write<'_>) -> Result<(), ApiError> {
        if self.store.len(MUTATING) == 0 {
            return Ok(());
        }
        let webhooks = self.admission.mutating.current(&self.store, |[objects]| Webhook::read_all(objects));
        let (registry, namespace) = (self.registry(), self.namespace_object(call, write));
        for webhook in webhooks.iter() {
            let concerned = webhook.concerns(call, write, namespace.as_ref(), &registry)?;
            if let Some(resource) = concerned {
                self.ask(call, write, webhook, &resource, true)?.ok_or_else(waiting)?;
            }
        }
        Ok(())
    }

    /// Lets mutating webhooks change an object that is about to be written, and returns whether they did.
    ///
    /// # Errors
    /// The denial, or the failure of a webhook that must not fail.
    pub(crate) fn mutate(
        &self,
        call: &Call<'_>,
        operation: &'static str,
        object: &mut Value,
        old: Option<&Value>,
    ) -> Result<bool, ApiError> {
        if self.store.len(MUTATING) == 0 || is_exempt(&call.resource) {
            return Ok(false);
        }
        let webhooks = self.admission.mutating.current(&self.store, |[objects]| Webhook::read_all(objects));
        let before = object.clone();
        // What each webhook that wants another look has seen last.
        let mut seen: Vec<(Arc<Webhook>, Value)> = Vec::new();
        for webhook in webhooks.iter() {
            if self.mutate_by(call, operation, object, old, webhook)? && webhook.reinvoked {
                seen.push((Arc::clone(webhook), object.clone()));
            }
        }
        for (webhook, last) in seen {
            if last != *object {
                self.mutate_by(call, operation, object, old, &webhook)?;
            }
        }
        Ok(*object != before)
    }

    /// Lets one webhook change an object, and returns whether it was asked.
    fn mutate_by(
        &self,
        call: &Call<'_>,
        operation: &'static str,
        object: &mut Value,
        old: Option<&Value>,
        webhook: &Arc<Webhook>,
    ) -> Result<bool, ApiError> {
        let shown = object.clone();
        let write = Write::of(call, operation, Some(&shown), old)?;
        let namespace = self.namespace_object(call, &write);
        let registry = self.registry();
        let Some(resource) = webhook.concerns(call, &write, namespace.as_ref(), &registry)? else {
            return Ok(false);
        };
        let response = self.ask(call, &write, webhook, &resource, true)?.ok_or_else(waiting)?;
        match patch(&response) {
            Ok(Some(patch)) => {
                let operations = patch.as_array().map(Vec::as_slice).unwrap_or_default();
                json_patch(object, operations)
                    .map_err(|_| ApiError::internal("an operation of the webhook's patch cannot be done"))?;
            }
            Ok(None) => {}
            Err(_) if webhook.ignores_failures => {}
            Err(error) => return Err(failure(webhook, &error)),
        }
        Ok(true)
    }

    /// Returns the response of a webhook that does not deny; `None` while it has not been asked.
    fn ask(
        &self,
        call: &Call<'_>,
        write: &Write<'_>,
        webhook: &Arc<Webhook>,
        resource: &Arc<Resource>,
        mutating: bool,
    ) -> Result<Option<Arc<Value>>, ApiError> {
        if write.dry_run && webhook.has_side_effects {
            let message = format!("admission webhook {:?} does not support dry run", webhook.name);
            return Err(ApiError::bad_request(message));
        }
        let uid = self.environment.uid();
        let mut question = Question::new(call, write, webhook, resource, mutating, uid);
        question.route = self.route(webhook);
        match call.session.verdict(question) {
            None => Ok(None),
            Some(Ok(response)) => {
                for warning in response["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str)
                {
                    call.session.warn(warning.to_owned());
                }
                denial(webhook, &response).map_or(Ok(Some(response)), Err)
            }
            Some(Err(_)) if webhook.ignores_failures => Ok(Some(Arc::new(json!({"allowed": true})))),
            Some(Err(error)) => Err(failure(webhook, &error)),
        }
    }

    /// Returns the namespace a write happens in, as it is or, when the write is about a namespace, as it becomes.
    fn namespace_object(&self, call: &Call<'_>, write: &Write<'_>) -> Option<Value> {
        if &*call.resource.name == "namespaces" && write.subresource.is_empty() && write.object.is_some() {
            return write.object.cloned();
        }
        if write.namespace.is_empty() {
            return None;
        }
        self.store.get("namespaces", &Key::new("", write.namespace)).map(|stored| stored.value())
    }
}
