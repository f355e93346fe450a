//! OpenAPI version 2 from version 3: references point elsewhere, bodies are parameters, unions are left out.

use serde_json::{Map, Value, json};

use crate::discovery::VERSION;

/// Joins documents of version 3 into one of version 2.
pub(super) fn convert(documents: impl Iterator<Item = Value>) -> Value {
    let (mut paths, mut definitions) = (Map::new(), Map::new());
    for mut document in documents {
        if let Value::Object(items) = document["paths"].take() {
            paths.extend(items.into_iter().map(|(path, item)| (path, path_item(item))));
        }
        if let Value::Object(schemas) = document["components"]["schemas"].take() {
            for (name, mut definition) in schemas {
                schema(&mut definition);
                if let Some(known) = definitions.get_mut(&name) {
                    join_kinds(known, &definition);
                } else {
                    definitions.insert(name, definition);
                }
            }
        }
    }
    json!({
        "swagger": "2.0", "info": {"title": "Kubernetes", "version": VERSION.2},
        "paths": paths, "definitions": definitions,
    })
}

/// Options exist once in every group; the one definition names all of them.
fn join_kinds(known: &mut Value, other: &Value) {
    const KINDS: &str = "x-kubernetes-group-version-kind";
    let Some(more) = other[KINDS].as_array() else { return };
    if let Some(kinds) = known[KINDS].as_array_mut() {
        for kind in more {
            if !kinds.contains(kind) {
                kinds.push(kind.clone());
            }
        }
    }
}

fn path_item(item: Value) -> Value {
    let Value::Object(fields) = item else { return item };
    let convert = |(name, value): (String, Value)| match name.as_str() {
        "parameters" => (name, parameters(&value)),
        _ => (name, operation(value)),
    };
    fields.into_iter().map(convert).collect()
}

fn parameters(parameters: &Value) -> Value {
    let flat = |parameter: &Value| {
        let mut flat = parameter.clone();
        if let Some(schema) = flat.as_object_mut().and_then(|fields| fields.remove("schema")) {
            flat["type"] = schema["type"].clone();
            flat["uniqueItems"] = true.into();
        }
        flat
    };
    parameters.as_array().into_iter().flatten().map(flat).collect()
}

fn operation(mut operation: Value) -> Value {
    let mut all = parameters(&operation["parameters"]).as_array().cloned().unwrap_or_default();
    let mut consumes = vec![json!("*/*")];
    if let Some(mut body) = operation.as_object_mut().and_then(|fields| fields.remove("requestBody")) {
        let content = body["content"].take();
        let types: Vec<Value> =
            content.as_object().into_iter().flatten().map(|(name, _)| json!(name)).collect();
        let mut schema_of =
            content.as_object().and_then(|types| types.values().next()).cloned().unwrap_or_default();
        let mut body_schema = schema_of["schema"].take();
        schema(&mut body_schema);
        let mut parameter = json!({"name": "body", "in": "body", "schema": body_schema});
        if body["required"] == true {
            parameter["required"] = true.into();
        }
        all.insert(0, parameter);
        consumes = types;
    }
    for response in operation["responses"].as_object_mut().into_iter().flat_map(Map::values_mut) {
        if let Some(mut content) = response.as_object_mut().and_then(|fields| fields.remove("content")) {
            let mut answered = content["application/json"]["schema"].take();
            schema(&mut answered);
            response["schema"] = answered;
        }
    }
    operation["consumes"] = consumes.into();
    operation["produces"] = json!(["application/json", "application/yaml"]);
    if all.is_empty() {
        operation.as_object_mut().map(|fields| fields.remove("parameters"));
    } else {
        operation["parameters"] = all.into();
    }
    operation
}

/// Turns a schema into one of version 2, in place.
fn schema(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if fields.get("oneOf").is_some_and(Value::is_array) && !fields.contains_key("type") {
                // Quantities and numbers that may be names.
                fields.insert("type".into(), "string".into());
            }
            for name in ["oneOf", "anyOf", "not", "nullable", "x-kubernetes-validations"] {
                fields.remove(name);
            }
            if let Some(Value::Array(mut all)) = fields.remove("allOf") {
                match all.as_mut_slice() {
                    [one] if one["$ref"].is_string() => {
                        fields.insert("$ref".into(), one["$ref"].take());
                    }
                    // Rules of CRDs about combinations of fields say nothing about types.
                    _ => {}
                }
            }
            if let Some(Value::String(reference)) = fields.get_mut("$ref") {
                *reference = reference.replace("#/components/schemas/", "#/definitions/");
            }
            if fields.get("x-kubernetes-int-or-string") == Some(&json!(true)) {
                fields.remove("type");
            }
            for (name, value) in fields.iter_mut() {
                match name.as_str() {
                    "properties" => {
                        value.as_object_mut().into_iter().flat_map(Map::values_mut).for_each(schema);
                    }
                    "items" | "additionalProperties" => schema(value),
                    _ => {}
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(schema),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_move_and_bodies_become_parameters() {
        let document = json!({
            "paths": {"/x": {"post": {
                "requestBody": {"required": true, "content": {"*/*": {"schema": {"$ref": "#/components/schemas/A"}}}},
                "responses": {"200": {"description": "OK", "content": {
                    "application/json": {"schema": {"$ref": "#/components/schemas/A"}},
                }}},
            }}},
            "components": {"schemas": {"A": {"type": "object", "properties": {
                "b": {"description": "d", "allOf": [{"$ref": "#/components/schemas/B"}]},
                "n": {"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"},
            }}}},
        });
        let converted = convert([document].into_iter());
        let post = &converted["paths"]["/x"]["post"];
        assert_eq!(post["parameters"][0]["schema"]["$ref"], "#/definitions/A");
        assert_eq!(post["responses"]["200"]["schema"]["$ref"], "#/definitions/A");
        let properties = &converted["definitions"]["A"]["properties"];
        assert_eq!(properties["b"], json!({"description": "d", "$ref": "#/definitions/B"}));
        assert_eq!(properties["n"], json!({"type": "string", "format": "int-or-string"}));
    }
}
