//! One served resource: its names, scope, subresources and schema.

use std::sync::{Arc, OnceLock};

use serde_json::Value;

use crate::crd::Validation;
use crate::schema::Node;
use crate::store::ResourceName;

/// Where a Scale reads and writes its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScalePaths {
    pub(crate) spec_replicas: Vec<String>,
    pub(crate) status_replicas: Vec<String>,
    /// The selector: a text in custom resources, a `LabelSelector` object or a map in built-in kinds.
    pub(crate) selector: Option<Vec<String>>,
}

/// A part of an object with a URL of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Subresource {
    Status,
    Scale(ScalePaths),
    Eviction,
    Binding,
    Token,
    Finalize,
}

impl Subresource {
    /// Returns the last part of the URL.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Scale(_) => "scale",
            Self::Eviction => "eviction",
            Self::Binding => "binding",
            Self::Token => "token",
            Self::Finalize => "finalize",
        }
    }
}

/// How objects differ between the version asked for and the version stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Conversion {
    /// This is the stored version.
    Stored,
    /// Only `apiVersion` differs.
    ApiVersion,
    /// `events.k8s.io/v1` over stored core events.
    Event,
}

/// A column of `kubectl get` that a CRD declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PrinterColumn {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) format: String,
    pub(crate) description: String,
    pub(crate) priority: i64,
    pub(crate) path: String,
}

/// What only custom resources have.
#[derive(Debug)]
pub(crate) struct Custom {
    pub(crate) validation: Validation,
    pub(crate) columns: Vec<PrinterColumn>,
    /// The schema as the CRD has it, for OpenAPI.
    pub(crate) document: Value,
    /// The schema of the version that is stored.
    pub(crate) storage: Arc<Node>,
    /// What users of a deprecated version are told.
    pub(crate) deprecation: Option<String>,
}

/// A served resource in one version.
#[derive(Debug)]
pub(crate) struct Resource {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) storage_version: String,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) namespaced: bool,
    pub(crate) subresources: Vec<Subresource>,
    pub(crate) selectable_fields: Vec<String>,
    pub(crate) conversion: Conversion,
    /// The name in the store and in messages: `pods`, `deployments.apps`.
    pub(crate) name: ResourceName,
    pub(crate) document: fn() -> Value,
    pub(crate) node: OnceLock<Arc<Node>>,
    pub(crate) custom: Option<Arc<Custom>>,
}

impl Resource {
    /// Returns `group/version`, or just the version in the core group.
    pub(crate) fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }

    /// Returns the `apiVersion` that stored objects carry.
    pub(crate) fn stored_api_version(&self) -> String {
        match self.conversion {
            Conversion::Event => "v1".to_owned(),
            _ => api_version(&self.group, &self.storage_version),
        }
    }

    /// Whether this is the version that is stored.
    pub(crate) fn is_storage_version(&self) -> bool {
        self.conversion == Conversion::Stored
    }

    /// Returns the schema tree, built on first use.
    pub(crate) fn schema(&self) -> &Arc<Node> {
        self.node.get_or_init(|| Node::built_in(&self.api_version(), &self.kind))
    }

    /// Finds a subresource by the last part of its URL.
    pub(crate) fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|subresource| subresource.name() == name)
    }

    /// Whether `status` is written through a subresource.
    pub(crate) fn has_status(&self) -> bool {
        self.subresources.contains(&Subresource::Status)
    }

    /// What clients are told when they use a resource that has a successor.
    pub(crate) fn deprecation(&self) -> Option<&str> {
        match &self.custom {
            Some(custom) => custom.deprecation.as_deref(),
            None => (&*self.name == "endpoints")
                .then_some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"),
        }
    }

    /// The resource in sentences about objects that are there or not: `plural.group`.
    pub(crate) fn qualified(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// The group in sentences about what is wrong with an object, which is that of the kind behind it.
    pub(crate) fn inner_group(&self) -> &str {
        if self.group == "events.k8s.io" { "" } else { &self.group }
    }

    /// Whether objects are of a kind from a CRD.
    pub(crate) fn is_custom(&self) -> bool {
        self.custom.is_some()
    }
}

fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}
