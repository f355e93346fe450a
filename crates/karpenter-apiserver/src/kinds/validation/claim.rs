//! Rules of persistent volumes and claims.

use serde_json::{Value, json};

use super::resources::{basic, quantity};
use super::scheduling;
use crate::error::FieldError;
use crate::kinds::place::{Errors, Place};
use crate::kinds::{format, metadata};

const ACCESS_MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const VOLUME_MODES: &[&str] = &["Block", "Filesystem"];
const ATTRIBUTES: &str = "volumeAttributesClassName";

/// Checks the template of an ephemeral volume.
pub(super) fn template(template: &Place<'_, '_>, errors: &mut Errors) {
    let metadata_place = template.field("metadata");
    metadata::labels(&metadata_place.field("labels"), errors);
    metadata::annotations(&metadata_place.field("annotations"), errors);
    spec(&template.field("spec"), errors);
}

/// Checks the spec of a claim.
pub(super) fn spec(spec: &Place<'_, '_>, errors: &mut Errors) {
    let modes = spec.field("accessModes");
    if modes.len() == 0 {
        errors.push(modes.required("at least 1 access mode is required"));
    }
    let selector = spec.field("selector");
    if selector.is_set() {
        scheduling::label_selector(&selector, errors);
    }
    access_modes(&modes, errors);
    let requests = spec.field("resources");
    let requests = requests.field("requests");
    let storage = requests.value.get("storage");
    match storage {
        None => {
            let path = format!("{}.resources[storage]", spec.path());
            errors.push(FieldError::required(path, ""));
        }
        Some(storage) => {
            let amount = quantity(storage);
            if amount.is_negative() || amount.is_zero() {
                let path = format!("{}.resources[storage]", spec.path());
                errors.push(FieldError::invalid(path, storage, "must be greater than zero"));
            }
        }
    }
    let class = spec.field("storageClassName");
    if !class.text().is_empty() {
        errors.form(&class, format::dns_subdomain(class.text()));
    }
    errors.one_of_or_none(&spec.field("volumeMode"), VOLUME_MODES);
    data_sources(spec, errors);
    let attributes = spec.field("volumeAttributesClassName");
    if !attributes.text().is_empty() {
        errors.form(&attributes, format::dns_subdomain(attributes.text()));
    }
}

/// Checks where the data of a claim comes from, which is said twice.
fn data_sources(spec: &Place<'_, '_>, errors: &mut Errors) {
    let (source, reference) = (spec.field("dataSource"), spec.field("dataSourceRef"));
    for source in [&source, &reference] {
        if source.is_set() {
            data_source(source, errors);
        }
    }
    let namespace = reference.field("namespace");
    if !namespace.text().is_empty() {
        errors.form(&namespace, format::dns_label(namespace.text()));
    }
    if !source.is_set() || !reference.is_set() {
        return;
    }
    let same = |name: &str| source.field(name).text() == reference.field(name).text();
    let rule = if !namespace.text().is_empty() {
        "may not be specified when dataSourceRef.namespace is specified"
    } else if ["apiGroup", "kind", "name"].into_iter().all(same) {
        return;
    } else {
        "must match dataSourceRef"
    };
    // Of the place that Kubernetes means to quote nothing is left.
    errors.push(spec.invalid_value(&json!({}), rule));
}

fn data_source(source: &Place<'_, '_>, errors: &mut Errors) {
    for name in ["name", "kind"] {
        let field = source.field(name);
        if field.text().is_empty() {
            errors.push(field.required(""));
        }
    }
    let (group, kind) = (source.field("apiGroup"), source.field("kind").text());
    if group.text().is_empty() && kind != "PersistentVolumeClaim" {
        let rule = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        errors.push(source.invalid_value(&kind.into(), rule));
    } else if !group.text().is_empty() {
        errors.form(&group, format::dns_subdomain(group.text()));
    }
}

fn access_modes(modes: &Place<'_, '_>, errors: &mut Errors) {
    let (mut single, mut other) = (false, false);
    for mode in modes.items() {
        match mode.text() {
            "ReadWriteOncePod" => single = true,
            text if ACCESS_MODES.contains(&text) => other = true,
            _ => errors.push(FieldError::unsupported(modes.path(), mode.value, ACCESS_MODES)),
        }
    }
    if single && other {
        let rule = "may not use ReadWriteOncePod with other access modes";
        errors.push(modes.forbidden(rule));
    }
}

