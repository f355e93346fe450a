//! What a pod says about nodes by themselves: tolerations, node selector, node affinity.
//!
//! Equal rules of many pods are one value, so that their verdict on a node is worked out once.

use k8s_openapi::api::core::v1 as core;

use super::reason::Reason;
use super::taints::{Effect, Taint, Toleration, first_untolerated, is_tolerated};
use crate::selector::{Labels, Requirement};

/// The taint that stands for `spec.unschedulable`.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
const NAME_FIELD: &str = "metadata.name";

/// One alternative of node affinity: all its requirements hold.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeTerm {
    labels: Vec<Requirement>,
    /// Requirements on the node's name.
    names: Vec<Requirement>,
}

impl NodeTerm {
    /// Reads a term; an empty one selects no node and is `None`.
    pub(crate) fn read(term: &core::NodeSelectorTerm) -> Option<Self> {
        let labels: Vec<Requirement> =
            term.match_expressions.iter().flatten().map(Requirement::from).collect();
        let names: Vec<Requirement> = term.match_fields.iter().flatten().map(field_requirement).collect();
        (!labels.is_empty() || !names.is_empty()).then_some(Self { labels, names })
    }

    /// Returns whether a node with this name and these labels is meant.
    pub(crate) fn matches(&self, name: &str, labels: &Labels) -> bool {
        self.labels.iter().all(|requirement| requirement.matches(labels))
            && self.names.iter().all(|requirement| requirement.accepts(Some(name)))
    }

    /// Returns the one node name the term insists on.
    fn pinned_name(&self) -> Option<&str> {
        match self.names.as_slice() {
            [Requirement { test: crate::selector::Test::In(names), .. }] if names.len() == 1 => {
                Some(names[0].as_str())
            }
            _ => None,
        }
    }
}

/// Only `metadata.name` can be asked for, by `In` or `NotIn` with one value.
fn field_requirement(requirement: &core::NodeSelectorRequirement) -> Requirement {
    let values = requirement.values.as_deref().unwrap_or_default();
    let known = requirement.key == NAME_FIELD
        && values.len() == 1
        && matches!(requirement.operator.as_str(), "In" | "NotIn");
    Requirement::new(NAME_FIELD, if known { &requirement.operator } else { "" }, values)
}

/// A pod's demands on nodes by themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct PlacementRules {
    tolerations: Vec<Toleration>,
    node_selector: Vec<Requirement>,
    /// Alternatives; `None` accepts every node.
    affinity: Option<Vec<NodeTerm>>,
}

impl PlacementRules {
    /// Reads the rules of a pod, and the name of the only node it may go to if its affinity names one.
    ///
    /// The name is split off so that the pods of a `DaemonSet`, which differ in nothing else, share their rules.
    pub(crate) fn read(spec: &core::PodSpec) -> (Self, Option<String>) {
        let mut tolerations = Toleration::of(spec);
        tolerations.sort();
        tolerations.dedup();
        let selector = spec.node_selector.iter().flatten();
        let node_selector =
            selector.map(|(key, value)| Requirement::new(key, "In", std::slice::from_ref(value))).collect();
        let (affinity, pin) = split_pin(required_terms(spec));
        (Self { tolerations, node_selector, affinity }, pin)
    }

    /// Returns whether node selector and affinity accept a node.
    pub(crate) fn selects(&self, name: &str, labels: &Labels) -> bool {
        self.node_selector.iter().all(|requirement| requirement.matches(labels))
            && self.affinity.as_ref().is_none_or(|terms| terms.iter().any(|term| term.matches(name, labels)))
    }

    /// Returns whether the pod tolerates what keeps others off a node.
    pub(crate) fn tolerates(&self, taints: &[Taint]) -> bool {
        first_untolerated(taints, &self.tolerations).is_none()
    }

    /// Returns how many taints the pod would rather avoid.
    pub(crate) fn count_disliked(&self, taints: &[Taint]) -> usize {
        let soft = taints.iter().filter(|taint| taint.effect == Effect::PreferNoSchedule);
        soft.filter(|taint| !is_tolerated(taint, &self.tolerations)).count()
    }

    /// Returns the first rule, in the scheduler's order, that keeps the pod off a node.
    pub(crate) fn judge(
        &self,
        name: &str,
        labels: &Labels,
        taints: &[Taint],
        unschedulable: bool,
    ) -> Option<Reason> {
        let cordon =
            || Taint { key: UNSCHEDULABLE.to_owned(), value: String::new(), effect: Effect::NoSchedule };
        if unschedulable && !is_tolerated(&cordon(), &self.tolerations) {
            Some(Reason::Unschedulable)
        } else if !self.tolerates(taints) {
            Some(Reason::Taint)
        } else if !self.selects(name, labels) {
            Some(Reason::NodeAffinity)
        } else {
            None
        }
    }

