//! Tables: what `kubectl get` prints.

mod age;
mod cells;
mod columns;
mod descriptions;
mod json_path;
mod network;
mod pieces;
mod pods;

use jiff::Timestamp;
use serde_json::{Value, json};

use age::age;
pub(crate) use descriptions::OBJECT_CREATED;

use crate::registry::{PrinterColumn, Resource};
use crate::wire::{MetaVersion, Query};

/// Renders objects, in the version of `resource`, as a table.
pub(crate) fn render(
    resource: &Resource,
    objects: &[Value],
    now: Timestamp,
    query: &Query,
    version: MetaVersion,
) -> Value {
    let include = query.get("includeObject").unwrap_or("Metadata");
    let (definitions, cells): (Vec<Value>, Vec<Vec<Value>>) = if let Some(custom) = &resource.custom {
        let cells = objects.iter().map(|object| custom_cells(&custom.columns, object, now));
        (custom_definitions(&custom.columns), cells.collect())
    } else {
        let columns = columns::columns(&resource.name);
        let descriptions = descriptions::of_columns(resource);
        let definitions = columns.iter().zip(descriptions.iter()).map(|(column, description)| {
            // Whoever attaches a volume is a name, too.
            let format = if matches!(column.name, "Name" | "Attacher") { "name" } else { "" };
            definition(column.name, column.kind, format, description, column.priority)
        });
        let cells = objects.iter().map(|object| cells::cells(&resource.name, object, now));
        (definitions.collect(), cells.collect())
    };
    let rows: Vec<Value> = objects
        .iter()
        .zip(cells)
        .map(|(object, cells)| {
            let mut row = json!({ "cells": cells });
            if let Some(conditions) = (&*resource.name == "pods").then(|| pods::conditions(object)).flatten()
            {
                row["conditions"] = conditions;
            }
            match include {
                "Object" => row["object"] = object.clone(),
                "None" => row["object"] = Value::Null,
                _ => {
                    row["object"] = json!({
                        "kind": "PartialObjectMetadata", "apiVersion": version.api_version(),
                        "metadata": object["metadata"],
                    });
                }
            }
            row
        })
        .collect();
    // A kind that says nothing about its columns has no list of rows when it has no objects.
    let said = resource.is_custom() || columns::are_listed(&resource.name);
    let rows = if rows.is_empty() && !said { Value::Null } else { Value::Array(rows) };
    // What is only tried out has no version.
    let revision = objects.first().and_then(|object| object["metadata"]["resourceVersion"].as_str());
    let metadata = revision.map_or_else(|| json!({}), |revision| json!({"resourceVersion": revision}));
    json!({
        "kind": "Table", "apiVersion": version.api_version(), "metadata": metadata,
        "columnDefinitions": definitions, "rows": rows,
    })
}

fn definition(name: &str, kind: &str, format: &str, description: &str, priority: i64) -> Value {
    json!({"name": name, "type": kind, "format": format, "description": description, "priority": priority})
}

fn custom_definitions(columns: &[PrinterColumn]) -> Vec<Value> {
    let name = definition("Name", "string", "name", &descriptions::OBJECT_NAME, 0);
    let declared = columns.iter().map(|column| {
        definition(&column.name, &column.kind, &column.format, &column.description, column.priority)
    });
    std::iter::once(name).chain(declared).collect()
}

fn custom_cells(columns: &[PrinterColumn], object: &Value, now: Timestamp) -> Vec<Value> {
    let cell = |column: &PrinterColumn| {
        let found = json_path::first(object, &column.path)?;
        Some(match (column.kind.as_str(), found) {
            ("date", Value::String(time)) => age(time, now).into(),
            ("integer" | "number" | "boolean", value) => value.clone(),
            (_, Value::String(text)) => text.as_str().into(),
            (_, other) => other.to_string().into(),
        })
    };
    let name = object["metadata"]["name"].clone();
    std::iter::once(name).chain(columns.iter().map(|column| cell(column).unwrap_or(Value::Null))).collect()
}
