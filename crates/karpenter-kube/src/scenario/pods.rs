//! Pod groups of a scenario: one converted pod per group, then as many names as the group counts.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1 as kube;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use karpenter_api::{CapacityBuffer, LabelRules};
use karpenter_core::cluster::{Pod, PodId};
use rustc_hash::{FxHashMap, FxHashSet};

use super::format::PodGroup;
use crate::buffer::{ChunkSource, virtual_pods};
use crate::interner::Interner;
use crate::invalid::{At, Invalid};
use crate::pod;
use crate::pod::volumes::{has_ephemeral, volume_refs};

/// The most pods one scenario may hold, so that a slip in a count is refused instead of filling the memory.
const PODS_MAX: usize = 2_000_000;

/// The name of every pod's first container, by which a status can refer to it.
const CONTAINER: &str = "c";

/// The age of every pod that does not say otherwise.
const POD_AGE: SignedDuration = SignedDuration::from_mins(10);

/// Which group of the file a pod came from.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// `namespace/name` of the groups.
    names: Vec<Arc<str>>,
    /// For each run of pending pods: the index after its last pod, and its group.
    pending: Vec<(usize, usize)>,
    /// The group of every pod that is on a leaving node, by UID.
    leaving: FxHashMap<Arc<str>, usize>,
}

impl Groups {
    /// The group of a pod of the plan: pending pods come first, in the order of the file.
    pub(super) fn of(&self, index: usize, pod: &Pod) -> Option<&Arc<str>> {
        let run = self.pending.partition_point(|(end, _)| *end <= index);
        let group =
            self.pending.get(run).map(|(_, group)| group).or_else(|| self.leaving.get(&pod.id.uid))?;
        self.names.get(*group)
    }
}

/// Turns pod groups into pods.
pub(super) struct PodSource<'a> {
    now: Timestamp,
    created: Timestamp,
    rules: &'a LabelRules,
    interner: &'a mut Interner,
    groups: Groups,
    refused: Vec<(String, String)>,
    total: usize,
}

impl<'a> PodSource<'a> {
    pub(super) fn new(now: Timestamp, rules: &'a LabelRules, interner: &'a mut Interner) -> Self {
        let created = now.checked_sub(POD_AGE).unwrap_or(Timestamp::MIN);
        Self { now, created, rules, interner, groups: Groups::default(), refused: Vec::new(), total: 0 }
    }

    pub(super) fn interner(&mut self) -> &mut Interner {
        self.interner
    }

    pub(super) fn now(&self) -> Timestamp {
        self.now
    }

    /// What was learnt on the way: groups, and pods that do not wait for a node.
    pub(super) fn finish(self) -> (Groups, Vec<(String, String)>) {
        (self.groups, self.refused)
    }

