//! What Kubernetes does per kind: defaults, admission, validation, and how deletion ends.
//!
//! Custom resources are validated by their CRD; built-in kinds by the rules written here, which are those that
//! Karpenter, helm and the models of this project meet, not all of Kubernetes'.

mod admission;
mod claims;
mod defaults;
mod dropped;
pub(crate) mod format;
mod metadata;
mod place;
pub(crate) mod pod_status;
mod runtime_class;
mod services;
mod strategy;
mod validation;
mod warnings;

use serde_json::Value;

use crate::authorization::CLUSTER_ROLES;
use place::Errors;

use crate::crd;
use crate::error::{ApiError, FieldError};
use crate::registry::Resource;
use crate::schema::Node;
use crate::server::Core;
use crate::store::Key;
use crate::verbs::{self, Scope};

pub(crate) use admission::{CLAIM_PROTECTION, VOLUME_PROTECTION, admit_create, admit_update, check_create};
pub(crate) use strategy::{
    allows_create_on_update, allows_unconditional_update, ignored_fields, prepare_create, prepare_update,
};
pub(crate) use warnings::warnings;

/// The name CRDs have in the store.
pub(crate) const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";
/// The finalizer that keeps a CRD until its objects are gone.
pub(crate) const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Whether a kind is one of those that the facts describe.
pub(crate) fn is_known(api_version: &str, kind: &str) -> bool {
    crate::schema::is_kind(api_version, kind)
}

/// Fills in the defaults of an object of a built-in resource.
pub(crate) fn default(resource: &str, object: &mut Value, node: &Node) {
    defaults::apply(resource, object, node);
    if resource == DEFINITIONS {
        crd::prepare(object);
    }
    crate::admission::apply_defaults(resource, object);
}

/// Lists that are given as empty where that is not the same as to say nothing.
pub(crate) fn emptied_lists(resource: &str, object: &Value) -> Vec<&'static str> {
    let lists: &[&str] = match resource {
        "horizontalpodautoscalers.autoscaling" => {
            &["/spec/behavior/scaleUp/policies", "/spec/behavior/scaleDown/policies"]
        }
        _ => &[],
    };
    let is_empty = |path: &&str| object.pointer(path).and_then(Value::as_array).is_some_and(Vec::is_empty);
    lists.iter().copied().filter(is_empty).collect()
}

/// Empties lists that defaults have filled.
pub(crate) fn empty_lists(paths: &[&str], object: &mut Value) {
    for path in paths {
        if let Some(list) = object.pointer_mut(path) {
            *list = Value::Array(Vec::new());
        }
    }
}

/// Returns what is wrong with an object; `old` is given on updates.
pub(crate) fn validate(
    resource: &Resource,
    object: &Value,
    old: Option<&Value>,
    scope: Scope,
) -> Vec<FieldError> {
    let mut errors = Errors::default();
    // These are looked at for themselves, and only then for what all objects share.
    let metadata_last = match &*resource.name {
        "events" => resource.group.is_empty(),
        "poddisruptionbudgets.policy" => old.is_none(),
        _ => false,
    };
    if !metadata_last {
        metadata::validate(resource, object, old, &mut errors);
    }
    if let Some(custom) = &resource.custom {
        errors.add(custom.validation.validate(object, old, scope == Scope::Status));
        errors.add(crd::check_replicas(resource, object));
        return errors.0;
    }
    validation::validate(&resource.name, object, old, scope, &mut errors);
    errors.add(crate::admission::validate(&resource.name, object));
    if metadata_last && errors.0.is_empty() {
        metadata::validate(resource, object, old, &mut errors);
    }
    if old.is_none() && errors.0.is_empty() {
        metadata::check_path(object, &mut errors);
    }
    errors.0
}

/// Refuses deletions that would break the cluster.
///
/// # Errors
/// 403 for the namespaces the server needs.
pub(crate) fn check_delete(resource: &Resource, key: &Key) -> Result<(), ApiError> {
    if &*resource.name == "namespaces" && matches!(&*key.name, "default" | "kube-system" | "kube-public") {
        return Err(ApiError::forbidden("namespaces", &key.name, "this namespace may not be deleted"));
    }
    Ok(())
}

/// Returns how long a deleted pod may live on.
pub(crate) fn grace_period(pod: &Value, asked: Option<i64>) -> i64 {
    let finished = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    if pod["spec"]["nodeName"].as_str().is_none_or(str::is_empty) || finished {
        return 0;
    }
    let own = pod["spec"]["terminationGracePeriodSeconds"].as_i64().unwrap_or(30);
    match asked.unwrap_or(own) {
        negative if negative < 0 => 1,
        period => period,
    }
}

/// What becomes of dependents when nobody says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dependents {
    Collected,
    Orphaned,
    /// The kind cannot have any.
    None,
}

pub(crate) fn dependents(resource: &Resource) -> Dependents {
    match &*resource.name {
        "jobs.batch" | "replicationcontrollers" => Dependents::Orphaned,
        "events" => Dependents::None,
        _ => Dependents::Collected,
    }
}

