//! Webhook configurations and policies as objects: their defaults and the rules they must keep.

use serde_json::{Value, json};

use super::expression::flaw;
use super::{BINDINGS, MUTATING, POLICIES, VALIDATING};
use crate::error::FieldError;

/// Sets a field that is absent.
fn default(object: &mut Value, name: &str, value: Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.entry(name).or_insert(value);
    }
}

/// Fills in the defaults of an object of this module's resources.
pub(crate) fn apply_defaults(resource: &str, object: &mut Value) {
    match resource {
        VALIDATING | MUTATING => {
            for webhook in object["webhooks"].as_array_mut().into_iter().flatten() {
                default_webhook(webhook, resource == MUTATING);
            }
        }
        POLICIES => {
            let spec = &mut object["spec"];
            default(spec, "failurePolicy", "Fail".into());
            default_constraints(&mut spec["matchConstraints"]);
        }
        BINDINGS => default_constraints(&mut object["spec"]["matchResources"]),
        _ => {}
    }
}

fn default_webhook(webhook: &mut Value, mutating: bool) {
    default(webhook, "failurePolicy", "Fail".into());
    default(webhook, "matchPolicy", "Equivalent".into());
    default(webhook, "namespaceSelector", json!({}));
    default(webhook, "objectSelector", json!({}));
    default(webhook, "timeoutSeconds", 10.into());
    if mutating {
        default(webhook, "reinvocationPolicy", "Never".into());
    }
    if let Some(service) = webhook["clientConfig"].get_mut("service") {
        default(service, "port", 443.into());
    }
    for rule in webhook["rules"].as_array_mut().into_iter().flatten() {
        default(rule, "scope", "*".into());
    }
}

fn default_constraints(constraints: &mut Value) {
    if !constraints.is_object() {
        return;
    }
    default(constraints, "matchPolicy", "Equivalent".into());
    default(constraints, "namespaceSelector", json!({}));
    default(constraints, "objectSelector", json!({}));
    for list in ["resourceRules", "excludeResourceRules"] {
        for rule in constraints[list].as_array_mut().into_iter().flatten() {
            default(rule, "scope", "*".into());
        }
    }
}

/// Returns what is wrong with an object of this module's resources.
pub(crate) fn validate(resource: &str, object: &Value) -> Vec<FieldError> {
    match resource {
        VALIDATING | MUTATING => validate_webhooks(object),
        POLICIES => validate_policy(&object["spec"]),
        BINDINGS => validate_binding(&object["spec"]),
        _ => Vec::new(),
    }
}

fn validate_webhooks(object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    for (index, webhook) in object["webhooks"].as_array().into_iter().flatten().enumerate() {
        let path = format!("webhooks[{index}]");
        let name = webhook["name"].as_str().unwrap_or_default();
        check_name(&format!("{path}.name"), name, &mut errors);
        if names.contains(&name) {
            errors.push(FieldError::duplicate(format!("{path}.name"), &webhook["name"]));
        }
        names.push(name);
        check_rules(&format!("{path}.rules"), &webhook["rules"], &mut errors);
        check_choices(&path, webhook, &mut errors);
        check_client(&format!("{path}.clientConfig"), &webhook["clientConfig"], &mut errors);
        check_conditions(&format!("{path}.matchConditions"), &webhook["matchConditions"], &mut errors);
        check_versions(&format!("{path}.admissionReviewVersions"), webhook, &mut errors);
    }
    errors
}

fn check_name(path: &str, name: &str, errors: &mut Vec<FieldError>) {
    if name.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else if name.split('.').count() < 3 {
        let rule = "should be a domain with at least three segments separated by dots";
        errors.push(FieldError::invalid(path, &json!(name), rule));
    }
}

fn check_choices(path: &str, webhook: &Value, errors: &mut Vec<FieldError>) {
    for (name, allowed) in [
        ("failurePolicy", &["Fail", "Ignore"]),
        ("matchPolicy", &["Equivalent", "Exact"]),
        ("sideEffects", &["None", "NoneOnDryRun"]),
    ] {
        match webhook[name].as_str() {
            Some(value) if !allowed.contains(&value) => {
                errors.push(FieldError::unsupported(format!("{path}.{name}"), &webhook[name], allowed));
            }
            None if name == "sideEffects" => {
                let rule = "must specify one of None, NoneOnDryRun";
                errors.push(FieldError::required(format!("{path}.{name}"), rule));
            }
            _ => {}
        }
    }
    if webhook["timeoutSeconds"].as_i64().is_some_and(|seconds| !(1..=30).contains(&seconds)) {
        let rule = "the timeout value must be between 1 and 30 seconds";
        errors.push(FieldError::invalid(format!("{path}.timeoutSeconds"), &webhook["timeoutSeconds"], rule));
    }
}

fn check_client(path: &str, client: &Value, errors: &mut Vec<FieldError>) {
    match (client["url"].as_str(), client["service"].is_object()) {
        (Some(url), false) => {
            let path = format!("{path}.url");
            let form = "; desired format: https://host[/path]";
            let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
            if scheme != "https" {
                let rule = format!("'https' is the only allowed URL scheme{form}");
                errors.push(FieldError::invalid(path.clone(), &json!(scheme), rule));
            }
            if rest.is_empty() || rest.starts_with('/') {
                let rule = format!("host must be specified{form}");
                errors.push(FieldError::invalid(path.clone(), &json!(""), rule));
            }
            if let Some((_, parameters)) = rest.split_once('?') {
                let rule = format!("query parameters are not permitted in the URL{form}");
                errors.push(FieldError::invalid(path, &json!(parameters), rule));
            }
        }
        (None, true) => {
            for name in ["name", "namespace"] {
                if client["service"][name].as_str().is_none_or(str::is_empty) {
                    errors.push(FieldError::required(format!("{path}.service.{name}"), ""));
                }
            }
        }
        _ => errors.push(FieldError::required(path, "exactly one of url or service is required")),
    }
}

