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
    let is_pod = &*resource.name == "pods";
    let rows: Vec<Value> = objects
        .iter()
        .zip(cells)
        .map(|(object, cells)| {
            let mut row = row(object, &cells, query, version);
            if let Some(conditions) = is_pod.then(|| pods::conditions(object)).flatten() {
                row["conditions"] = conditions;
            }
            row
        })
        .collect();
    // A kind that says nothing about its columns has no list of rows when it has no objects.
    let said = resource.is_custom() || columns::are_listed(&resource.name);
    let rows = if rows.is_empty() && !said { Value::Null } else { Value::Array(rows) };
    table(objects.first(), &definitions, &rows, version)
}

/// Renders the Scale of a built-in or a custom object as a table.
pub(crate) fn render_scale(
    scale: &Value,
    is_custom: bool,
    now: Timestamp,
    query: &Query,
    version: MetaVersion,
) -> Value {
    let (name, created) = (&*descriptions::OBJECT_NAME, &*OBJECT_CREATED);
    let definitions = if is_custom {
        [
            definition("Name", "string", "name", name, 0),
            definition("Desired", "integer", "", "Number of desired replicas", 0),
            definition("Available", "integer", "", "Number of actual replicas", 0),
            definition("Age", "date", "", created, 0),
        ]
    } else {
        let [desired, available] = &*descriptions::SCALED;
        [
            definition("Name", "string", "", name, 0),
            definition("Desired", "integer", "", desired, 0),
            definition("Available", "integer", "", available, 0),
            definition("Age", "string", "", created, 0),
        ]
    };
    // No replicas are not written; only custom objects show that.
    let desired = match &scale["spec"]["replicas"] {
        Value::Null if !is_custom => json!(0),
        replicas => replicas.clone(),
    };
    let metadata = &scale["metadata"];
    let age = age(metadata["creationTimestamp"].as_str().unwrap_or_default(), now);
    let cells = [metadata["name"].clone(), desired, scale["status"]["replicas"].clone(), age.into()];
    let rows = Value::Array(vec![row(scale, &cells, query, version)]);
    table(Some(scale), &definitions, &rows, version)
}

fn table(first: Option<&Value>, definitions: &[Value], rows: &Value, version: MetaVersion) -> Value {
    // What is only tried out has no version.
    let revision = first.and_then(|object| object["metadata"]["resourceVersion"].as_str());
    let metadata = revision.map_or_else(|| json!({}), |revision| json!({"resourceVersion": revision}));
    json!({
        "kind": "Table", "apiVersion": version.api_version(), "metadata": metadata,
        "columnDefinitions": definitions, "rows": rows,
    })
}

/// One object in its cells, with as much of it as is asked for.
fn row(object: &Value, cells: &[Value], query: &Query, version: MetaVersion) -> Value {
    let included = match query.get("includeObject").unwrap_or("Metadata") {
        "Object" => object.clone(),
        "None" => Value::Null,
        _ => json!({
            "kind": "PartialObjectMetadata", "apiVersion": version.api_version(), "metadata": object["metadata"],
        }),
    };
    json!({"cells": cells, "object": included})
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
