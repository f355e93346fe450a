//! A pod as the models keep it: small, with what all pods of a set have in common kept once.
//!
//! A hundred thousand whole Pod objects take about a gigabyte; of these, most is the same text over and over.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{PersistentVolumeClaimTemplate, Pod, PodSpec, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use karpenter_runtime::Watches;
use kube::Resource;

use crate::annotations::{Annotations, KWOK_STOP_AFTER, PREFIX};
use crate::scheduler::Demand;
use crate::selector::Labels;

/// Annotations of other people that the models read.
const KEPT_ANNOTATIONS: [&str; 4] = [
    KWOK_STOP_AFTER,
    "batch.kubernetes.io/job-completion-index",
    "controller.kubernetes.io/pod-deletion-cost",
    "kubernetes.io/config.mirror",
];

/// What pods of one set have in common.
#[derive(Debug, PartialEq)]
pub(crate) struct Template {
    pub(crate) labels: Labels,
    /// The controller the pods belong to.
    pub(crate) owner: Option<OwnerReference>,
    /// Without the node and whatever else is each pod's own.
    pub(crate) spec: PodSpec,
}

/// Where a pod is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Pending,
    Running,
    Succeeded,
    Failed,
}

/// A pod as the models keep it.
#[derive(Debug)]
pub(crate) struct PodFacts {
    /// Without labels, annotations and owners.
    meta: ObjectMeta,
    pub(crate) template: Arc<Template>,
    /// How the scheduler sees it.
    pub(crate) demand: Demand,
    pub(crate) annotations: Option<Annotations>,
    /// Claims that are made for the pod, by name.
    pub(crate) ephemeral_claims: Vec<(String, PersistentVolumeClaimTemplate)>,
    pub(crate) node: Option<String>,
    pub(crate) is_gated: bool,
    pub(crate) phase: Phase,
    /// When its node began to look after it.
    pub(crate) started: Option<Timestamp>,
    /// When it was bound.
    pub(crate) scheduled: Option<Timestamp>,
    /// Since when its containers run.
    pub(crate) running_since: Option<Timestamp>,
    /// Since when it is ready.
    pub(crate) ready_since: Option<Timestamp>,
    /// When its last container ended.
    pub(crate) finished: Option<Timestamp>,
    pub(crate) restarts: i32,
    pub(crate) nominated_node: Option<String>,
    /// The message of its `PodScheduled` condition while that is false.
    pub(crate) unscheduled_because: Option<String>,
}

impl PodFacts {
    /// Returns the pod's uid.
    pub(crate) fn uid(&self) -> &str {
        self.meta.uid.as_deref().unwrap_or_default()
    }

    /// Returns the pod's name.
    pub(crate) fn name(&self) -> &str {
        self.meta.name.as_deref().unwrap_or_default()
    }

    /// Returns the pod's namespace.
    pub(crate) fn namespace(&self) -> &str {
        self.meta.namespace.as_deref().unwrap_or_default()
    }