/// Checks a persistent volume.
pub(super) fn volume(volume: &Place<'_, '_>, errors: &mut Errors) {
    let spec = volume.field("spec");
    let modes = spec.field("accessModes");
    if modes.len() == 0 {
        errors.push(modes.required(""));
    }
    access_modes(&modes, errors);
    let capacity = spec.field("capacity");
    if capacity.len() == 0 {
        errors.push(capacity.required(""));
    }
    let only_storage = capacity.value.get("storage").is_some() && capacity.len() == 1;
    if !only_storage {
        errors.push(FieldError::unsupported(capacity.path(), capacity.value, &["storage"]));
    }
    for (_, amount) in capacity.entries() {
        basic(&amount, errors);
        let value = quantity(amount.value);
        if value.is_negative() || value.is_zero() {
            errors.push(amount.invalid("must be greater than zero"));
        }
    }
    let policy = spec.field("persistentVolumeReclaimPolicy");
    if !policy.text().is_empty() {
        errors.one_of(&policy, &["Delete", "Recycle", "Retain"]);
    }
    let affinity = spec.field("nodeAffinity");
    if affinity.is_set() {
        let required = affinity.field("required");
        if required.is_set() {
            scheduling::node_selector(&required, errors);
        } else {
            errors.push(required.required("must specify required node constraints"));
        }
    }
    source(&spec, affinity.is_set(), errors);
    let class = spec.field("storageClassName");
    if !class.text().is_empty() {
        errors.form(&class, format::dns_subdomain(class.text()));
    }
    errors.one_of_or_none(&spec.field("volumeMode"), VOLUME_MODES);
    attributes_class(&spec, errors);
}

fn attributes_class(spec: &Place<'_, '_>, errors: &mut Errors) {
    let attributes = spec.field("volumeAttributesClassName");
    if !attributes.is_set() {
        return;
    }
    if attributes.text().is_empty() {
        errors.push(attributes.required("an empty string is disallowed"));
    }
    errors.form(
        &attributes,
        match attributes.text() {
            "" => Vec::new(),
            text => format::dns_subdomain(text),
        },
    );
    let csi = spec.field("csi");
    if !csi.is_set() {
        errors.push(csi.required("has to be specified when using volumeAttributesClassName"));
    }
}

/// Checks a volume that stands in an attachment instead of in an object of its own.
pub(super) fn inline(spec: &Place<'_, '_>, errors: &mut Errors) {
    const CONTEXT: &str = "in the context of inline volumes";
    for (name, is_given) in [
        ("claimRef", spec.field("claimRef").is_set()),
        ("capacity", spec.field("capacity").len() > 0),
        ("nodeAffinity", spec.field("nodeAffinity").is_set()),
        ("storageClassName", !spec.field("storageClassName").text().is_empty()),
    ] {
        if is_given {
            errors.push(spec.field(name).forbidden(&format!("may not be specified {CONTEXT}")));
        }
    }
    let csi = spec.field("csi");
    if !csi.is_set() {
        errors.push(csi.required(&format!("has to be specified {CONTEXT}")));
    }
    let modes = spec.field("accessModes");
    if modes.len() == 0 {
        errors.push(modes.required(""));
    }
    access_modes(&modes, errors);
    let policy = spec.field("persistentVolumeReclaimPolicy");
    if !matches!(policy.text(), "" | "Retain") {
        errors.push(policy.forbidden(&format!("may only be Retain {CONTEXT}")));
    }
    // What cannot be said here does not help a local volume.
    source(spec, false, errors);
    let mode = spec.field("volumeMode");
    if mode.is_set() && mode.text() != "Filesystem" {
        errors.push(mode.forbidden(&format!("may not specify volumeMode other than Filesystem {CONTEXT}")));
    }
}

const SOURCES: &[&str] = &[
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];

