//! Resource maps of Kubernetes objects as exact quantities.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use karpenter_quantity::{Quantity, ResourceList};

use crate::invalid::{At, Invalid};

/// A resource map of the Kubernetes API; a missing map names nothing.
pub fn resource_list(resources: Option<&BTreeMap<String, Text>>) -> Result<ResourceList, Invalid> {
    resources
        .into_iter()
        .flatten()
        .map(|(name, text)| Ok((name.as_str(), quantity(text).at(name)?)))
        .collect()
}

/// One quantity of the Kubernetes API.
pub fn quantity(text: &Text) -> Result<Quantity, Invalid> {
    text.0.trim().parse().map_err(|_| {
        Invalid::new(format!("{:?} is not a quantity; write it like \"500m\", \"2\" or \"1.5Gi\"", text.0))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreadable_quantity_is_named() {
        let resources =
            [("cpu".to_owned(), Text("1".into())), ("memory".to_owned(), Text("1 Gi".into()))].into();
        let invalid = resource_list(Some(&resources)).unwrap_err();
        assert_eq!(invalid.path, "memory");
        assert!(invalid.message.contains("\"1 Gi\""), "{invalid}");
    }
}
