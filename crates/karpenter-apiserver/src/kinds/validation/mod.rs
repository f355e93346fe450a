//! Rules of single built-in objects, in the words of Kubernetes.
//!
//! Start at [`validate`]; each kind has its function, pods have their folder's worth of files because everything that
//! runs is a pod.

mod access;
mod autoscaler;
mod batch;
mod claim;
mod cluster;
mod configuration;
mod container;
mod endpoint_slice;
mod event;
mod job;
mod limit_range;
mod network;
mod node;
mod pod;
mod pod_status;
mod probe;
mod resources;
mod schedule;
mod scheduling;
mod security;
pub(super) mod service;
mod status;
mod storage;
mod volume;
mod workload;

use serde_json::Value;

pub(super) use resources::quantity;

use super::DEFINITIONS;
use super::place::{Errors, Place};
use crate::crd;
use crate::verbs::Scope;

/// Checks an object; `old` is given on updates.
pub(super) fn validate(
    resource: &str,
    object: &Value,
    old: Option<&Value>,
    scope: Scope,
    errors: &mut Errors,
) {
    match scope {
        Scope::Status => return status::validate(resource, object, old.unwrap_or(&Value::Null), errors),
        Scope::Finalize => return status::finalizers(object, errors),
        Scope::Main | Scope::Scale => {}
    }
    let root = Place::root("", object);
    match resource {
        "pods" => pod::pod(&root, old.is_none(), errors),
        "podtemplates" => pod::template(&root.field("template"), errors),
        "deployments.apps" => workload::deployment(&root, errors),
        "replicasets.apps" => workload::replica_set(&root, errors),
        "replicationcontrollers" => workload::replication_controller(&root, errors),
        "daemonsets.apps" => workload::daemon_set(&root, errors),
        "statefulsets.apps" => workload::stateful_set(&root, old.is_none(), errors),
        "controllerrevisions.apps" => workload_revision(&root, old.is_none(), errors),
        "jobs.batch" => batch::job(&root, errors),
        "cronjobs.batch" => batch::cron_job(&root, old, errors),
        "persistentvolumes" => claim::volume(&root, errors),
        "persistentvolumeclaims" => claim::spec(&root.field("spec"), errors),
        "nodes" => node::validate(&root, errors),
        "services" => service::validate(&root, errors),
        "events" => {
            event::validate(object, errors);
            if old.is_none() {
                event::create(object, errors);
            }
        }
        "configmaps" | "secrets" | "serviceaccounts" | "resourcequotas" | "limitranges" | "endpoints" => {
            configuration::validate(resource, &root, errors);
        }
        DEFINITIONS => errors.add(crd::check(object)),
        "endpointslices.discovery.k8s.io" => endpoint_slice::validate(&root, old, errors),
        name if name.ends_with("networking.k8s.io") => {
            network::validate(resource, &root, errors);
            if name.starts_with("ingresses.") && old.is_none() {
                network::ingress_create(&root, errors);
            }
        }
        name if name.ends_with("storage.k8s.io") => storage::validate(resource, &root, errors),
        name if name.ends_with("rbac.authorization.k8s.io") => access::validate(resource, &root, errors),
        // Of a priority class only what may change is looked at again.
        "priorityclasses.scheduling.k8s.io" if old.is_some() => {}
        _ => cluster::validate(resource, &root, errors),
    }
    if let Some(old) = old {
        update(resource, object, old, errors);
    }
}

fn workload_revision(revision: &Place<'_, '_>, new: bool, errors: &mut Errors) {
    let data = revision.field("data");
    if new && !data.is_set() {
        errors.push(data.required("data is mandatory"));
    } else if new && !data.value.is_object() {
        errors.push(data.required("data must be a valid JSON object"));
    }
    errors.not_negative(&revision.field("revision"));
}

/// Fields that cannot change once they are set, by resource.
const IMMUTABLE: &[(&str, &[&str])] = &[
    ("deployments.apps", &["spec.selector"]),
    ("replicasets.apps", &["spec.selector"]),
    ("daemonsets.apps", &["spec.selector"]),
    ("priorityclasses.scheduling.k8s.io", &["preemptionPolicy"]),
    ("volumeattachments.storage.k8s.io", &["spec"]),
    ("storageclasses.storage.k8s.io", &["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"]),
    ("csistoragecapacities.storage.k8s.io", &["nodeTopology", "storageClassName"]),
    ("endpointslices.discovery.k8s.io", &["addressType"]),
    ("resourceclaims.resource.k8s.io", &["spec"]),
    ("resourceclaimtemplates.resource.k8s.io", &["spec"]),
    ("controllerrevisions.apps", &["data"]),
];

fn update(resource: &str, new: &Value, old: &Value, errors: &mut Errors) {
    let (after, before) = (Place::root("", new), Place::root("", old));
    let paths = IMMUTABLE.iter().find(|(name, _)| *name == resource).map_or(&[][..], |(_, paths)| paths);
    for path in paths {
        match path.split_once('.') {
            Some((outer, inner)) => {
                let (now, then) = (after.field(outer), before.field(outer));
                errors.immutable(&now.field(inner), &then.field(inner));
            }
            None => errors.immutable(&after.field(path), &before.field(path)),
        }
    }
    match resource {
        "pods" => pod::update(new, old, errors),
        "statefulsets.apps" => workload::stateful_set_update(new, old, errors),
        "jobs.batch" => batch::job_update(new, old, errors),
        "persistentvolumeclaims" => claim::update(new, old, errors),
        "nodes" => node::update(new, old, errors),
        "secrets" | "configmaps" => configuration::update(resource, new, old, errors),
        "services" => service::update(new, old, errors),
        "csinodes.storage.k8s.io" => storage::node_update(new, old, errors),
        "csidrivers.storage.k8s.io" => storage::driver_update(new, old, errors),
        "volumeattributesclasses.storage.k8s.io" => storage::attributes_class_update(new, old, errors),
        "persistentvolumes" => claim::volume_update(new, old, errors),
        "events" => event::update(new, old, errors),
        "resourcequotas" => configuration::quota_update(new, old, errors),
        "ingressclasses.networking.k8s.io" => {
            let (now, then) = (after.field("spec"), before.field("spec"));
            let controller = now.field("controller");
            if controller.text() != then.field("controller").text() {
                errors.push(controller.invalid_value(&controller.text().into(), "field is immutable"));
            }
        }
        "rolebindings.rbac.authorization.k8s.io" | "clusterrolebindings.rbac.authorization.k8s.io"
            if old["roleRef"] != new["roleRef"] =>
        {
            errors.push(after.field("roleRef").invalid("cannot change roleRef"));
        }
        "priorityclasses.scheduling.k8s.io" if old["value"] != new["value"] => {
            errors.push(after.field("value").forbidden("may not be changed in an update."));
        }
        DEFINITIONS => crd_update(&after, &before, errors),
        _ => {}
    }
}

fn crd_update(after: &Place<'_, '_>, before: &Place<'_, '_>, errors: &mut Errors) {
    let (now, then) = (after.field("spec"), before.field("spec"));
    for name in ["group", "scope"] {
        errors.immutable(&now.field(name), &then.field(name));
    }
    let (names, old_names) = (now.field("names"), then.field("names"));
    for name in ["kind", "plural"] {
        errors.immutable(&names.field(name), &old_names.field(name));
    }
}