fn source(spec: &Place<'_, '_>, bound_to_nodes: bool, errors: &mut Errors) {
    let mut found = false;
    for name in SOURCES {
        let source = spec.field(name);
        if !source.is_set() {
            continue;
        }
        if found {
            errors.push(source.forbidden("may not specify more than 1 volume type"));
            continue;
        }
        found = true;
        match *name {
            "csi" => driver_source(&source, errors),
            "hostPath" => super::volume::host_path(&source, errors),
            "local" => {
                let path = source.field("path");
                if path.text().is_empty() {
                    errors.push(path.required(""));
                } else if path.text().split('/').any(|part| part == "..") {
                    errors.push(path.invalid("must not contain '..'"));
                }
                if !bound_to_nodes {
                    let affinity = spec.field("nodeAffinity");
                    errors.push(affinity.required("Local volume requires node affinity"));
                }
            }
            _ => {}
        }
    }
    if !found {
        errors.push(spec.required("must specify a volume type"));
    }
    let root = spec.value["hostPath"]["path"]
        .as_str()
        .is_some_and(|path| !path.is_empty() && path.split('/').all(|part| matches!(part, "" | ".")));
    let policy = spec.field("persistentVolumeReclaimPolicy");
    if root && policy.text() == "Recycle" {
        errors.push(policy.forbidden("may not be 'recycle' for a hostPath mount of '/'"));
    }
}

/// Checks a volume that a storage driver provides.
fn driver_source(source: &Place<'_, '_>, errors: &mut Errors) {
    super::volume::driver_name(&source.field("driver"), errors);
    let handle = source.field("volumeHandle");
    if handle.text().is_empty() {
        errors.push(handle.required(""));
    }
    for name in [
        "controllerPublishSecretRef",
        "controllerExpandSecretRef",
        "nodePublishSecretRef",
        "nodeExpandSecretRef",
    ] {
        let secret = source.field(name);
        if !secret.is_set() {
            continue;
        }
        let (name, namespace) = (secret.field("name"), secret.field("namespace"));
        match name.text() {
            "" => errors.push(name.required("")),
            text => errors.form(&name, format::dns_subdomain(text)),
        }
        match namespace.text() {
            "" => errors.push(namespace.required("")),
            text => errors.form(&namespace, format::dns_label(text)),
        }
    }
}

/// What a change of a claim may not touch.
pub(super) fn update(new: &Value, old: &Value, errors: &mut Errors) {
    let (mut before, mut after) = (old["spec"].clone(), new["spec"].clone());
    // A claim is bound by setting the volume's name once.
    if old["spec"]["volumeName"].as_str().is_none_or(str::is_empty) {
        before["volumeName"] = new["spec"]["volumeName"].clone();
        after["volumeName"] = new["spec"]["volumeName"].clone();
    }
    // A claim without a class may be given one later.
    if old["spec"]["storageClassName"].is_null() && !new["spec"]["storageClassName"].is_null() {
        before["storageClassName"] = new["spec"]["storageClassName"].clone();
    }
    if new["status"]["phase"] == "Bound" {
        after["volumeAttributesClassName"] = old["spec"]["volumeAttributesClassName"].clone();
        before["volumeAttributesClassName"] = old["spec"]["volumeAttributesClassName"].clone();
        if after["resources"]["requests"].is_object() {
            after["resources"]["requests"]["storage"] = before["resources"]["requests"]["storage"].clone();
        }
    }
    if before != after {
        let rule = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        errors.push(FieldError::forbidden("spec", rule));
    }
    let storage = |claim: &Value| quantity(&claim["spec"]["resources"]["requests"]["storage"]);
    if storage(new) < storage(old) && storage(new) <= quantity(&old["status"]["capacity"]["storage"]) {
        let rule = "field can not be less than status.capacity";
        errors.push(FieldError::forbidden("spec.resources.requests.storage", rule));
    }
    if new["spec"]["volumeMode"] != old["spec"]["volumeMode"] {
        errors.push(FieldError::invalid("volumeMode", &new["spec"]["volumeMode"], "field is immutable"));
    }
    attributes_update(new, old, errors);
}

