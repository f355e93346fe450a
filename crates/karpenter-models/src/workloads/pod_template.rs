//! Pods made from templates.

use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use karpenter_environment::Environment;
use karpenter_runtime::{Key, Write};
use kube::Resource;
use serde_json::json;

use crate::pod::PodFacts;

/// The longest name from which a name with a suffix is made.
const GENERATED_BASE_MAX: usize = 58;

/// Returns the reference by which a controller owns what it makes.
pub(crate) fn controller_reference<K: Resource<DynamicType = ()>>(owner: &K) -> OwnerReference {
    OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: owner.meta().name.clone().unwrap_or_default(),
        uid: owner.meta().uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// Returns a pod made from a template.
pub(crate) fn pod_from<K: Resource<DynamicType = ()>>(
    owner: &K,
    template: &PodTemplateSpec,
    name: String,
) -> Pod {
    let meta = template.metadata.clone().unwrap_or_default();
    let mut spec = template.spec.clone();
    if let Some(spec) = &mut spec {
        // A pod template cannot name a node; what does is for the scheduler to say.
        spec.node_name = spec.node_name.take().filter(|name| !name.is_empty());
    }
    Pod {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: owner.meta().namespace.clone(),
            labels: meta.labels,
            annotations: meta.annotations,
            finalizers: meta.finalizers,
            owner_references: Some(vec![controller_reference(owner)]),
            ..ObjectMeta::default()
        },
        spec,
        status: None,
    }
}

/// Returns a name that begins as told and ends by chance.
pub(crate) fn generated_name(base: &str, environment: &dyn Environment) -> String {
    let base: String = base.chars().take(GENERATED_BASE_MAX - 1).collect();
    format!("{base}-{}", environment.suffix())
}

/// Returns the write that makes a controller the owner of a pod.
pub(crate) fn adopt<K: Resource<DynamicType = ()>>(owner: &K, key: &Key, pod: &PodFacts) -> Write {
    let patch = json!({"metadata": {"ownerReferences": [controller_reference(owner)]}});
    Write::strategic_patch::<Pod>(key, patch).if_uid(pod.uid()).tolerating(404).tolerating(409)
}

/// Returns the write that lets a pod go.
pub(crate) fn release<K: Resource<DynamicType = ()>>(owner: &K, key: &Key, pod: &PodFacts) -> Write {
    let patch = json!({"metadata": {"ownerReferences": [{"$patch": "delete", "uid": owner.meta().uid}]}});
    Write::strategic_patch::<Pod>(key, patch).if_uid(pod.uid()).tolerating(404).tolerating(409)
}
