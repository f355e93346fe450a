//! Rules of the kinds around storage.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::resources::quantity;
use super::{claim, scheduling, volume};
use crate::error::FieldError;
use crate::kinds::format;
use crate::kinds::place::{Errors, Place};

const NODE_ID_LENGTH_MAX: usize = 256;

pub(super) fn validate(resource: &str, object: &Place<'_, '_>, errors: &mut Errors) {
    match resource {
        "storageclasses.storage.k8s.io" => class(object, errors),
        "volumeattachments.storage.k8s.io" => attachment(&object.field("spec"), errors),
        "csinodes.storage.k8s.io" => node(&object.field("spec"), errors),
        "csidrivers.storage.k8s.io" => driver(&object.field("spec"), errors),
        "csistoragecapacities.storage.k8s.io" => capacity(object, errors),
        "volumeattributesclasses.storage.k8s.io" => attributes_class(object, errors),
        _ => {}
    }
}

fn class(class: &Place<'_, '_>, errors: &mut Errors) {
    provisioner(&class.field("provisioner"), errors);
    parameters(&class.field("parameters"), errors);
    let policy = class.field("reclaimPolicy");
    if !policy.text().is_empty() && !matches!(policy.text(), "Delete" | "Retain") {
        errors.push(policy.unsupported(&["Delete", "Retain"]));
    }
    let mode = class.field("volumeBindingMode");
    if mode.is_set() {
        if !matches!(mode.text(), "Immediate" | "WaitForFirstConsumer") {
            errors.push(mode.unsupported(&["Immediate", "WaitForFirstConsumer"]));
        }
    } else {
        errors.push(mode.required(""));
    }
    topologies(&class.field("allowedTopologies"), errors);
}

/// Checks the name of a driver; it is looked at in lower case.
fn provisioner(name: &Place<'_, '_>, errors: &mut Errors) {
    if name.text().is_empty() {
        errors.push(name.required(""));
        return;
    }
    let lower = name.text().to_lowercase();
    for rule in format::label_key(&lower) {
        errors.push(name.invalid_value(&json!(lower), rule));
    }
}

fn parameters(parameters: &Place<'_, '_>, errors: &mut Errors) {
    for (key, _) in parameters.entries() {
        if key.is_empty() {
            errors.push(parameters.invalid_value(&json!(key), "field can not be empty."));
        }
    }
}

fn attributes_class(class: &Place<'_, '_>, errors: &mut Errors) {
    provisioner(&class.field("driverName"), errors);
    let own = class.field("parameters");
    parameters(&own, errors);
    if own.len() == 0 {
        errors.push(own.required("must contain at least one key/value pair"));
    }
}

/// Nothing of a class of attributes may change.
pub(super) fn attributes_class_update(new: &Value, old: &Value, errors: &mut Errors) {
    for name in ["driverName", "parameters"] {
        if new[name] != old[name] {
            errors.push(FieldError::forbidden(name, &format!("updates to {name} are forbidden.")));
        }
    }
}

fn topologies(terms: &Place<'_, '_>, errors: &mut Errors) {
    // A term that says nothing is the same as none, and there is always none.
    let mut seen = vec![BTreeMap::new()];
    for term in terms.items() {
        let mut said: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for expression in term.field("matchLabelExpressions").items() {
            let values = expression.field("values");
            if values.len() == 0 {
                errors.push(values.required(""));
            }
            let mut known = BTreeSet::new();
            for value in values.items() {
                if !known.insert(value.text()) {
                    errors.push(value.duplicate());
                }
            }
            let key = expression.field("key");
            errors.form(&key, format::label_key(key.text()));
            if said.insert(key.text(), known).is_some() {
                errors.push(key.duplicate());
            }
        }
        if seen.contains(&said) {
            let place = term.field("matchLabelExpressions");
            errors.push(FieldError::duplicate(place.path(), &json!("")));
        }
        seen.push(said);
    }
}

/// What a change of a node's drivers may not touch.
pub(super) fn node_update(new: &Value, old: &Value, errors: &mut Errors) {
    let drivers = |node: &Value| {
        let mut drivers = node["spec"]["drivers"].as_array().cloned().unwrap_or_default();
        drivers
            .iter_mut()
            .filter_map(Value::as_object_mut)
            .for_each(|driver| drop(driver.remove("allocatable")));
        drivers
    };
    for before in drivers(old) {
        for after in drivers(new).into_iter().filter(|after| after["name"] == before["name"]) {
            if after != before {
                errors.push(FieldError::invalid("spec.drivers", &after, "field is immutable"));
            }
        }
    }
}