    /// The pods that wait for a node.
    pub(super) fn pending(&mut self, groups: &[PodGroup<'_>]) -> Result<Vec<Arc<Pod>>, Invalid> {
        let mut pods = Vec::new();
        let mut names = Names::default();
        for (index, group) in groups.iter().enumerate() {
            let mut object = self.prepared(group, index)?;
            let status = object.status.get_or_insert_default();
            status.phase = Some("Pending".to_owned());
            status.conditions = Some(vec![scheduling_condition()]);
            names.take(&object).at_index(index)?;
            if let Some(reason) = self.refusal(&object) {
                self.refuse(&object, count(group), &reason);
                continue;
            }
            let template = self.converted(&object, index)?;
            pods.extend(expand(&template, object.spec.as_ref(), count(group), ""));
            let group = self.group(&template);
            self.groups.pending.push((pods.len(), group));
        }
        Ok(pods)
    }

    /// The pods that run on a node.
    pub(super) fn bound(
        &mut self,
        groups: &[PodGroup<'_>],
        node: &str,
        is_leaving: bool,
    ) -> Result<Vec<Arc<Pod>>, Invalid> {
        let mut pods = Vec::new();
        let mut names = Names::default();
        for (index, group) in groups.iter().enumerate() {
            let mut object = self.prepared(group, index)?;
            let status = object.status.get_or_insert_default();
            status.phase = Some("Running".to_owned());
            status.start_time = Some(Time(self.created));
            names.take(&object).at_index(index)?;
            let template = self.converted(&object, index)?;
            let first = pods.len();
            pods.extend(expand(&template, object.spec.as_ref(), count(group), &format!("-{node}")));
            if is_leaving {
                let group = self.group(&template);
                self.groups.leaving.extend(pods[first..].iter().map(|pod| (pod.id.uid.clone(), group)));
            }
        }
        Ok(pods)
    }

    /// Adds the virtual pods of a buffer to the pods that wait.
    pub(super) fn add_buffer(
        &mut self,
        buffer: &CapacityBuffer,
        chunk: ChunkSource<'_>,
        pending: &mut Vec<Arc<Pod>>,
    ) -> Result<(), Invalid> {
        let room = PODS_MAX - self.total;
        // One more than there is room for, to notice that there are too many.
        let pods = virtual_pods(buffer, chunk, self.now, room + 1, (self.rules, self.interner))?;
        self.count(pods.len())?;
        if let Some(first) = pods.first() {
            let name = buffer.metadata.name.as_deref().unwrap_or_default();
            self.groups.names.push(format!("{}/capacity-buffer-{name}", first.id.namespace).into());
            pending.extend(pods);
            self.groups.pending.push((pending.len(), self.groups.names.len() - 1));
        }
        Ok(())
    }

    fn count(&mut self, pods: usize) -> Result<(), Invalid> {
        self.total = self.total.saturating_add(pods);
        if self.total > PODS_MAX {
            return Err(Invalid::new(format!(
                "the scenario has more than {PODS_MAX} pods; lower the counts"
            )));
        }
        Ok(())
    }

    /// The group's pod with what the format fills in, after counting it.
    fn prepared(&mut self, group: &PodGroup<'_>, index: usize) -> Result<kube::Pod, Invalid> {
        self.count(count(group)).at("count").at_index(index)?;
        let mut object = group.pod().at_index(index)?;
        object.metadata.namespace.take_if(|namespace| namespace.is_empty());
        object.metadata.creation_timestamp.get_or_insert(Time(self.created));
        let spec = object.spec.get_or_insert_default();
        if let Some(container) = spec.containers.first_mut() {
            CONTAINER.clone_into(&mut container.name);
        }
        Ok(object)
    }

    /// Why the group's pods are not planned for, if they are not.
    fn refusal(&self, object: &kube::Pod) -> Option<String> {
        if !pod::is_provisionable(object) {
            return Some("the pod does not wait for a node, or belongs to one".to_owned());
        }
        object.spec.as_ref().and_then(|spec| pod::refusal(spec, self.rules))
    }

    fn refuse(&mut self, object: &kube::Pod, count: usize, reason: &str) {
        let namespace = object.metadata.namespace.as_deref().unwrap_or("default");
        let name = object.metadata.name.as_deref().unwrap_or_default();
        self.refused
            .extend((0..count).map(|index| (format!("{namespace}/{name}-{index}"), reason.to_owned())));
    }

    fn converted(&mut self, object: &kube::Pod, index: usize) -> Result<Pod, Invalid> {
        pod::pod(object, self.now, self.rules, self.interner).at("pod").at_index(index)
    }

    fn group(&mut self, template: &Pod) -> usize {
        self.groups.names.push(template.key().into());
        self.groups.names.len() - 1
    }
}

/// The names of a list of groups, which must differ because pods are named after their group.
#[derive(Default)]
struct Names(FxHashSet<String>);

impl Names {
    fn take(&mut self, object: &kube::Pod) -> Result<(), Invalid> {
        let namespace = object.metadata.namespace.as_deref().unwrap_or("default");
        let key = format!("{namespace}/{}", object.metadata.name.as_deref().unwrap_or_default());
        if self.0.contains(&key) {
            let message = format!(
                "the pod name {key:?} is already taken; pods are named after their group, so names must differ"
            );
            return Err(Invalid::new(message));
        }
        self.0.insert(key);
        Ok(())
    }
}

fn count(group: &PodGroup<'_>) -> usize {
    group.count.max(1) as usize
}

fn scheduling_condition() -> kube::PodCondition {
    kube::PodCondition {
        type_: "PodScheduled".to_owned(),
        status: "False".to_owned(),
        reason: Some("Unschedulable".to_owned()),
        ..kube::PodCondition::default()
    }
}

/// The pods of a group. They share everything but name, UID and the claims named after them.
fn expand<'a>(
    template: &'a Pod,
    spec: Option<&'a kube::PodSpec>,
    count: usize,
    suffix: &'a str,
) -> impl Iterator<Item = Arc<Pod>> + 'a {
    let named_claims = spec.filter(|spec| has_ephemeral(spec));
    (0..count).map(move |index| {
        let PodId { namespace, name, .. } = &template.id;
        let id = PodId {
            namespace: namespace.clone(),
            name: format!("{name}-{index}{suffix}").into(),
            uid: format!("{namespace}/{name}-{index:06}{suffix}").into(),
        };
        let volumes =
            named_claims.map_or_else(|| template.volumes.clone(), |spec| volume_refs(&id.name, spec));
        Arc::new(Pod { id, volumes, ..template.clone() })
    })
}
