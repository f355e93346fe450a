//! Rules of persistent volumes and claims.

use serde_json::Value;

use super::resources::quantity;
use super::scheduling;
use crate::error::FieldError;
use crate::kinds::place::{Errors, Place};
use crate::kinds::{format, metadata};

const ACCESS_MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const VOLUME_MODES: &[&str] = &["Block", "Filesystem"];

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
    let attributes = spec.field("volumeAttributesClassName");
    if !attributes.text().is_empty() {
        errors.form(&attributes, format::dns_subdomain(attributes.text()));
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
    source(&spec, errors);
    let class = spec.field("storageClassName");
    if !class.text().is_empty() {
        errors.form(&class, format::dns_subdomain(class.text()));
    }
    errors.one_of_or_none(&spec.field("volumeMode"), VOLUME_MODES);
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

fn source(spec: &Place<'_, '_>, errors: &mut Errors) {
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
            "csi" => {
                super::volume::driver_name(&source.field("driver"), errors);
                let handle = source.field("volumeHandle");
                if handle.text().is_empty() {
                    errors.push(handle.required(""));
                }
            }
            "hostPath" | "local" => {
                let path = source.field("path");
                if path.text().is_empty() {
                    errors.push(path.required(""));
                } else if path.text().split('/').any(|part| part == "..") {
                    errors.push(path.invalid("must not contain '..'"));
                }
                if *name == "local" && !spec.field("nodeAffinity").is_set() {
                    let rule = "Local volume requires node affinity";
                    errors.push(FieldError::required(format!("{}.nodeAffinity", spec.path()), rule));
                }
            }
            _ => {}
        }
    }
    if !found {
        errors.push(spec.required("must specify a volume type"));
    }
}

/// What a change of a claim may not touch.
pub(super) fn update(new: &Value, old: &Value, errors: &mut Errors) {
    let fixed = |claim: &Value| {
        let mut spec = claim["spec"].clone();
        spec["resources"]["requests"].as_object_mut().map(|requests| requests.remove("storage"));
        if let Some(fields) = spec.as_object_mut() {
            fields.remove("volumeAttributesClassName");
        }
        spec
    };
    let (mut before, after) = (fixed(old), fixed(new));
    // A claim is bound by setting the volume's name once.
    if old["spec"]["volumeName"].as_str().is_none_or(str::is_empty) && !new["spec"]["volumeName"].is_null() {
        before["volumeName"] = new["spec"]["volumeName"].clone();
    }
    // A claim without a class may be given one later.
    if old["spec"]["storageClassName"].is_null() && !new["spec"]["storageClassName"].is_null() {
        before["storageClassName"] = new["spec"]["storageClassName"].clone();
    }
    let storage = |claim: &Value| quantity(&claim["spec"]["resources"]["requests"]["storage"]);
    let bound = old["status"]["phase"] == "Bound";
    let resized = storage(new) != storage(old);
    if before != after || (resized && !bound) {
        let rule = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        errors.push(FieldError::forbidden("spec", rule));
    } else if bound && storage(new) < storage(old) {
        let rule = "field can not be less than status.capacity";
        errors.push(FieldError::forbidden("spec.resources.requests.storage", rule));
    }
}

/// What a change of a volume may not touch.
pub(super) fn volume_update(new: &Value, old: &Value, errors: &mut Errors) {
    let sources = |volume: &Value| -> Vec<(String, Value)> {
        let spec = volume["spec"].as_object().into_iter().flatten();
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
    let before = at(old, "nodeAffinity");
    if !before.is_null() && at(new, "nodeAffinity") != before {
        let rule = "field is immutable, except for updating from beta label to GA";
        errors.push(FieldError::invalid("nodeAffinity", &at(new, "nodeAffinity"), rule));
    }
}
