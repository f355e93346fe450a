//! What names an object within its kind, and what a controller is asked to look at.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

/// A namespace and a name. Cluster-scoped objects have no namespace.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    namespace: Arc<str>,
    name: Arc<str>,
}

impl Key {
    /// Names an object in a namespace.
    pub fn namespaced(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// Names a cluster-scoped object.
    pub fn cluster(name: &str) -> Self {
        Self::namespaced("", name)
    }

    /// The only key of a controller that looks at everything at once.
    pub fn everything() -> Self {
        Self::namespaced("", "")
    }

    /// The key of `object`.
    pub fn of<K: Resource>(object: &K) -> Self {
        Self::of_meta(object.meta())
    }

    /// The key of the object with this metadata.
    pub fn of_meta(meta: &ObjectMeta) -> Self {
        Self::namespaced(
            meta.namespace.as_deref().unwrap_or_default(),
            meta.name.as_deref().unwrap_or_default(),
        )
    }

    /// The namespace, if the object lives in one.
    pub fn namespace(&self) -> Option<&str> {
        (!self.namespace.is_empty()).then_some(&*self.namespace)
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace() {
            Some(namespace) => write!(formatter, "{namespace}/{}", self.name),
            None => formatter.write_str(&self.name),
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}
