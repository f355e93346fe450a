//! Manifests in use elsewhere, taken unchanged: classes become ready, and pods get the machines that their pools describe.

use std::collections::BTreeSet;

use karpenter_simcloud_alibabacloud::{Instance, SECURITY_GROUP};

use crate::region::{Region, until};

const HANDBOOK: &str = include_str!("../../../karpenter-alibabacloud/tests/data/handbook.yaml");
pub(crate) const CONTAINER_SERVICE: &str =
    include_str!("../../../karpenter-alibabacloud/tests/data/container_service.yaml");

fn of_pool<'a>(instances: &'a [Instance], pool: &str) -> Vec<&'a Instance> {
    let found: Vec<_> = instances
        .iter()
        .filter(|one| one.tags.get("karpenter.sh/nodepool").is_some_and(|p| p == pool))
        .collect();
    assert!(!found.is_empty(), "{pool} has no machine");
    found
}

#[tokio::test(start_paused = true)]
async fn the_handbooks_pools_get_their_families_with_encrypted_disks_in_private_vswitches() {
    let region = Region::new("123").await;
    region.apply(HANDBOOK).await;
    let group = "karpenter.k8s.alibabacloud.com";
    until("the class is ready", || async {
        region.condition(group, "karpenter-nodeclass-default", "Ready").await.0 == "True"
    })
    .await;
    for pool in ["airflow-worker", "trino-xsmall", "jupyterhub-small"] {
        region.deploy(pool, pool, 3, "1500m").await;
    }
    until("every pod runs", || async { region.running().await == 9 }).await;

    let instances = region.instances();
    for (pool, family) in
        [("airflow-worker", "ecs.g7."), ("trino-xsmall", "ecs.r7."), ("jupyterhub-small", "ecs.t6-")]
    {
        for instance in of_pool(&instances, pool) {
            assert!(instance.instance_type.starts_with(family), "{pool}: {}", instance.instance_type);
        }
    }
    for instance in &instances {
        assert!(instance.vswitch.ends_with("private"), "{}", instance.vswitch);
        assert_eq!(instance.image, "aliyun_3_x64_20G_alibase_20250629.vhd");
        assert_eq!(instance.role, "123-karpenter-node-role");
        assert_eq!(instance.security_groups, [SECURITY_GROUP]);
        let disk = &instance.disks[0];
        let shown = (disk.category.as_str(), disk.size_gib, disk.encrypted, disk.delete_with_instance);
        assert_eq!(shown, ("cloud_essd", 100, true, true));
    }
    let label = |node: &k8s_openapi::api::core::v1::Node, key: &str| {
        node.metadata.labels.as_ref().and_then(|labels| labels.get(key).cloned()).unwrap_or_default()
    };
    let shown: BTreeSet<[String; 3]> = region
        .nodes()
        .await
        .iter()
        .map(|node| {
            let of = |name: &str| label(node, &format!("karpenter.k8s.alibabacloud.com/ecs-instance-{name}"));
            [label(node, "karpenter.sh/nodepool"), of("category"), of("family")]
        })
        .collect();
    let expected = [
        ["airflow-worker", "g", "ecs.g7"],
        ["jupyterhub-small", "t", "ecs.t6"],
        ["trino-xsmall", "r", "ecs.r7"],
    ];
    assert_eq!(shown, expected.map(|row| row.map(str::to_owned)).into());
    region.leaves_nothing().await;
}

#[tokio::test(start_paused = true)]
async fn the_container_service_readmes_pool_gets_the_type_it_names_on_demand() {
    let region = Region::new("my-cluster").await;
    region.apply(CONTAINER_SERVICE).await;
    region.deploy("web", "default", 3, "1500m").await;
    until("every pod runs", || async { region.running().await == 3 }).await;
    assert_eq!(region.condition("karpenter.alibabacloud.com", "default", "Ready").await.0, "True");
    let instances = region.instances();
    assert_eq!(instances.len(), 3);
    for instance in &instances {
        assert_eq!(
            (instance.instance_type.as_str(), instance.spot_strategy.as_str()),
            ("ecs.g6.large", "NoSpot")
        );
        assert_eq!(instance.image, "aliyun_3_x64_20G_alibase_20250629.vhd", "the first term's newest image");
        assert_eq!((instance.disks[0].category.as_str(), instance.disks[0].size_gib), ("cloud_essd", 40));
    }
    region.leaves_nothing().await;
}
