//! Rules of the volumes of pods.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::claim;
use crate::error::FieldError;
use crate::kinds::format;
use crate::kinds::place::{Errors, Place};

/// Checks volumes and returns those with nothing wrong, by name.
pub(super) fn volumes<'p>(
    list: &Place<'p, '_>,
    pod_name: &str,
    errors: &mut Errors,
) -> Vec<(String, &'p Value)> {
    let mut good: Vec<(String, &Value)> = Vec::new();
    let values = list.value.as_array().map(Vec::as_slice).unwrap_or_default();
    for (volume, value) in list.items().zip(values) {
        let before = errors.0.len();
        source(&volume, pod_name, errors);
        let name = volume.field("name");
        if name.text().is_empty() {
            errors.push(name.required(""));
        } else {
            errors.form(&name, format::dns_label(name.text()));
        }
        if good.iter().any(|(other, _)| other == name.text()) {
            errors.push(name.duplicate());
        }
        if errors.0.len() == before {
            good.push((name.text().to_owned(), value));
        }
    }
    good
}

/// Sources in the order in which Kubernetes looks for them.
const SOURCES: &[&str] = &[
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

fn source(volume: &Place<'_, '_>, pod_name: &str, errors: &mut Errors) {
    let mut found = false;
    for name in SOURCES {
        let source = volume.field(name);
        if !source.is_set() {
            continue;
        }
        if found {
            // One of the names is misspelt there.
            let path = volume.field(if *name == "downwardAPI" { "downwarAPI" } else { name }).path();
            errors.push(FieldError::forbidden(path, "may not specify more than 1 volume type"));
            continue;
        }
        found = true;
        one_source(name, &source, volume, pod_name, errors);
    }
    if !found {
        errors.push(volume.required("must specify a volume type"));
    }
}

fn one_source(
    name: &str,
    source: &Place<'_, '_>,
    volume: &Place<'_, '_>,
    pod_name: &str,
    errors: &mut Errors,
) {
    match name {
        "emptyDir" => {
            let limit = source.field("sizeLimit");
            if limit.is_set() && super::resources::quantity(limit.value).is_negative() {
                errors.push(limit.forbidden("SizeLimit field must be a valid resource quantity"));
            }
        }
        "hostPath" => host_path(source, errors),
        "secret" => keyed_files(source, "secretName", errors),
        "configMap" => keyed_files(source, "name", errors),
        "persistentVolumeClaim" => {
            let claim = source.field("claimName");
            if claim.text().is_empty() {
                errors.push(claim.required(""));
            }
        }
        "downwardAPI" => {
            file_mode(&source.field("defaultMode"), errors);
            for file in source.field("items").items() {
                downward_file(&file, source, errors);
            }
        }
        "projected" => projected(source, errors),
        "csi" => {
            driver_name(&source.field("driver"), errors);
            let secret = source.field("nodePublishSecretRef");
            if secret.is_set() {
                let name = secret.field("name");
                if name.text().is_empty() {
                    errors.push(name.required(""));
                } else {
                    for rule in format::dns_subdomain(name.text()) {
                        errors.push(source.field("name").invalid_value(name.value, rule));
                    }
                }
            }
        }
        "ephemeral" => {
            let template = source.field("volumeClaimTemplate");
            if template.is_set() {
                claim::template(&template, errors);
            } else {
                errors.push(template.required(""));
            }
            let name = volume.field("name");
            if !pod_name.is_empty() && !name.text().is_empty() {
                let claim = format!("{pod_name}-{}", name.text());
                for rule in format::dns_subdomain(&claim) {
                    errors.push(name.invalid(format!("PVC name {claim:?}: {rule}")));
                }
            }
        }
        _ => {}
    }
}

pub(super) fn host_path(source: &Place<'_, '_>, errors: &mut Errors) {
    const TYPES: &[&str] = &[
        "",
        "BlockDevice",
        "CharDevice",
        "Directory",
        "DirectoryOrCreate",
        "File",
        "FileOrCreate",
        "Socket",
    ];
    let path = source.field("path");
    if path.text().is_empty() {
        errors.push(path.required(""));
        return;
    }
    if path.text().split('/').any(|part| part == "..") {
        errors.push(path.invalid("must not contain '..'"));
    }
    errors.one_of_or_none(&source.field("type"), TYPES);
}

fn keyed_files(source: &Place<'_, '_>, name: &str, errors: &mut Errors) {
    let name = source.field(name);
    if name.text().is_empty() {
        errors.push(name.required(""));
    }
    file_mode(&source.field("defaultMode"), errors);
    for item in source.field("items").items() {
        key_to_path(&item, errors);
    }
}

fn key_to_path(item: &Place<'_, '_>, errors: &mut Errors) {
    let key = item.field("key");
    if key.text().is_empty() {
        errors.push(key.required(""));
    }
    let path = item.field("path");
    if path.text().is_empty() {
        errors.push(path.required(""));
    }
    local_path(path.text(), &path.path(), errors);
    file_mode(&item.field("mode"), errors);
}

fn file_mode(mode: &Place<'_, '_>, errors: &mut Errors) {
    if mode.number().is_some_and(|mode| !(0..=0o777).contains(&mode)) {
        let rule = "must be a number between 0 and 0777 (octal), both inclusive";
        errors.push(mode.invalid(rule));
    }
}

/// A path that leads down from where it starts.
pub(super) fn descending_path(text: &str, path: &str, errors: &mut Errors) {
    let value = json!(text);
    if text.starts_with('/') {
        errors.push(FieldError::invalid(path, &value, "must be a relative path"));
    }
    if text.split('/').any(|part| part == "..") {
        errors.push(FieldError::invalid(path, &value, "must not contain '..'"));
    }
}

fn local_path(text: &str, path: &str, errors: &mut Errors) {
    descending_path(text, path, errors);
    if text.starts_with("..") && !text.starts_with("../") {
        errors.push(FieldError::invalid(path, &json!(text), "must not start with '..'"));
    }
}

const VOLUME_FIELDS: &[&str] =
    &["metadata.name", "metadata.namespace", "metadata.labels", "metadata.annotations", "metadata.uid"];

/// Checks a file made from the pod's own fields; errors name the volume and not the file.
fn downward_file(file: &Place<'_, '_>, volume: &Place<'_, '_>, errors: &mut Errors) {
    let outer = volume.path();
    let at = |value: &Value, errors: &mut Errors, rules: fn(&Place<'_, '_>, &mut Errors)| {
        rules(&Place::root(&outer, value), errors);
    };
    at(file.value, errors, |file, errors| {
        let path = file.field("path");
        if path.text().is_empty() {
            errors.push(path.required(""));
        }
        local_path(path.text(), &path.path(), errors);
        let (field, resource) = (file.field("fieldRef"), file.field("resourceFieldRef"));
        if field.is_set() {
            field_reference(&field, VOLUME_FIELDS, errors);
            if resource.is_set() {
                let rule = "fieldRef and resourceFieldRef can not be specified simultaneously";
                errors.push(file.invalid_value(&json!("resource"), rule));
            }
        } else if resource.is_set() {
            resource_reference(&resource, true, errors);
        } else {
            errors.push(file.required("one of fieldRef and resourceFieldRef is required"));
        }
        file_mode(&file.field("mode"), errors);
    });
}

/// Fields of pods that the downward API knows at all.
const KNOWN_FIELDS: &[&str] = &[
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.serviceAccountName",
    "spec.schedulerName",
    "status.phase",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
    "spec.host",
];

/// Checks a reference to a field of the pod.
pub(super) fn field_reference(reference: &Place<'_, '_>, allowed: &[&str], errors: &mut Errors) {
    let version = reference.field("apiVersion");
    if version.text().is_empty() {
        errors.push(version.required(""));
        return;
    }
    let path = reference.field("fieldPath");
    if path.text().is_empty() {
        errors.push(path.required(""));
        return;
    }
    if version.text() != "v1" {
        errors.push(
            path.invalid(format!("error converting fieldPath: unsupported pod version: {}", version.text())),
        );
        return;
    }
    if let Some((field, rest)) = path.text().split_once("['")
        && let Some(key) = rest.strip_suffix("']")
    {
        let wrong = match field {
            "metadata.annotations" => format::label_key(&key.to_lowercase()),
            "metadata.labels" => format::label_key(key),
            _ => {
                errors.push(path.invalid(format!(
                    "error converting fieldPath: field label does not support subscript: {}",
                    path.text()
                )));
                return;
            }
        };
        for rule in wrong {
            errors.push(reference.invalid_value(&json!(key), rule));
        }
        return;
    }
    if !KNOWN_FIELDS.contains(&path.text()) {
        let rule = format!("error converting fieldPath: field label not supported: {}", path.text());
        errors.push(path.invalid(rule));
    } else if !allowed.contains(&path.text()) {
        errors.push(path.unsupported(allowed));
    }
}

/// Checks a reference to a resource of a container.
pub(super) fn resource_reference(reference: &Place<'_, '_>, in_volume: bool, errors: &mut Errors) {
    const RESOURCES: &[&str] = &[
        "limits.cpu",
        "limits.ephemeral-storage",
        "limits.memory",
        "requests.cpu",
        "requests.ephemeral-storage",
        "requests.memory",
    ];
    let (container, resource) = (reference.field("containerName"), reference.field("resource"));
    let huge = |text: &str| text.starts_with("requests.hugepages-") || text.starts_with("limits.hugepages-");
    if in_volume && container.text().is_empty() {
        errors.push(container.required(""));
    } else if resource.text().is_empty() {
        errors.push(resource.required(""));
    } else if !RESOURCES.contains(&resource.text()) && !huge(resource.text()) {
        errors.push(resource.unsupported(RESOURCES));
    }
    divisor(reference, resource.text(), errors);
}

fn divisor(reference: &Place<'_, '_>, resource: &str, errors: &mut Errors) {
    const BYTES: &[&str] =
        &["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
    let divisor = reference.field("divisor");
    if matches!(divisor.text(), "" | "0") {
        return;
    }
    let (allowed, rule): (&[&str], &str) = match resource {
        "limits.cpu" | "requests.cpu" => {
            (&["1m", "1"], "only divisor's values 1m and 1 are supported with the cpu resource")
        }
        "limits.memory" | "requests.memory" => (
            BYTES,
            "only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the memory \
             resource",
        ),
        "limits.ephemeral-storage" | "requests.ephemeral-storage" => (
            BYTES,
            "only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the local \
             ephemeral storage resource",
        ),
        _ => return,
    };
    if !allowed.contains(&divisor.text()) {
        errors.push(divisor.invalid_value(&json!(resource), rule));
    }
}

fn projected(volume: &Place<'_, '_>, errors: &mut Errors) {
    file_mode(&volume.field("defaultMode"), errors);
    let mut paths = BTreeSet::new();
    for source in volume.field("sources").items() {
        let mut count = 0;
        for name in ["secret", "configMap"] {
            let files = source.field(name);
            if !files.is_set() {
                continue;
            }
            count += 1;
            let name = files.field("name");
            if name.text().is_empty() {
                errors.push(name.required(""));
            }
            for item in files.field("items").items() {
                key_to_path(&item, errors);
                let path = item.field("path").text();
                if !path.is_empty() && !paths.insert(path.to_owned()) {
                    errors.push(volume.invalid_value(&json!(name.text()), "conflicting duplicate paths"));
                }
            }
        }
        let downward = source.field("downwardAPI");
        if downward.is_set() {
            count += 1;
            for file in downward.field("items").items() {
                downward_file(&file, &downward, errors);
                let path = file.field("path").text();
                if !path.is_empty() && !paths.insert(path.to_owned()) {
                    errors.push(volume.invalid_value(&json!(path), "conflicting duplicate paths"));
                }
            }
        }
        let token = source.field("serviceAccountToken");
        if token.is_set() {
            count += 1;
            service_account_token(&token, volume, errors);
        }
        if count > 1 {
            errors.push(source.forbidden("may not specify more than 1 volume type per source"));
        }
    }
}

fn service_account_token(token: &Place<'_, '_>, volume: &Place<'_, '_>, errors: &mut Errors) {
    let lifetime = token.field("expirationSeconds");
    let seconds = lifetime.number().unwrap_or(0);
    if seconds < 600 {
        errors.push(lifetime.invalid("may not specify a duration less than 10 minutes"));
    }
    if seconds > 1 << 32 {
        errors.push(lifetime.invalid("may not specify a duration larger than 2^32 seconds"));
    }
    let (path, shown) = (token.field("path"), volume.field("path"));
    if path.text().is_empty() {
        errors.push(shown.required(""));
    } else {
        local_path(path.text(), &shown.path(), errors);
    }
}

/// Checks the name of a storage driver.
pub(super) fn driver_name(name: &Place<'_, '_>, errors: &mut Errors) {
    if name.text().is_empty() {
        errors.push(name.required(""));
        return;
    }
    if name.text().len() > 63 {
        errors.push(FieldError::too_long(name.path(), 63));
    }
    errors.form(name, format::dns_subdomain(&name.text().to_lowercase()));
}
