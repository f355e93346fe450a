//! A pod's demands from the strictest to the most relaxed: the order in which preferences are given up.
//!
//! Preferences count as requirements until nothing fits; then one is dropped at a time: leading alternatives of required node
//! affinity, the heaviest preferred pod affinity, pod anti-affinity and node affinity, soft spread constraints, and last the dislike
//! of `PreferNoSchedule` taints. At the very end every alternative of the required node affinity gets one more chance with all
//! preferences dropped, so that a pod is never refused because a usable alternative was dropped too early.

use crate::cluster::{PodAffinityTerm, PodSpec, SpreadConstraint, Unsatisfiable};
use crate::plan::PreferencePolicy;
use crate::requirements::{RequirementSet, ValueSet};

/// What a pod demands at one step of relaxation.
#[derive(Clone, Debug)]
pub(crate) struct Demands<'a> {
    /// Node selector, one required term, and the heaviest preference still respected.
    pub(crate) requirements: RequirementSet,
    /// The same without the preference.
    pub(crate) strict: RequirementSet,
    pub(crate) spread: Vec<&'a SpreadConstraint>,
    pub(crate) affinity: Vec<&'a PodAffinityTerm>,
    pub(crate) anti_affinity: Vec<&'a PodAffinityTerm>,
    /// Whether `PreferNoSchedule` taints are accepted.
    pub(crate) tolerates_preferences: bool,
}

/// What is still respected.
#[derive(Clone)]
struct Respected<'a> {
    term: usize,
    preferred: Vec<(i32, &'a [crate::requirements::Requirement])>,
    affinity: Vec<(i32, &'a PodAffinityTerm)>,
    anti_affinity: Vec<(i32, &'a PodAffinityTerm)>,
    spread: Vec<&'a SpreadConstraint>,
    tolerates_preferences: bool,
}

/// All steps for one pod, strictest first.
pub(crate) fn steps(spec: &PodSpec, policy: PreferencePolicy, soft_taints: bool) -> Vec<Demands<'_>> {
    let mut respected = strictest(spec, policy);
    let mut steps = vec![demands(spec, &respected)];
    while relax(spec, &mut respected, soft_taints) {
        steps.push(demands(spec, &respected));
    }
    if steps.len() > spec.required_terms.len() {
        for term in 0..spec.required_terms.len().saturating_sub(1) {
            respected.term = term;
            steps.push(demands(spec, &respected));
        }
    }
    steps
}

fn strictest(spec: &PodSpec, policy: PreferencePolicy) -> Respected<'_> {
    if policy == PreferencePolicy::Ignore {
        let hard = spec
            .spread
            .iter()
            .filter(|constraint| constraint.when_unsatisfiable == Unsatisfiable::DoNotSchedule);
        return Respected {
            term: 0,
            preferred: Vec::new(),
            affinity: Vec::new(),
            anti_affinity: Vec::new(),
            spread: hard.collect(),
            tolerates_preferences: false,
        };
    }
    let mut respected = Respected {
        term: 0,
        preferred: spec
            .preferred_terms
            .iter()
            .map(|term| (term.weight, term.requirements.as_slice()))
            .collect(),
        affinity: spec.preferred_affinity.iter().map(|term| (term.weight, &term.term)).collect(),
        anti_affinity: spec.preferred_anti_affinity.iter().map(|term| (term.weight, &term.term)).collect(),
        spread: spec.spread.iter().collect(),
        tolerates_preferences: false,
    };
    respected.preferred.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
    respected.affinity.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
    respected.anti_affinity.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
    respected
}

/// Gives up one thing; false when there is nothing left to give up.
fn relax(spec: &PodSpec, respected: &mut Respected<'_>, soft_taints: bool) -> bool {
    if respected.term + 1 < spec.required_terms.len() {
        respected.term += 1;
    } else if !respected.affinity.is_empty() {
        respected.affinity.remove(0);
    } else if !respected.anti_affinity.is_empty() {
        respected.anti_affinity.remove(0);
    } else if !respected.preferred.is_empty() {
        respected.preferred.remove(0);
    } else if let Some(soft) = respected
        .spread
        .iter()
        .position(|constraint| constraint.when_unsatisfiable == Unsatisfiable::ScheduleAnyway)
    {
        respected.spread.swap_remove(soft);
    } else if soft_taints && !respected.tolerates_preferences {
        respected.tolerates_preferences = true;
    } else {
        return false;
    }
    true
}

fn demands<'a>(spec: &'a PodSpec, respected: &Respected<'a>) -> Demands<'a> {
    let strict = strict_requirements(spec, respected.term);
    let mut requirements = strict.clone();
    if let Some((_, preference)) = respected.preferred.first() {
        preference.iter().for_each(|requirement| requirements.require(requirement));
    }
    Demands {
        requirements,
        strict,
        spread: respected.spread.clone(),
        affinity: spec.affinity.iter().chain(respected.affinity.iter().map(|(_, term)| *term)).collect(),
        anti_affinity: spec
            .anti_affinity
            .iter()
            .chain(respected.anti_affinity.iter().map(|(_, term)| *term))
            .collect(),
        tolerates_preferences: respected.tolerates_preferences,
    }
}

/// Node selector and one alternative of the required node affinity.
pub(crate) fn strict_requirements(spec: &PodSpec, term: usize) -> RequirementSet {
    let mut requirements = RequirementSet::default();
    for (key, value) in &spec.node_selector {
        requirements.add(key.clone(), &ValueSet::only([value.clone()]));
    }
    for requirement in spec.required_terms.get(term).into_iter().flatten() {
        requirements.require(requirement);
    }
    requirements
}

/// Node selector with each alternative of the required node affinity: a node must satisfy one of them.
pub(crate) fn alternatives(spec: &PodSpec) -> Vec<RequirementSet> {
    (0..spec.required_terms.len().max(1)).map(|term| strict_requirements(spec, term)).collect()
}
