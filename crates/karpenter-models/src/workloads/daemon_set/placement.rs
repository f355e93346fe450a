//! Which nodes a daemon set's pods belong on.

use k8s_openapi::api::core::v1::{
    Affinity, Node, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodSpec, Taint,
    Toleration,
};

use crate::scheduler::{PlacementRules, TaintEffect, read_taints};
use crate::selector::Labels;

/// Taints of nodes in trouble that daemons run in spite of.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

/// Whether a daemon belongs on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// It should run there.
    Run,
    /// It may stay if it is there.
    Stay,
    /// It must not be there.
    Leave,
}

/// The pods of a daemon set as far as nodes matter to them.
pub(super) struct Daemon {
    rules: PlacementRules,
    pin: Option<String>,
}

impl Daemon {
    /// Reads a template.
    pub(super) fn new(spec: Option<&PodSpec>) -> Self {
        let mut tolerant = spec.cloned().unwrap_or_default();
        tolerant.tolerations = Some(tolerations(&tolerant));
        let (rules, pin) = PlacementRules::read(&tolerant);
        Self { rules, pin }
    }

    /// Decides whether the pods belong on a node.
    pub(super) fn fit(&self, node: &Node) -> Fit {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let unlabelled = Labels::new();
        let labels = node.metadata.labels.as_ref().unwrap_or(&unlabelled);
        if self.pin.as_ref().is_some_and(|pin| pin != name) || !self.rules.selects(name, labels) {
            return Fit::Leave;
        }
        let taints = read_taints(node);
        if self.rules.tolerates(&taints) {
            return Fit::Run;
        }
        let evicting: Vec<_> =
            taints.into_iter().filter(|taint| taint.effect == TaintEffect::NoExecute).collect();
        if self.rules.tolerates(&evicting) { Fit::Stay } else { Fit::Leave }
    }
}

/// What of a node decides about daemons.
pub(super) fn facts(node: &Node) -> (Option<Labels>, Option<Vec<Taint>>) {
    (node.metadata.labels.clone(), node.spec.as_ref().and_then(|spec| spec.taints.clone()))
}

fn tolerations(spec: &PodSpec) -> Vec<Toleration> {
    let mut tolerations = spec.tolerations.clone().unwrap_or_default();
    let network = ("node.kubernetes.io/network-unavailable", "NoSchedule");
    let on_host = (spec.host_network == Some(true)).then_some(network);
    for (key, effect) in TOLERATED.into_iter().chain(on_host) {
        let wanted = Toleration {
            key: Some(key.to_owned()),
            operator: Some("Exists".to_owned()),
            effect: Some(effect.to_owned()),
            ..Toleration::default()
        };
        if !tolerations.contains(&wanted) {
            tolerations.push(wanted);
        }
    }
    tolerations
}

/// Makes a pod for one node only.
pub(super) fn pinned_spec(mut spec: PodSpec, node: &str) -> PodSpec {
    spec.tolerations = Some(tolerations(&spec));
    let name = NodeSelectorRequirement {
        key: "metadata.name".to_owned(),
        operator: "In".to_owned(),
        values: Some(vec![node.to_owned()]),
    };
    let affinity: &mut Affinity = spec.affinity.get_or_insert_default();
    let affinity: &mut NodeAffinity = affinity.node_affinity.get_or_insert_default();
    let required: &mut NodeSelector =
        affinity.required_during_scheduling_ignored_during_execution.get_or_insert_default();
    if required.node_selector_terms.is_empty() {
        required.node_selector_terms.push(NodeSelectorTerm::default());
    }
    for term in &mut required.node_selector_terms {
        term.match_fields = Some(vec![name.clone()]);
    }
    spec
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(spec: Value, node: Value, expected: Fit) {
        let mut pod = json!({"containers": []});
        crate::json::merge(&mut pod, spec);
        let daemon = Daemon::new(Some(&serde_json::from_value(pod).unwrap()));
        assert_eq!(daemon.fit(&serde_json::from_value(node).unwrap()), expected);
    }

    fn tainted(key: &str, effect: &str) -> Value {
        json!({"metadata": {"name": "n"}, "spec": {"taints": [{"key": key, "effect": effect}]}})
    }

    #[test]
    fn daemons_run_on_troubled_nodes_but_not_on_those_reserved_for_others() {
        check(json!({}), tainted("node.kubernetes.io/not-ready", "NoExecute"), Fit::Run);
        check(json!({}), tainted("node.kubernetes.io/unschedulable", "NoSchedule"), Fit::Run);
        check(json!({}), tainted("reserved", "NoSchedule"), Fit::Stay);
        check(json!({}), tainted("reserved", "NoExecute"), Fit::Leave);
        check(json!({"tolerations": [{"operator": "Exists"}]}), tainted("reserved", "NoExecute"), Fit::Run);
        check(json!({"nodeSelector": {"gpu": "yes"}}), json!({"metadata": {"name": "n"}}), Fit::Leave);
    }

    #[test]
    fn a_pod_is_made_for_its_node_and_keeps_its_other_wishes() {
        let spec = json!({"containers": [], "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}]}}}});
        let pinned = pinned_spec(serde_json::from_value(spec).unwrap(), "n1");
        let (rules, pin) = PlacementRules::read(&pinned);
        assert_eq!(pin.as_deref(), Some("n1"));
        assert!(!rules.selects("n1", &Labels::new()));
    }
}
