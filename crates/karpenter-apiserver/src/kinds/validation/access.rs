//! Rules of roles and bindings.

use serde_json::{Value, json};

use super::scheduling;
use crate::error::FieldError;
use crate::kinds::format;
use crate::kinds::place::{Errors, Place};

const GROUP: &str = "rbac.authorization.k8s.io";

pub(super) fn validate(resource: &str, object: &Place<'_, '_>, errors: &mut Errors) {
    let namespaced = resource.starts_with("role");
    if resource.contains("bindings") {
        binding(object, namespaced, errors);
    } else {
        for rule in object.field("rules").items() {
            policy_rule(&rule, namespaced, errors);
        }
        let aggregation = object.field("aggregationRule");
        if aggregation.is_set() {
            let selectors = aggregation.field("clusterRoleSelectors");
            if selectors.len() == 0 {
                let rule = "at least one clusterRoleSelector required if aggregationRule is non-nil";
                errors.push(selectors.required(rule));
            }
            for selector in selectors.items() {
                let before = errors.0.len();
                scheduling::label_selector(&selector, errors);
                if errors.0.len() > before {
                    errors.push(selector.invalid_value(&Value::Null, "invalid label selector."));
                }
            }
        }
    }
}

fn policy_rule(rule: &Place<'_, '_>, namespaced: bool, errors: &mut Errors) {
    let verbs = rule.field("verbs");
    if verbs.len() == 0 {
        errors.push(verbs.required("verbs must contain at least one value"));
    }
    let urls = rule.field("nonResourceURLs");
    let (groups, resources) = (rule.field("apiGroups"), rule.field("resources"));
    if urls.len() > 0 {
        if namespaced {
            let text = "namespaced rules cannot apply to non-resource URLs";
            errors.push(urls.invalid(text));
        }
        if groups.len() > 0 || resources.len() > 0 || rule.field("resourceNames").len() > 0 {
            let text = "rules cannot apply to both regular resources and non-resource URLs";
            errors.push(urls.invalid(text));
        }
        return;
    }
    if groups.len() == 0 {
        errors.push(groups.required("resource rules must supply at least one api group"));
    }
    if resources.len() == 0 {
        errors.push(resources.required("resource rules must supply at least one resource"));
    }
}

fn binding(binding: &Place<'_, '_>, namespaced: bool, errors: &mut Errors) {
    let role = binding.field("roleRef");
    let group = role.field("apiGroup");
    if group.text() != GROUP {
        errors.push(FieldError::unsupported(group.path(), &json!(group.text()), &[GROUP]));
    }
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    let kind = role.field("kind");
    if !kinds.contains(&kind.text()) {
        errors.push(FieldError::unsupported(kind.path(), &json!(kind.text()), kinds));
    }
    let name = role.field("name");
    if name.text().is_empty() {
        errors.push(name.required(""));
    } else {
        errors.form(&name, format::path_segment(name.text()));
    }
    for subject in binding.field("subjects").items() {
        self::subject(&subject, namespaced, errors);
    }
}

fn subject(subject: &Place<'_, '_>, namespaced: bool, errors: &mut Errors) {
    let (name, group, kind) = (subject.field("name"), subject.field("apiGroup"), subject.field("kind"));
    if name.text().is_empty() {
        errors.push(name.required(""));
    }
    match kind.text() {
        "ServiceAccount" => {
            if !name.text().is_empty() {
                errors.form(&name, format::dns_subdomain(name.text()));
            }
            if !group.text().is_empty() {
                errors.push(FieldError::unsupported(group.path(), group.value, &[""]));
            }
            let namespace = subject.field("namespace");
            if !namespaced && namespace.text().is_empty() {
                errors.push(namespace.required(""));
            }
        }
        "User" | "Group" => {
            if group.text() != GROUP {
                errors.push(FieldError::unsupported(group.path(), &json!(group.text()), &[GROUP]));
            }
        }
        other => {
            let kinds = ["ServiceAccount", "User", "Group"];
            errors.push(FieldError::unsupported(kind.path(), &json!(other), &kinds));
        }
    }
}
