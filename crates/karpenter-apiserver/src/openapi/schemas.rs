//! The schemas of a document: kinds, their lists, and what requests and answers carry besides.
//!
//! Descriptions and types come from the Rust types that mirror built-in kinds, or from CRDs; how lists merge and what
//! fields default to comes from the table of facts.

use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::autoscaling::v1::Scale;
use k8s_openapi::api::core::v1::{Binding, ConfigMap};
use k8s_openapi::api::policy::v1::Eviction;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{DeleteOptions, ListMeta, ObjectMeta, Status};
use serde_json::{Map, Value, json};

use super::entry::{Entry, Source};
use crate::registry::Subresource;
use crate::schema::facts::{Facts, Field};
use crate::schema::generated_schema;

pub(super) const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const COMPONENTS: &str = "#/components/schemas/";

/// A reference to a schema of the same document.
pub(super) fn reference(name: &str) -> Value {
    json!({"$ref": format!("{COMPONENTS}{name}")})
}

/// Returns the schemas of a document by name.
pub(super) fn components(entries: &[Entry<'_>]) -> Map<String, Value> {
    let mut schemas = Map::new();
    for entry in entries {
        add_kind(&mut schemas, entry);
        for subresource in entry.subresources {
            match subresource {
                Subresource::Scale(_) => {
                    add_type::<Scale>(&mut schemas, Some(&json!([gvk("autoscaling", "v1", "Scale")])));
                }
                Subresource::Eviction => {
                    add_type::<Eviction>(&mut schemas, Some(&json!([gvk("policy", "v1", "Eviction")])));
                }
                Subresource::Binding => {
                    add_type::<Binding>(&mut schemas, Some(&json!([gvk("", "v1", "Binding")])));
                }
                Subresource::Token => {
                    let kind = gvk("authentication.k8s.io", "v1", "TokenRequest");
                    add_type::<TokenRequest>(&mut schemas, Some(&json!([kind])));
                }
                Subresource::Status | Subresource::Finalize => {}
            }
        }
    }
    let here = entries.first().map(|entry| (entry.group, entry.version));
    if let Some((group, version)) = here {
        add_type::<DeleteOptions>(&mut schemas, Some(&json!([gvk(group, version, "DeleteOptions")])));
    }
    add_type::<Status>(&mut schemas, Some(&json!([gvk("", "v1", "Status")])));
    add_type::<ListMeta>(&mut schemas, None);
    add_type::<ObjectMeta>(&mut schemas, None);
    let patch = "A patch in one of the formats the request's content type names.";
    schemas.insert(format!("{META}.Patch"), json!({"description": patch, "type": "object"}));
    schemas
}

/// Names a kind as `x-kubernetes-group-version-kind` does.
pub(super) fn gvk(group: &str, version: &str, kind: &str) -> Value {
    json!({"group": group, "version": version, "kind": kind})
}

fn add_kind(schemas: &mut Map<String, Value>, entry: &Entry<'_>) {
    let kinds = json!([gvk(entry.group, entry.version, entry.kind)]);
    let name = entry.schema_name(entry.kind);
    match entry.source {
        Source::BuiltIn(generate) => add_generated(schemas, generate(), Some(&kinds)),
        Source::Custom(document) => {
            let mut schema = document.clone();
            for (field, property) in standard_fields("ObjectMeta") {
                schema["properties"][field] = property;
            }
            schema["x-kubernetes-group-version-kind"] = kinds;
            schemas.insert(name.clone(), schema);
        }
    }
    if !entry.stored {
        return;
    }
    let items = json!({"description": "The objects.", "type": "array", "items": reference(&name)});
    let mut properties = json!({ "items": items });
    for (field, property) in standard_fields("ListMeta") {
        properties[field] = property;
    }
    let list = json!({
        "description": format!("{} is a list of {}", entry.list_kind, entry.kind), "type": "object",
        "required": ["items"], "properties": properties,
        "x-kubernetes-group-version-kind": [gvk(entry.group, entry.version, entry.list_kind)],
    });
    schemas.insert(entry.schema_name(entry.list_kind), list);
}

/// Returns what every kind says about its type and metadata, as the built-in kinds say it.
fn standard_fields(metadata: &str) -> [(&'static str, Value); 3] {
    let typical = generated_schema::<ConfigMap>();
    ["apiVersion", "kind", "metadata"].map(|field| {
        let description = &typical["properties"][field]["description"];
        let property = match field {
            "metadata" => {
                let reference = reference(&format!("{META}.{metadata}"));
                json!({"description": description, "allOf": [reference]})
            }
            _ => json!({"description": description, "type": "string"}),
        };
        (field, property)
    })
}

fn add_type<T: schemars::JsonSchema>(schemas: &mut Map<String, Value>, kinds: Option<&Value>) {
    add_generated(schemas, generated_schema::<T>(), kinds);
}

/// Adds a generated schema and the definitions it brings.
fn add_generated(schemas: &mut Map<String, Value>, mut schema: Value, kinds: Option<&Value>) {
    let name = schema["title"].as_str().unwrap_or_default().to_owned();
    if let Value::Object(definitions) = schema["$defs"].take() {
        for (name, definition) in definitions {
            if !schemas.contains_key(&name) {
                let definition = described(&name, definition);
                schemas.insert(name, definition);
            }
        }
    }
    let mut schema = described(&name, schema);
    if let Some(kinds) = kinds {
        schema["x-kubernetes-group-version-kind"] = kinds.clone();
    }
    schemas.insert(name, schema);
}

/// Turns the generated schema of a type into what Kubernetes publishes about it.
fn described(name: &str, mut schema: Value) -> Value {
    if let Some(fields) = schema.as_object_mut() {
        for name in ["$schema", "$defs", "title"] {
            fields.remove(name);
        }
    }
    relocate(&mut schema);
    if name.ends_with(".intstr.IntOrString") || name.ends_with(".resource.Quantity") {
        let fields = schema.as_object_mut().expect("a definition is an object");
        fields.remove("x-kubernetes-int-or-string");
        let kinds = if name.ends_with("Quantity") { ["string", "number"] } else { ["integer", "string"] };
        fields.insert("oneOf".into(), kinds.iter().map(|kind| json!({"type": kind})).collect());
        if name.ends_with("IntOrString") {
            fields.insert("format".into(), "int-or-string".into());
        }
        return schema;
    }
    let short: Vec<&str> = name.rsplit('.').take(3).collect();
    let short: Vec<&str> = short.into_iter().rev().collect();
    if let Some(facts) = Facts::get().named(&short.join(".")) {
        if let Some(merging) = facts.merging {
            mark_merging(&mut schema, merging);
        }
        for field in &facts.fields {
            if let Some(property) = schema["properties"].get_mut(field.name) {
                mark_field(property, field);
            }
        }
    }
    schema
}

/// Adds how a field merges and what it defaults to.
fn mark_field(property: &mut Value, field: &Field) {
    if let Some(merging) = field.merging {
        mark_merging(property, merging);
    }
    if let Some(patching) = field.patching {
        let (strategy, key) = patching.split_once('(').unwrap_or((patching, ""));
        property["x-kubernetes-patch-strategy"] = strategy.into();
        if !key.is_empty() {
            property["x-kubernetes-patch-merge-key"] = key.trim_end_matches(')').into();
        }
    }
    if let Some(default) = &field.default {
        property["default"] = default.clone();
    }
}

fn mark_merging(schema: &mut Value, merging: &str) {
    let (kind, keys) = merging.split_once('(').unwrap_or((merging, ""));
    if schema["type"] == "array" {
        schema["x-kubernetes-list-type"] = kind.into();
        if !keys.is_empty() {
            schema["x-kubernetes-list-map-keys"] = keys.trim_end_matches(')').split(',').collect();
        }
    } else {
        schema["x-kubernetes-map-type"] = kind.into();
    }
}

/// Points references at `components`; a reference with neighbours becomes `allOf`, as OpenAPI 3.0 wants.
fn relocate(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if let Some(Value::String(reference)) = fields.get("$ref") {
                let moved = json!({"$ref": reference.replace("#/$defs/", COMPONENTS)});
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
    use crate::registry::Registry;

    #[test]
    fn built_in_schemas_say_how_lists_merge() {
        let registry = Registry::built_in();
        let schemas = components(&Entry::of_version(&registry, "apps", "v1"));
        let containers = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
        assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
        assert_eq!(containers["x-kubernetes-list-type"], "map");
        assert_eq!(containers["x-kubernetes-list-map-keys"], json!(["name"]));
        let protocol = &schemas["io.k8s.api.core.v1.ContainerPort"]["properties"]["protocol"];
        assert_eq!(protocol["default"], "TCP");
        assert!(!Value::Object(schemas).to_string().contains("$defs"));
    }

    #[test]
    fn every_reference_of_every_document_is_there() {
        fn references<'v>(value: &'v Value, found: &mut Vec<&'v str>) {
            match value {
                Value::Object(fields) => {
                    found.extend(fields.get("$ref").and_then(Value::as_str));
                    fields.values().for_each(|value| references(value, found));
                }
                Value::Array(items) => items.iter().for_each(|value| references(value, found)),
                _ => {}
            }
        }
        let registry = Registry::built_in();
        for (group, version) in super::super::entry::places(&registry) {
            let schemas = components(&Entry::of_version(&registry, &group, &version));
            let mut found = Vec::new();
            schemas.values().for_each(|schema| references(schema, &mut found));
            for reference in found {
                let name = reference.strip_prefix(COMPONENTS).unwrap();
                assert!(schemas.contains_key(name), "{group}/{version} lacks {name}");
            }
        }
    }
}
