//! Controller revisions: the history of a set's template.

use k8s_openapi::api::apps::v1::{ControllerRevision, ReplicaSet};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use karpenter_runtime::{Caches, Change, Key, Kind as _, Wakes, Write};
use kube::Resource;
use serde_json::{Value, json};

use super::deployment::{template_hash, template_json};
use super::pod_template::controller_reference;
use crate::selector::Labels;

/// The label that tells which revision a pod is of.
pub(super) const REVISION_HASH: &str = "controller-revision-hash";

/// The revisions of a set.
pub(super) struct History<'a> {
    /// The revision of the present template, if it has been written down.
    pub(super) present: Option<&'a ControllerRevision>,
    /// All revisions, oldest first.
    all: Vec<&'a ControllerRevision>,
    /// The hash of the present template.
    pub(super) hash: String,
    /// The name of the present revision.
    pub(super) name: String,
}

impl<'a> History<'a> {
    /// Finds the revisions of a set.
    pub(super) fn read<K: Resource<DynamicType = ()>>(
        set: &K,
        template: &PodTemplateSpec,
        caches: &'a Caches,
    ) -> Self {
        let uid = set.meta().uid.as_deref().unwrap_or_default();
        let namespace = set.meta().namespace.as_deref().unwrap_or_default();
        let mut all: Vec<&ControllerRevision> = caches
            .of::<ControllerRevision>()
            .in_namespace(namespace)
            .filter(|revision| {
                let mut owners = revision.metadata.owner_references.iter().flatten();
                owners.any(|owner| owner.uid == uid)
            })
            .map(|revision| &**revision)
            .collect();
        all.sort_by_key(|revision| revision.revision);
        let hash = template_hash(template, None);
        let name = format!("{}-{hash}", set.meta().name.as_deref().unwrap_or_default());
        let present =
            all.iter().copied().find(|revision| revision.metadata.name.as_deref() == Some(name.as_str()));
        Self { present, all, hash, name }
    }

    /// Returns the write that makes the present template the newest revision, unless it is.
    pub(super) fn record<K: Resource<DynamicType = ()>>(
        &self,
        set: &K,
        template: &PodTemplateSpec,
        labels: &Labels,
    ) -> Option<Write> {
        let newest = self.all.last().map_or(0, |revision| revision.revision);
        let Some(present) = self.present else {
            let mut labels = labels.clone();
            labels.insert(REVISION_HASH.to_owned(), self.hash.clone());
            let revision = ControllerRevision {
                metadata: ObjectMeta {
                    name: Some(self.name.clone()),
                    namespace: set.meta().namespace.clone(),
                    labels: Some(labels),
                    owner_references: Some(vec![controller_reference(set)]),
                    ..ObjectMeta::default()
                },
                data: Some(k8s_openapi::apimachinery::pkg::runtime::RawExtension(data(template))),
                revision: newest + 1,
            };
            return Some(Write::create(&revision).tolerating(409));
        };
        (present.revision < newest).then(|| {
            let patch = json!({"revision": newest + 1});
            Write::merge_patch::<ControllerRevision>(&Key::of(present), patch).tolerating(404)
        })
    }

    /// Returns writes that drop revisions beyond the limit which no pod is of.
    pub(super) fn trim(&self, limit: Option<i32>, is_live: impl Fn(&str, &str) -> bool) -> Vec<Write> {
        let limit = usize::try_from(limit.unwrap_or(10)).unwrap_or(0);
        let dead: Vec<&&ControllerRevision> = self
            .all
            .iter()
            .filter(|revision| {
                let name = revision.metadata.name.as_deref().unwrap_or_default();
                let hash = revision.metadata.labels.as_ref().and_then(|labels| labels.get(REVISION_HASH));
                name != self.name && !is_live(name, hash.map_or("", String::as_str))
            })
            .collect();
        let excess = dead.len().saturating_sub(limit);
        dead[..excess]
            .iter()
            .map(|revision| Write::delete::<ControllerRevision>(&Key::of(**revision)).tolerating(404))
            .collect()
    }

    /// Returns the template a revision holds.
    pub(super) fn template_of(&self, name: &str) -> Option<PodTemplateSpec> {
        let revision = self.all.iter().find(|revision| revision.metadata.name.as_deref() == Some(name))?;
        let mut template = revision.data.as_ref()?.0["spec"]["template"].clone();
        template.as_object_mut()?.remove("$patch");
        let set = json!({"spec": {"selector": {}, "template": template}});
        ReplicaSet::read(&set.to_string()).ok()?.spec?.template
    }
}

/// Wakes the set of `kind` whose revision changed.
pub(super) fn wake_owner(change: &Change, kind: &str, wakes: &mut Wakes) {
    let Some(delta) = change.of::<ControllerRevision>() else { return };
    let owners = delta.latest().metadata.owner_references.iter().flatten();
    for owner in owners.filter(|owner| owner.kind == kind) {
        wakes.wake(Key::namespaced(change.key().namespace().unwrap_or_default(), &owner.name));
    }
}

/// The template as a patch that puts it back, which is what `kubectl rollout undo` sends.
fn data(template: &PodTemplateSpec) -> Value {
    let mut template = template_json(template);
    template["$patch"] = "replace".into();
    json!({"spec": {"template": template}})
}
