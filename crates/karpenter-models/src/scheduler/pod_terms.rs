//! Which pods are meant by an affinity term or a spread constraint.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::selector::{Labels, Requirement, Selector};

/// The labels of namespaces, by name.
pub(crate) type Namespaces = BTreeMap<String, Labels>;

/// Which namespaces pods are looked for in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Scope {
    names: Vec<String>,
    selector: Option<Selector>,
}

impl Scope {
    pub(crate) fn one(namespace: &str) -> Self {
        Self { names: vec![namespace.to_owned()], selector: None }
    }

    fn contains(&self, namespace: &str, namespaces: &Namespaces) -> bool {
        if self.names.iter().any(|name| name == namespace) {
            return true;
        }
        let none = Labels::new();
        let labels = namespaces.get(namespace).unwrap_or(&none);
        self.selector.as_ref().is_some_and(|selector| selector.matches(labels))
    }
}

/// Pods of some namespaces with some labels.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PodSet {
    pub(crate) scope: Scope,
    pub(crate) selector: Selector,
}

/// Pods that are in all of several sets.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Matcher(pub(crate) Vec<PodSet>);

impl Matcher {
    pub(crate) fn matches(&self, namespace: &str, labels: &Labels, namespaces: &Namespaces) -> bool {
        self.0.iter().all(|set| set.scope.contains(namespace, namespaces) && set.selector.matches(labels))
    }

    pub(crate) fn reads_namespace_labels(&self) -> bool {
        self.0.iter().any(|set| set.scope.selector.is_some())
    }
}

/// A term of pod affinity or anti-affinity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PodTerm {
    pub(crate) pods: PodSet,
    pub(crate) topology_key: String,
}

impl PodTerm {
    fn read(term: &core::PodAffinityTerm, namespace: &str, labels: &Labels) -> Self {
        let mut selector = Selector::new(term.label_selector.as_ref());
        // The API server writes these into the selector already; asking twice changes nothing.
        narrow(&mut selector, term.match_label_keys.as_deref(), labels, "In");
        narrow(&mut selector, term.mismatch_label_keys.as_deref(), labels, "NotIn");
        let scope = scope(term.namespaces.as_deref(), term.namespace_selector.as_ref(), namespace);
        Self { pods: PodSet { scope, selector }, topology_key: term.topology_key.clone() }
    }
}

fn scope(names: Option<&[String]>, selector: Option<&LabelSelector>, own: &str) -> Scope {
    let mut names = names.unwrap_or_default().to_vec();
    if names.is_empty() && selector.is_none() {
        return Scope::one(own);
    }
    names.sort();
    Scope { names, selector: selector.map(|selector| Selector::new(Some(selector))) }
}

/// Asks that other pods have, or do not have, this pod's values of some labels.
pub(crate) fn narrow(selector: &mut Selector, keys: Option<&[String]>, labels: &Labels, operator: &str) {
    for key in keys.unwrap_or_default() {
        if let Some(value) = labels.get(key) {
            selector.require(Requirement::new(key, operator, std::slice::from_ref(value)));
        }
    }
}

/// The terms of pod affinity and anti-affinity of one pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct PodTerms {
    pub(crate) near: Vec<PodTerm>,
    pub(crate) apart: Vec<PodTerm>,
    /// With their weights, negative for anti-affinity.
    pub(crate) preferred: Vec<(i64, PodTerm)>,
}

impl PodTerms {
    pub(crate) fn read(spec: &core::PodSpec, namespace: &str, labels: &Labels) -> Self {
        let Some(affinity) = &spec.affinity else { return Self::default() };
        let read = |term: &core::PodAffinityTerm| PodTerm::read(term, namespace, labels);
        let mut terms = Self::default();
        let mut prefer = |sign: i64, weighted: &[core::WeightedPodAffinityTerm]| {
            for term in weighted {
                terms.preferred.push((sign * i64::from(term.weight), read(&term.pod_affinity_term)));
            }
        };
        if let Some(near) = &affinity.pod_affinity {
            prefer(
                1,
                near.preferred_during_scheduling_ignored_during_execution.as_deref().unwrap_or_default(),
            );
            let required = near.required_during_scheduling_ignored_during_execution.iter().flatten();
            terms.near = required.map(read).collect();
        }
        if let Some(apart) = &affinity.pod_anti_affinity {
            let preferred = apart.preferred_during_scheduling_ignored_during_execution.as_deref();
            for term in preferred.unwrap_or_default() {
                terms.preferred.push((-i64::from(term.weight), read(&term.pod_affinity_term)));
            }
            let required = apart.required_during_scheduling_ignored_during_execution.iter().flatten();
            terms.apart = required.map(read).collect();
        }
        terms
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn term(term: Value) -> PodTerm {
        let labels = Labels::from([("hash".to_owned(), "h1".to_owned())]);
        PodTerm::read(&serde_json::from_value(term).unwrap(), "own", &labels)
    }

    fn matches(term: PodTerm, namespace: &str, labels: &[(&str, &str)]) -> bool {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let labelled = Labels::from([("team".to_owned(), "a".to_owned())]);
        let namespaces = Namespaces::from([("theirs".to_owned(), labelled)]);
        Matcher(vec![term.pods]).matches(namespace, &labels, &namespaces)
    }

    #[test]
    fn a_term_looks_at_its_own_namespace_unless_told_otherwise() {
        let own = json!({"topologyKey": "zone", "labelSelector": {}});
        assert!(matches(term(own.clone()), "own", &[]) && !matches(term(own), "theirs", &[]));
        let named = json!({"topologyKey": "zone", "labelSelector": {}, "namespaces": ["theirs"]});
        assert!(matches(term(named.clone()), "theirs", &[]) && !matches(term(named), "own", &[]));
        let selected = json!({"topologyKey": "zone", "labelSelector": {}, "namespaceSelector": {"matchLabels": {"team": "a"}}});
        assert!(matches(term(selected.clone()), "theirs", &[]) && !matches(term(selected), "own", &[]));
        let everywhere = json!({"topologyKey": "zone", "labelSelector": {}, "namespaceSelector": {}});
        assert!(matches(term(everywhere), "anything", &[]));
    }

    #[test]
    fn match_label_keys_narrow_and_mismatch_label_keys_exclude() {
        let same = json!({"topologyKey": "zone", "labelSelector": {}, "matchLabelKeys": ["hash"]});
        assert!(matches(term(same.clone()), "own", &[("hash", "h1")]));
        assert!(!matches(term(same), "own", &[("hash", "h2")]));
        let other = json!({"topologyKey": "zone", "labelSelector": {}, "mismatchLabelKeys": ["hash"]});
        assert!(!matches(term(other.clone()), "own", &[("hash", "h1")]));
        assert!(matches(term(other), "own", &[("hash", "h2")]));
    }
}