/// Whether objects being deleted show no grace period.
pub(crate) fn has_no_grace(resource: &Resource) -> bool {
    &*resource.name == DEFINITIONS
}

/// Adds what a kind shows while it is being deleted.
pub(crate) fn mark_deletion(resource: &Resource, object: &mut Value) {
    let metadata = &mut object["metadata"];
    if &*resource.name != DEFINITIONS || metadata["deletionTimestamp"].is_string() {
        return;
    }
    let mut finalizers = metadata["finalizers"].as_array().cloned().unwrap_or_default();
    if !finalizers.iter().any(|finalizer| finalizer == CLEANUP_FINALIZER) {
        finalizers.push(CLEANUP_FINALIZER.into());
        metadata["finalizers"] = Value::Array(finalizers);
    }
}

/// Whether nothing keeps a deleted object any longer.
pub(crate) fn is_fully_deleted(resource: &Resource, object: &Value) -> bool {
    let metadata = &object["metadata"];
    metadata["deletionTimestamp"].is_string()
        && metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) == 0
        && is_free_of_finalizers(resource, object)
}

/// Whether an object has no finalizers, of a namespace those of its content included.
pub(crate) fn is_free_of_finalizers(resource: &Resource, object: &Value) -> bool {
    let empty = |list: &Value| list.as_array().is_none_or(Vec::is_empty);
    empty(&object["metadata"]["finalizers"])
        && (&*resource.name != "namespaces" || empty(&object["spec"]["finalizers"]))
}

/// Whether an update is what a deletion waited for.
pub(crate) fn is_deleted_by_update(resource: &Resource, old: &Value, new: &Value) -> bool {
    old["metadata"]["deletionTimestamp"].is_string() && is_fully_deleted(resource, new)
}

/// Whether a finished deletion answers with the object rather than with a Status.
pub(crate) fn answers_deleted_object(resource: &Resource) -> bool {
    matches!(
        &*resource.name,
        "pods"
            | "services"
            | "serviceaccounts"
            | "podtemplates"
            | "resourcequotas"
            | "persistentvolumes"
            | "persistentvolumeclaims"
            | "resourceclaims.resource.k8s.io"
            | "resourceclaimtemplates.resource.k8s.io"
            | "resourceslices.resource.k8s.io"
            | "deviceclasses.resource.k8s.io"
            | "storageclasses.storage.k8s.io"
            | "volumeattachments.storage.k8s.io"
            | "csinodes.storage.k8s.io"
            | "csidrivers.storage.k8s.io"
    )
}

impl Core {
    /// Follows a write of an object that changes the server itself.
    pub(crate) fn written(&self, resource: &Resource, object: &Value) {
        if &*resource.name == CLUSTER_ROLES {
            self.aggregate_cluster_roles();
        }
        if &*resource.name != DEFINITIONS {
            return;
        }
        // The schemas compiled when the definition was validated.
        if let Ok(resources) = crd::resources(object) {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (group, plural) = (text(&object["spec"]["group"]), text(&object["spec"]["names"]["plural"]));
            self.change_registry(|registry| {
                registry.remove(&group, &plural);
                for resource in resources {
                    registry.insert(resource.into());
                }
            });
            self.reform(&format!("{plural}.{group}"));
        }
        self.accept_names(resource, object);
    }

    /// Gives the objects of a custom resource the form that its definition now asks for: whoever reads an object finds
    /// the version, the fields and the defaults of today, whenever it was written.
    pub(crate) fn reform(&self, name: &str) {
        let registry = self.registry();
        // The stored version need not be one that is served.
        let mut versions = registry.iter().filter(|resource| &*resource.name == name && resource.is_custom());
        let Some(resource) = registry.find_stored(name).or_else(|| versions.next()) else { return };
        if !resource.is_custom() {
            return;
        }
        let form = |object: &mut Value| verbs::reform(resource, object);
        self.store.reform(name, &resource.selectable_fields, form);
    }

    /// Accepts the names of a definition, which can be used from then on.
    fn accept_names(&self, resource: &Resource, definition: &Value) {
        let key = Key::new("", definition["metadata"]["name"].as_str().unwrap_or_default());
        while let Some(current) = self.store.get(&resource.name, &key) {
            let mut accepted = current.value();
            crd::accept(&mut accepted, &self.now());
            if accepted == current.value() || self.write_own_status(resource, &key, &current, accepted) {
                return;
            }
        }
    }

    /// Follows a removal of an object that changes the server itself.
    pub(crate) fn removed(&self, resource: &Resource, object: &Value) {
        if &*resource.name == CLUSTER_ROLES {
            self.aggregate_cluster_roles();
        }
        if &*resource.name == DEFINITIONS {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (group, plural) = (text(&object["spec"]["group"]), text(&object["spec"]["names"]["plural"]));
            self.change_registry(|registry| registry.remove(&group, &plural));
        }
    }
}
