//! Judging custom objects: the structural schema through `jsonschema`, the CEL rules through `kube-cel`, both
//! reported in the words of Kubernetes.

use jsonschema::error::{TypeKind, ValidationErrorKind};
use serde_json::{Map, Value, json};

use crate::error::FieldError;

/// The compiled rules of one version of a custom resource.
pub(crate) struct Validation {
    structural: jsonschema::Validator,
    rules: kube_cel::CompiledSchema,
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
        let structural = jsonschema::options()
            .should_validate_formats(true)
            .build(&plain(schema))
            .map_err(|error| error.to_string())?;
        let rules = kube_cel::compile_schema(schema);
        if let Some(error) = rules.compilation_errors().first() {
            return Err(format!("compilation failed: {error}"));
        }
        Ok(Self { structural, rules })
    }

    /// Returns the rules `object` breaks; on an update, what `old` already broke in the same place is forgiven.
    pub(crate) fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let mut blocking = false;
        for error in self.structural.iter_errors(object) {
            let pointer = error.instance_path().as_str().to_owned();
            let unchanged = old.is_some_and(|old| {
                object.pointer(&pointer).is_some_and(|now| old.pointer(&pointer) == Some(now))
            });
            let reported = field_errors(&pointer, error.kind(), error.instance());
            if unchanged && !pointer.is_empty() {
                continue;
            }
            blocking |= reported.iter().any(|error| BLOCKING.contains(&error.reason));
            errors.extend(reported);
        }
        if blocking {
            const SKIPPED: &str = "some validation rules were not checked because the object was invalid; \
                                   correct the existing errors to complete validation";
            if !self.has_no_rules() {
                errors.push(FieldError::invalid("<nil>", &Value::Null, SKIPPED));
            }
            return errors;
        }
        let outcome = kube_cel::Validator::new().validate_compiled(&self.rules, object, old);
        for error in outcome.err().into_iter().flat_map(kube_cel::ValidationErrors::into_vec) {
            errors.push(rule_error(object, &error));
        }
        errors
    }

    fn has_no_rules(&self) -> bool {
        self.rules.validations.is_empty() && self.rules.properties.is_empty()
    }
}

/// Reasons after which Kubernetes does not evaluate CEL rules.
const BLOCKING: &[&str] = &[
    "FieldValueRequired",
    "FieldValueTypeInvalid",
    "FieldValueNotSupported",
    "FieldValueTooLong",
    "FieldValueTooMany",
];

fn rule_error(object: &Value, error: &kube_cel::ValidationError) -> FieldError {
    let reason = match error.reason.as_deref() {
        Some("FieldValueForbidden") => "FieldValueForbidden",
        Some("FieldValueRequired") => "FieldValueRequired",
        Some("FieldValueDuplicate") => "FieldValueDuplicate",
        _ => "FieldValueInvalid",
    };
    let field = if error.field_path.is_empty() { "<nil>" } else { error.field_path.as_str() };
    let shown = json!(at_path(object, &error.field_path).map_or("object", type_name));
    match reason {
        "FieldValueForbidden" => FieldError::forbidden(field, &error.message),
        "FieldValueRequired" => FieldError::required(field, &error.message),
        "FieldValueDuplicate" => FieldError::duplicate(field, &shown),
        _ => FieldError::invalid(field, &shown, &error.message),
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

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Turns a JSON pointer into the path Kubernetes prints.
fn dotted(pointer: &str) -> String {
    let mut path = String::new();
    for part in pointer.split('/').skip(1) {
        let part = part.replace("~1", "/").replace("~0", "~");
        if part.bytes().all(|byte| byte.is_ascii_digit()) {
            path.extend(["[", &part, "]"]);
        } else {
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(&part);
        }
    }
    path
}

fn field_errors(pointer: &str, kind: &ValidationErrorKind, value: &Value) -> Vec<FieldError> {
    use ValidationErrorKind as Kind;
    let path = dotted(pointer);
    let invalid = |rule: String| FieldError::invalid(path.clone(), value, format!("{path} in body {rule}"));
    let too_many = |count: usize, limit: u64, what: &str| {
        let message = format!("Too many: {count}: must have at most {limit} {what}");
        FieldError::new("FieldValueTooMany", path.clone(), message)
    };
    let error = match kind {
        Kind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            let field = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
            FieldError::required(field, "")
        }
        Kind::Type { kind } => {
            let found = type_name(value);
            let message = format!(
                "Invalid value: {found:?}: {path} in body must be of type {}: {found:?}",
                expected_type(kind)
            );
            FieldError::new("FieldValueTypeInvalid", path.clone(), message)
        }
        Kind::Enum { options } => {
            let options: Vec<&str> =
                options.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            FieldError::unsupported(path.clone(), value, &options)
        }
        Kind::MaxLength { limit } => {
            let message = format!("Too long: may not be more than {limit} bytes");
            FieldError::new("FieldValueTooLong", path.clone(), message)
        }
        Kind::MaxItems { limit } => too_many(value.as_array().map_or(0, Vec::len), *limit, "items"),
        Kind::MaxProperties { limit } => too_many(value.as_object().map_or(0, Map::len), *limit, "items"),
        Kind::MinLength { limit } => invalid(format!("should be at least {limit} chars long")),
        Kind::MinItems { limit } => invalid(format!("should have at least {limit} items")),
        Kind::MinProperties { limit } => invalid(format!("should have at least {limit} properties")),
        Kind::Minimum { limit } => invalid(format!("should be greater than or equal to {limit}")),
        Kind::Maximum { limit } => invalid(format!("should be less than or equal to {limit}")),
        Kind::ExclusiveMinimum { limit } => invalid(format!("should be greater than {limit}")),
        Kind::ExclusiveMaximum { limit } => invalid(format!("should be less than {limit}")),
        Kind::MultipleOf { multiple_of } => invalid(format!("should be a multiple of {multiple_of}")),
        Kind::Pattern { pattern } => invalid(format!("should match '{pattern}'")),
        Kind::Format { format } => invalid(format!("must be of type {format}: {value}")),
        Kind::UniqueItems => FieldError::duplicate(path.clone(), value),
        Kind::AnyOf { .. } => invalid("must validate at least one schema (anyOf)".into()),
        Kind::OneOfMultipleValid { .. } | Kind::OneOfNotValid { .. } => {
            invalid("must validate one and only one schema (oneOf)".into())
        }
        Kind::Not { .. } => invalid("must not validate the schema (not)".into()),
        other => invalid(format!("breaks the rule {}", other.keyword())),
    };
    vec![error]
}

fn expected_type(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(kind) => kind.to_string(),
        TypeKind::Multiple(kinds) => {
            kinds.iter().map(|kind| kind.to_string()).find(|kind| kind != "null").unwrap_or_default()
        }
    }
}

