//! Where a pod wants to be: node affinity, pod affinity and anti-affinity, topology spread.

use std::sync::Arc;

use k8s_openapi::api::core::v1 as kube;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use karpenter_api::LabelRules;
use karpenter_api::labels::ARCH;
use karpenter_core::cluster::{
    PodAffinityTerm, PodSpec, PreferredTerm, Selector, SpreadConstraint, Unsatisfiable, WeightedAffinityTerm,
};

use karpenter_core::requirements::{Operator, Requirement};

use crate::invalid::{At, Invalid, each};
use crate::selector::{node_selector_term, selector};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Adds all three kinds of affinity to the spec.
pub(super) fn add_affinity(
    spec: &mut PodSpec,
    affinity: &kube::Affinity,
    rules: &LabelRules,
) -> Result<(), Invalid> {
    if let Some(nodes) = &affinity.node_affinity {
        add_node_affinity(spec, nodes, rules).at("nodeAffinity")?;
    }
    if let Some(pods) = &affinity.pod_affinity {
        let required = pods.required_during_scheduling_ignored_during_execution.iter().flatten();
        let preferred = pods.preferred_during_scheduling_ignored_during_execution.iter().flatten();
        spec.affinity = each(required, affinity_term).at(REQUIRED).at("podAffinity")?;
        spec.preferred_affinity = each(preferred, weighted_term).at(PREFERRED).at("podAffinity")?;
    }
    if let Some(pods) = &affinity.pod_anti_affinity {
        let required = pods.required_during_scheduling_ignored_during_execution.iter().flatten();
        let preferred = pods.preferred_during_scheduling_ignored_during_execution.iter().flatten();
        spec.anti_affinity = each(required, affinity_term).at(REQUIRED).at("podAntiAffinity")?;
        spec.preferred_anti_affinity = each(preferred, weighted_term).at(PREFERRED).at("podAntiAffinity")?;
    }
    Ok(())
}

fn add_node_affinity(
    spec: &mut PodSpec,
    affinity: &kube::NodeAffinity,
    rules: &LabelRules,
) -> Result<(), Invalid> {
    if let Some(required) = &affinity.required_during_scheduling_ignored_during_execution {
        spec.required_terms = required_terms(required, rules).at(REQUIRED)?;
        spec.uses_match_fields = required.node_selector_terms.iter().any(|term| term.match_fields.is_some());
    }
    let preferred = affinity.preferred_during_scheduling_ignored_during_execution.iter().flatten();
    spec.preferred_terms = each(preferred, |term| preferred_term(term, rules)).at(PREFERRED)?;
    Ok(())
}

/// The required terms, one of which must hold. Empty terms match no node, so they are left out.
fn required_terms(
    selector: &kube::NodeSelector,
    rules: &LabelRules,
) -> Result<Vec<Vec<Requirement>>, Invalid> {
    let is_empty = |term: &&kube::NodeSelectorTerm| {
        term.match_expressions.as_ref().is_none_or(Vec::is_empty)
            && term.match_fields.as_ref().is_none_or(Vec::is_empty)
    };
    let terms = &selector.node_selector_terms;
    let indexed = terms.iter().enumerate().filter(|(_, term)| !is_empty(term));
    let converted: Vec<_> = indexed
        .map(|(index, term)| node_selector_term(term, rules).at_index(index))
        .collect::<Result<_, _>>()
        .at("nodeSelectorTerms")?;
    Ok(if converted.is_empty() { vec![unsatisfiable_term()] } else { converted })
}

/// Kubernetes lets a node selector whose terms are all empty match no node at all. The core knows no such term, so it is
/// spelled as a contradiction.
fn unsatisfiable_term() -> Vec<Requirement> {
    let on_arch = |operator| Requirement::new(ARCH, operator, Vec::<&str>::new());
    vec![on_arch(Operator::Exists), on_arch(Operator::DoesNotExist)]
}

fn preferred_term(
    term: &kube::PreferredSchedulingTerm,
    rules: &LabelRules,
) -> Result<PreferredTerm, Invalid> {
    let requirements = node_selector_term(&term.preference, rules).at("preference")?;
    Ok(PreferredTerm { weight: term.weight, requirements })
}

fn weighted_term(term: &kube::WeightedPodAffinityTerm) -> Result<WeightedAffinityTerm, Invalid> {
    Ok(WeightedAffinityTerm {
        weight: term.weight,
        term: affinity_term(&term.pod_affinity_term).at("podAffinityTerm")?,
    })
}

fn affinity_term(term: &kube::PodAffinityTerm) -> Result<PodAffinityTerm, Invalid> {
    Ok(PodAffinityTerm {
        topology_key: term.topology_key.as_str().into(),
        selector: optional_selector(term.label_selector.as_ref()).at("labelSelector")?,
        namespaces: strings(term.namespaces.as_ref()),
        namespace_selector: optional_selector(term.namespace_selector.as_ref()).at("namespaceSelector")?,
        match_label_keys: strings(term.match_label_keys.as_ref()),
        mismatch_label_keys: strings(term.mismatch_label_keys.as_ref()),
    })
}

/// One topology spread constraint, with Kubernetes' defaults for the two policies.
pub fn spread_constraint(constraint: &kube::TopologySpreadConstraint) -> Result<SpreadConstraint, Invalid> {
    let honors = |policy: &Option<String>, default: &str| policy.as_deref().unwrap_or(default) == "Honor";
    let when_unsatisfiable = match constraint.when_unsatisfiable.as_str() {
        // The API server knows no default; an empty word can only come from a scenario, where it means the hard rule.
        "DoNotSchedule" | "" => Unsatisfiable::DoNotSchedule,
        "ScheduleAnyway" => Unsatisfiable::ScheduleAnyway,
        other => {
            let message = format!("{other:?} is not one of DoNotSchedule, ScheduleAnyway");
            return Err(Invalid::new(message)).at("whenUnsatisfiable");
        }
    };
    Ok(SpreadConstraint {
        max_skew: u32::try_from(constraint.max_skew).unwrap_or(0),
        topology_key: constraint.topology_key.as_str().into(),
        when_unsatisfiable,
        selector: optional_selector(constraint.label_selector.as_ref()).at("labelSelector")?,
        min_domains: constraint.min_domains.and_then(|number| u32::try_from(number).ok()),
        honor_node_affinity: honors(&constraint.node_affinity_policy, "Honor"),
        honor_node_taints: honors(&constraint.node_taints_policy, "Ignore"),
        match_label_keys: strings(constraint.match_label_keys.as_ref()),
    })
}

fn optional_selector(given: Option<&LabelSelector>) -> Result<Option<Selector>, Invalid> {
    given.map(selector).transpose()
}

fn strings(list: Option<&Vec<String>>) -> Vec<Arc<str>> {
    list.into_iter().flatten().map(|text| Arc::from(text.as_str())).collect()
}
