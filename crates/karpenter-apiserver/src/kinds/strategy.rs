//! What the server itself sets and keeps when objects of a kind are created and changed.

use serde_json::{Value, json};

use super::{DEFINITIONS, claims, dropped, pod_status, services};
use crate::apply::FieldSet;
use crate::crd;
use crate::error::FieldError;
use crate::registry::Resource;
use crate::server::Core;
use crate::verbs::Scope;

/// Built-in resources whose `metadata.generation` counts changes, and what is looked at: fields outside of metadata,
/// or annotations too.
const GENERATIONS: &[(&str, Counts)] = &[
    ("pods", Counts::Spec),
    ("podtemplates", Counts::Template),
    ("replicationcontrollers", Counts::Spec),
    ("deployments.apps", Counts::SpecAndAnnotations),
    ("replicasets.apps", Counts::Spec),
    ("statefulsets.apps", Counts::Spec),
    ("daemonsets.apps", Counts::Spec),
    ("jobs.batch", Counts::Spec),
    ("cronjobs.batch", Counts::Spec),
    ("poddisruptionbudgets.policy", Counts::Spec),
    ("ingresses.networking.k8s.io", Counts::Spec),
    ("ingressclasses.networking.k8s.io", Counts::Spec),
    ("networkpolicies.networking.k8s.io", Counts::Spec),
    ("endpointslices.discovery.k8s.io", Counts::AllAndLabels),
    ("csidrivers.storage.k8s.io", Counts::SpecOnceChanged),
    ("priorityclasses.scheduling.k8s.io", Counts::Nothing),
    ("resourceslices.resource.k8s.io", Counts::Spec),
    ("deviceclasses.resource.k8s.io", Counts::Spec),
    ("validatingwebhookconfigurations.admissionregistration.k8s.io", Counts::Webhooks),
    ("mutatingwebhookconfigurations.admissionregistration.k8s.io", Counts::Webhooks),
    ("validatingadmissionpolicies.admissionregistration.k8s.io", Counts::Spec),
    ("validatingadmissionpolicybindings.admissionregistration.k8s.io", Counts::Spec),
    (DEFINITIONS, Counts::Spec),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Counts {
    Nothing,
    Spec,
    /// Counting starts with the first change.
    SpecOnceChanged,
    SpecAndAnnotations,
    Template,
    Webhooks,
    All,
    AllAndLabels,
}

fn counts(resource: &Resource) -> Option<Counts> {
    if resource.is_custom() {
        return Some(Counts::All);
    }
    GENERATIONS.iter().find(|(name, _)| *name == &*resource.name).map(|(_, counts)| *counts)
}

/// Whether an update changed what the user wants, as opposed to metadata and status.
fn is_respecified(resource: &Resource, counts: Counts, old: &Value, new: &Value) -> bool {
    let differ = |name: &str| old.get(name) != new.get(name);
    match counts {
        Counts::Nothing => false,
        Counts::Spec | Counts::SpecOnceChanged => differ("spec"),
        Counts::AllAndLabels => {
            old["metadata"].get("labels") != new["metadata"].get("labels")
                || is_respecified(resource, Counts::All, old, new)
        }
        Counts::SpecAndAnnotations => {
            differ("spec") || old["metadata"].get("annotations") != new["metadata"].get("annotations")
        }
        Counts::Template => differ("template"),
        Counts::Webhooks => differ("webhooks"),
        Counts::All => {
            let names = old.as_object().into_iter().chain(new.as_object()).flat_map(serde_json::Map::keys);
            let mut names =
                names.filter(|name| *name != "metadata" && !(resource.has_status() && *name == "status"));
            names.any(|name| differ(name))
        }
    }
}

/// Which fields a write of this scope cannot own because the server resets them.
pub(crate) fn ignored_fields(resource: &Resource, scope: Scope) -> FieldSet {
    match scope {
        Scope::Main | Scope::Finalize if resource.has_status() => FieldSet::of_fields(&[&["status"]]),
        Scope::Main | Scope::Finalize | Scope::Scale => FieldSet::default(),
        Scope::Status => match &*resource.name {
            "pods" => FieldSet::of_fields(&[
                &["spec"],
                &["metadata", "deletionTimestamp"],
                &["metadata", "ownerReferences"],
            ]),
            "deployments.apps" => FieldSet::of_fields(&[&["spec"], &["metadata", "labels"]]),
            _ if keeps_metadata(resource) => FieldSet::of_fields(&[&["metadata"], &["spec"]]),
            _ => FieldSet::of_fields(&[&["spec"]]),
        },
    }
}

/// Whether metadata is out of reach of writes to the status.
fn keeps_metadata(resource: &Resource) -> bool {
    resource.is_custom()
        || matches!(
            &*resource.name,
            "volumeattachments.storage.k8s.io" | "resourceclaims.resource.k8s.io" | DEFINITIONS
        )
}

/// Whether a PUT without `resourceVersion` overwrites whatever is there.
pub(crate) fn allows_unconditional_update(resource: &Resource) -> bool {
    const GUARDED: &[&str] = &[
        "leases.coordination.k8s.io",
        "poddisruptionbudgets.policy",
        "volumeattachments.storage.k8s.io",
        "csinodes.storage.k8s.io",
        "csidrivers.storage.k8s.io",
        "csistoragecapacities.storage.k8s.io",
        DEFINITIONS,
    ];
    !resource.is_custom() && !GUARDED.contains(&&*resource.name)
}

/// Whether a PUT creates what is not there.
pub(crate) fn allows_create_on_update(resource: &Resource) -> bool {
    matches!(
        &*resource.name,
        "limitranges"
            | "events"
            | "services"
            | "endpoints"
            | "leases.coordination.k8s.io"
            | "roles.rbac.authorization.k8s.io"
            | "rolebindings.rbac.authorization.k8s.io"
            | "clusterroles.rbac.authorization.k8s.io"
            | "clusterrolebindings.rbac.authorization.k8s.io"
    )
}

/// Sets what the server decides about a new object.
///
/// # Errors
/// Returns what the object asks for and cannot have.
pub(crate) fn prepare_create(
    core: &Core,
    resource: &Resource,
    object: &mut Value,
    dry_run: bool,
) -> Result<(), Vec<FieldError>> {
    if resource.has_status()
        && &*resource.name != "nodes"
        && let Some(fields) = object.as_object_mut()
    {
        // Nodes register themselves with a status; all others start without one.
        fields.remove("status");
    }
    if counts(resource).is_some_and(|counts| counts != Counts::SpecOnceChanged) {
        object["metadata"]["generation"] = 1.into();
    }
    if resource.is_custom() {
        // What was dropped may have a default: a status that says the object is ready, for one.
        crate::schema::apply_defaults(object, resource.schema());
        return Ok(());
    }
    dropped::drop_fields(&resource.name, object);
    match &*resource.name {
        "namespaces" => {
            object["status"] = json!({"phase": "Active"});
            let finalizers = &mut object["spec"]["finalizers"];
            let mut list = finalizers.as_array().cloned().unwrap_or_default();
            if !list.iter().any(|finalizer| finalizer == "kubernetes") {
                list.push("kubernetes".into());
            }
            *finalizers = Value::Array(list);
        }
        "pods" => pod_status::initial_pod_status(object),
        "persistentvolumes" => {
            object["status"] = json!({"phase": "Pending", "lastPhaseTransitionTime": core.now()});
        }
        "persistentvolumeclaims" => {
            object["status"] = json!({"phase": "Pending"});
            claims::settle_sources(None, object);
        }
        "jobs.batch" => pod_status::job_selector(object),
        "services" => services::prepare(core, None, object, dry_run)?,
        "daemonsets.apps" => count_templates(None, object),
        "endpointslices.discovery.k8s.io" => dropped::drop_topology(object),
        "nodes" => dropped::drop_configuration(object),
        DEFINITIONS => {
            crd::prepare(object);
            crd::with_stored_versions(object);
        }
        _ => {}
    }
    settle(resource, object);
    Ok(())
}

/// Gives an object the form in which it comes back from where it is kept.
fn settle(resource: &Resource, object: &mut Value) {
    crate::schema::canonical(object, resource.schema());
    // Definitions are kept as JSON, the others in a form that has no empty lists.
    if &*resource.name != DEFINITIONS {
        crate::schema::without_empty_lists(object, resource.schema());
    }
}

/// Keeps what a write of this scope does not reach, and counts generations.
///
/// # Errors
/// Returns what the object asks for and cannot have.
pub(crate) fn prepare_update(
    core: &Core,
    resource: &Resource,
    old: &Value,
    new: &mut Value,
    scope: Scope,
    dry_run: bool,
) -> Result<(), Vec<FieldError>> {
    match scope {
        Scope::Main if resource.has_status() => copy(old, new, "status"),
        Scope::Main | Scope::Scale => {}
        Scope::Status => {
            let (status, metadata) = (new.get("status").cloned(), new["metadata"].clone());
            *new = old.clone();
            if keeps_metadata(resource) {
                // Whose fields are whose was worked out before.
                new["metadata"]["resourceVersion"] = metadata["resourceVersion"].clone();
            } else {
                new["metadata"] = metadata;
            }
            if let Some(fields) = new.as_object_mut() {
                fields.remove("status");
                fields.extend(status.map(|status| ("status".to_owned(), status)));
            }
            keep_status(core, resource, old, new);
        }
        Scope::Finalize => {
            let finalizers = new["spec"].get("finalizers").cloned();
            let metadata = new["metadata"].clone();
            *new = old.clone();
            new["metadata"] = metadata;
            if let Some(spec) = new["spec"].as_object_mut() {
                spec.remove("finalizers");
                spec.extend(finalizers.map(|finalizers| ("finalizers".to_owned(), finalizers)));
            }
        }
    }
    if scope == Scope::Main {
        prepare_kind(core, resource, old, new, dry_run)?;
    }
    if let Some(counts) = counts(resource)
        && is_respecified(resource, counts, old, new)
    {
        let generation = old["metadata"]["generation"].as_i64().unwrap_or(0);
        new["metadata"]["generation"] = (generation + 1).into();
    }
    if !resource.is_custom() {
        // To write what is then dropped counts as a change.
        if &*resource.name == "endpointslices.discovery.k8s.io" {
            dropped::drop_topology(new);
        }
        settle(resource, new);
    }
    Ok(())
}

/// What single kinds keep, or note, on a change of their status.
fn keep_status(core: &Core, resource: &Resource, old: &Value, new: &mut Value) {
    let (before, status) = (&old["status"], &mut new["status"]);
    match &*resource.name {
        "pods" => {
            if status["qosClass"].as_str().is_none_or(str::is_empty) {
                status["qosClass"] = before["qosClass"].clone();
            }
            dropped::drop_from_pod_status(status);
            copy(&old["metadata"], &mut new["metadata"], "ownerReferences");
        }
        "deployments.apps" => copy(&old["metadata"], &mut new["metadata"], "labels"),
        "nodes" => dropped::drop_configuration(new),
        "persistentvolumes" => {
            const SINCE: &str = "lastPhaseTransitionTime";
            let moved = status["phase"] != before["phase"];
            if moved && (status[SINCE].is_null() || status[SINCE] == before[SINCE]) {
                status[SINCE] = core.now().into();
            } else if !moved && status[SINCE].is_null() {
                status[SINCE] = before[SINCE].clone();
            }
        }
        _ => {}
    }
}

/// What single kinds keep on a change of the object itself.
fn prepare_kind(
    core: &Core,
    resource: &Resource,
    old: &Value,
    new: &mut Value,
    dry_run: bool,
) -> Result<(), Vec<FieldError>> {
    dropped::drop_fields(&resource.name, new);
    match &*resource.name {
        "namespaces" => {
            let finalizers = old["spec"].get("finalizers").cloned();
            if let Some(spec) = new["spec"].as_object_mut() {
                spec.remove("finalizers");
                spec.extend(finalizers.map(|finalizers| ("finalizers".to_owned(), finalizers)));
            }
        }
        "services" => services::prepare(core, Some(old), new, dry_run)?,
        "daemonsets.apps" => count_templates(Some(old), new),
        "persistentvolumeclaims" => claims::settle_sources(Some(old), new),
        DEFINITIONS if old["spec"] != new["spec"] => {
            crd::prepare(new);
            crd::with_stored_versions(new);
        }
        _ => {}
    }
    Ok(())
}

/// An annotation counts the templates a DaemonSet has had.
fn count_templates(old: Option<&Value>, new: &mut Value) {
    const COUNT: &str = "deprecated.daemonset.template.generation";
    let read = |object: &Value| {
        object["metadata"]["annotations"][COUNT]
            .as_str()
            .and_then(|text| text.parse::<i64>().ok())
            .unwrap_or(0)
    };
    let count = match old {
        None => read(new).max(1),
        Some(old) if old["spec"]["template"] != new["spec"]["template"] => read(old) + 1,
        Some(old) => read(old),
    };
    new["metadata"]["annotations"][COUNT] = count.to_string().into();
}

fn copy(from: &Value, to: &mut Value, name: &str) {
    let Some(fields) = to.as_object_mut() else { return };
    fields.remove(name);
    fields.extend(from.get(name).map(|value| (name.to_owned(), value.clone())));
}
