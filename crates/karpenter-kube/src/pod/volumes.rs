//! Which persistent volume claims a pod mounts.

use k8s_openapi::api::core::v1 as kube;
use karpenter_core::cluster::VolumeRef;

/// The claims a pod of this name mounts. A generic ephemeral volume has a claim named after pod and volume.
pub fn volume_refs(pod_name: &str, spec: &kube::PodSpec) -> Vec<VolumeRef> {
    spec.volumes.iter().flatten().filter_map(|volume| volume_ref(pod_name, volume)).collect()
}

/// Whether the pod has generic ephemeral volumes, whose claims depend on its name.
pub(crate) fn has_ephemeral(spec: &kube::PodSpec) -> bool {
    spec.volumes.iter().flatten().any(|volume| volume.ephemeral.is_some())
}

fn volume_ref(pod_name: &str, volume: &kube::Volume) -> Option<VolumeRef> {
    if let Some(source) = &volume.persistent_volume_claim {
        return Some(VolumeRef {
            claim: source.claim_name.as_str().into(),
            ephemeral_class: None,
            ephemeral: false,
        });
    }
    let ephemeral = volume.ephemeral.as_ref()?;
    let template = ephemeral.volume_claim_template.as_ref();
    let class = template.and_then(|template| template.spec.storage_class_name.as_deref());
    Some(VolumeRef {
        claim: format!("{pod_name}-{}", volume.name).into(),
        ephemeral_class: class.map(Into::into),
        ephemeral: true,
    })
}
