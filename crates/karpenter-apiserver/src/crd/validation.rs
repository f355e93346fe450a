//! Judging custom objects: the structural schema, the CEL rules through `kube-cel`, both reported in the words of
//! Kubernetes.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::structural::{Structural, type_name};
use crate::error::FieldError;

/// The compiled rules of one version of a custom resource.
pub(crate) struct Validation {
    structural: Structural,
    rules: kube_cel::CompiledSchema,
    /// What rules say when they are broken, by rule.
    messages: BTreeMap<String, String>,
}

impl std::fmt::Debug for Validation {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Validation").finish_non_exhaustive()
    }
}

impl Validation {
    /// Compiles a schema.
    ///
    /// # Errors
    /// Returns a sentence about the first part that does not compile.
    pub(crate) fn compile(schema: &Value) -> Result<Self, String> {
        let structural = Structural::compile(schema)?;
        let rules = kube_cel::compile_schema(schema);
        if let Some(error) = rules.compilation_errors().first() {
            return Err(format!("compilation failed: {error}"));
        }
        let mut messages = BTreeMap::new();
        collect_messages(schema, &mut messages);
        Ok(Self { structural, rules, messages })
    }

    /// Returns the rules `object` breaks; on an update, what `old` already broke in the same place is forgiven.
    /// Of a write of the status only that is looked at, except by rules.
    pub(crate) fn validate(&self, object: &Value, old: Option<&Value>, status: bool) -> Vec<FieldError> {
        let mut errors = if status {
            self.structural.judge_status(object, old)
        } else {
            self.structural.judge(object, old)
        };
        if errors.iter().any(|error| BLOCKING.contains(&error.reason)) {
            const SKIPPED: &str = "some validation rules were not checked because the object was invalid; \
                                   correct the existing errors to complete validation";
            if has_rules(&self.rules) {
                errors.push(FieldError::invalid("<nil>", &Value::Null, SKIPPED));
            }
            return errors;
        }
        for error in self.broken_rules(object, old) {
            errors.push(self.rule_error(object, &error));
        }
        errors
    }

    /// Evaluates the rules. What an update leaves as it was cannot break any, so the parts of the object that are the
    /// same as before are not looked at: most updates are of the status, whose kinds have all their rules in the spec.
    fn broken_rules(&self, object: &Value, old: Option<&Value>) -> Vec<kube_cel::ValidationError> {
        let evaluate = |object: &Value, old: Option<&Value>| {
            let outcome = kube_cel::Validator::new().validate_compiled(&self.rules, object, old);
            outcome.err().map(kube_cel::ValidationErrors::into_vec).unwrap_or_default()
        };
        let Some(before) = old.filter(|_| self.rules.validations.is_empty()) else {
            return evaluate(object, old);
        };
        let is_changed = |name: &&String| object.get(*name) != before.get(*name);
        let ruled = self.rules.properties.iter().filter(|(_, part)| has_rules(part)).map(|(name, _)| name);
        let changed: Vec<&String> = ruled.filter(is_changed).collect();
        if changed.is_empty() {
            return Vec::new();
        }
        let parts = |whole: &Value| {
            let part = |name: &&String| Some(((*name).clone(), whole.get(*name)?.clone()));
            Value::Object(changed.iter().filter_map(part).collect())
        };
        evaluate(&parts(object), Some(&parts(before)))
    }

    fn rule_error(&self, object: &Value, error: &kube_cel::ValidationError) -> FieldError {
        let field = if error.field_path.is_empty() { "<nil>" } else { error.field_path.as_str() };
        let found = at_path(object, &error.field_path);
        if error.kind == kube_cel::ErrorKind::EvaluationError {
            let said = self.messages.get(&error.rule).map_or("", String::as_str);
            let rule = format!("{} evaluating rule: {said}", cause(&error.message));
            return FieldError::invalid(field, &json!(found.map_or("object", type_name)), rule);
        }
        let value = found.filter(|value| !value.is_object() && !value.is_array());
        match (error.reason.as_deref(), value) {
            (Some("FieldValueForbidden"), _) => FieldError::forbidden(field, &error.message),
            (Some("FieldValueRequired"), _) => FieldError::required(field, &error.message),
            (Some("FieldValueDuplicate"), value) => {
                FieldError::duplicate(field, value.unwrap_or(&Value::Null))
            }
            (_, Some(value)) => FieldError::invalid(field, value, &error.message),
            // Only scalars are quoted.
            (_, None) => {
                FieldError::new("FieldValueInvalid", field, format!("Invalid value: {}", error.message))
            }
        }
    }
}

fn has_rules(schema: &kube_cel::CompiledSchema) -> bool {
    !schema.validations.is_empty()
        || schema.properties.values().any(has_rules)
        || schema.items.as_deref().is_some_and(has_rules)
        || schema.additional_properties.as_deref().is_some_and(has_rules)
}

