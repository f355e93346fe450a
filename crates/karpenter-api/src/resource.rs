//! How a custom resource of ours becomes a Kubernetes object: the [`custom_resource!`](crate::custom_resource)
//! macro gives a kind its envelope (`apiVersion`, `kind`, `metadata`, `spec`, `status`) and the traits
//! through which `k8s-openapi` and `kube` address it.
//!
//! The traits come from `k8s-openapi` alone; `kube` implements its own `Resource` for everything that has
//! them, so this crate needs neither `kube` nor a schema derive.

/// A list of resource quantities by name (`cpu`, `memory`, `nvidia.com/gpu`, …).
pub type ResourceList =
    std::collections::BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>;

/// Declares a custom resource: its struct, its place in the API and its serialised form.
///
/// Reading accepts objects without `apiVersion` and `kind`, as items of a list are, and refuses objects
/// that say they are of another kind.
#[macro_export]
macro_rules! custom_resource {
    (
        $(#[$attribute:meta])*
        $kind:ident, list $list:literal, group $group:literal, version $version:literal,
        plural $plural:literal, scope $scope:ident, spec $spec:ty, status $status:ty
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $kind {
            /// Name, labels, annotations, finalizers, owners.
            pub metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
            /// What is asked for.
            pub spec: $spec,
            /// What was found.
            pub status: Option<$status>,
        }

        impl k8s_openapi::Resource for $kind {
            const API_VERSION: &'static str = concat!($group, "/", $version);
            const GROUP: &'static str = $group;
            const KIND: &'static str = stringify!($kind);
            const VERSION: &'static str = $version;
            const URL_PATH_SEGMENT: &'static str = $plural;
            type Scope = k8s_openapi::$scope;
        }

        impl k8s_openapi::ListableResource for $kind {
            const LIST_KIND: &'static str = $list;
        }

        impl k8s_openapi::Metadata for $kind {
            type Ty = k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

            fn metadata(&self) -> &Self::Ty {
                &self.metadata
            }

            fn metadata_mut(&mut self) -> &mut Self::Ty {
                &mut self.metadata
            }
        }

        impl serde::Serialize for $kind {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeStruct;
                let length = 4 + usize::from(self.status.is_some());
                let mut object = serializer.serialize_struct(stringify!($kind), length)?;
                object.serialize_field("apiVersion", concat!($group, "/", $version))?;
                object.serialize_field("kind", stringify!($kind))?;
                object.serialize_field("metadata", &self.metadata)?;
                object.serialize_field("spec", &self.spec)?;
                match &self.status {
                    Some(status) => object.serialize_field("status", status)?,
                    None => object.skip_field("status")?,
                }
                object.end()
            }
        }

        impl<'de> serde::Deserialize<'de> for $kind {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                #[derive(serde::Deserialize)]
                #[serde(rename_all = "camelCase")]
                struct Envelope {
                    api_version: Option<String>,
                    kind: Option<String>,
                    #[serde(default)]
                    metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
                    #[serde(default)]
                    spec: $spec,
                    status: Option<$status>,
                }
                let envelope = Envelope::deserialize(deserializer)?;
                $crate::resource::expect_kind::<$kind, D::Error>(
                    envelope.api_version.as_deref(),
                    envelope.kind.as_deref(),
                )?;
                Ok(Self { metadata: envelope.metadata, spec: envelope.spec, status: envelope.status })
            }
        }
    };
}

/// Refuses an object whose `apiVersion` or `kind`, if present, is not that of `K`.
///
/// # Errors
/// Returns a sentence that names both what was found and what was expected.
pub fn expect_kind<K: k8s_openapi::Resource, E: serde::de::Error>(
    api_version: Option<&str>,
    kind: Option<&str>,
) -> Result<(), E> {
    let found_version = api_version.unwrap_or(K::API_VERSION);
    let found_kind = kind.unwrap_or(K::KIND);
    if found_version == K::API_VERSION && found_kind == K::KIND {
        return Ok(());
    }
    Err(E::custom(format_args!(
        "this is a {found_kind} of {found_version}, but a {} of {} is expected here",
        K::KIND,
        K::API_VERSION
    )))
}
