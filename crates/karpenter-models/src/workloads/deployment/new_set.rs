//! The replica set of a deployment's present template.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, ReplicaSetSpec};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use karpenter_runtime::Kind as _;
use serde_json::Value;

use super::super::pod_template::controller_reference;

pub(super) const HASH: &str = "pod-template-hash";
pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
pub(super) const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
pub(super) const MOST: &str = "deployment.kubernetes.io/max-replicas";
/// Annotations that are about the deployment alone.
const NOT_COPIED: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    REVISION_HISTORY,
    DESIRED,
    MOST,
    "deprecated.deployment.rollback.to",
];
/// Characters of which no words arise.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
const HASH_LENGTH: usize = 10;

type Annotations = BTreeMap<String, String>;

/// Returns the set that was made from the deployment's template: the oldest, should there be several.
pub(super) fn find_new<'a>(deployment: &Deployment, sets: &[&'a ReplicaSet]) -> Option<&'a ReplicaSet> {
    let template = deployment.spec.as_ref().map(|spec| &spec.template)?;
    let made = sets.iter().filter(|set| {
        let held = set.spec.as_ref().and_then(|spec| spec.template.as_ref());
        held.is_some_and(|held| without_hash(held) == without_hash(template))
    });
    let age = |set: &ReplicaSet| set.metadata.creation_timestamp.as_ref().map(|time| time.0);
    made.min_by_key(|set| (age(set), set.metadata.name.clone())).copied()
}

fn without_hash(template: &PodTemplateSpec) -> PodTemplateSpec {
    let mut template = template.clone();
    if let Some(labels) = template.metadata.as_mut().and_then(|meta| meta.labels.as_mut()) {
        labels.remove(HASH);
    }
    template
}

/// Returns the revision number of a set.
pub(super) fn revision(set: &ReplicaSet) -> i64 {
    annotation(set, REVISION).and_then(|text| text.parse().ok()).unwrap_or(0)
}

pub(super) fn annotation<'a>(set: &'a ReplicaSet, name: &str) -> Option<&'a str> {
    set.metadata.annotations.as_ref()?.get(name).map(String::as_str)
}

/// Returns a new set of `size` pods for the deployment's template.
pub(super) fn make(deployment: &Deployment, size: i32, most: i32, revision: i64) -> ReplicaSet {
    let spec = deployment.spec.clone().unwrap_or_default();
    let collisions = deployment.status.as_ref().and_then(|status| status.collision_count);
    let hash = template_hash(&spec.template, collisions);
    let mut template = spec.template;
    let labels = template.metadata.get_or_insert_default().labels.get_or_insert_default();
    labels.insert(HASH.to_owned(), hash.clone());
    let labels = labels.clone();
    let mut selector: LabelSelector = spec.selector;
    selector.match_labels.get_or_insert_default().insert(HASH.to_owned(), hash.clone());
    let mut annotations = copied(deployment);
    annotations.insert(REVISION.to_owned(), revision.to_string());
    annotations.insert(DESIRED.to_owned(), spec.replicas.unwrap_or(1).to_string());
    annotations.insert(MOST.to_owned(), most.to_string());
    ReplicaSet {
        metadata: ObjectMeta {
            name: Some(format!("{}-{hash}", deployment.metadata.name.as_deref().unwrap_or_default())),
            namespace: deployment.metadata.namespace.clone(),
            labels: Some(labels),
            annotations: Some(annotations),
            owner_references: Some(vec![controller_reference(deployment)]),
            ..ObjectMeta::default()
        },
        spec: Some(ReplicaSetSpec {
            replicas: Some(size),
            min_ready_seconds: spec.min_ready_seconds,
            selector,
            template: Some(template),
        }),
        status: None,
    }
}

/// Returns the annotations an existing set should have to be the present one, if it lacks any.
pub(super) fn missing_annotations(
    deployment: &Deployment,
    set: &ReplicaSet,
    newest_old: i64,
) -> Option<Annotations> {
    let held = set.metadata.annotations.clone().unwrap_or_default();
    let mut wanted = copied(deployment);
    let present = revision(set);
    if present < newest_old + 1 {
        wanted.insert(REVISION.to_owned(), (newest_old + 1).to_string());
        if present > 0 {
            let history = held
                .get(REVISION_HISTORY)
                .map_or_else(|| present.to_string(), |held| format!("{held},{present}"));
            wanted.insert(REVISION_HISTORY.to_owned(), history);
        }
    }
    wanted.retain(|name, value| held.get(name) != Some(value));
    (!wanted.is_empty()).then_some(wanted)
}

fn copied(deployment: &Deployment) -> Annotations {
    let annotations = deployment.metadata.annotations.clone().unwrap_or_default();
    annotations.into_iter().filter(|(name, _)| !NOT_COPIED.contains(&name.as_str())).collect()
}

/// Returns a template as JSON.
pub(crate) fn template_json(template: &PodTemplateSpec) -> Value {
    // Only whole objects are written; any set with a template will do.
    let spec = ReplicaSetSpec { template: Some(template.clone()), ..ReplicaSetSpec::default() };
    let set = ReplicaSet { spec: Some(spec), ..ReplicaSet::default() };
    set.json()["spec"]["template"].take()
}

/// Returns a short name for a template, the same for equal templates.
pub(crate) fn template_hash(template: &PodTemplateSpec, collisions: Option<i32>) -> String {
    let text = template_json(template).to_string();
    let text = text.bytes().chain(collisions.into_iter().flat_map(i32::to_le_bytes));
    let mut hash = text.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut name = String::with_capacity(HASH_LENGTH);
    for _ in 0..HASH_LENGTH {
        name.push(char::from(ALPHABET[(hash % 27) as usize]));
        hash /= 27;
    }
    name
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment(image: &str) -> Deployment {
        serde_json::from_value(json!({
            "metadata": {"name": "web", "annotations": {"kubernetes.io/change-cause": "why", REVISION: "7"}},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": {
                "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]}}},
        }))
        .unwrap()
    }

    #[test]
    fn a_set_is_found_again_by_its_template_alone() {
        let set = make(&deployment("one"), 3, 4, 1);
        assert!(find_new(&deployment("one"), &[&set]).is_some());
        assert!(find_new(&deployment("two"), &[&set]).is_none());
        assert_eq!(annotation(&set, "kubernetes.io/change-cause"), Some("why"));
        assert_eq!(revision(&set), 1);
    }

    #[test]
    fn going_back_to_an_old_set_makes_it_the_newest_revision() {
        let set = make(&deployment("one"), 3, 4, 1);
        let annotations = missing_annotations(&deployment("one"), &set, 4).unwrap();
        assert_eq!((annotations[REVISION].as_str(), annotations[REVISION_HISTORY].as_str()), ("5", "1"));
        assert_eq!(missing_annotations(&deployment("one"), &set, 0), None);
    }

    #[test]
    fn a_collision_changes_the_hash() {
        let template = deployment("one").spec.unwrap().template;
        assert_ne!(template_hash(&template, None), template_hash(&template, Some(1)));
    }
}
