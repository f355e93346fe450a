//! Which pods are turned away before scheduling, and whether the plan agrees.

use std::collections::HashMap;

use super::volumes::{claims_of, storage_class, volume};
use crate::labels::{CAPACITY_TYPE, HOSTNAME, NODE_POOL, States, current_key};
use crate::plan::PlanResult;
use crate::pod::{PodSpec, Requirement};
use crate::scenario::{PersistentVolumeClaim, Scenario};
use crate::violation::{Violation, ViolationKind};
use crate::world::{PodClass, World};

pub(super) fn violations(world: &World<'_>, result: &PlanResult) -> Vec<Violation> {
    let mut known: HashMap<usize, Option<String>> = HashMap::new();
    let pending_groups = world.scenario.pod_groups.len();
    let mut refusal = |class: usize| -> Option<String> {
        // Pods of deleting nodes ran before; they are not examined again.
        if class >= pending_groups {
            return None;
        }
        known.entry(class).or_insert_with(|| refusal_of(&world.classes[class], world)).clone()
    };
    let placed = result.new_node_claims.iter().flat_map(|c| &c.pods);
    let placed = placed.chain(result.existing_nodes.iter().flat_map(|n| &n.pods));
    let mut violations = Vec::new();
    for pod in placed {
        let Some(class) = world.pending.get(pod) else { continue };
        if let Some(cause) = refusal(*class) {
            let message = format!("the pod has a place although {cause}");
            violations.push(Violation::new(ViolationKind::NotAdmissible, pod, message));
        }
    }
    for pod in result.ignored.keys() {
        if world.pending.get(pod).is_some_and(|class| refusal(*class).is_none()) {
            let message = "the pod was turned away before scheduling without a cause";
            violations.push(Violation::new(ViolationKind::IgnoredWithoutCause, pod, message));
        }
    }
    violations
}

/// Returns why a pod cannot be scheduled by Karpenter at all.
fn refusal_of(class: &PodClass<'_>, world: &World<'_>) -> Option<String> {
    let owners = &class.pod.metadata.owner_references;
    if owners.iter().any(|o| o.kind == "DaemonSet" || o.kind == "Node") {
        return Some("its owner places it".to_owned());
    }
    if avoids_karpenter(&class.pod.spec) {
        return Some("it asks for a node outside every node pool".to_owned());
    }
    selector_refusal(&class.pod.spec, world).or_else(|| volume_refusal(class, world.scenario))
}

/// A pod that must not be on a managed node is none of Karpenter's business.
fn avoids_karpenter(spec: &PodSpec) -> bool {
    let affinity = &spec.affinity.node_affinity;
    let first = affinity.required.as_ref().and_then(|r| r.node_selector_terms.first());
    let heaviest = affinity.preferred.iter().max_by_key(|p| p.weight).map(|p| &p.preference);
    let expressions = first.into_iter().chain(heaviest).flat_map(|t| &t.match_expressions);
    let on_pool = expressions.filter(|e| current_key(&e.key) == NODE_POOL);
    let permitted = on_pool.fold(States::anything(), |s, e| s.intersection(&States::permitted(e)));
    let selected = spec.node_selector.get(NODE_POOL).map(|v| States::value(v));
    let permitted = selected.map_or(permitted.clone(), |s| permitted.intersection(&s));
    permitted.is_never_present()
}

fn selector_refusal(spec: &PodSpec, world: &World<'_>) -> Option<String> {
    let selected = spec.node_selector.iter().map(|(key, value)| Requirement {
        key: key.clone(),
        operator: "In".to_owned(),
        values: vec![value.clone()],
        min_values: None,
    });
    let terms = spec.affinity.node_affinity.required.iter().flat_map(|r| &r.node_selector_terms);
    if terms.clone().any(|t| !t.match_fields.is_empty()) {
        return Some("it selects nodes by field".to_owned());
    }
    let expressions = terms.flat_map(|t| &t.match_expressions).cloned();
    selected.chain(expressions).find_map(|requirement| requirement_refusal(&requirement, world))
}

fn requirement_refusal(requirement: &Requirement, world: &World<'_>) -> Option<String> {
    let key = current_key(&requirement.key);
    let values = &requirement.values;
    let positive_integer =
        || values.len() == 1 && values[0].parse::<u64>().is_ok_and(|n| i64::try_from(n).is_ok());
    let operator_ok = match requirement.operator.as_str() {
        "In" => !values.is_empty(),
        "NotIn" | "Exists" | "DoesNotExist" => true,
        "Gt" | "Lt" | "Gte" | "Lte" => positive_integer(),
        _ => false,
    };
    let known_value = |value: &String| ["spot", "on-demand", "reserved"].contains(&value.as_str());
    let is_capacity_type = key == CAPACITY_TYPE && requirement.operator == "In";
    if is_reserved(key, world) {
        Some(format!("label `{key}` is reserved"))
    } else if !operator_ok {
        Some(format!("its requirement on `{key}` is malformed"))
    } else if is_capacity_type && !values.iter().any(known_value) {
        Some("it asks for a capacity type that does not exist".to_owned())
    } else if !is_qualified_name(key) || !values.iter().all(|v| v.is_empty() || is_label_word(v)) {
        Some(format!("its requirement on `{key}` is not a valid label"))
    } else {
        None
    }
}

/// Labels under Karpenter's own domain belong to it, except those it offers for selection.
fn is_reserved(key: &str, world: &World<'_>) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    let under_karpenter = domain == "karpenter.sh" || domain.ends_with(".karpenter.sh");
    !world.well_known.contains(key) && (under_karpenter || key == HOSTNAME)
}

fn is_qualified_name(key: &str) -> bool {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(p, n)| (Some(p), n));
    let is_dns_label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    prefix.is_none_or(|p| p.len() <= 253 && p.split('.').all(is_dns_label)) && is_label_word(name)
}

fn is_label_word(text: &str) -> bool {
    let ends = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    text.len() <= 63
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
        && ends(bytes.first())
        && ends(bytes.last())
}

fn volume_refusal(class: &PodClass<'_>, scenario: &Scenario) -> Option<String> {
    claims_of(class, scenario).find_map(|claim| match claim {
        None => Some("a volume claim of it does not exist".to_owned()),
        Some(claim) => claim_refusal(claim, scenario).map(str::to_owned),
    })
}

fn claim_refusal(claim: &PersistentVolumeClaim, scenario: &Scenario) -> Option<&'static str> {
    if claim.metadata.deletion_timestamp.is_some() {
        return Some("a volume claim of it is being deleted");
    }
    if claim.status.phase == "Lost" {
        return Some("a volume claim of it has lost its volume");
    }
    if claim.spec.volume_name.is_empty() {
        return match storage_class(scenario, &claim.spec.storage_class_name) {
            None => Some("an unbound volume claim of it names no existing storage class"),
            Some(class) if class.volume_binding_mode.as_deref() == Some("Immediate") => {
                Some("a volume claim of it binds at once but is not bound")
            }
            Some(_) => None,
        };
    }
    match volume(scenario, &claim.spec.volume_name) {
        None => Some("the volume of a claim does not exist"),
        Some(volume) if volume.metadata.deletion_timestamp.is_some() => Some("its volume is being deleted"),
        Some(_) if claim.metadata.annotations.contains_key("pv.kubernetes.io/bind-completed") => None,
        Some(_) => Some("a volume claim of it is not completely bound"),
    }
}
