//! Rules for `metadata` that all kinds share.

use serde_json::{Value, json};

use super::format;
use super::place::{Errors, Place};
use crate::registry::Resource;

const ANNOTATIONS_LIMIT: usize = 256 * 1024;
const MANAGER_LENGTH_MAX: usize = 128;

/// How the names of a resource must look; `start` says that only the beginning of a name is looked at.
fn name_form(resource: &Resource, name: &str, start: bool) -> Vec<String> {
    // A name that is to be completed may end as no name may.
    let completed = name.trim_end_matches('-');
    let text = if start && name.ends_with('-') && !completed.is_empty() {
        format!("{completed}-a")
    } else {
        name.to_owned()
    };
    match &*resource.name {
        name if name.ends_with("rbac.authorization.k8s.io") => {
            if start {
                format::path_segment_start(&text)
            } else {
                format::path_segment(&text)
            }
        }
        "namespaces" | "services" | "statefulsets.apps" => format::dns_label(&text),
        // Only a whole name is looked at.
        "replicationcontrollers" if start => Vec::new(),
        // The first kind whose rules are declared counts in other words.
        "replicationcontrollers" => {
            let declared = |rule: String| rule.replace("253 characters", "253 bytes");
            format::dns_subdomain(&text).into_iter().map(declared).collect()
        }
        "poddisruptionbudgets.policy" if start => format::path_segment_start(&text),
        "poddisruptionbudgets.policy" => format::path_segment(&text),
        // Only what every path needs is asked of them, and that last.
        "events" if resource.group.is_empty() => Vec::new(),
        _ => format::dns_subdomain(&text),
    }
}

/// Checks the metadata of an object; `old` is given on updates.
pub(super) fn validate(resource: &Resource, object: &Value, old: Option<&Value>, errors: &mut Errors) {
    let root = Place::root("", object);
    let metadata = root.field("metadata");
    if old.is_none() || checks_names_again(resource) {
        check_names(&metadata, errors, |name, start| name_form(resource, name, start));
    }
    if old.is_some() {
        check_path(object, errors);
    }
    if let Some(old) = old {
        let before = Place::root("", old);
        check_update(&metadata, &before.field("metadata"), errors);
    }
    check_content(&metadata, errors);
    if checks_finalizers(resource) {
        standard_finalizers(&metadata.field("finalizers"), errors);
    }
}

/// Looks for names that would break a path, which no kind may have.
pub(super) fn check_path(object: &Value, errors: &mut Errors) {
    check_names(&Place::root("", object).field("metadata"), errors, |name, start| {
        if start { format::path_segment_start(name) } else { format::path_segment(name) }
    });
}

/// Whether finalizers must have a domain or be known.
fn checks_finalizers(resource: &Resource) -> bool {
    let is_core_event = &*resource.name == "events" && resource.group.is_empty();
    !resource.is_custom()
        && !is_core_event
        && !resource.name.ends_with("admissionregistration.k8s.io")
        && !matches!(
            &*resource.name,
            "poddisruptionbudgets.policy" | "leases.coordination.k8s.io" | super::DEFINITIONS
        )
}

/// Kinds of which a changed object is looked at as if it were new.
fn checks_names_again(resource: &Resource) -> bool {
    resource.name.ends_with("rbac.authorization.k8s.io")
        || resource.name.ends_with("admissionregistration.k8s.io")
        || matches!(
            &*resource.name,
            "pods"
                | "nodes"
                | "namespaces"
                | "jobs.batch"
                | "storageclasses.storage.k8s.io"
                | "runtimeclasses.node.k8s.io"
                | "persistentvolumes"
                | "persistentvolumeclaims"
                | "secrets"
                | "configmaps"
                | "serviceaccounts"
                | "limitranges"
                | "controllerrevisions.apps"
                | "endpointslices.discovery.k8s.io"
                | "ingresses.networking.k8s.io"
                | "ingressclasses.networking.k8s.io"
                | "resourceclaimtemplates.resource.k8s.io"
                | "csistoragecapacities.storage.k8s.io"
                | "endpoints"
                | "volumeattachments.storage.k8s.io"
                | "volumeattributesclasses.storage.k8s.io"
                | "csinodes.storage.k8s.io"
                | "resourceclaims.resource.k8s.io"
        )
}