fn check_rules(path: &str, rules: &Value, errors: &mut Vec<FieldError>) {
    for (index, rule) in rules.as_array().into_iter().flatten().enumerate() {
        for (name, what) in [
            ("operations", "operations"),
            ("apiGroups", "API groups"),
            ("apiVersions", "API versions"),
            ("resources", "resources"),
        ] {
            check_rule_part(&format!("{path}[{index}].{name}"), name, what, &rule[name], errors);
        }
        let scopes = ["*", "Cluster", "Namespaced"];
        if rule["scope"].as_str().is_some_and(|scope| !scopes.contains(&scope)) {
            errors.push(FieldError::unsupported(format!("{path}[{index}].scope"), &rule["scope"], &scopes));
        }
    }
}

fn check_rule_part(path: &str, name: &str, what: &str, part: &Value, errors: &mut Vec<FieldError>) {
    let values = part.as_array().map(Vec::as_slice).unwrap_or_default();
    if values.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    let wildcard = if name == "resources" { "*/*" } else { "*" };
    if values.len() > 1 && values.iter().any(|value| value == wildcard) {
        let rule = format!("if '{wildcard}' is present, must not specify other {what}");
        errors.push(FieldError::invalid(path, part, rule));
    }
    let allowed = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
    for (place, value) in values.iter().enumerate() {
        let text = value.as_str().unwrap_or_default();
        if name == "operations" && !allowed.contains(&text) {
            errors.push(FieldError::unsupported(format!("{path}[{place}]"), value, &allowed));
        } else if text.is_empty() && name != "apiGroups" {
            errors.push(FieldError::required(format!("{path}[{place}]"), ""));
        }
    }
}

fn check_conditions(path: &str, conditions: &Value, errors: &mut Vec<FieldError>) {
    for (index, condition) in conditions.as_array().into_iter().flatten().enumerate() {
        check_expression(&format!("{path}[{index}].expression"), &condition["expression"], errors);
        if condition["name"].as_str().is_none_or(str::is_empty) {
            errors.push(FieldError::required(format!("{path}[{index}].name"), ""));
        }
    }
}

fn check_expression(path: &str, expression: &Value, errors: &mut Vec<FieldError>) {
    match expression.as_str().map(str::trim) {
        None | Some("") => errors.push(FieldError::required(path, "")),
        Some(text) => errors.extend(flaw(text).map(|flaw| FieldError::invalid(path, expression, flaw))),
    }
}

fn check_versions(path: &str, webhook: &Value, errors: &mut Vec<FieldError>) {
    let versions = &webhook["admissionReviewVersions"];
    match versions.as_array().map(Vec::as_slice).unwrap_or_default() {
        [] => errors.push(FieldError::required(path, "must specify one of v1, v1beta1")),
        known if !known.iter().any(|version| version == "v1" || version == "v1beta1") => {
            errors.push(FieldError::invalid(path, versions, "must include at least one of v1, v1beta1"));
        }
        _ => {}
    }
}

fn validate_policy(spec: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let constraints = &spec["matchConstraints"];
    if !constraints.is_object() {
        errors.push(FieldError::required("spec.matchConstraints", ""));
    } else if constraints["resourceRules"].as_array().is_none_or(Vec::is_empty) {
        errors.push(FieldError::required("spec.matchConstraints.resourceRules", ""));
    }
    check_rules("spec.matchConstraints.resourceRules", &constraints["resourceRules"], &mut errors);
    check_conditions("spec.matchConditions", &spec["matchConditions"], &mut errors);
    let empty = |name: &str| spec[name].as_array().is_none_or(Vec::is_empty);
    if empty("validations") && empty("auditAnnotations") {
        let rule = "validations or auditAnnotations must be specified";
        errors.push(FieldError::required("spec.validations", rule));
    }
    for (index, validation) in spec["validations"].as_array().into_iter().flatten().enumerate() {
        let path = format!("spec.validations[{index}].expression");
        check_expression(&path, &validation["expression"], &mut errors);
    }
    errors
}

fn validate_binding(spec: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if spec["policyName"].as_str().is_none_or(str::is_empty) {
        errors.push(FieldError::required("spec.policyName", ""));
    }
    let actions = spec["validationActions"].as_array().map(Vec::as_slice).unwrap_or_default();
    if actions.is_empty() {
        let rule = "at least one validation action is required";
        errors.push(FieldError::required("spec.validationActions", rule));
    }
    let allowed = ["Audit", "Deny", "Warn"];
    for (index, action) in actions.iter().enumerate() {
        if !action.as_str().is_some_and(|action| allowed.contains(&action)) {
            errors.push(FieldError::unsupported(
                format!("spec.validationActions[{index}]"),
                action,
                &allowed,
            ));
        }
    }
    if ["Deny", "Warn"].iter().all(|wanted| actions.iter().any(|action| action == wanted)) {
        let rule = "must not contain both Deny and Warn (repeating the same validation failure information in the \
                    API response and headers serves no purpose)";
        errors.push(FieldError::invalid("spec.validationActions", &spec["validationActions"], rule));
    }
    errors
}
