//! Objects and lists in the form that a client asked for: whole, as metadata, as a table.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use super::conversion::{served, served_bytes};
use crate::error::ApiError;
use crate::registry::{Conversion, Resource};
use crate::server::Core;
use crate::store::StoredObject;
use crate::table;
use crate::wire::{Call, MetaVersion, Rendering};

impl Core {
    /// Writes one object.
    ///
    /// # Errors
    /// 406 when the client wants a list.
    pub(super) fn rendered(&self, call: &Call<'_>, object: &StoredObject) -> Result<Bytes, ApiError> {
        match call.rendering {
            Rendering::Object => Ok(served_bytes(&call.resource, object)),
            _ => self.rendered_value(call, object.value()),
        }
    }

    /// Writes one object that may not be stored at all.
    ///
    /// # Errors
    /// 406 when the client wants a list.
    pub(super) fn rendered_value(&self, call: &Call<'_>, object: Value) -> Result<Bytes, ApiError> {
        let object = served(&call.resource, object);
        let rendered = match call.rendering {
            Rendering::Object => object,
            Rendering::Metadata(version) => metadata_only(&object, version),
            Rendering::MetadataList(_) => return Err(no_list(&call.resource)),
            Rendering::Table(version) => {
                table::render(&call.resource, &[object], self.environment.now(), call.query, version)
            }
        };
        Ok(rendered.to_string().into())
    }

    /// Writes the Scale of an object.
    ///
    /// # Errors
    /// 406 when the client wants a list.
    pub(super) fn rendered_scale(&self, call: &Call<'_>, scale: Value) -> Result<Bytes, ApiError> {
        let is_custom = call.resource.is_custom();
        if let Rendering::Table(version) = call.rendering {
            let now = self.environment.now();
            return Ok(table::render_scale(&scale, is_custom, now, call.query, version).to_string().into());
        }
        // Custom objects are scaled in the version on the wire, others in one of their own.
        let kind = if is_custom { "v1.Scale" } else { "autoscaling.Scale" };
        rendered_once(call.rendering, scale, kind)
    }

    /// Writes a list.
    ///
    /// # Errors
    /// 406 when the client wants one object.
    pub(super) fn rendered_list(
        &self,
        call: &Call<'_>,
        metadata: Value,
        objects: &[&Arc<StoredObject>],
    ) -> Result<Bytes, ApiError> {
        Ok(match call.rendering {
            Rendering::Object => object_list(&call.resource, &metadata, objects),
            Rendering::Metadata(_) => return Err(no_object(&call.resource)),
            Rendering::MetadataList(version) => {
                let items: Vec<Value> =
                    objects.iter().map(|object| metadata_only(&object.value(), version)).collect();
                let items = if items.is_empty() { Value::Null } else { Value::Array(items) };
                let list = json!({
                    "kind": "PartialObjectMetadataList", "apiVersion": version.api_version(),
                    "metadata": without_empty(metadata), "items": items,
                });
                list.to_string().into()
            }
            Rendering::Table(version) => {
                let values: Vec<Value> =
                    objects.iter().map(|object| served(&call.resource, object.value())).collect();
                let now = self.environment.now();
                let mut table = table::render(&call.resource, &values, now, call.query, version);
                table["metadata"] = without_empty(metadata);
                table.to_string().into()
            }
        })
    }
}

/// Writes what is answered and never kept, and for which there is no table; `kind` is the Go type behind it.
///
/// # Errors
/// 406 when the client wants a list.
pub(super) fn rendered_once(rendering: Rendering, value: Value, kind: &str) -> Result<Bytes, ApiError> {
    let rendered = match rendering {
        Rendering::Object | Rendering::Table(_) => value,
        Rendering::Metadata(version) => metadata_only(&value, version),
        Rendering::MetadataList(_) => return Err(not_a_list(kind)),
    };
    Ok(rendered.to_string().into())
}

/// Leaves out the token that lists of custom objects always carry.
fn without_empty(mut metadata: Value) -> Value {
    if let (true, Some(fields)) = (metadata["continue"] == "", metadata.as_object_mut()) {
        fields.remove("continue");
    }
    metadata
}

/// Says that one object is no list, in terms of the types behind it.
fn no_list(resource: &Resource) -> ApiError {
    if resource.is_custom() {
        return ApiError::unknown_failure("content is not a list");
    }
    not_a_list(&format!("{}.{}", package(resource), resource.kind))
}

fn not_a_list(kind: &str) -> ApiError {
    ApiError::not_that_form(format!(
        "you requested PartialObjectMetadataList, but the requested object is not a list (*{kind})"
    ))
}

/// Says that a list is no object, in terms of the types behind it.
fn no_object(resource: &Resource) -> ApiError {
    let kind = if resource.is_custom() {
        "*unstructured.UnstructuredList".to_owned()
    } else {
        format!("*{}.{}", package(resource), resource.list_kind)
    };
    ApiError::not_that_form(format!(
        "you requested PartialObjectMetadata, but the requested object is a list ({kind})"
    ))
}

/// The Go package that defines a built-in kind.
fn package(resource: &Resource) -> &str {
    match resource.inner_group() {
        "" => "core",
        group => group.split('.').next().unwrap_or(group),
    }
}

/// The part of an object that all kinds share.
pub(super) fn metadata_only(value: &Value, version: MetaVersion) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": version.api_version(), "metadata": value["metadata"]})
}

/// Joins the texts of objects; built-in kinds leave `kind` and `apiVersion` out of items, as Kubernetes does.
fn object_list(resource: &Resource, metadata: &Value, objects: &[&Arc<StoredObject>]) -> Bytes {
    let size: usize = objects.iter().map(|object| object.text_len() + 1).sum();
    let mut text = Vec::with_capacity(size + 256);
    let head = format!(
        "{{\"kind\":{},\"apiVersion\":{},\"metadata\":{metadata},\"items\":[",
        json!(resource.list_kind),
        json!(resource.api_version())
    );
    text.extend_from_slice(head.as_bytes());
    for (index, object) in objects.iter().enumerate() {
        if index > 0 {
            text.push(b',');
        }
        if resource.is_custom() {
            text.extend_from_slice(&served_bytes(resource, object));
        } else if resource.conversion != Conversion::Stored {
            let mut item = served(resource, object.value());
            if let Some(fields) = item.as_object_mut() {
                fields.remove("kind");
                fields.remove("apiVersion");
            }
            text.extend_from_slice(item.to_string().as_bytes());
        } else {
            object.write_item(&mut text);
        }
    }
    text.extend_from_slice(b"]}");
    Bytes::from(text)
}