/// A claim whose volume has a class of attributes keeps having one.
fn attributes_update(new: &Value, old: &Value, errors: &mut Errors) {
    let (now, then) = (&new["spec"][ATTRIBUTES], &old["spec"][ATTRIBUTES]);
    if now == then || old["status"]["currentVolumeAttributesClassName"].is_null() {
        return;
    }
    let nothing = match now.as_str() {
        None => "nil",
        Some("") => "empty string",
        Some(_) => return,
    };
    let rule =
        format!("update to {nothing} is forbidden when status.currentVolumeAttributesClassName is not nil");
    errors.push(FieldError::forbidden(format!("spec.{ATTRIBUTES}"), &rule));
}

/// What a change of a volume may not touch.
pub(super) fn volume_update(new: &Value, old: &Value, errors: &mut Errors) {
    // A secret for growing the volume may be added later.
    let adds_secret =
        old["spec"]["csi"].is_object() && old["spec"]["csi"]["controllerExpandSecretRef"].is_null();
    let sources = |volume: &Value| -> Vec<(String, Value)> {
        let mut spec = volume["spec"].clone();
        if adds_secret && let Some(source) = spec["csi"].as_object_mut() {
            source.remove("controllerExpandSecretRef");
        }
        let spec = spec.as_object().into_iter().flatten();
        spec.filter(|(name, _)| SOURCES.contains(&name.as_str()))
            .map(|(name, source)| (name.clone(), source.clone()))
            .collect()
    };
    if sources(new) != sources(old) {
        let rule = "spec.persistentvolumesource is immutable after creation";
        errors.push(FieldError::forbidden("spec.persistentvolumesource", rule));
    }
    let at = |volume: &'_ Value, name: &str| volume["spec"].get(name).cloned().unwrap_or_default();
    if at(new, "volumeMode") != at(old, "volumeMode") {
        errors.push(FieldError::invalid("volumeMode", &at(new, "volumeMode"), "field is immutable"));
    }
    let (before, after) = (at(old, "nodeAffinity"), at(new, "nodeAffinity"));
    if !before.is_null() && !is_same_affinity(&before, &after) {
        let rule = "field is immutable, except for updating from beta label to GA";
        errors.push(FieldError::invalid("nodeAffinity", &at(new, "nodeAffinity"), rule));
    }
    if !at(old, ATTRIBUTES).is_null() && at(new, ATTRIBUTES).is_null() {
        let rule = "update from non-nil value to nil is forbidden";
        errors.push(FieldError::forbidden(format!("spec.{ATTRIBUTES}"), rule));
    }
}

/// Labels of nodes that have another name since they are stable.
const STABLE_LABELS: &[(&str, &str)] = &[
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("beta.kubernetes.io/os", "kubernetes.io/os"),
    ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
    ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"),
];

/// Whether a volume is reachable from the same nodes, but for the names of labels that have become stable.
///
/// A key without a stable name may be emptied: Kubernetes looks it up all the same and finds nothing.
fn is_same_affinity(before: &Value, after: &Value) -> bool {
    match (before, after) {
        (Value::Array(before), Value::Array(after)) => {
            before.len() == after.len()
                && before.iter().zip(after).all(|(before, after)| is_same_affinity(before, after))
        }
        (Value::Object(was), Value::Object(is)) => {
            was.keys().chain(is.keys()).all(|name| match (before[name].as_str(), after[name].as_str()) {
                (Some(old), Some(new)) if name == "key" => old == new || stable_name(old) == new,
                _ => is_same_affinity(&before[name], &after[name]),
            })
        }
        (before, after) => before == after,
    }
}

fn stable_name(label: &str) -> &str {
    STABLE_LABELS.iter().find(|(old, _)| *old == label).map_or("", |(_, stable)| stable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_of_a_node_selector_may_become_stable_or_empty_but_nothing_else() {
        let affinity = |key: &str| {
            let requirement = json!({"key": key, "operator": "In", "values": ["a"]});
            json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}})
        };
        let same = |before: &str, after: &str| is_same_affinity(&affinity(before), &affinity(after));
        assert!(same("beta.kubernetes.io/os", "kubernetes.io/os"));
        assert!(!same("kubernetes.io/os", "beta.kubernetes.io/os"));
        assert!(same("example.com/a", ""));
        assert!(!same("beta.kubernetes.io/os", ""));
        assert!(!is_same_affinity(&affinity("a"), &Value::Null));
    }
}
