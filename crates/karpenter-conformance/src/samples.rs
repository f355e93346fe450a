//! The resources that scripts work on and valid objects of each.

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Value, json};

/// One resource with valid objects.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Resource {
    /// `<version>/<plural>` or `<group>/<version>/<plural>`.
    #[serde(rename = "resource")]
    pub(crate) path: String,
    #[serde(default)]
    pub(crate) namespaced: bool,
    pub(crate) objects: Vec<Value>,
}

impl Resource {
    pub(crate) fn plural(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    pub(crate) fn api_version(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(version, _)| version)
    }

    pub(crate) fn kind(&self) -> &str {
        self.objects[0]["kind"].as_str().unwrap_or_default()
    }

    /// The path of the collection, in the namespace when the resource has one.
    pub(crate) fn collection(&self, namespace: &str) -> String {
        let (version, plural) = (self.api_version(), self.plural());
        let root = if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
        if self.namespaced && !namespace.is_empty() {
            format!("{root}/namespaces/{namespace}/{plural}")
        } else {
            format!("{root}/{plural}")
        }
    }

    /// A named object of this resource from its sample `index`.
    pub(crate) fn object(&self, index: usize, namespace: &str, name: &str) -> Value {
        let mut object = self.objects[index % self.objects.len()].clone();
        object["apiVersion"] = self.api_version().into();
        object["metadata"] = json!({ "name": name });
        if self.namespaced {
            object["metadata"]["namespace"] = namespace.into();
        }
        replace(&mut object, namespace);
        object
    }
}

/// Samples say `NAMESPACE` where the object's own namespace must stand.
fn replace(value: &mut Value, namespace: &str) {
    match value {
        Value::String(text) if text == "NAMESPACE" => namespace.clone_into(text),
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, namespace)),
        Value::Object(fields) => fields.values_mut().for_each(|field| replace(field, namespace)),
        _ => {}
    }
}

/// All built-in resources with samples.
pub(crate) fn resources() -> Result<Vec<Resource>> {
    serde_saphyr::from_str(include_str!("samples.yaml")).context("reading the samples")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_have_paths_and_kinds() {
        let resources = resources().unwrap();
        let deployments = resources.iter().find(|resource| resource.plural() == "deployments").unwrap();
        assert_eq!(deployments.collection("n"), "/apis/apps/v1/namespaces/n/deployments");
        assert_eq!(deployments.kind(), "Deployment");
        assert!(
            resources.iter().all(|resource| resource.objects.iter().all(|object| object["kind"].is_string()))
        );
    }
}