    /// Returns the rules with only what topology spreading is told to honour.
    pub(crate) fn honouring(&self, affinity: bool, taints: bool) -> Option<Self> {
        if !affinity && !taints {
            return None;
        }
        Some(Self {
            tolerations: if taints { self.tolerations.clone() } else { vec![Toleration::everything()] },
            node_selector: if affinity { self.node_selector.clone() } else { Vec::new() },
            affinity: if affinity { self.affinity.clone() } else { None },
        })
    }
}

fn required_terms(spec: &core::PodSpec) -> Option<Vec<NodeTerm>> {
    let affinity = spec.affinity.as_ref()?.node_affinity.as_ref()?;
    let required = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
    Some(required.node_selector_terms.iter().filter_map(NodeTerm::read).collect())
}

fn split_pin(terms: Option<Vec<NodeTerm>>) -> (Option<Vec<NodeTerm>>, Option<String>) {
    let Some(terms) = terms else { return (None, None) };
    let first = terms.first().and_then(NodeTerm::pinned_name).map(str::to_owned);
    let Some(pin) = first.filter(|pin| terms.iter().all(|term| term.pinned_name() == Some(pin))) else {
        return (Some(terms), None);
    };
    let mut unnamed: Vec<NodeTerm> =
        terms.into_iter().map(|term| NodeTerm { names: Vec::new(), ..term }).collect();
    // A term that asked for nothing but the name accepts that node whatever its labels.
    let free = unnamed.iter().any(|term| term.labels.is_empty());
    unnamed.sort();
    unnamed.dedup();
    (if free { None } else { Some(unnamed) }, Some(pin))
}

/// Reads preferred node affinity: weights and terms.
pub(crate) fn preferred_terms(spec: &core::PodSpec) -> Vec<(i64, NodeTerm)> {
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let preferred =
        affinity.and_then(|affinity| affinity.preferred_during_scheduling_ignored_during_execution.as_ref());
    let weighed = preferred.into_iter().flatten().filter(|term| term.weight != 0);
    weighed.filter_map(|term| Some((i64::from(term.weight), NodeTerm::read(&term.preference)?))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn rules(mut spec: Value) -> (PlacementRules, Option<String>) {
        spec["containers"] = json!([]);
        PlacementRules::read(&serde_json::from_value(spec).unwrap())
    }

    fn required(terms: Value) -> Value {
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms": terms}}}})
    }

    fn zone(name: &str) -> Labels {
        Labels::from([("zone".to_owned(), name.to_owned())])
    }

    #[test]
    fn terms_are_alternatives_and_requirements_within_one_hold_together() {
        let (rules, pin) = rules(required(json!([
            {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}, {"key": "gpu", "operator": "Exists"}]},
            {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]},
        ])));
        assert_eq!(pin, None);
        assert!(rules.selects("n", &zone("b")) && !rules.selects("n", &zone("a")));
    }

    #[test]
    fn an_empty_list_of_terms_and_empty_terms_select_no_node() {
        assert!(!rules(required(json!([]))).0.selects("n", &zone("a")));
        assert!(!rules(required(json!([{}]))).0.selects("n", &zone("a")));
    }

    #[test]
    fn a_name_asked_for_by_every_term_is_split_off() {
        let field = json!({"key": "metadata.name", "operator": "In", "values": ["n1"]});
        let (rest, pin) = rules(required(json!([{"matchFields": [field]}])));
        assert_eq!((rest.selects("n2", &zone("a")), pin.as_deref()), (true, Some("n1")));
        let with_label =
            json!({"matchFields": [field], "matchExpressions": [{"key": "gpu", "operator": "Exists"}]});
        let (rest, pin) = rules(required(json!([with_label])));
        assert_eq!((rest.selects("n1", &zone("a")), pin.as_deref()), (false, Some("n1")));
        let (rest, pin) = rules(required(
            json!([{"matchFields": [field]}, {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}]),
        ));
        assert_eq!(
            (rest.selects("n1", &zone("a")), rest.selects("n2", &zone("a")), pin),
            (true, false, None)
        );
    }

    #[test]
    fn a_cordoned_node_takes_only_pods_that_tolerate_the_cordon() {
        let judge = |spec: Value| rules(spec).0.judge("n", &zone("a"), &[], true);
        assert_eq!(judge(json!({})), Some(Reason::Unschedulable));
        assert_eq!(judge(json!({"tolerations": [{"operator": "Exists"}]})), None);
    }
}
