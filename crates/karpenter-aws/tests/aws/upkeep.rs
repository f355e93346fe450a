//! What the provider learns and keeps true while machines run: memory, types, prices, tags.

use std::sync::Arc;

use karpenter_api::NodePool;
use karpenter_aws::Aws;
use karpenter_provider::Provider as _;
use karpenter_quantity::Quantity;
use karpenter_simcloud::Plenty;
use karpenter_simcloud_aws::{Fault, FaultKind};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::world::{QUEUE, World, capacity_type, one_of, pass};

async fn world() -> World {
    World::new(Arc::new(Plenty)).await
}

/// The memory that the catalogue gives a type.
async fn memory(aws: &Aws, pool: &NodePool, instance_type: &str) -> Quantity {
    let types = aws.instance_types(Arc::new(pool.clone())).await.unwrap();
    types.iter().find(|found| *found.name == *instance_type).unwrap().capacity.get("memory")
}

#[tokio::test(start_paused = true)]
async fn a_registered_node_teaches_how_much_memory_its_type_has() {
    let world = world().await;
    let aws = world.connect(QUEUE).await.unwrap();
    let _running = world.start_with(&aws);
    let requirements = json!([
        one_of("karpenter.sh/capacity-type", &["on-demand"]),
        one_of("node.kubernetes.io/instance-type", &["m5.large", "m5.xlarge"]),
    ]);
    world.create_pool(&json!({}), &requirements).await;
    pass(60).await;
    let pool = world.pools().get("general").await.unwrap();
    let (large, xlarge) = (memory(&aws, &pool, "m5.large").await, memory(&aws, &pool, "m5.xlarge").await);
    world.create_pending_pod("a", "500m").await;
    pass(60).await;
    let [node] = world.nodes().await.try_into().unwrap();
    let reported: Quantity = node.status.unwrap().capacity.unwrap()["memory"].0.parse().unwrap();
    assert_ne!(reported, large, "an estimate is seldom right");
    assert_eq!(memory(&aws, &pool, "m5.large").await, reported);
    assert_eq!(memory(&aws, &pool, "m5.xlarge").await, xlarge, "no such node was seen");

    let parameters = world.cloud.parameter(
        "/aws/service/eks/optimized-ami/1.34/amazon-linux-2023/x86_64/standard/recommended/image_id",
    );
    assert!(parameters.is_some());
    world.change_class(&json!({"amiSelectorTerms": [{"alias": "bottlerocket@latest"}]})).await;
    pass(120).await;
    assert_eq!(memory(&aws, &pool, "m5.large").await, large, "other images may leave more or less");
}

#[tokio::test(start_paused = true)]
async fn when_types_cannot_be_listed_any_more_what_is_known_is_sold() {
    let world = world().await;
    let _running = world.start(&[]).await;
    world.create_pool(&json!({}), &capacity_type(&["on-demand"])).await;
    pass(60).await;
    let denied =
        ["DescribeInstanceTypes", "DescribeInstanceTypeOfferings", "DescribeSpotPriceHistory", "GetProducts"];
    for operation in denied {
        world.cloud.inject(Fault::chance(operation, 1.0, FaultKind::InternalError));
    }
    world.cloud.forget_records();
    pass(13 * 3600).await;
    let failed = world.cloud.records();
    assert!(failed.count("DescribeInstanceTypes") > 0, "types are looked at twice a day");
    world.create_pending_pod("a", "500m").await;
    pass(60).await;
    assert_eq!(world.cloud.living().len(), 1, "{}", world.story().await);
    assert_eq!(world.class_condition("Ready").await.0, "True");

    world.cloud.heal();
    pass(120).await;
    world.cloud.forget_records();
    pass(11 * 3600).await;
    let healed = world.cloud.records();
    for operation in denied {
        assert_eq!(healed.count(operation), 0, "{operation} has succeeded a minute later and is not due");
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_is_tagged_in_the_end_although_calls_fail() {
    let world = world().await;
    let _running = world.start(QUEUE).await;
    world.create_pool(&json!({}), &capacity_type(&["on-demand"])).await;
    pass(60).await;
    world.cloud.inject(Fault::times("CreateTags", 4, FaultKind::InternalError));
    world.create_pending_pod("a", "500m").await;
    pass(40).await;
    let tagged = |claim: &karpenter_api::NodeClaim| {
        let annotations = claim.metadata.annotations.as_ref().unwrap();
        annotations.contains_key("karpenter.k8s.aws/tagged")
    };
    let [claim] = world.claims().await.try_into().unwrap();
    assert!(!tagged(&claim), "it is not said before it is true");
    pass(120).await;
    let [claim] = world.claims().await.try_into().unwrap();
    assert!(tagged(&claim));
    let [instance] = world.cloud.living().try_into().unwrap();
    assert_eq!(instance.tags.get("Name"), claim.status.as_ref().unwrap().node_name.as_ref());
    let calls = world.cloud.records().count("CreateTags");
    pass(600).await;
    assert_eq!(world.cloud.records().count("CreateTags"), calls, "once is enough");
}

#[tokio::test(start_paused = true)]
async fn machines_of_older_versions_get_the_clusters_name_and_keep_their_own() {
    let world = world().await;
    let before = world.start(QUEUE).await;
    world.create_pool(&json!({}), &capacity_type(&["on-demand"])).await;
    pass(60).await;
    world.create_pending_pod("a", "500m").await;
    pass(60).await;
    before.abort();
    let [instance] = world.cloud.living().try_into().unwrap();
    let [claim] = world.claims().await.try_into().unwrap();
    // Older versions tagged the name only, and people change it.
    let old = |instance: &mut karpenter_simcloud_aws::Instance| {
        instance.tags.remove("eks:eks-cluster-name");
        instance.tags.insert("Name".to_owned(), "pet".to_owned());
    };
    world.cloud.change_instance(&instance.id, old).unwrap();
    let annotations = json!({"compatibility.karpenter.k8s.aws/cluster-name-tagged": null});
    let claims: kube::Api<karpenter_api::NodeClaim> = kube::Api::all(world.kube.clone());
    let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
    let name = claim.metadata.name.unwrap();
    claims.patch(&name, &PatchParams::default(), &patch).await.unwrap();
    let _running = world.start(QUEUE).await;
    pass(600).await;
    let [instance] = world.cloud.living().try_into().expect("the machine is known and stays");
    assert_eq!(instance.tags["eks:eks-cluster-name"], "local");
    assert_eq!(instance.tags["Name"], "pet");
    let annotations = claims.get(&name).await.unwrap().metadata.annotations.unwrap();
    assert_eq!(annotations["compatibility.karpenter.k8s.aws/cluster-name-tagged"], "true");
}