fn check_names(metadata: &Place<'_, '_>, errors: &mut Errors, form: impl Fn(&str, bool) -> Vec<String>) {
    let (name, base) = (metadata.field("name"), metadata.field("generateName"));
    if !base.text().is_empty() {
        errors.form(&base, form(base.text(), true));
    }
    if name.text().is_empty() {
        errors.push(name.required("name or generateName is required"));
    } else {
        errors.form(&name, form(name.text(), false));
    }
}

fn check_content(metadata: &Place<'_, '_>, errors: &mut Errors) {
    errors.not_negative(&metadata.field("generation"));
    labels(&metadata.field("labels"), errors);
    annotations(&metadata.field("annotations"), errors);
    owners(&metadata.field("ownerReferences"), errors);
    finalizers(&metadata.field("finalizers"), errors);
    managed_fields(&metadata.field("managedFields"), errors);
}

/// Checks the keys and values of labels.
pub(super) fn labels(labels: &Place<'_, '_>, errors: &mut Errors) {
    for (key, value) in labels.entries() {
        for rule in format::label_key(key) {
            errors.push(labels.invalid_value(&json!(key), rule));
        }
        for rule in format::label_value(value.text()) {
            errors.push(labels.invalid_value(value.value, rule));
        }
    }
}

/// Checks the keys and the size of annotations.
pub(super) fn annotations(annotations: &Place<'_, '_>, errors: &mut Errors) {
    let mut size = 0;
    for (key, value) in annotations.entries() {
        size += key.len() + value.text().len();
        for rule in format::label_key(&key.to_lowercase()) {
            errors.push(annotations.invalid_value(&json!(key), rule));
        }
    }
    if size > ANNOTATIONS_LIMIT {
        errors.push(crate::error::FieldError::too_long(annotations.path(), ANNOTATIONS_LIMIT));
    }
}

fn owners(owners: &Place<'_, '_>, errors: &mut Errors) {
    let mut controller: Option<String> = None;
    for owner in owners.items() {
        let text = |name: &str| owner.value[name].as_str().unwrap_or_default();
        // Kubernetes names the list and not the item.
        let report = |name: &str, rule: &str| {
            let place = owners.field(name);
            place.invalid_value(&json!(text(name)), rule)
        };
        let version = text("apiVersion").rsplit('/').next().unwrap_or_default();
        if version.is_empty() || text("apiVersion").matches('/').count() > 1 {
            errors.push(report("apiVersion", "version must not be empty"));
        }
        for name in ["kind", "name", "uid"] {
            if text(name).is_empty() {
                errors.push(report(name, "must not be empty"));
            }
        }
        if text("apiVersion") == "v1" && text("kind") == "Event" {
            errors
                .push(owners.invalid_value(owner.value, "/v1, Kind=Event is disallowed from being an owner"));
        }
        if owner.value["controller"] == true {
            let this = format!("{}/{}", text("kind"), text("name"));
            match &controller {
                Some(first) => errors.push(owners.invalid(format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} and \
                     {this}"
                ))),
                None => controller = Some(this),
            }
        }
    }
}

/// A finalizer without a domain must be one of those that Kubernetes has.
fn standard_finalizers(finalizers: &Place<'_, '_>, errors: &mut Errors) {
    for finalizer in finalizers.items() {
        let name = finalizer.text();
        if !name.contains('/') && !matches!(name, "kubernetes" | "orphan" | "foregroundDeletion") {
            let rule = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(finalizer.invalid(rule));
        }
    }
}

fn finalizers(finalizers: &Place<'_, '_>, errors: &mut Errors) {
    for finalizer in finalizers.items() {
        for rule in format::label_key(finalizer.text()) {
            errors.push(finalizers.invalid_value(finalizer.value, rule));
        }
    }
    let has = |name: &str| finalizers.items().any(|finalizer| finalizer.text() == name);
    if has("orphan") && has("foregroundDeletion") {
        errors.push(finalizers.invalid("finalizer orphan and foregroundDeletion cannot be both set"));
    }
}

