//! Pods on nodes: node selector, required node affinity and taints.

use std::collections::HashMap;

use super::{Examination, Place};
use crate::claim::ClaimView;
use crate::labels::{Labelled, NodeConditions};
use crate::selector::untolerated;
use crate::violation::{Violation, ViolationKind};
use crate::world::PodClass;

type Finding = Option<(ViolationKind, String)>;

pub(super) fn violations(examination: &Examination<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    // Claims of one shape give one class of pods one answer; large plans repeat the same few shapes.
    let mut known: HashMap<(usize, usize), Finding> = HashMap::new();
    for site in &examination.sites {
        for class_index in site.placed.keys() {
            let class = &examination.world.classes[*class_index];
            let finding = match site.place {
                Place::Node(node) => node_finding(&class.conditions, node).map(|kind| (kind, String::new())),
                Place::Claim(view, position) => known
                    .entry((examination.shapes[position], *class_index))
                    .or_insert_with(|| claim_finding(&class.conditions, view))
                    .clone(),
            };
            violations.extend(finding.map(|(kind, place)| report(kind, site.name, class, &place)));
            violations.extend(taint_violation(class, site.name, site.place));
        }
    }
    violations
}

fn claim_finding(conditions: &NodeConditions, view: &ClaimView<'_>) -> Finding {
    view.outcomes().find_map(|outcome| {
        node_finding(conditions, &outcome)
            .map(|kind| (kind, format!(", which may become {}", outcome.describe())))
    })
}

fn node_finding(conditions: &NodeConditions, node: &impl Labelled) -> Option<ViolationKind> {
    if conditions.hold(node) {
        None
    } else if conditions.are_contradictory() {
        Some(ViolationKind::Contradiction)
    } else if conditions.selector_holds(node) {
        Some(ViolationKind::NodeAffinity)
    } else {
        Some(ViolationKind::NodeSelector)
    }
}

fn report(kind: ViolationKind, site: &str, class: &PodClass<'_>, place: &str) -> Violation {
    let rule = match kind {
        ViolationKind::NodeSelector => "node selector is not met",
        ViolationKind::NodeAffinity => "required node affinity is not met",
        _ => "own node requirements contradict each other, no node can meet them",
    };
    Violation::new(kind, site, format!("{}{place}: its {rule}", class.group))
}

fn taint_violation(class: &PodClass<'_>, site: &str, place: Place<'_>) -> Option<Violation> {
    let taint = untolerated(place.taints(), &class.pod.spec.tolerations)?;
    let message =
        format!("{} does not tolerate `{}={}:{}`", class.group, taint.key, taint.value, taint.effect);
    Some(Violation::new(ViolationKind::Taint, site, message))
}