/// Reasons after which Kubernetes does not evaluate CEL rules.
const BLOCKING: &[&str] = &[
    "FieldValueRequired",
    "FieldValueTypeInvalid",
    "FieldValueNotSupported",
    "FieldValueTooLong",
    "FieldValueTooMany",
];

fn collect_messages(schema: &Value, messages: &mut BTreeMap<String, String>) {
    for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
        let text = |name: &str| rule[name].as_str().unwrap_or_default().to_owned();
        let default = format!("failed rule: {}", text("rule"));
        let message = if text("message").is_empty() { default } else { text("message") };
        messages.insert(text("rule"), message);
    }
    let below = schema.as_object().into_iter().flatten();
    for (name, part) in below.filter(|(name, _)| *name != "default") {
        match (name.as_str(), part) {
            ("properties", Value::Object(properties)) => {
                properties.values().for_each(|property| collect_messages(property, messages));
            }
            ("items" | "additionalProperties", part) => collect_messages(part, messages),
            _ => {}
        }
    }
}

/// A failure to evaluate a rule in the words of cel-go, where it is a common one.
fn cause(message: &str) -> String {
    let text = message.trim_start_matches("rule evaluation error: ");
    if text.starts_with("Error executing function 'int': string parse error") {
        "type conversion error from 'string' to 'int'".to_owned()
    } else {
        let mut letters = text.chars();
        letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
    }
}

/// Follows a path such as `spec.taints[0].key`.
fn at_path<'v>(object: &'v Value, path: &str) -> Option<&'v Value> {
    let mut current = object;
    for part in path.split(['.', '[']).map(|part| part.trim_end_matches(']')).filter(|part| !part.is_empty())
    {
        current = match part.parse::<usize>() {
            Ok(index) if current.is_array() => current.get(index)?,
            _ => current.get(part)?,
        };
    }
    Some(current)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn validation() -> Validation {
        Validation::compile(&json!({"type": "object", "properties": {"spec": {
            "type": "object",
            "required": ["name"],
            "properties": {
                "name": {"type": "string", "maxLength": 5, "pattern": "^[a-z]+$"},
                "count": {"type": "integer", "minimum": 0, "exclusiveMinimum": true},
                "size": {"x-kubernetes-int-or-string": true},
                "mode": {"type": "string", "enum": ["a", "b"], "nullable": true},
                "fixed": {"type": "string", "x-kubernetes-validations": [
                    {"rule": "self == oldSelf", "message": "fixed is immutable"},
                ]},
            },
        }}}))
        .unwrap()
    }

    fn sentences(object: &Value, old: Option<&Value>) -> Vec<String> {
        let errors = validation().validate(object, old, false);
        errors.iter().map(|error| format!("{}: {}", error.field, error.message)).collect()
    }

    #[test]
    fn structural_errors_read_as_kubernetes_writes_them() {
        let object = json!({"spec": {"name": "UPPER", "count": 0, "mode": "c", "size": true}});
        let sentences = sentences(&object, None);
        for expected in [
            "spec.name: Invalid value: \"UPPER\": spec.name in body should match '^[a-z]+$'",
            "spec.count: Invalid value: 0: spec.count in body should be greater than 0",
            "spec.mode: Unsupported value: \"c\": supported values: \"a\", \"b\"",
            "spec.size: Invalid value: \"boolean\": spec.size in body must be of type integer,string: \"boolean\"",
        ] {
            assert!(
                sentences.iter().any(|sentence| sentence == expected),
                "{expected} not in {sentences:#?}"
            );
        }
    }

    #[test]
    fn a_rule_broken_before_does_not_stop_a_change_elsewhere() {
        let strict = Validation::compile(&json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {"size": {"type": "integer"}}, "x-kubernetes-validations": [
                {"rule": "self.size > 1", "message": "too small"},
            ]},
            "status": {"type": "object", "properties": {"seen": {"type": "boolean"}}},
        }}))
        .unwrap();
        let old = json!({"spec": {"size": 1}});
        let seen = json!({"spec": {"size": 1}, "status": {"seen": true}});
        let shrunk = json!({"spec": {"size": 0}});
        assert!(strict.validate(&seen, Some(&old), false).is_empty());
        assert_eq!(strict.validate(&shrunk, Some(&old), false).len(), 1);
        assert_eq!(strict.validate(&seen, None, false).len(), 1);
    }

    #[test]
    fn transition_rules_see_the_old_object() {
        let old = json!({"spec": {"name": "a", "fixed": "x"}});
        let new = json!({"spec": {"name": "a", "fixed": "y"}});
        assert!(sentences(&old, Some(&old)).is_empty());
        assert_eq!(sentences(&new, Some(&old)), ["spec.fixed: Invalid value: \"y\": fixed is immutable"]);
        assert!(sentences(&new, None).is_empty());
    }

    #[test]
    fn an_unchanged_invalid_field_does_not_block_an_update() {
        let old = json!({"spec": {"name": "UPPER"}});
        let new = json!({"spec": {"name": "UPPER", "size": 1}});
        assert!(sentences(&new, Some(&old)).is_empty());
    }
}