fn managed_fields(entries: &Place<'_, '_>, errors: &mut Errors) {
    for entry in entries.items() {
        let operation = entry.field("operation");
        if !matches!(operation.text(), "Apply" | "Update") {
            errors.push(operation.invalid_value(&json!(operation.text()), "must be `Apply` or `Update`"));
        }
        let kind = entry.field("fieldsType");
        if !matches!(kind.text(), "" | "FieldsV1") {
            errors.push(kind.invalid("must be `FieldsV1`"));
        }
        let manager = entry.field("manager");
        if manager.text().len() > MANAGER_LENGTH_MAX {
            errors.push(crate::error::FieldError::too_long(manager.path(), MANAGER_LENGTH_MAX));
        }
    }
}

/// What no update may change.
fn check_update(new: &Place<'_, '_>, old: &Place<'_, '_>, errors: &mut Errors) {
    if old.field("deletionTimestamp").is_set() {
        new_finalizers(&new.field("finalizers"), &old.field("finalizers"), errors);
    }
    let generation = new.field("generation");
    if generation.number().unwrap_or(0) < old.field("generation").number().unwrap_or(0) {
        errors.push(generation.invalid("must not be decremented"));
    }
    for name in
        ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"]
    {
        errors.immutable(&new.field(name), &old.field(name));
    }
}

/// No finalizer can be added to an object that is being deleted.
fn new_finalizers(new: &Place<'_, '_>, old: &Place<'_, '_>, errors: &mut Errors) {
    let known = |finalizer: &Place<'_, '_>| old.items().any(|other| other.value == finalizer.value);
    let mut added: Vec<&str> =
        new.items().filter(|finalizer| !known(finalizer)).map(|finalizer| finalizer.text()).collect();
    if added.is_empty() {
        return;
    }
    added.sort_unstable();
    added.dedup();
    let shown: Vec<String> = added.iter().map(|finalizer| format!("{finalizer:?}")).collect();
    errors.push(new.forbidden(&format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
        shown.join(", ")
    )));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;

    fn fields(plural: &str, object: &Value, old: Option<&Value>) -> Vec<String> {
        let registry = Registry::built_in();
        let resource = registry.find("", "v1", plural).unwrap();
        let mut errors = Errors::default();
        validate(resource, object, old, &mut errors);
        errors.0.into_iter().map(|error| error.field).collect()
    }

    #[test]
    fn names_labels_and_owners_are_checked() {
        let object = json!({"metadata": {
            "name": "Upper", "labels": {"bad key": "x"}, "ownerReferences": [{"apiVersion": "v1", "kind": "A", "name": "a"}],
        }});
        let expected = ["metadata.name", "metadata.labels", "metadata.ownerReferences.uid"];
        assert_eq!(fields("configmaps", &object, None), expected);
    }

    #[test]
    fn a_name_to_be_completed_may_end_with_a_dash() {
        let object = json!({"metadata": {"name": "web-1", "generateName": "web-"}});
        assert_eq!(fields("configmaps", &object, None), Vec::<String>::new());
    }

    #[test]
    fn the_start_of_a_name_is_looked_at_again_where_an_update_is_checked_as_a_whole() {
        let old = json!({"metadata": {"name": "web-1"}});
        let new = json!({"metadata": {"name": "web-1", "generateName": "a b"}});
        for resource in ["endpoints", "configmaps", "nodes"] {
            assert_eq!(fields(resource, &new, Some(&old)), ["metadata.generateName"]);
        }
        assert_eq!(fields("services", &new, Some(&old)), Vec::<String>::new());
    }

    #[test]
    fn finalizers_cannot_be_added_while_deleting() {
        let old =
            json!({"metadata": {"name": "a", "deletionTimestamp": "t", "finalizers": ["example.com/a"]}});
        let mut new = old.clone();
        new["metadata"]["finalizers"] = json!(["example.com/a", "example.com/b"]);
        assert_eq!(fields("configmaps", &new, Some(&old)), ["metadata.finalizers"]);
        new["metadata"]["finalizers"] = json!([]);
        assert_eq!(fields("configmaps", &new, Some(&old)), Vec::<String>::new());
    }
}
