//! The resources the server serves: the built-in table and those of installed CRDs.
//!
//! A [`Registry`] is an immutable value; installing a CRD replaces the whole of it, so a request sees one state.

mod built_in;
mod resource;

use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) use resource::{Conversion, Custom, PrinterColumn, Resource, ScalePaths, Subresource};

/// Group, version and plural name.
type Coordinates = (String, String, String);

/// All served resources.
#[derive(Debug, Clone)]
pub(crate) struct Registry {
    resources: BTreeMap<Coordinates, Arc<Resource>>,
    /// Versions of each group in the order discovery offers them, the preferred one first.
    versions: BTreeMap<String, Vec<String>>,
}

impl Registry {
    /// Builds the registry of built-in resources.
    pub(crate) fn built_in() -> Self {
        let mut registry = Self { resources: BTreeMap::new(), versions: BTreeMap::new() };
        for resource in built_in::resources() {
            registry.insert(Arc::new(resource));
        }
        registry
    }

    /// Adds or replaces a resource.
    pub(crate) fn insert(&mut self, resource: Arc<Resource>) {
        let versions = self.versions.entry(resource.group.clone()).or_default();
        if !versions.contains(&resource.version) {
            versions.push(resource.version.clone());
            versions.sort_by_key(|version| std::cmp::Reverse(version_rank(version)));
        }
        let coordinates = (resource.group.clone(), resource.version.clone(), resource.plural.clone());
        self.resources.insert(coordinates, resource);
    }

    /// Removes all versions of a custom resource.
    pub(crate) fn remove(&mut self, group: &str, plural: &str) {
        self.resources.retain(|_, resource| resource.group != group || resource.plural != plural);
        let resources = &self.resources;
        self.versions.retain(|group, versions| {
            versions.retain(|version| {
                resources.values().any(|resource| resource.group == *group && resource.version == *version)
            });
            !versions.is_empty()
        });
    }

    /// Finds a resource by its place in the URL.
    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.resources.get(&(group.to_owned(), version.to_owned(), plural.to_owned()))
    }

    /// Finds a resource by `apiVersion` and `kind`.
    pub(crate) fn find_kind(&self, api_version: &str, kind: &str) -> Option<&Arc<Resource>> {
        self.resources
            .values()
            .find(|resource| resource.kind == kind && resource.api_version() == api_version)
    }

    /// Finds the storage version of a resource by its name in the store.
    pub(crate) fn find_stored(&self, name: &str) -> Option<&Arc<Resource>> {
        self.resources.values().find(|resource| &*resource.name == name && resource.is_storage_version())
    }

    /// Returns all resources, ordered by group, version and plural name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.values()
    }

    /// Returns the resources of one group and version.
    pub(crate) fn of_version(&self, group: &str, version: &str) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources
            .range((group.to_owned(), version.to_owned(), String::new())..)
            .take_while(move |((other, theirs, _), _)| other == group && theirs == version)
            .map(|(_, resource)| resource)
    }

    /// Whether a group belongs to Kubernetes itself rather than to CRDs.
    pub(crate) fn is_built_in_group(&self, group: &str) -> bool {
        self.iter().any(|resource| resource.group == group && !resource.is_custom())
    }

    /// Returns the groups with their versions, the preferred version first.
    pub(crate) fn groups(&self) -> &BTreeMap<String, Vec<String>> {
        &self.versions
    }
}

/// Orders versions as Kubernetes does: stable before beta before alpha, then by number.
pub(crate) fn version_rank(version: &str) -> (u8, u32, u32) {
    let Some(rest) = version.strip_prefix('v') else { return (0, 0, 0) };
    let digits = rest.find(|character: char| !character.is_ascii_digit()).unwrap_or(rest.len());
    let major = rest[..digits].parse().unwrap_or(0);
    match &rest[digits..] {
        "" => (3, major, 0),
        stage => {
            let (rank, minor) = stage
                .strip_prefix("beta")
                .map(|minor| (2, minor))
                .or_else(|| stage.strip_prefix("alpha").map(|minor| (1, minor)))
                .unwrap_or((0, ""));
            (rank, major, minor.parse().unwrap_or(0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_as_kubernetes_orders_them() {
        let mut versions = ["v1alpha1", "v2beta1", "v1", "v1beta2", "v2"];
        versions.sort_by_key(|version| std::cmp::Reverse(version_rank(version)));
        assert_eq!(versions, ["v2", "v1", "v2beta1", "v1beta2", "v1alpha1"]);
    }

    #[test]
    fn every_built_in_resource_has_a_schema_with_metadata() {
        for resource in Registry::built_in().iter() {
            assert!(resource.schema().field("metadata").is_some(), "{}", resource.name);
        }
    }
}