    /// Returns a label's value.
    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        let own = self.demand.own_labels.get(key);
        own.or_else(|| self.template.labels.get(key)).map(String::as_str)
    }

    /// Returns all labels.
    pub(crate) fn labels(&self) -> Cow<'_, Labels> {
        if self.demand.own_labels.is_empty() {
            return Cow::Borrowed(&self.template.labels);
        }
        let mut labels = self.template.labels.clone();
        labels.extend(self.demand.own_labels.clone());
        Cow::Owned(labels)
    }

    /// Returns an annotation's value.
    pub(crate) fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.as_ref()?.get(key).map(String::as_str)
    }

    /// Returns whether the pod is on its way out.
    pub(crate) fn is_terminating(&self) -> bool {
        self.meta.deletion_timestamp.is_some()
    }

    /// Returns when the pod was asked to be gone by.
    pub(crate) fn deletion(&self) -> Option<Timestamp> {
        self.meta.deletion_timestamp.as_ref().map(|time| time.0)
    }

    /// Returns how many seconds the pod was given to stop.
    pub(crate) fn grace_seconds(&self) -> i64 {
        self.meta.deletion_grace_period_seconds.unwrap_or(0)
    }

    /// Returns whether somebody holds on to the pod after its deletion.
    pub(crate) fn has_finalizers(&self) -> bool {
        !self.finalizers().is_empty()
    }

    /// Returns those who hold on to the pod after its deletion.
    pub(crate) fn finalizers(&self) -> &[String] {
        self.meta.finalizers.as_deref().unwrap_or_default()
    }

    /// Returns when the pod was created.
    pub(crate) fn created(&self) -> Timestamp {
        self.meta.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0)
    }

    /// Returns whether the pod has come to its end.
    pub(crate) fn is_finished(&self) -> bool {
        matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }

    /// Returns whether the pod still runs or will, and is wanted.
    pub(crate) fn is_active(&self) -> bool {
        !self.is_finished() && !self.is_terminating()
    }

    /// Returns whether the pod is ready.
    pub(crate) fn is_ready(&self) -> bool {
        self.ready_since.is_some()
    }

    /// Returns whether the pod has been ready for so many seconds.
    pub(crate) fn is_available(&self, min_ready_seconds: i32, now: Timestamp) -> bool {
        self.ready_since.is_some_and(|since| {
            min_ready_seconds <= 0 || now.duration_since(since).as_secs() >= i64::from(min_ready_seconds)
        })
    }
}

impl Resource for PodFacts {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        Pod::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        Pod::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        Pod::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        Pod::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}

/// The templates in use, by the uid of the controller whose pods they are.
#[derive(Debug, Default)]
pub(crate) struct Templates {
    known: Mutex<BTreeMap<String, (Weak<Template>, Demand)>>,
}

impl Templates {
    /// Makes a pod small.
    pub(crate) fn keep(&self, mut pod: Pod) -> PodFacts {
        let demand = Demand::read(&pod);
        let mut meta = std::mem::take(&mut pod.metadata);
        let mut labels = meta.labels.take().unwrap_or_default();
        for own in demand.own_labels.keys() {
            labels.remove(own);
        }
        let owners = meta.owner_references.take().unwrap_or_default();
        let owner = owners.into_iter().find(|owner| owner.controller == Some(true));
        let annotations = meta.annotations.take().map(|mut annotations| {
            annotations.retain(|key, _| key.starts_with(PREFIX) || KEPT_ANNOTATIONS.contains(&key.as_str()));
            annotations
        });
        let mut spec = pod.spec.take().unwrap_or_default();
        let node = spec.node_name.take().filter(|name| !name.is_empty());
        let is_gated = spec.scheduling_gates.take().is_some_and(|gates| !gates.is_empty());
        let ephemeral_claims = ephemeral_claims(meta.name.as_deref().unwrap_or_default(), &mut spec);
        strip(&mut spec);
        let (template, demand) = self.share(Template { labels, owner, spec }, demand);
        let status = pod.status.take().unwrap_or_default();
        PodFacts {
            meta,
            template,
            demand,
            ephemeral_claims,
            annotations: annotations.filter(|annotations| !annotations.is_empty()),
            node,
            is_gated,
            phase: phase(&status),
            started: status.start_time.as_ref().map(|time| time.0),
            scheduled: condition_since(&status, "PodScheduled", "True"),
            running_since: running_since(&status),
            ready_since: condition_since(&status, "Ready", "True"),
            finished: finished(&status),
            restarts: status.container_statuses.iter().flatten().map(|status| status.restart_count).sum(),
            unscheduled_because: unscheduled_because(&status),
            nominated_node: status.nominated_node_name.filter(|name| !name.is_empty()),
        }
    }

    /// Returns a template equal to `template` that is in use already, if there is one, and the demand made to match.
    fn share(&self, template: Template, mut demand: Demand) -> (Arc<Template>, Demand) {
        let Some(owner) = &template.owner else { return (Arc::new(template), demand) };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((held, alike)) = known.get(&owner.uid)
            && let Some(held) = held.upgrade()
            && *held == template
        {
            if alike.spec == demand.spec {
                demand.spec = Arc::clone(&alike.spec);
            }
            return (held, demand);
        }
        let uid = owner.uid.clone();
        let template = Arc::new(template);
        known.insert(uid, (Arc::downgrade(&template), demand.clone()));
        if known.len().is_power_of_two() {
            known.retain(|_, (held, _)| held.strong_count() > 0);
        }
        (template, demand)
    }
}

