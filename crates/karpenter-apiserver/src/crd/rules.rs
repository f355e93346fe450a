//! What is wrong with the CEL rules of a schema.

use kube_cel::CompiledSchema;
use serde_json::Value;

use super::schema_check::parts;
use crate::error::FieldError;

/// Returns which rules do not compile, except where something else is wrong at or below their place.
pub(super) fn check_rules(schema: &Value, place: &str, found: &[FieldError]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check_compiled(&kube_cel::compile_schema(schema), schema, place, &mut errors);
    errors.retain(|error| {
        let place = error.field.split(".x-kubernetes-validations").next().unwrap_or_default();
        !found.iter().any(|other| other.field.starts_with(place))
    });
    errors
}

/// Adds what is wrong with the texts of rules.
pub(super) fn check_texts(schema: &Value, place: &str, errors: &mut Vec<FieldError>) {
    for (index, rule) in schema["x-kubernetes-validations"].as_array().into_iter().flatten().enumerate() {
        let field = |name: &str| format!("{place}.x-kubernetes-validations[{index}].{name}");
        let text = |name: &str| rule[name].as_str().unwrap_or_default();
        let message = text("message");
        if text("rule").trim().is_empty() {
            errors.push(FieldError::required(field("rule"), "rule is not specified"));
        } else if !message.is_empty() && message.trim().is_empty() {
            errors.push(FieldError::invalid(
                field("message"),
                &rule["message"],
                "must be non-empty if specified",
            ));
        } else if message.trim().contains('\n') {
            errors.push(FieldError::invalid(
                field("message"),
                &rule["message"],
                "must not contain line breaks",
            ));
        } else if text("rule").trim().contains('\n') && message.is_empty() {
            let rule = "message must be specified if rule contains line breaks";
            errors.push(FieldError::required(field("message"), rule));
        }
        if !text("messageExpression").is_empty() && text("messageExpression").trim().is_empty() {
            let rule = "messageExpression must be non-empty if specified";
            errors.push(FieldError::required(field("messageExpression"), rule));
        }
    }
    for (part, place) in parts(schema, place) {
        check_texts(part, &place, errors);
    }
}

fn check_compiled(compiled: &CompiledSchema, schema: &Value, place: &str, errors: &mut Vec<FieldError>) {
    for (index, outcome) in compiled.validations.iter().enumerate() {
        if let Err(error) = outcome {
            let field = format!("{place}.x-kubernetes-validations[{index}].rule");
            let rule = &schema["x-kubernetes-validations"][index];
            errors.push(FieldError::invalid(field, rule, format!("compilation failed: {error}")));
        }
    }
    for (name, part) in &compiled.properties {
        check_compiled(part, &schema["properties"][name], &format!("{place}.properties[{name}]"), errors);
    }
    if let Some(part) = &compiled.items {
        check_compiled(part, &schema["items"], &format!("{place}.items"), errors);
    }
    if let Some(part) = &compiled.additional_properties {
        check_compiled(
            part,
            &schema["additionalProperties"],
            &format!("{place}.additionalProperties"),
            errors,
        );
    }
}