/// What a change of a driver may not touch.
pub(super) fn driver_update(new: &Value, old: &Value, errors: &mut Errors) {
    for (name, place) in
        [("attachRequired", "attachedRequired"), ("volumeLifecycleModes", "volumeLifecycleModes")]
    {
        if new["spec"].get(name) != old["spec"].get(name) {
            let value = new["spec"].get(name).unwrap_or(&Value::Null);
            errors.push(FieldError::invalid(format!("spec.{place}"), value, "field is immutable"));
        }
    }
}

fn attachment(spec: &Place<'_, '_>, errors: &mut Errors) {
    let attacher = spec.field("attacher");
    volume::driver_name(&attacher, errors);
    let source = spec.field("source");
    let (name, inline) = (source.field("persistentVolumeName"), source.field("inlineVolumeSpec"));
    match (name.is_set(), inline.is_set()) {
        (false, false) => {
            errors.push(
                source.required("must specify exactly one of inlineVolumeSpec and persistentVolumeName"),
            );
        }
        (true, true) => {
            let rule = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
            errors.push(source.forbidden(rule));
        }
        (true, false) => {
            if name.text().is_empty() {
                errors.push(name.required("must specify non empty persistentVolumeName"));
            }
        }
        (false, true) => claim::inline(&inline, errors),
    }
    if name.is_set() {
        errors.form(&name, format::dns_subdomain(name.text()));
    }
    let node = spec.field("nodeName");
    errors.form(&node, format::dns_subdomain(node.text()));
}

fn node(spec: &Place<'_, '_>, errors: &mut Errors) {
    let mut names = Vec::new();
    for driver in spec.field("drivers").items() {
        let name = driver.field("name");
        volume::driver_name(&name, errors);
        let id = driver.field("nodeID");
        if id.text().is_empty() {
            errors.push(id.required(""));
        } else if id.text().len() > NODE_ID_LENGTH_MAX {
            errors.push(id.invalid(format!("must be {NODE_ID_LENGTH_MAX} characters or less")));
        }
        let count = driver.field("allocatable");
        errors.not_negative(&count.field("count"));
        let mut keys = Vec::new();
        // Kubernetes names the driver and not the list.
        for key in driver.field("topologyKeys").items() {
            if key.text().is_empty() {
                errors.push(driver.required(""));
            }
            if keys.contains(&key.text()) {
                errors.push(FieldError::duplicate(driver.path(), key.value));
            }
            keys.push(key.text());
            for rule in format::label_key(key.text()) {
                errors.push(driver.invalid_value(key.value, rule));
            }
        }
        if names.contains(&name.text()) {
            errors.push(name.duplicate());
        }
        names.push(name.text());
    }
}

fn driver(spec: &Place<'_, '_>, errors: &mut Errors) {
    errors.one_of_or_none(&spec.field("fsGroupPolicy"), &["File", "None", "ReadWriteOnceWithFSType"]);
    token_requests(spec, errors);
    let period = spec.field("nodeAllocatableUpdatePeriodSeconds");
    if period.number().is_some_and(|seconds| seconds < 10) {
        errors.push(period.invalid("must be greater than or equal to 10 seconds"));
    }
    for mode in spec.field("volumeLifecycleModes").items() {
        if !matches!(mode.text(), "Persistent" | "Ephemeral") {
            let path = spec.field("volumeLifecycleModes").path();
            errors.push(FieldError::unsupported(path, mode.value, &["Persistent", "Ephemeral"]));
        }
    }
}

fn token_requests(spec: &Place<'_, '_>, errors: &mut Errors) {
    let requests = spec.field("tokenRequests");
    let mut audiences = Vec::new();
    for request in requests.items() {
        let audience = request.field("audience");
        if audiences.contains(&audience.text()) {
            errors.push(FieldError::duplicate(audience.path(), &json!(audience.text())));
            continue;
        }
        audiences.push(audience.text());
        let seconds = request.field("expirationSeconds");
        if seconds.number().is_some_and(|number| number < 600) {
            errors.push(seconds.invalid("may not specify a duration less than 10 minutes"));
        }
        if seconds.number().is_some_and(|number| number > 1 << 32) {
            errors.push(seconds.invalid("may not specify a duration larger than 2^32 seconds"));
        }
    }
    let secret = spec.field("serviceAccountTokenInSecrets");
    if secret.is_set() && requests.len() == 0 {
        let rule = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
        errors.push(secret.invalid(rule));
    }
}

fn capacity(object: &Place<'_, '_>, errors: &mut Errors) {
    let class = object.field("storageClassName");
    errors.form(&class, format::dns_subdomain(class.text()));
    let amount = object.field("capacity");
    if amount.is_set() && quantity(amount.value).is_negative() {
        errors.push(amount.invalid("must be greater than or equal to 0"));
    }
    scheduling::label_selector(&object.field("nodeTopology"), errors);
}