/// Rewrites the dialect of CRDs as plain JSON schema: `nullable`, int-or-string, boolean exclusive bounds.
fn plain(schema: &Value) -> Value {
    let Some(source) = schema.as_object() else { return schema.clone() };
    let mut target = Map::new();
    for (name, value) in source {
        match name.as_str() {
            "properties" => {
                let fields = value.as_object().into_iter().flatten();
                target
                    .insert(name.clone(), fields.map(|(name, value)| (name.clone(), plain(value))).collect());
            }
            "items" | "additionalProperties" | "not" => {
                target.insert(name.clone(), plain(value));
            }
            "allOf" | "anyOf" | "oneOf" => {
                let parts = value.as_array().into_iter().flatten();
                target.insert(name.clone(), parts.map(plain).collect());
            }
            "exclusiveMinimum" | "exclusiveMaximum" if value.is_boolean() => {}
            "description" | "title" | "default" | "nullable" | "example" | "externalDocs" => {}
            // Kubernetes only checks the formats it knows; int32 and int64 are bounds, which types already imply.
            "format" if !KNOWN_FORMATS.contains(&value.as_str().unwrap_or_default()) => {}
            extension if extension.starts_with("x-kubernetes-") => {}
            _ => {
                target.insert(name.clone(), value.clone());
            }
        }
    }
    for (flag, bound) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        if source.get(flag) == Some(&Value::Bool(true))
            && let Some(limit) = target.remove(bound)
        {
            target.insert(flag.to_owned(), limit);
        }
    }
    if source.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
        target.insert("type".into(), json!(["integer", "string"]));
    }
    if source.get("x-kubernetes-list-type").is_some_and(|kind| kind == "set") {
        target.insert("uniqueItems".into(), json!(true));
    }
    if source.get("nullable") == Some(&Value::Bool(true)) {
        make_nullable(&mut target);
    }
    Value::Object(target)
}

const KNOWN_FORMATS: &[&str] = &["date-time", "date", "email", "ipv4", "ipv6", "uri", "uuid", "hostname"];

fn make_nullable(target: &mut Map<String, Value>) {
    if let Some(kind) = target.remove("type") {
        let mut kinds = kind.as_array().cloned().unwrap_or_else(|| vec![kind]);
        kinds.push(json!("null"));
        target.insert("type".into(), Value::Array(kinds));
    }
    if let Some(Value::Array(options)) = target.get_mut("enum") {
        options.push(Value::Null);
    }
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
        let errors = validation().validate(object, old);
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
            "spec.size: Invalid value: \"boolean\": spec.size in body must be of type integer: \"boolean\"",
        ] {
            assert!(
                sentences.iter().any(|sentence| sentence == expected),
                "{expected} not in {sentences:#?}"
            );
        }
    }

    #[test]
    fn transition_rules_see_the_old_object() {
        let old = json!({"spec": {"name": "a", "fixed": "x"}});
        let new = json!({"spec": {"name": "a", "fixed": "y"}});
        assert!(sentences(&old, Some(&old)).is_empty());
        assert_eq!(
            sentences(&new, Some(&old)),
            ["spec.fixed: Invalid value: \"string\": fixed is immutable"]
        );
        assert!(sentences(&new, None).is_empty());
    }

    #[test]
    fn an_unchanged_invalid_field_does_not_block_an_update() {
        let old = json!({"spec": {"name": "UPPER"}});
        let new = json!({"spec": {"name": "UPPER", "size": 1}});
        assert!(sentences(&new, Some(&old)).is_empty());
    }
}
