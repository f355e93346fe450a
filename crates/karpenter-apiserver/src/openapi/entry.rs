//! What OpenAPI documents describe: served resources and reviews in one form.

use k8s_openapi::api::authentication::v1::{SelfSubjectReview, TokenReview};
use k8s_openapi::api::authorization::v1::{
    LocalSubjectAccessReview, SelfSubjectAccessReview, SelfSubjectRulesReview, SubjectAccessReview,
};
use serde_json::Value;

use crate::registry::{Registry, Resource, Subresource};
use crate::schema::generated_schema;
use crate::verbs::REVIEWS;

/// One resource of a document.
pub(super) struct Entry<'r> {
    pub(super) group: &'r str,
    pub(super) version: &'r str,
    pub(super) kind: &'r str,
    pub(super) list_kind: &'r str,
    pub(super) plural: &'r str,
    pub(super) namespaced: bool,
    /// Whether objects are stored; reviews are only created.
    pub(super) stored: bool,
    pub(super) subresources: &'r [Subresource],
    pub(super) source: Source<'r>,
}

/// Where a kind's schema comes from.
pub(super) enum Source<'r> {
    /// The type that mirrors a built-in kind; definitions under `$defs`.
    BuiltIn(fn() -> Value),
    /// A CRD.
    Custom(&'r Value),
}

impl<'r> Entry<'r> {
    /// Returns what a group and version serve.
    pub(super) fn of_version(registry: &'r Registry, group: &'r str, version: &'r str) -> Vec<Self> {
        let stored = registry.of_version(group, version).map(|resource| Self::of(resource));
        let reviews = REVIEWS.iter().filter(|(other, ..)| *other == group && version == "v1");
        let reviews = reviews.map(|(group, plural, kind, namespaced)| Entry {
            group,
            version: "v1",
            kind,
            list_kind: "",
            plural,
            namespaced: *namespaced,
            stored: false,
            subresources: &[],
            source: Source::BuiltIn(review_schema(kind)),
        });
        stored.chain(reviews).collect()
    }

    fn of(resource: &'r Resource) -> Self {
        Self {
            group: &resource.group,
            version: &resource.version,
            kind: &resource.kind,
            list_kind: &resource.list_kind,
            plural: &resource.plural,
            namespaced: resource.namespaced,
            stored: true,
            subresources: &resource.subresources,
            source: match &resource.custom {
                Some(custom) => Source::Custom(&custom.document),
                None => Source::BuiltIn(resource.document),
            },
        }
    }

    /// Whether the kind comes from a CRD.
    pub(super) fn is_custom(&self) -> bool {
        matches!(self.source, Source::Custom(_))
    }

    /// Returns the path of the group and version, without a leading slash.
    pub(super) fn root(&self) -> String {
        place(self.group, self.version)
    }

    /// Returns the name of a kind's schema.
    pub(super) fn schema_name(&self, kind: &str) -> String {
        let Source::Custom(_) = self.source else {
            let group = self.group.split('.').next().unwrap_or_default();
            return match self.group {
                "" => format!("io.k8s.api.core.{}.{kind}", self.version),
                "apiextensions.k8s.io" => {
                    format!("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.{}.{kind}", self.version)
                }
                _ => format!("io.k8s.api.{group}.{}.{kind}", self.version),
            };
        };
        let domain: Vec<&str> = self.group.rsplit('.').collect();
        format!("{}.{}.{kind}", domain.join("."), self.version)
    }
}

/// Returns the path of a group and version, without a leading slash.
pub(super) fn place(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

/// Returns all groups and versions with a document.
pub(super) fn places(registry: &Registry) -> Vec<(String, String)> {
    let stored = registry.groups().iter();
    let mut places: Vec<(String, String)> = stored
        .flat_map(|(group, versions)| versions.iter().map(move |version| (group.clone(), version.clone())))
        .collect();
    places.extend(REVIEWS.iter().map(|(group, ..)| ((*group).to_owned(), "v1".to_owned())));
    places.sort();
    places.dedup();
    places
}

fn review_schema(kind: &str) -> fn() -> Value {
    match kind {
        "SelfSubjectReview" => generated_schema::<SelfSubjectReview>,
        "TokenReview" => generated_schema::<TokenReview>,
        "LocalSubjectAccessReview" => generated_schema::<LocalSubjectAccessReview>,
        "SelfSubjectAccessReview" => generated_schema::<SelfSubjectAccessReview>,
        "SelfSubjectRulesReview" => generated_schema::<SelfSubjectRulesReview>,
        _ => generated_schema::<SubjectAccessReview>,
    }
}
