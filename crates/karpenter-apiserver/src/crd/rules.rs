//! What is wrong with the CEL rules of a schema.

use kube_cel::CompiledSchema;
use serde_json::Value;

use super::schema_check::parts;
use crate::error::FieldError;

/// How deep an expression may be nested; what is read by recursion must end before the stack does.
const DEPTH_MAX: usize = 250;

/// Says what is wrong with an expression that is nested too deep to be read.
pub(crate) fn too_deep(expression: &str) -> Option<String> {
    let mut depth = 0_usize;
    let deepest = expression.bytes().map(|byte| {
        match byte {
            b'(' | b'[' | b'{' | b'?' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth
    });
    let too_deep = deepest.max().unwrap_or(0) > DEPTH_MAX;
    too_deep.then(|| format!("ERROR: <input>:-1:0: expression recursion limit exceeded: {DEPTH_MAX}"))
}

/// Adds the rules that are nested too deep.
fn check_depth(schema: &Value, place: &str, errors: &mut Vec<FieldError>) {
    for (index, rule) in schema["x-kubernetes-validations"].as_array().into_iter().flatten().enumerate() {
        for name in ["rule", "messageExpression"] {
            if let Some(flaw) = rule[name].as_str().and_then(too_deep) {
                let field = format!("{place}.x-kubernetes-validations[{index}].{name}");
                errors.push(FieldError::invalid(field, rule, format!("compilation failed: {flaw}")));
            }
        }
    }
    for (part, place) in parts(schema, place) {
        check_depth(part, &place, errors);
    }
}

/// Returns which rules do not compile, except where something else is wrong at or below their place.
pub(super) fn check_rules(schema: &Value, place: &str, found: &[FieldError]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check_depth(schema, place, &mut errors);
    if !errors.is_empty() {
        return errors;
    }
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_rule_that_is_nested_too_deep_is_refused_unread() {
        let nested = |depth: usize| format!("{}{}.size() == 0", "[".repeat(depth), "]".repeat(depth));
        let schema = |rule: String| json!({"x-kubernetes-validations": [{"rule": rule}]});
        let found = check_rules(&schema(nested(100_000)), "schema", &[]);
        assert_eq!(found[0].field, "schema.x-kubernetes-validations[0].rule");
        assert!(found[0].message.contains("recursion limit exceeded"), "{}", found[0].message);
        assert!(too_deep(&nested(250)).is_none());
        assert!(too_deep(&"true ? true : ".repeat(251)).is_some());
    }
}
