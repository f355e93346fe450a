//! Assembles the CustomResourceDefinitions of our kinds for a set of label rules.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition, CustomResourceDefinitionNames,
    CustomResourceDefinitionSpec, CustomResourceDefinitionVersion, CustomResourceSubresourceScale,
    CustomResourceSubresourceStatus, CustomResourceSubresources, CustomResourceValidation, JSONSchemaProps,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::{ListableResource, Resource};

use crate::label_rules::LabelRules;
use crate::{CapacityBuffer, NodeClaim, NodeOverlay, NodePool};
use crate::{capacitybuffer, nodeclaim, nodeoverlay, nodepool, yaml};

/// Where the objects of a kind live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One set for the whole cluster.
    Cluster,
    /// A set per namespace.
    Namespaced,
}

/// What a CustomResourceDefinition says beyond the names its Rust type already carries.
#[derive(Clone, Debug)]
pub struct CrdDocument {
    /// Short names for `kubectl`.
    pub short_names: &'static [&'static str],
    /// Group name for `kubectl get`.
    pub category: &'static str,
    /// Columns of `kubectl get`.
    pub columns: Vec<CustomResourceColumnDefinition>,
    /// The scale subresource, if the kind has one.
    pub scale: Option<CustomResourceSubresourceScale>,
    /// Schema of the whole object.
    pub schema: JSONSchemaProps,
}

/// Returns the CustomResourceDefinitions of all kinds in this crate, label rules included.
pub fn crds(rules: &LabelRules) -> Vec<CustomResourceDefinition> {
    vec![
        definition::<CapacityBuffer>(Scope::Namespaced, capacitybuffer::document()),
        definition::<NodeClaim>(Scope::Cluster, nodeclaim::document(rules)),
        definition::<NodeOverlay>(Scope::Cluster, nodeoverlay::document(rules)),
        definition::<NodePool>(Scope::Cluster, nodepool::document(rules)),
    ]
}

/// Renders definitions as a stream of YAML documents; the same definitions always give the same bytes.
///
/// # Panics
/// Never: a definition always has a JSON form.
pub fn crds_yaml<'d>(definitions: impl IntoIterator<Item = &'d CustomResourceDefinition>) -> String {
    let values: Vec<_> = definitions
        .into_iter()
        .map(|definition| serde_json::to_value(definition).expect("a definition has a JSON form"))
        .collect();
    yaml::to_yaml_stream(&values)
}

/// Builds the definition of a kind; providers use it for their NodeClasses.
pub fn definition<K: ListableResource>(scope: Scope, document: CrdDocument) -> CustomResourceDefinition {
    let plural = K::URL_PATH_SEGMENT;
    let names = CustomResourceDefinitionNames {
        categories: Some(vec![document.category.to_owned()]),
        kind: K::KIND.to_owned(),
        list_kind: Some(K::LIST_KIND.to_owned()),
        plural: plural.to_owned(),
        short_names: owned(document.short_names),
        singular: Some(K::KIND.to_lowercase()),
    };
    CustomResourceDefinition {
        metadata: ObjectMeta { name: Some(format!("{plural}.{}", K::GROUP)), ..ObjectMeta::default() },
        spec: CustomResourceDefinitionSpec {
            group: K::GROUP.to_owned(),
            names,
            scope: format!("{scope:?}"),
            versions: vec![version::<K>(document)],
            ..CustomResourceDefinitionSpec::default()
        },
        status: None,
    }
}

fn version<K: Resource>(document: CrdDocument) -> CustomResourceDefinitionVersion {
    CustomResourceDefinitionVersion {
        additional_printer_columns: Some(document.columns),
        name: K::VERSION.to_owned(),
        schema: Some(CustomResourceValidation { open_api_v3_schema: Some(document.schema) }),
        served: true,
        storage: true,
        subresources: Some(CustomResourceSubresources {
            scale: document.scale,
            status: Some(CustomResourceSubresourceStatus(serde_json::json!({}))),
        }),
        ..CustomResourceDefinitionVersion::default()
    }
}

fn owned(words: &[&str]) -> Option<Vec<String>> {
    (!words.is_empty()).then(|| words.iter().map(|word| (*word).to_owned()).collect())
}

/// Makes a column of `kubectl get`; priority 1 shows it only with `-o wide`.
pub fn column(name: &str, type_: &str, json_path: &str, priority: i32) -> CustomResourceColumnDefinition {
    CustomResourceColumnDefinition {
        json_path: json_path.to_owned(),
        name: name.to_owned(),
        priority: (priority != 0).then_some(priority),
        type_: type_.to_owned(),
        ..CustomResourceColumnDefinition::default()
    }
}

/// Adds a description to a column.
pub fn described(
    column: CustomResourceColumnDefinition,
    description: &str,
) -> CustomResourceColumnDefinition {
    CustomResourceColumnDefinition { description: Some(description.to_owned()), ..column }
}