/// Declares that a controller reads pods.
pub(crate) fn watch_pods(watches: &mut Watches) {
    // Only the first declaration of a runtime is used, so all controllers share its templates.
    let templates = Templates::default();
    watches.add_as::<Pod, PodFacts>(move |pod| templates.keep(pod));
}

fn ephemeral_claims(name: &str, spec: &mut PodSpec) -> Vec<(String, PersistentVolumeClaimTemplate)> {
    let volumes = spec.volumes.iter_mut().flatten();
    let made = volumes.filter_map(|volume| {
        let template = volume.ephemeral.as_mut()?.volume_claim_template.take()?;
        Some((format!("{name}-{}", volume.name), template))
    });
    made.collect()
}

/// Drops what is each pod's own and what no model reads.
fn strip(spec: &mut PodSpec) {
    spec.volumes = None;
    spec.hostname = None;
    spec.affinity = None;
    for container in spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()) {
        container.env = None;
        container.volume_mounts = None;
        container.args = None;
        container.command = None;
    }
}

fn phase(status: &PodStatus) -> Phase {
    match status.phase.as_deref() {
        Some("Running") => Phase::Running,
        Some("Succeeded") => Phase::Succeeded,
        Some("Failed") => Phase::Failed,
        _ => Phase::Pending,
    }
}

/// Returns since when a condition has a status.
fn condition_since(status: &PodStatus, type_: &str, value: &str) -> Option<Timestamp> {
    let mut conditions = status.conditions.iter().flatten();
    let found = conditions.find(|condition| condition.type_ == type_ && condition.status == value)?;
    Some(found.last_transition_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0))
}

fn unscheduled_because(status: &PodStatus) -> Option<String> {
    let mut conditions = status.conditions.iter().flatten();
    let found =
        conditions.find(|condition| condition.type_ == "PodScheduled" && condition.status == "False")?;
    Some(found.message.clone().unwrap_or_default())
}

fn finished(status: &PodStatus) -> Option<Timestamp> {
    let statuses = status.container_statuses.iter().flatten();
    let ends = statuses.filter_map(|status| status.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref());
    ends.map(|time| time.0).max()
}

fn running_since(status: &PodStatus) -> Option<Timestamp> {
    let statuses = status.container_statuses.iter().flatten();
    let starts = statuses.filter_map(|status| status.state.as_ref()?.running.as_ref()?.started_at.as_ref());
    starts.map(|time| time.0).max()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, cpu: &str) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"},
                "annotations": {"cluster.model/run-for": "1s", "other": "x"},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs", "controller": true}]},
            "spec": {"nodeName": name, "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
            "status": {"phase": "Running", "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": "1970-01-01T00:00:10Z"}]},
        }))
        .unwrap()
    }

    #[test]
    fn pods_of_one_set_share_what_they_have_in_common() {
        let templates = Templates::default();
        let (one, two, other) =
            (templates.keep(pod("a", "1")), templates.keep(pod("b", "1")), templates.keep(pod("c", "2")));
        assert!(Arc::ptr_eq(&one.template, &two.template) && Arc::ptr_eq(&one.demand.spec, &two.demand.spec));
        assert!(!Arc::ptr_eq(&one.template, &other.template));
        assert_eq!((one.node.as_deref(), two.node.as_deref()), (Some("a"), Some("b")));
    }

    #[test]
    fn a_pod_is_available_after_it_was_ready_for_long_enough() {
        let kept = Templates::default().keep(pod("a", "1"));
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        assert!(
            kept.is_available(0, at(10)) && kept.is_available(5, at(15)) && !kept.is_available(5, at(14))
        );
        assert_eq!(kept.annotation("cluster.model/run-for"), Some("1s"));
        assert_eq!(kept.annotation("other"), None);
    }
}
