//! The part of a scenario file that a lower bound looks at. Everything else only narrows what is allowed, and
//! leaving a rule out can only lower the bound.

use std::collections::BTreeMap;

use karpenter_quantity::{PODS, Quantity, ResourceList};
use serde::Deserialize;

use super::labels::Expression;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Scenario {
    #[serde(default)]
    pub(crate) mode: String,
    #[serde(default)]
    pub(super) well_known_labels: Vec<String>,
    pub(super) instance_types: Vec<InstanceType>,
    pub(super) node_pools: Vec<NodePool>,
    #[serde(default)]
    pub(super) daemon_sets: Vec<DaemonSet>,
    #[serde(default)]
    pub(super) nodes: Vec<ExistingNode>,
    #[serde(default)]
    pub(super) pod_groups: Vec<PodGroup>,
}

#[derive(Deserialize)]
pub(super) struct InstanceType {
    pub(super) name: String,
    pub(super) capacity: ResourceList,
    #[serde(default)]
    pub(super) overhead: ResourceList,
    #[serde(default)]
    pub(super) requirements: Vec<Expression>,
    pub(super) offerings: Vec<Offering>,
}

impl InstanceType {
    pub(super) fn allocatable(&self) -> ResourceList {
        let mut allocatable = self.capacity.clone();
        allocatable.subtract(&self.overhead);
        allocatable
    }
}

/// Written as `[zone, capacityType, price, available]`.
#[derive(Deserialize)]
pub(super) struct Offering(pub(super) String, pub(super) String, pub(super) f64, pub(super) bool);

#[derive(Deserialize)]
pub(super) struct NodePool {
    pub(super) metadata: Metadata,
    pub(super) spec: NodePoolSpec,
}

#[derive(Deserialize)]
pub(super) struct NodePoolSpec {
    #[serde(default)]
    pub(super) weight: i64,
    pub(super) template: NodePoolTemplate,
}

#[derive(Deserialize)]
pub(super) struct NodePoolTemplate {
    #[serde(default)]
    pub(super) metadata: Metadata,
    pub(super) spec: NodePoolTemplateSpec,
}

#[derive(Deserialize)]
pub(super) struct NodePoolTemplateSpec {
    #[serde(default)]
    pub(super) requirements: Vec<Expression>,
    #[serde(default)]
    pub(super) taints: Vec<Taint>,
}

#[derive(Default, Deserialize)]
pub(super) struct Metadata {
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) namespace: String,
    #[serde(default)]
    pub(super) labels: BTreeMap<String, String>,
}

#[derive(Deserialize)]
pub(super) struct Taint {
    key: String,
    #[serde(default)]
    value: String,
    effect: String,
}

#[derive(Clone, Default, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Toleration {
    #[serde(default)]
    key: String,
    #[serde(default)]
    operator: String,
    #[serde(default)]
    value: String,
    #[serde(default)]
    effect: String,
}

/// Whether every taint that keeps pods away is tolerated.
pub(super) fn tolerated(taints: &[Taint], tolerations: &[Toleration]) -> bool {
    let hard = taints.iter().filter(|taint| taint.effect != "PreferNoSchedule");
    hard.into_iter().all(|taint| tolerations.iter().any(|toleration| tolerates(toleration, taint)))
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let effect = toleration.effect.is_empty() || toleration.effect == taint.effect;
    let key = toleration.key.is_empty() || toleration.key == taint.key;
    effect && key && (toleration.operator == "Exists" || toleration.value == taint.value)
}

#[derive(Deserialize)]
pub(super) struct DaemonSet {
    pub(super) template: Pod,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ExistingNode {
    pub(super) name: String,
    #[serde(default)]
    pub(super) node_pool: String,
    #[serde(default)]
    pub(super) instance_type: String,
    #[serde(default)]
    pub(super) zone: String,
    #[serde(default)]
    pub(super) capacity_type: String,
    #[serde(default)]
    pub(super) labels: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) taints: Vec<Taint>,
    pub(super) capacity: Option<ResourceList>,
    pub(super) allocatable: Option<ResourceList>,
    #[serde(default)]
    pub(super) deleting: bool,
    #[serde(default)]
    pub(super) pod_groups: Vec<PodGroup>,
}

#[derive(Deserialize)]
pub(super) struct PodGroup {
    #[serde(default)]
    count: usize,
    pub(super) pod: Pod,
}

impl PodGroup {
    /// A group without a count is one pod.
    pub(super) fn count(&self) -> usize {
        self.count.max(1)
    }
}

#[derive(Deserialize)]
pub(super) struct Pod {
    #[serde(default)]
    pub(super) metadata: Metadata,
    pub(super) spec: PodSpec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodSpec {
    #[serde(default)]
    containers: Vec<Container>,
    #[serde(default)]
    pub(super) node_selector: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) affinity: Affinity,
    #[serde(default)]
    pub(super) tolerations: Vec<Toleration>,
}

impl Pod {
    /// What the pod asks for, one pod slot included. Init containers and overhead are left out: they only add.
    pub(super) fn requests(&self) -> ResourceList {
        let mut requests = ResourceList::new();
        for container in &self.spec.containers {
            requests.merge_add(&container.resources.requests);
        }
        requests.insert(PODS, Quantity::from_units(1));
        requests
    }
}

#[derive(Default, Deserialize)]
struct Container {
    #[serde(default)]
    resources: Resources,
}

#[derive(Default, Deserialize)]
struct Resources {
    #[serde(default)]
    requests: ResourceList,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Affinity {
    pub(super) node_affinity: NodeAffinity,
    pub(super) pod_anti_affinity: PodAntiAffinity,
}

#[derive(Default, Deserialize)]
pub(super) struct NodeAffinity {
    #[serde(default, rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub(super) required: NodeSelector,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct NodeSelector {
    pub(super) node_selector_terms: Vec<NodeSelectorTerm>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct NodeSelectorTerm {
    pub(super) match_expressions: Vec<Expression>,
}

#[derive(Default, Deserialize)]
pub(super) struct PodAntiAffinity {
    #[serde(default, rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub(super) required: Vec<PodAffinityTerm>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodAffinityTerm {
    pub(super) topology_key: String,
    #[serde(default)]
    pub(super) label_selector: LabelSelector,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct LabelSelector {
    pub(super) match_labels: BTreeMap<String, String>,
    pub(super) match_expressions: Vec<Expression>,
}
