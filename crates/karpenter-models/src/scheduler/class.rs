//! Pods that are equal for scheduling are one class.
//!
//! What is particular to one pod stays outside: its name, its volumes, the node a `DaemonSet` made it for, and labels that
//! number the pods of a set unless somebody selects by them.

use std::sync::Arc;

use k8s_openapi::api::core::v1 as core;
use karpenter_quantity::{CPU, ResourceList};

use super::pod_terms::{PodTerms, narrow};
use super::ports::HostPort;
use super::requests::pod_requests;
use super::rules::{NodeTerm, PlacementRules, preferred_terms};
use crate::selector::{Labels, Selector};

/// Labels that controllers give each pod of a set its own value of.
pub(crate) const NUMBERING_LABELS: [&str; 3] = [
    "apps.kubernetes.io/pod-index",
    "batch.kubernetes.io/job-completion-index",
    "statefulset.kubernetes.io/pod-name",
];

/// A constraint of topology spreading.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SpreadRule {
    pub(crate) topology_key: String,
    pub(crate) selector: Selector,
    pub(crate) max_skew: i32,
    pub(crate) min_domains: i32,
    pub(crate) is_hard: bool,
    pub(crate) honours_affinity: bool,
    pub(crate) honours_taints: bool,
}

impl SpreadRule {
    /// Reads a constraint, which counts the pods of `selector`.
    pub(crate) fn new(constraint: &core::TopologySpreadConstraint, selector: Selector) -> Self {
        Self {
            topology_key: constraint.topology_key.clone(),
            selector,
            max_skew: constraint.max_skew,
            min_domains: constraint.min_domains.unwrap_or(1),
            is_hard: constraint.when_unsatisfiable == "DoNotSchedule",
            honours_affinity: constraint.node_affinity_policy.as_deref() != Some("Ignore"),
            honours_taints: constraint.node_taints_policy.as_deref() == Some("Honor"),
        }
    }
}

/// Everything the scheduler looks at that pods of a class have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ClassSpec {
    pub(crate) namespace: String,
    pub(crate) labels: Labels,
    pub(crate) priority: i32,
    pub(crate) preempts: bool,
    pub(crate) rules: PlacementRules,
    pub(crate) preferred_nodes: Vec<(i64, NodeTerm)>,
    /// In the scheduler's units: thousandths of cpu, whole numbers of everything else.
    pub(crate) requests: Vec<(String, i64)>,
    pub(crate) ports: Vec<HostPort>,
    pub(crate) spread: Vec<SpreadRule>,
    pub(crate) terms: PodTerms,
    /// Pods of replica sets and stateful sets are spread a little without being told to.
    pub(crate) spreads_by_default: bool,
}

/// A pod as the scheduler sees it: its class and what is its own.
#[derive(Clone, Debug)]
pub(crate) struct Demand {
    pub(crate) spec: Arc<ClassSpec>,
    /// Numbering labels that the class leaves out.
    pub(crate) own_labels: Labels,
    /// The only node the pod's affinity accepts.
    pub(crate) pin: Option<String>,
    pub(crate) claims: Vec<ClaimUse>,
}

/// A claim that a pod mounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClaimUse {
    pub(crate) name: String,
    /// Whether the claim is made for the pod and goes with it.
    pub(crate) is_ephemeral: bool,
}

impl Demand {
    /// Reads a pod.
    pub(crate) fn read(pod: &core::Pod) -> Self {
        let none = core::PodSpec::default();
        let spec = pod.spec.as_ref().unwrap_or(&none);
        let namespace = pod.metadata.namespace.clone().unwrap_or_default();
        let mut labels = pod.metadata.labels.clone().unwrap_or_default();
        let terms = PodTerms::read(spec, &namespace, &labels);
        let spread: Vec<SpreadRule> = spread_rules(spec, &labels);
        let own_labels = split_numbers(&mut labels);
        let (rules, pin) = PlacementRules::read(spec);
        let class = ClassSpec {
            spreads_by_default: spread.is_empty() && is_of_replicas(pod),
            requests: in_units(&pod_requests(spec, pod.status.as_ref())),
            priority: spec.priority.unwrap_or(0),
            preempts: spec.preemption_policy.as_deref() != Some("Never"),
            preferred_nodes: preferred_terms(spec),
            ports: HostPort::of(spec),
            namespace,
            labels,
            rules,
            spread,
            terms,
        };
        Self { spec: Arc::new(class), own_labels, pin, claims: claims(pod, spec) }
    }

