//! From a CustomResourceDefinition object to served resources.

use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};

use super::Validation;
use crate::registry::{Conversion, Custom, PrinterColumn, Resource, ScalePaths, Subresource, version_rank};
use crate::schema::Node;
use crate::table::OBJECT_CREATED;

/// Fills in what Kubernetes defaults in a definition.
pub(crate) fn prepare(definition: &mut Value) {
    let spec = &mut definition["spec"];
    let kind = spec["names"]["kind"].as_str().unwrap_or_default().to_owned();
    let names = &mut spec["names"];
    if names.get("singular").is_none() && !kind.is_empty() {
        names["singular"] = kind.to_lowercase().into();
    }
    if names.get("listKind").is_none() && !kind.is_empty() {
        names["listKind"] = format!("{kind}List").into();
    }
    if spec.get("conversion").is_none() {
        spec["conversion"] = json!({"strategy": "None"});
    }
    if spec["preserveUnknownFields"] == false
        && let Some(fields) = spec.as_object_mut()
    {
        fields.remove("preserveUnknownFields");
    }
}

/// Sets the status of a definition that nobody has looked at yet, or adds a new stored version to it.
pub(crate) fn with_stored_versions(definition: &mut Value) {
    let stored: Vec<Value> = definition["spec"]["versions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|version| version["storage"] == true)
        .map(|version| version["name"].clone())
        .collect();
    let status = &mut definition["status"];
    if !status.is_object() {
        *status = json!({"conditions": null, "acceptedNames": {}});
    }
    let mut known = status["storedVersions"].as_array().cloned().unwrap_or_default();
    known.extend(
        stored
            .into_iter()
            .filter(|version| !status["storedVersions"].as_array().is_some_and(|all| all.contains(version))),
    );
    status["storedVersions"] = Value::Array(known);
}

/// Sets the status that a definition gets once its names are accepted.
pub(crate) fn accept(definition: &mut Value, now: &str) {
    let condition = |kind: &str, reason: &str, message: &str| {
        json!({
            "type": kind, "status": "True", "lastTransitionTime": now, "reason": reason, "message": message,
        })
    };
    let names = definition["spec"]["names"].clone();
    let status = &mut definition["status"];
    if status["conditions"].as_array().is_none_or(Vec::is_empty) {
        status["conditions"] = json!([
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        ]);
    }
    status["acceptedNames"] = names;
}

/// Notes that a definition and its objects are on their way out.
pub(crate) fn terminate(definition: &mut Value, now: &str) {
    let conditions = &mut definition["status"]["conditions"];
    let mut all = conditions.as_array().cloned().unwrap_or_default();
    all.push(json!({
        "type": "Terminating", "status": "True", "lastTransitionTime": now, "reason": "InstanceDeletionPending",
        "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    }));
    *conditions = Value::Array(all);
}

/// Builds the served resources of a definition that passed [`check`].
///
/// # Errors
/// Returns why a schema does not compile.
pub(crate) fn resources(definition: &Value) -> Result<Vec<Resource>, String> {
    let spec = &definition["spec"];
    let versions = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let storage = versions.iter().find(|version| version["storage"] == true).unwrap_or(&Value::Null);
    let node = Arc::new(Node::custom(&storage["schema"]["openAPIV3Schema"]));
    let name = owned(&storage["name"]);
    versions
        .iter()
        .filter(|version| version["served"] == true)
        .map(|version| resource(spec, version, &name, &node))
        .collect()
}

fn resource(spec: &Value, version: &Value, storage: &str, node: &Arc<Node>) -> Result<Resource, String> {
    let names = &spec["names"];
    let (group, plural, name) = (owned(&spec["group"]), owned(&names["plural"]), owned(&version["name"]));
    let schema = &version["schema"]["openAPIV3Schema"];
    let fields = version["selectableFields"].as_array().into_iter().flatten();
    let custom = Custom {
        validation: Validation::compile(schema)?,
        columns: columns(version),
        document: schema.clone(),
        storage: Arc::clone(node),
        deprecation: deprecation(spec, version),
    };
    Ok(Resource {
        name: format!("{plural}.{group}").into(),
        conversion: if name == storage { Conversion::Stored } else { Conversion::ApiVersion },
        version: name,
        storage_version: storage.to_owned(),
        kind: owned(&names["kind"]),
        list_kind: owned(&names["listKind"]),
        singular: owned(&names["singular"]),
        short_names: texts(&names["shortNames"]),
        categories: texts(&names["categories"]),
        namespaced: spec["scope"] == "Namespaced",
        subresources: subresources(&version["subresources"]),
        selectable_fields: fields
            .filter_map(|field| field["jsonPath"].as_str())
            .map(|path| path.trim_start_matches('.').to_owned())
            .collect(),
        document: || Value::Null,
        node: OnceLock::from(Arc::new(Node::custom(schema))),
        custom: Some(Arc::new(custom)),
        plural,
        group,
    })
}

/// What users of a version are told that is on its way out: to use the best of those that are not.
fn deprecation(spec: &Value, version: &Value) -> Option<String> {
    if version["deprecated"] != true {
        return None;
    }
    if let Some(own) = version["deprecationWarning"].as_str() {
        return Some(own.to_owned());
    }
    let named = |version: &Value| {
        format!("{}/{} {}", owned(&spec["group"]), owned(&version["name"]), owned(&spec["names"]["kind"]))
    };
    let rank = |version: &Value| version_rank(&owned(&version["name"]));
    let better = spec["versions"].as_array().into_iter().flatten().filter(|other| {
        other["served"] == true && other["deprecated"] != true && rank(other) > rank(version)
    });
    let advice = better.max_by_key(|other| rank(other)).map(|other| format!("; use {}", named(other)));
    Some(format!("{} is deprecated{}", named(version), advice.unwrap_or_default()))
}

fn subresources(declared: &Value) -> Vec<Subresource> {
    let mut subresources = Vec::new();
    if declared["status"].is_object() {
        subresources.push(Subresource::Status);
    }
    if let Some(scale) = declared["scale"].as_object() {
        let path = |name: &str| {
            let path = scale.get(name).and_then(Value::as_str)?;
            Some(path.trim_start_matches('.').split('.').map(str::to_owned).collect::<Vec<_>>())
        };
        subresources.push(Subresource::Scale(ScalePaths {
            spec_replicas: path("specReplicasPath").unwrap_or_default(),
            status_replicas: path("statusReplicasPath").unwrap_or_default(),
            selector: path("labelSelectorPath"),
        }));
    }
    subresources
}

fn columns(version: &Value) -> Vec<PrinterColumn> {
    let declared = version["additionalPrinterColumns"].as_array().into_iter().flatten();
    let columns: Vec<_> = declared
        .map(|column| PrinterColumn {
            name: owned(&column["name"]),
            kind: owned(&column["type"]),
            format: owned(&column["format"]),
            description: match column["description"].as_str().unwrap_or_default() {
                "" => format!(
                    "Custom resource definition column (in JSONPath format): {}",
                    owned(&column["jsonPath"])
                ),
                said => said.to_owned(),
            },
            priority: column["priority"].as_i64().unwrap_or(0),
            path: owned(&column["jsonPath"]),
        })
        .collect();
    if !columns.is_empty() {
        return columns;
    }
    vec![PrinterColumn {
        name: "Age".into(),
        kind: "date".into(),
        format: String::new(),
        description: OBJECT_CREATED.clone(),
        priority: 0,
        path: ".metadata.creationTimestamp".into(),
    }]
}

fn owned(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn texts(values: &Value) -> Vec<String> {
    values.as_array().into_iter().flatten().map(owned).collect()
}
