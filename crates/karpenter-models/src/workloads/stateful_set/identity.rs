//! Names, labels and claims of a stateful set's pods.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, PodTemplateSpec, Volume,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::super::pod_template::pod_from;
use super::super::revisions::{History, REVISION_HASH};

/// Returns the number in a pod's name.
pub(super) fn ordinal_of(set: &str, pod: &str) -> Option<i32> {
    let number = pod.strip_prefix(set)?.strip_prefix('-')?;
    number.parse().ok().filter(|ordinal: &i32| *ordinal >= 0 && ordinal.to_string() == number)
}

/// Returns the pod with a number, made from the template of a revision.
pub(super) fn pod_of(set: &StatefulSet, ordinal: i32, revision: &str, history: &History<'_>) -> Pod {
    let spec = set.spec.clone().unwrap_or_default();
    let name = format!("{}-{ordinal}", set.metadata.name.as_deref().unwrap_or_default());
    let old = (revision != history.name).then(|| history.template_of(revision)).flatten();
    let template: PodTemplateSpec = old.unwrap_or(spec.template);
    let mut pod = pod_from(set, &template, name.clone());
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert("statefulset.kubernetes.io/pod-name".to_owned(), name.clone());
    labels.insert("apps.kubernetes.io/pod-index".to_owned(), ordinal.to_string());
    labels.insert(REVISION_HASH.to_owned(), revision.to_owned());
    if let Some(pod_spec) = &mut pod.spec {
        pod_spec.hostname = Some(name);
        pod_spec.subdomain = spec.service_name.filter(|name| !name.is_empty());
        let volumes = pod_spec.volumes.get_or_insert_default();
        for (volume, claim) in claims_of(set, ordinal) {
            volumes.retain(|held| held.name != volume);
            let claim_name = claim.metadata.name.unwrap_or_default();
            volumes.push(Volume {
                name: volume,
                persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                    claim_name,
                    read_only: None,
                }),
                ..Volume::default()
            });
        }
    }
    pod
}

/// Returns the claims of the pod with a number, with the names of their volumes.
pub(super) fn claims_of(set: &StatefulSet, ordinal: i32) -> Vec<(String, PersistentVolumeClaim)> {
    let templates = set.spec.iter().flat_map(|spec| spec.volume_claim_templates.iter().flatten());
    let set_name = set.metadata.name.as_deref().unwrap_or_default();
    templates
        .map(|template| {
            let volume = template.metadata.name.clone().unwrap_or_default();
            let mut labels = template.metadata.labels.clone().unwrap_or_default();
            let selected = set.spec.as_ref().and_then(|spec| spec.selector.match_labels.clone());
            labels.extend(selected.unwrap_or_default());
            let claim = PersistentVolumeClaim {
                metadata: ObjectMeta {
                    name: Some(format!("{volume}-{set_name}-{ordinal}")),
                    namespace: set.metadata.namespace.clone(),
                    labels: Some(labels),
                    annotations: template.metadata.annotations.clone(),
                    ..ObjectMeta::default()
                },
                spec: template.spec.clone(),
                status: None,
            };
            (volume, claim)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_belongs_to_a_set_by_its_name() {
        assert_eq!(ordinal_of("web", "web-12"), Some(12));
        assert_eq!(ordinal_of("web", "web-012"), None);
        assert_eq!(ordinal_of("web", "web-a-1"), None);
        assert_eq!(ordinal_of("web", "website-1"), None);
    }
}
