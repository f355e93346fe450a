//! A planned NodeClaim as an object.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use karpenter_api::annotations::{
    CAPACITY_OVERLAY_APPLIED, MIN_VALUES_RELAXED, NODEPOOL_HASH, NODEPOOL_HASH_VERSION, PRICE_OVERLAY_APPLIED,
};
use karpenter_api::labels::{INSTANCE_TYPE, NODEPOOL, node_class_label};
use karpenter_api::nodeclaim::{NodeClaimSpec, ResourceRequirements};
use karpenter_api::{LabelRules, NodeClaim, NodePool, Requirement, hash};
use karpenter_core::catalog::Overlaid;
use karpenter_core::plan::ClaimPlan;
use karpenter_core::requirements;

/// The claim that `plan` asks for, named `name`.
pub(crate) fn node_claim(plan: &ClaimPlan, pool: &NodePool, name: String) -> NodeClaim {
    let requests =
        plan.requests.iter().map(|(name, amount)| (name.to_owned(), Quantity(amount.to_string()))).collect();
    NodeClaim {
        metadata: ObjectMeta {
            name: Some(name),
            labels: Some(labels(plan, pool)),
            annotations: Some(planned_annotations(plan, pool)),
            owner_references: Some(vec![owner(pool)]),
            ..ObjectMeta::default()
        },
        spec: spec(pool, requirements(plan), Some(ResourceRequirements { requests: Some(requests) })),
        status: None,
    }
}

/// The claim that a pool's template alone asks for, named `name`, as static pools make them.
pub(crate) fn template_claim(pool: &NodePool, rules: &LabelRules, name: String) -> NodeClaim {
    let template = &pool.spec.template.spec;
    let mut lines: Vec<Requirement> = template.requirements.clone();
    for line in &mut lines {
        line.key = rules.normalize(&line.key).to_owned();
    }
    let mut labels = tying_labels(pool);
    lines.extend(
        labels.iter().map(|(key, value)| Requirement::new(key, karpenter_api::Operator::In, [value])),
    );
    lines.sort_by(|a, b| a.key.cmp(&b.key));
    for line in &lines {
        // A label of the user's own gets one of its values now; the others are settled by the machine that is chosen.
        let settled = line.values().len() == 1 || !rules.is_well_known(&line.key);
        if let (karpenter_api::Operator::In, Some(value), true) =
            (&line.operator, line.values().first(), settled)
        {
            labels.entry(line.key.clone()).or_insert_with(|| value.clone());
        }
    }
    NodeClaim {
        metadata: ObjectMeta {
            name: Some(name),
            labels: Some(labels),
            annotations: Some(annotations(false, pool)),
            owner_references: Some(vec![owner(pool)]),
            ..ObjectMeta::default()
        },
        spec: spec(pool, lines, None),
        status: None,
    }
}

fn spec(
    pool: &NodePool,
    requirements: Vec<Requirement>,
    resources: Option<ResourceRequirements>,
) -> NodeClaimSpec {
    let template = &pool.spec.template.spec;
    NodeClaimSpec {
        taints: template.taints.clone(),
        startup_taints: template.startup_taints.clone(),
        requirements,
        resources,
        node_class_ref: template.node_class_ref.clone(),
        termination_grace_period: template.termination_grace_period.clone(),
        expire_after: template.expire_after.clone(),
    }
}

/// The template's labels and those that tie a claim to pool and class.
fn tying_labels(pool: &NodePool) -> BTreeMap<String, String> {
    let template = pool.spec.template.metadata.as_ref();
    let mut labels = template.and_then(|metadata| metadata.labels.clone()).unwrap_or_default();
    let class = &pool.spec.template.spec.node_class_ref;
    labels.insert(NODEPOOL.to_owned(), pool.metadata.name.clone().unwrap_or_default());
    labels.insert(node_class_label(&class.group, &class.kind), class.name.clone());
    labels
}

/// The pool's labels, those that tie the claim to pool and class, and every requirement that leaves one value.
fn labels(plan: &ClaimPlan, pool: &NodePool) -> BTreeMap<String, String> {
    let mut labels = tying_labels(pool);
    for requirement in &plan.requirements {
        if let (requirements::Operator::In, [value]) = (requirement.operator, requirement.values.as_slice()) {
            labels.insert(requirement.key.to_string(), value.to_string());
        }
    }
    labels
}

/// The annotations of every claim, and whether NodeOverlays had a say in what it may become.
fn planned_annotations(plan: &ClaimPlan, pool: &NodePool) -> BTreeMap<String, String> {
    let mut annotations = annotations(plan.min_values_relaxed, pool);
    let touched = |is: fn(&Overlaid) -> bool| plan.instance_types.iter().any(|found| is(&found.overlaid));
    let applied = [
        (PRICE_OVERLAY_APPLIED, touched(|overlaid| overlaid.price)),
        (CAPACITY_OVERLAY_APPLIED, touched(|overlaid| overlaid.capacity)),
    ];
    let applied = applied.into_iter().filter(|(_, applied)| *applied);
    annotations.extend(applied.map(|(key, _)| (key.to_owned(), "true".to_owned())));
    annotations
}

fn annotations(min_values_relaxed: bool, pool: &NodePool) -> BTreeMap<String, String> {
    let template = pool.spec.template.metadata.as_ref();
    let mut annotations = template.and_then(|metadata| metadata.annotations.clone()).unwrap_or_default();
    annotations.insert(NODEPOOL_HASH.to_owned(), hash::nodepool_hash(pool));
    annotations.insert(NODEPOOL_HASH_VERSION.to_owned(), hash::NODEPOOL_HASH_VERSION.to_owned());
    annotations.insert(MIN_VALUES_RELAXED.to_owned(), min_values_relaxed.to_string());
    annotations
}

fn owner(pool: &NodePool) -> OwnerReference {
    OwnerReference {
        api_version: "karpenter.sh/v1".to_owned(),
        kind: "NodePool".to_owned(),
        name: pool.metadata.name.clone().unwrap_or_default(),
        uid: pool.metadata.uid.clone().unwrap_or_default(),
        block_owner_deletion: Some(true),
        controller: None,
    }
}

/// The plan's requirements, with the instance types that were found to carry the pods.
fn requirements(plan: &ClaimPlan) -> Vec<Requirement> {
    let mut lines: Vec<Requirement> =
        plan.requirements.iter().filter(|line| &*line.key != INSTANCE_TYPE).map(written).collect();
    let types = plan.instance_types.iter().map(|found| found.name.to_string());
    let min_values =
        plan.requirements.iter().find(|line| &*line.key == INSTANCE_TYPE).and_then(|line| line.min_values);
    let mut line = Requirement::new(INSTANCE_TYPE, karpenter_api::Operator::In, types);
    line.min_values = min_values.map(i64::from);
    lines.push(line);
    lines.sort_by(|a, b| a.key.cmp(&b.key));
    lines
}

fn written(line: &requirements::Requirement) -> Requirement {
    let operator = karpenter_api::Operator::from(line.operator.to_string());
    let mut written = Requirement::new(&*line.key, operator, line.values.iter().map(ToString::to_string));
    written.min_values = line.min_values.map(i64::from);
    written
}
