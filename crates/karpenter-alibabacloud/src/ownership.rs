//! What marks a machine as ours: its tags, and its identity on nodes.
//!
//! Two clusters may share an account and a region, and node pools of ACK carry the cluster's tag too. So a machine is ours only if it
//! names this cluster and a NodePool of Karpenter.

use std::collections::BTreeMap;

use karpenter_alibabacloud_client::ecs::{Instance, Tag};
use karpenter_api::NodeClaim;
use karpenter_api::labels::NODEPOOL;

use crate::node_class::{Class, Dialect};

/// Names the claim a machine was started for.
pub const CLAIM_TAG: &str = "karpenter.sh/nodeclaim";
/// By this the console shows a machine; it is given when the name of the node is known.
pub const NAME_TAG: &str = "Name";
/// Names who manages a machine, as the Container Service provider writes it.
const MANAGED_BY_TAG: &str = "karpenter.sh/managed-by";
const CLUSTER_ID_TAG: &str = "karpenter.sh/cluster-id";
/// As CloudPilot's provider writes it.
const ACK_CLUSTER_TAG: &str = "ecs:ecs-cluster-id";
/// Marks groups, so that the cloud can tell who calls.
const GROUP_TAG: &str = "karpenter.k8s.alibabacloud/autoprovisiongroup";
/// No resource carries more.
pub const MOST_TAGS: usize = 20;

/// The tag that says which cluster a machine belongs to.
pub fn cluster_tag(cluster: &str) -> String {
    format!("kubernetes.io/cluster/{cluster}")
}

/// Finds the machines of a cluster that Karpenter started: ours carry both tags, those of the providers before us one of them.
pub fn filters(cluster: &str) -> [Vec<Tag>; 2] {
    [
        vec![Tag::new(cluster_tag(cluster), "owned"), Tag::key(NODEPOOL)],
        vec![Tag::new(CLUSTER_ID_TAG, cluster), Tag::key(NODEPOOL)],
    ]
}

/// Finds the machines we started for a claim.
pub fn claim_filter(cluster: &str, claim: &str) -> Vec<Tag> {
    vec![Tag::new(cluster_tag(cluster), "owned"), Tag::new(CLAIM_TAG, claim)]
}

/// Whether a machine belongs to one of `clusters` and was started by Karpenter.
pub fn is_ours(instance: &Instance, clusters: &[String]) -> bool {
    let of_cluster = clusters.iter().any(|cluster| {
        instance.tag(&cluster_tag(cluster)) == Some("owned") || instance.tag(CLUSTER_ID_TAG) == Some(cluster)
    });
    of_cluster && instance.tag(NODEPOOL).is_some_and(|pool| !pool.is_empty())
}

/// The tags of a new machine. Users' tags come last and never replace ours; what exceeds the limit is left out.
pub fn launch_tags(class: &Class, claim: &NodeClaim, cluster: &str) -> Vec<Tag> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let pool =
        claim.metadata.labels.as_ref().and_then(|labels| labels.get(NODEPOOL)).cloned().unwrap_or_default();
    let ours = [
        (cluster_tag(cluster), "owned".to_owned()),
        (NODEPOOL.to_owned(), pool),
        (CLAIM_TAG.to_owned(), text(&claim.metadata.name)),
        (MANAGED_BY_TAG.to_owned(), "karpenter".to_owned()),
        (CLUSTER_ID_TAG.to_owned(), cluster.to_owned()),
        (ACK_CLUSTER_TAG.to_owned(), cluster.to_owned()),
        (class.key.dialect.class_label(), class.key.name.to_string()),
    ];
    let mut tags: Vec<Tag> = ours.iter().map(|(key, value)| Tag::new(key, value)).collect();
    let reserved: Vec<&str> = ours.iter().map(|(key, _)| key.as_str()).collect();
    let users: BTreeMap<&String, &String> =
        class.tags.iter().filter(|(key, _)| !reserved.contains(&key.as_str())).collect();
    tags.extend(users.into_iter().map(|(key, value)| Tag::new(key, value)));
    tags.truncate(MOST_TAGS);
    tags
}

/// The tags of an auto-provisioning group.
pub fn group_tags(cluster: &str) -> Vec<Tag> {
    vec![Tag::new(GROUP_TAG, "true"), Tag::new(cluster_tag(cluster), "owned")]
}

/// The class a machine was started with, from its tags.
pub fn class_of(instance: &Instance) -> Option<(Dialect, &str)> {
    Dialect::ALL.into_iter().find_map(|dialect| Some((dialect, instance.tag(&dialect.class_label())?)))
}

/// A machine's identity on its node.
pub fn provider_id(region: &str, instance: &str) -> String {
    format!("{region}.{instance}")
}

/// The instance of a node's identity: what stands behind the last dot. `None` if it is of another cloud.
pub fn instance_id(provider_id: &str) -> Option<&str> {
    let (region, id) = provider_id.rsplit_once('.')?;
    (!region.is_empty() && !region.contains("://") && id.starts_with("i-")).then_some(id)
}

#[cfg(test)]
mod tests {
    use karpenter_alibabacloud_client::ecs::TagDescription;

    use super::*;

    fn tagged(tags: &[(&str, &str)]) -> Instance {
        let tags =
            tags.iter().map(|(key, value)| TagDescription { key: (*key).into(), value: (*value).into() });
        Instance { instance_id: "i-1".into(), tags: tags.collect(), ..Default::default() }
    }

    #[test]
    fn a_machine_is_ours_only_with_the_tags_of_this_cluster_and_of_a_pool() {
        let clusters = ["c1".to_owned()];
        let cluster = ("kubernetes.io/cluster/c1", "owned");
        assert!(is_ours(&tagged(&[cluster, (NODEPOOL, "default")]), &clusters));
        assert!(
            is_ours(&tagged(&[(CLUSTER_ID_TAG, "c1"), (NODEPOOL, "default")]), &clusters),
            "the Container Service provider's"
        );
        assert!(!is_ours(&tagged(&[cluster]), &clusters), "a machine of an ACK node pool");
        assert!(!is_ours(&tagged(&[(NODEPOOL, "default"), (MANAGED_BY_TAG, "karpenter")]), &clusters));
        let other = ("kubernetes.io/cluster/c2", "owned");
        assert!(
            !is_ours(&tagged(&[other, (NODEPOOL, "default")]), &clusters),
            "another cluster of the account"
        );
    }

    #[test]
    fn identities_are_read_back() {
        assert_eq!(instance_id(&provider_id("cn-hangzhou", "i-bp1")), Some("i-bp1"));
        for foreign in ["", "i-bp1", "kwok://a.i-1", "aws:///eu-west-1a/i-0", "cn-hangzhou.x"] {
            assert_eq!(instance_id(foreign), None, "{foreign}");
        }
    }
}
