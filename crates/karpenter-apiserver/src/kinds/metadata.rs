//! Rules for `metadata` that all kinds share.

use serde_json::{Value, json};

use crate::error::FieldError;
use crate::registry::Resource;

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
     and must start and end with an alphanumeric character";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
     start and end with an alphanumeric character";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
     and must start and end with an alphanumeric character";
const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with \
     an alphanumeric character";
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

pub(super) fn validate(resource: &Resource, object: &Value) -> Vec<FieldError> {
    let metadata = &object["metadata"];
    let mut errors = Vec::new();
    check_name(resource, &metadata["name"], &mut errors);
    for (key, value) in metadata["labels"].as_object().into_iter().flatten() {
        if !is_qualified_name(key) {
            errors.push(FieldError::invalid("metadata.labels", &json!(key), QUALIFIED));
        }
        if !value.as_str().is_some_and(is_label_value) {
            errors.push(FieldError::invalid("metadata.labels", value, LABEL_VALUE));
        }
    }
    let mut size = 0;
    for (key, value) in metadata["annotations"].as_object().into_iter().flatten() {
        size += key.len() + value.as_str().map_or(0, str::len);
        if !is_qualified_name(&key.to_lowercase()) {
            errors.push(FieldError::invalid("metadata.annotations", &json!(key), QUALIFIED));
        }
    }
    if size > ANNOTATIONS_LIMIT {
        let message = format!("Too long: may not be more than {ANNOTATIONS_LIMIT} bytes");
        errors.push(FieldError::new("FieldValueTooLong", "metadata.annotations", message));
    }
    check_owners(&metadata["ownerReferences"], &mut errors);
    errors
}

fn check_name(resource: &Resource, name: &Value, errors: &mut Vec<FieldError>) {
    let text = name.as_str().unwrap_or_default();
    let invalid = match &*resource.name {
        // RBAC names are path segments, not DNS names.
        name if name.ends_with("rbac.authorization.k8s.io") => {
            text.contains(['/', '%']) || text == "." || text == ".."
        }
        "namespaces" | "services" => {
            if !is_label(text) {
                errors.push(FieldError::invalid("metadata.name", name, LABEL));
            }
            return;
        }
        _ => !is_subdomain(text),
    };
    if invalid {
        errors.push(FieldError::invalid("metadata.name", name, SUBDOMAIN));
    }
}

fn check_owners(owners: &Value, errors: &mut Vec<FieldError>) {
    let mut controllers = 0;
    for (index, owner) in owners.as_array().into_iter().flatten().enumerate() {
        for name in ["apiVersion", "kind", "name", "uid"] {
            if owner[name].as_str().is_none_or(str::is_empty) {
                errors.push(FieldError::required(
                    format!("metadata.ownerReferences[{index}].{name}"),
                    "must not be empty",
                ));
            }
        }
        controllers += usize::from(owner["controller"] == true);
    }
    if controllers > 1 {
        let rule = "Only one reference can have Controller set to true";
        errors.push(FieldError::invalid("metadata.ownerReferences", owners, rule));
    }
}

/// Whether a text is a DNS label: up to 63 lower case characters, digits and dashes.
pub(super) fn is_label(text: &str) -> bool {
    text.len() <= 63 && is_dns(text, false)
}

/// Whether a text is a DNS subdomain: up to 253 characters.
pub(super) fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && is_dns(text, true)
}

fn is_dns(text: &str, dots: bool) -> bool {
    let edge = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let part = |part: &str| {
        let bytes = part.as_bytes();
        bytes.first().is_some_and(|byte| edge(*byte))
            && bytes.last().is_some_and(|byte| edge(*byte))
            && bytes.iter().all(|byte| edge(*byte) || *byte == b'-')
    };
    if dots { text.split('.').all(part) } else { part(text) }
}

/// Whether a text is a label key: an optional DNS prefix and a name.
fn is_qualified_name(text: &str) -> bool {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    prefix.is_none_or(is_subdomain) && !name.is_empty() && is_label_value(name)
}

fn is_label_value(text: &str) -> bool {
    let bytes = text.as_bytes();
    text.len() <= 63
        && bytes.first().is_none_or(u8::is_ascii_alphanumeric)
        && bytes.last().is_none_or(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_keys_follow_the_dns_rules() {
        assert!(is_subdomain("a-1.b"));
        assert!(!is_subdomain("A"));
        assert!(!is_subdomain("a..b"));
        assert!(!is_subdomain("-a"));
        assert!(!is_label("a.b"));
        assert!(is_qualified_name("karpenter.sh/nodepool"));
        assert!(!is_qualified_name("karpenter.sh/"));
        assert!(!is_qualified_name("a/b/c"));
        assert!(is_label_value(""));
        assert!(!is_label_value("-x"));
    }
}
