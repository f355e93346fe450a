//! OpenAPI v3: one document per group and version, with the schemas of its kinds and the operations clients look for.
//!
//! kubectl reads schemas for `explain` and looks at patch operations to learn whether the server validates fields
//! itself. Operations carry no more than that.

use http::{Response, StatusCode};
use serde_json::{Map, Value, json};

use crate::error::ApiError;
use crate::registry::{Registry, Resource};
use crate::schema::generated_schema;
use crate::wire::{ResponseBody, json_response};

pub(crate) fn answer(registry: &Registry, path: &str) -> Response<ResponseBody> {
    if path.is_empty() {
        return json_response(StatusCode::OK, &index(registry));
    }
    let parts: Vec<&str> = path.split('/').collect();
    let (group, version) = match parts.as_slice() {
        ["api", version] => ("", *version),
        ["apis", group, version] => (*group, *version),
        _ => return ApiError::unknown_resource().into_response(),
    };
    let resources: Vec<&Resource> = registry.of_version(group, version).map(AsRef::as_ref).collect();
    if resources.is_empty() {
        return ApiError::unknown_resource().into_response();
    }
    json_response(StatusCode::OK, &document(&resources))
}

fn index(registry: &Registry) -> Value {
    let mut paths = Map::new();
    for (group, versions) in registry.groups() {
        for version in versions {
            let path = place(group, version);
            paths.insert(path.clone(), json!({"serverRelativeURL": format!("/openapi/v3/{path}")}));
        }
    }
    json!({ "paths": paths })
}

fn place(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

fn document(resources: &[&Resource]) -> Value {
    let (mut paths, mut schemas) = (Map::new(), Map::new());
    for resource in resources {
        let root = place(&resource.group, &resource.version);
        let scope = if resource.namespaced { "namespaces/{namespace}/" } else { "" };
        let collection = format!("/{root}/{scope}{}", resource.plural);
        paths.insert(
            format!("{collection}/{{name}}"),
            operations(resource, &["get", "put", "patch", "delete"]),
        );
        paths.insert(collection, operations(resource, &["get", "post", "delete"]));
        add_schemas(resource, &mut schemas);
    }
    json!({
        "openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "v1.35.0"},
        "paths": paths, "components": {"schemas": schemas},
    })
}

fn operations(resource: &Resource, methods: &[&str]) -> Value {
    let parameter = |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string"}});
    let operation = |method: &&str| {
        let action = match *method {
            "get" => "get",
            "post" => "post",
            "put" => "put",
            "patch" => "patch",
            _ => "delete",
        };
        let operation = json!({
            "x-kubernetes-action": action, "x-kubernetes-group-version-kind": group_version_kind(resource),
            "parameters": [parameter("dryRun"), parameter("fieldManager"), parameter("fieldValidation")],
            "responses": {"200": {"description": "OK"}},
        });
        ((*method).to_owned(), operation)
    };
    Value::Object(methods.iter().map(operation).collect())
}

fn group_version_kind(resource: &Resource) -> Value {
    json!({"group": resource.group, "version": resource.version, "kind": resource.kind})
}

fn add_schemas(resource: &Resource, schemas: &mut Map<String, Value>) {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    let (name, mut schema) = if let Some(custom) = &resource.custom {
        let mut domain: Vec<&str> = resource.group.split('.').collect();
        domain.reverse();
        let mut schema = custom.document.clone();
        let mut metadata = generated_schema::<ObjectMeta>();
        schema["properties"]["metadata"] =
            json!({"$ref": format!("#/$defs/{}", metadata["title"].as_str().unwrap_or_default())});
        let definitions = metadata["$defs"].take();
        let name = metadata["title"].as_str().unwrap_or_default().to_owned();
        add(schemas, &name, metadata);
        add_definitions(schemas, definitions);
        (format!("{}.{}.{}", domain.join("."), resource.version, resource.kind), schema)
    } else {
        let mut schema = (resource.document)();
        let definitions = schema["$defs"].take();
        add_definitions(schemas, definitions);
        (schema["title"].as_str().unwrap_or_default().to_owned(), schema)
    };
    schema["x-kubernetes-group-version-kind"] = json!([group_version_kind(resource)]);
    add(schemas, &name, schema);
}

fn add_definitions(schemas: &mut Map<String, Value>, definitions: Value) {
    if let Value::Object(definitions) = definitions {
        for (name, schema) in definitions {
            add(schemas, &name, schema);
        }
    }
}

fn add(schemas: &mut Map<String, Value>, name: &str, mut schema: Value) {
    if let Some(fields) = schema.as_object_mut() {
        for name in ["$schema", "$defs", "title"] {
            fields.remove(name);
        }
    }
    relocate(&mut schema);
    schemas.insert(name.to_owned(), schema);
}

/// Points references at `components`; a reference with neighbours becomes `allOf`, as OpenAPI 3.0 wants.
fn relocate(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if let Some(Value::String(reference)) = fields.get("$ref") {
                let moved = json!({"$ref": reference.replace("#/$defs/", "#/components/schemas/")});
                fields.remove("$ref");
                if fields.is_empty() {
                    *schema = moved;
                    return;
                }
                fields.insert("allOf".into(), json!([moved]));
                return;
            }
            fields.values_mut().for_each(relocate);
        }
        Value::Array(items) => items.iter_mut().for_each(relocate),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_have_schemas_by_kind_and_patch_operations() {
        let registry = Registry::built_in();
        let resources: Vec<&Resource> = registry.of_version("apps", "v1").map(AsRef::as_ref).collect();
        let document = document(&resources);
        let schema = &document["components"]["schemas"]["io.k8s.api.apps.v1.Deployment"];
        assert_eq!(schema["x-kubernetes-group-version-kind"][0]["kind"], "Deployment");
        assert!(!document.to_string().contains("$defs"));
        let patch = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
        assert_eq!(patch["x-kubernetes-group-version-kind"]["kind"], "Deployment");
    }
}
