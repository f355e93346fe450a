//! NodePools: the template of their nodes, their weight and their limits.

use karpenter_api::labels::node_class_label;
use karpenter_api::nodepool::NodeClassReference;
use karpenter_api::{LabelRules, labels};
use karpenter_core::cluster::{Labels, NodePool};
use karpenter_core::disruption::PoolDisruption;

use crate::disruption::pool_disruption;
use crate::invalid::{At, Invalid, each};
use crate::knobs;
use crate::resources::resource_list;
use crate::selector::api_requirement;
use crate::taint::taints;

/// The pool as the core sees it, with the labels that tie its nodes to the pool and to its NodeClass.
pub fn node_pool(object: &karpenter_api::NodePool, rules: &LabelRules) -> Result<NodePool, Invalid> {
    let template = &object.spec.template;
    let name = object.metadata.name.as_deref().unwrap_or_default();
    let written = template.metadata.iter().flat_map(|metadata| metadata.labels.iter().flatten());
    let mut all: Labels =
        written.map(|(key, value)| (rules.normalize(key).into(), value.as_str().into())).collect();
    all.insert(labels::NODEPOOL.into(), name.into());
    let (key, class) = node_class(&template.spec.node_class_ref);
    all.insert(key.into(), class.into());
    let requirements = each(&template.spec.requirements, |line| api_requirement(line, rules));
    let limits = object.spec.limits.as_ref().map(|limits| resource_list(Some(limits)));
    Ok(NodePool {
        name: name.into(),
        weight: object.spec.weight.unwrap_or(0),
        labels: all,
        requirements: requirements.at("spec.template.spec.requirements")?,
        taints: taints(template.spec.taints.iter().flatten()).at("spec.template.spec.taints")?,
        limits: limits.transpose().at("spec.limits")?,
        disruption: disruption(object),
    })
}

/// How the pool's nodes may be disrupted: what its spec says, and what only we understand, in its annotations.
fn disruption(object: &karpenter_api::NodePool) -> PoolDisruption {
    let mut disruption = object.spec.disruption.as_ref().map(pool_disruption).unwrap_or_default();
    knobs::add(object, &mut disruption);
    disruption
}

/// The label that ties nodes to their NodeClass, and its value.
pub fn node_class(reference: &NodeClassReference) -> (String, &str) {
    (node_class_label(&reference.group, &reference.kind), &reference.name)
}

/// Whether pods can make the pool grow: a static pool has a fixed number of nodes, one being deleted gets no more.
pub fn is_dynamic(object: &karpenter_api::NodePool) -> bool {
    object.spec.replicas.is_none() && object.metadata.deletion_timestamp.is_none()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pool_carries_its_own_label_and_that_of_its_node_class() {
        let object: karpenter_api::NodePool = serde_json::from_value(json!({
            "metadata": { "name": "general" },
            "spec": { "weight": 7, "limits": { "cpu": "10" }, "template": {
                "metadata": { "labels": { "team": "a" } },
                "spec": {
                    "nodeClassRef": { "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default" },
                    "requirements": [{ "key": "beta.kubernetes.io/arch", "operator": "Exists", "minValues": 2 }],
                },
            } },
        }))
        .unwrap();
        let pool = node_pool(&object, &LabelRules::default()).unwrap();
        let found: Vec<(&str, &str)> = pool.labels.iter().map(|(key, value)| (&**key, &**value)).collect();
        let class = ("karpenter.k8s.aws/ec2nodeclass", "default");
        assert_eq!(found, [class, ("karpenter.sh/nodepool", "general"), ("team", "a")]);
        assert_eq!(&*pool.requirements[0].key, "kubernetes.io/arch");
        assert_eq!(pool.requirements[0].min_values, Some(2));
        assert_eq!(pool.weight, 7);
        assert!(is_dynamic(&object));
    }
}
