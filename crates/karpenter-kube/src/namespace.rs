//! Namespaces: affinity terms select them by label.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Namespace;
use karpenter_core::cluster::Labels;

use crate::interner::Interner;

/// The label every namespace carries its own name in.
pub const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// Name and labels of a namespace.
pub fn namespace(object: &Namespace, interner: &mut Interner) -> (Arc<str>, Arc<Labels>) {
    let name = object.metadata.name.as_deref().unwrap_or_default();
    named(name, object.metadata.labels.as_ref(), interner)
}

/// Name and labels of a namespace given by its parts; the label with its name is added, as the API server does.
pub(crate) fn named(
    name: &str,
    labels: Option<&BTreeMap<String, String>>,
    interner: &mut Interner,
) -> (Arc<str>, Arc<Labels>) {
    let mut all: Labels = labels
        .into_iter()
        .flatten()
        .map(|(key, value)| (interner.string(key), interner.string(value)))
        .collect();
    let name = interner.string(name);
    all.entry(NAME_LABEL.into()).or_insert_with(|| name.clone());
    (name, interner.labels(all))
}
