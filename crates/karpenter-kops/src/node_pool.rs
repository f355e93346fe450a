//! The NodePool of a group.

use std::collections::{BTreeMap, BTreeSet};

use crate::complete::CompleteGroup;
use crate::model::InstanceGroup;
use crate::objects::{
    Limits, NodeClassRef, NodePoolSpec, Requirement, Taint, Template, TemplateMetadata, TemplateSpec,
};
use crate::validate::parse_taint;

const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";

/// Writes the spec of a group's NodePool.
pub(crate) fn node_pool(group: &CompleteGroup<'_>) -> NodePoolSpec {
    NodePoolSpec {
        replicas: group.spec.min_size.filter(|size| *size > 0),
        limits: group.spec.max_size.map(|size| Limits { nodes: size.to_string() }),
        template: Template {
            metadata: TemplateMetadata { labels: labels(&group.node_labels) },
            spec: TemplateSpec {
                node_class_ref: NodeClassRef {
                    group: "karpenter.k8s.aws",
                    kind: "EC2NodeClass",
                    name: group.spec.name.clone(),
                },
                requirements: requirements(group.spec),
                taints: group.taints.iter().filter_map(|taint| self::taint(taint)).collect(),
            },
        },
    }
}

/// The labels a NodePool may set; the others are Karpenter's to say.
fn labels(node_labels: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let domains = ["karpenter.sh", "karpenter.k8s.aws"];
    let is_karpenters = |key: &str| {
        let Some((domain, _)) = key.split_once('/') else { return false };
        domains
            .iter()
            .any(|own| domain.strip_suffix(own).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
    };
    let is_safe =
        |key: &str| key == CAPACITY_TYPE || (key != "kubernetes.io/hostname" && !is_karpenters(key));
    node_labels
        .iter()
        .filter(|(key, _)| is_safe(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

fn requirements(group: &InstanceGroup) -> Vec<Requirement> {
    let one_of = |key, values| Requirement { key, operator: "In", values };
    let types = instance_types(group);
    let mut requirements = vec![one_of("kubernetes.io/os", vec!["linux".to_owned()])];
    if !types.is_empty() {
        requirements.push(one_of("node.kubernetes.io/instance-type", types.into_iter().collect()));
    }
    let capacity_types = capacity_types(group).iter().map(|&name| name.to_owned()).collect();
    requirements.push(one_of(CAPACITY_TYPE, capacity_types));
    requirements
}

/// Entries of the mixed policy count as they are; a machine type may be a list.
fn instance_types(group: &InstanceGroup) -> BTreeSet<String> {
    let mixed = group.mixed_instances_policy.iter().flat_map(|policy| &policy.instances).map(String::as_str);
    let all = mixed.chain(group.machine_type.split(',')).map(str::trim);
    all.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn capacity_types(group: &InstanceGroup) -> &'static [&'static str] {
    let above_base = group.mixed_instances_policy.as_ref().and_then(|policy| policy.on_demand_above_base);
    if group.max_price.is_some() || group.spot_duration_in_minutes.is_some() {
        &["spot"]
    } else if above_base.is_some_and(|percent| percent < 100) {
        &["on-demand", "spot"]
    } else {
        &["on-demand"]
    }
}

fn taint(text: &str) -> Option<Taint> {
    let (key, value, effect) = parse_taint(text)?;
    Some(Taint { key: key.to_owned(), value: value.to_owned(), effect: effect.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_karpenter_are_left_to_karpenter() {
        let keys = [
            "karpenter.sh/capacity-type",
            "karpenter.sh/nodepool",
            "sub.karpenter.sh/a",
            "karpenter.k8s.aws/instance-family",
            "notkarpenter.sh/a",
            "kubernetes.io/hostname",
            "karpenter.sh",
            "example.com/team",
        ];
        let all = keys.iter().map(|key| ((*key).to_owned(), String::new())).collect();
        let kept: Vec<String> = labels(&all).into_keys().collect();
        assert_eq!(
            kept,
            ["example.com/team", "karpenter.sh", "karpenter.sh/capacity-type", "notkarpenter.sh/a"]
        );
    }
}