    /// Returns the demand of a pod that is spread by these rules and no others.
    pub(crate) fn spread_by(&self, spread: Vec<SpreadRule>) -> Self {
        let spec = ClassSpec { spread, spreads_by_default: false, ..(*self.spec).clone() };
        Self { spec: Arc::new(spec), ..self.clone() }
    }
}

/// Returns the class of pods that also have these labels.
pub(crate) fn with_labels(spec: &Arc<ClassSpec>, own: &Labels) -> Arc<ClassSpec> {
    if own.is_empty() {
        return Arc::clone(spec);
    }
    let mut numbered = (**spec).clone();
    numbered.labels.extend(own.clone());
    Arc::new(numbered)
}

fn split_numbers(labels: &mut Labels) -> Labels {
    NUMBERING_LABELS.iter().filter_map(|key| labels.remove_entry(*key)).collect()
}

fn spread_rules(spec: &core::PodSpec, labels: &Labels) -> Vec<SpreadRule> {
    let constraints = spec.topology_spread_constraints.iter().flatten();
    constraints
        .map(|constraint| {
            let mut selector = Selector::new(constraint.label_selector.as_ref());
            narrow(&mut selector, constraint.match_label_keys.as_deref(), labels, "In");
            SpreadRule::new(constraint, selector)
        })
        .collect()
}

fn is_of_replicas(pod: &core::Pod) -> bool {
    let owners = pod.metadata.owner_references.iter().flatten();
    owners
        .filter(|owner| owner.controller == Some(true))
        .any(|owner| matches!(owner.kind.as_str(), "ReplicaSet" | "ReplicationController" | "StatefulSet"))
}

/// Converts quantities as the scheduler does: cpu to thousandths, everything else to whole numbers, both rounded up.
pub(crate) fn in_units(list: &ResourceList) -> Vec<(String, i64)> {
    list.iter()
        .map(|(name, quantity)| {
            let amount = if name == CPU { quantity.ceil_milli() } else { quantity.ceil_units() };
            (name.to_owned(), amount)
        })
        .collect()
}

fn claims(pod: &core::Pod, spec: &core::PodSpec) -> Vec<ClaimUse> {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let volumes = spec.volumes.iter().flatten();
    volumes
        .filter_map(|volume| {
            if let Some(claim) = &volume.persistent_volume_claim {
                Some(ClaimUse { name: claim.claim_name.clone(), is_ephemeral: false })
            } else {
                volume.ephemeral.as_ref()?;
                Some(ClaimUse { name: format!("{name}-{}", volume.name), is_ephemeral: true })
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn demand(pod: Value) -> Demand {
        Demand::read(&serde_json::from_value(pod).unwrap())
    }

    fn of_set(index: u32) -> Value {
        json!({
            "metadata": {
                "name": format!("db-{index}"), "namespace": "data",
                "labels": {"app": "db", "apps.kubernetes.io/pod-index": index.to_string()},
            },
            "spec": {
                "containers": [{"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1500m"}}}],
                "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": format!("data-db-{index}")}},
                    {"name": "scratch", "ephemeral": {}}],
            },
        })
    }

    #[test]
    fn pods_of_a_set_are_one_class_and_keep_their_own_claims() {
        let (first, second) = (demand(of_set(0)), demand(of_set(1)));
        assert_eq!(first.spec, second.spec);
        assert_eq!(first.own_labels["apps.kubernetes.io/pod-index"], "0");
        let names: Vec<&str> = second.claims.iter().map(|claim| claim.name.as_str()).collect();
        assert_eq!(names, ["data-db-1", "db-1-scratch"]);
        assert!(second.claims[1].is_ephemeral);
    }

    #[test]
    fn amounts_are_rounded_up_in_the_schedulers_units() {
        let expected = vec![("cpu".to_owned(), 1000), ("memory".to_owned(), 2)];
        assert_eq!(demand(of_set(0)).spec.requests, expected);
    }

    #[test]
    fn numbering_labels_can_be_kept() {
        let demand = demand(of_set(3));
        let kept = with_labels(&demand.spec, &demand.own_labels);
        assert_eq!(kept.labels["apps.kubernetes.io/pod-index"], "3");
    }
}
