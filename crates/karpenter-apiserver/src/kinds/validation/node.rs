//! Rules of nodes.

use std::net::IpAddr;

use serde_json::Value;

use super::network::cidr;
use super::resources;
use super::scheduling::TAINT_EFFECTS;
use crate::error::FieldError;
use crate::kinds::format;
use crate::kinds::place::{Errors, Place};

/// Checks a node.
pub(super) fn validate(node: &Place<'_, '_>, errors: &mut Errors) {
    let spec = node.field("spec");
    // Kubernetes names another place than the one where they stand.
    taints(&Place::root("metadata.taints", spec.field("taints").value), errors);
    capacity(node.value, errors);
    let swap = Place::root("metadata.nodeSwapStatus", &node.value["status"]["nodeInfo"]["swap"]);
    let capacity = swap.field("capacity");
    if capacity.number().is_some_and(|bytes| bytes <= 0) {
        errors.push(capacity.invalid("must be greater than 0"));
    }
    declared_features(node, errors);
    let ranges = spec.field("podCIDRs");
    for range in ranges.items() {
        cidr(&range, errors);
    }
    if ranges.len() > 1 {
        let families: Vec<bool> = ranges
            .items()
            .filter_map(|range| range.text().split('/').next()?.parse::<IpAddr>().ok())
            .map(|address| address.is_ipv4())
            .collect();
        let both = families.contains(&true) && families.contains(&false);
        if !both || ranges.len() > 2 {
            errors.push(ranges.invalid("may specify no more than one CIDR for each IP family"));
        }
    }
}

/// Checks what a node says that it can do: names in order, each once.
fn declared_features(node: &Place<'_, '_>, errors: &mut Errors) {
    let status = node.field("status");
    let features = status.field("declaredFeatures");
    let mut before: Option<&str> = None;
    for feature in features.items() {
        let name = feature.text();
        if !is_feature_name(name) {
            errors.push(feature.invalid(format!(
                "invalid feature name {name:?}: must start with an UpperCamelCase segment, with subsequent segments \
                 separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric \
                 characters and slashes"
            )));
        }
        match before {
            Some(before) if before == name => errors.push(feature.duplicate()),
            Some(before) if before > name => {
                errors.push(feature.invalid("list must be sorted alphabetically"));
            }
            _ => {}
        }
        before = Some(name);
    }
}

fn is_feature_name(name: &str) -> bool {
    let is_part = |part: &str| {
        part.starts_with(|first: char| first.is_ascii_alphabetic())
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    name.starts_with(|first: char| first.is_ascii_uppercase()) && name.split('/').all(is_part)
}

/// Checks a change of a node or of its status.
pub(super) fn update(new: &Value, old: &Value, errors: &mut Errors) {
    capacity(new, errors);
    let root = Place::root("", new);
    declared_features(&root, errors);
    let status = root.field("status");
    let addresses = status.field("addresses");
    let mut seen: Vec<&Value> = Vec::new();
    for address in addresses.items() {
        if seen.contains(&address.value) {
            errors.push(address.duplicate());
        }
        seen.push(address.value);
    }
    let ranges = |node: &Value| node["spec"]["podCIDRs"].as_array().cloned().unwrap_or_default();
    let (before, after) = (ranges(old), ranges(new));
    if !before.is_empty() {
        let changed = if before.len() == after.len() {
            before.iter().zip(&after).filter(|(before, after)| before != after).count()
        } else {
            1
        };
        for _ in 0..changed {
            let rule = "node updates may not change podCIDR except from \"\" to valid";
            errors.push(FieldError::forbidden("spec.podCIDRs", rule));
        }
    }
    let text = |node: &Value| node["spec"]["providerID"].as_str().unwrap_or_default().to_owned();
    if !text(old).is_empty() && text(old) != text(new) {
        let rule = "node updates may not change providerID except from \"\" to valid";
        errors.push(FieldError::forbidden("spec.providerID", rule));
    }
    taints(&Place::root("metadata.taints", &new["spec"]["taints"]), errors);
    if new["spec"]["externalID"] != old["spec"]["externalID"] {
        errors.push(FieldError::forbidden("spec.externalID", "may not be updated"));
    }
}

fn capacity(node: &Value, errors: &mut Errors) {
    for list in ["capacity", "allocatable"] {
        for (name, amount) in node["status"][list].as_object().into_iter().flatten() {
            let path = format!("status.{list}.{name}");
            resources::amount(&Place::root(&path, amount), name, errors);
        }
    }
}

fn taints(list: &Place<'_, '_>, errors: &mut Errors) {
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for taint in list.items() {
        let (key, value, effect) = (taint.field("key"), taint.field("value"), taint.field("effect"));
        errors.form(&key, format::label_key(key.text()));
        let wrong = format::label_value(value.text());
        if !wrong.is_empty() {
            errors.push(value.invalid(wrong.join(";")));
        }
        errors.one_of(&effect, TAINT_EFFECTS);
        let identity = (effect.text(), key.text());
        if seen.contains(&identity) {
            let mut duplicate = FieldError::duplicate(taint.path(), taint.value);
            duplicate.message =
                format!("{}: taints must be unique by key and effect pair", duplicate.message);
            errors.push(duplicate);
            continue;
        }
        seen.push(identity);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn declared_features_are_named_in_order() {
        let wrong = |features: Value| {
            let node = json!({"status": {"declaredFeatures": features}});
            let mut errors = Errors::default();
            declared_features(&Place::root("", &node), &mut errors);
            errors.0.into_iter().map(|error| error.field).collect::<Vec<_>>()
        };
        assert!(wrong(json!(["A", "A/b", "Bc"])).is_empty());
        assert_eq!(wrong(json!(["a"])), ["status.declaredFeatures[0]"]);
        assert_eq!(
            wrong(json!(["B", "A", "A"])),
            ["status.declaredFeatures[1]", "status.declaredFeatures[2]"]
        );
    }
}
