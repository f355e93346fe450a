//! Machines for programs that talk to each other: EFA interfaces and partitions of placement groups.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_simcloud::Plenty;
use karpenter_simcloud_aws::{Fault, PlacementGroup};
use serde_json::json;

use crate::world::{QUEUE, World, label, one_of, pass};

const PARTITION: &str = "karpenter.k8s.aws/placement-group-partition";

#[tokio::test(start_paused = true)]
async fn pods_that_ask_for_efa_get_machines_with_an_interface_on_every_card() {
    let world = World::new(Arc::new(Plenty)).await;
    world.run_machinery();
    let _running = world.start(QUEUE).await;
    let requirements = json!([
        one_of("karpenter.sh/capacity-type", &["on-demand"]),
        one_of("node.kubernetes.io/instance-type", &["p4d.24xlarge", "m5.2xlarge"]),
    ]);
    world.create_pool(&json!({}), &requirements).await;
    pass(60).await;
    world.deploy("train", 1, &json!({"vpc.amazonaws.com/efa": "4", "nvidia.com/gpu": "8"}), &json!({})).await;
    world.deploy("web", 1, &json!({"cpu": "5"}), &json!({})).await;
    pass(120).await;
    let (trains, webs) = (world.nodes_of("train").await, world.nodes_of("web").await);
    assert_eq!((trains.len(), webs.len()), (1, 1));
    let kinds = |instance_type: &str| {
        let found =
            world.cloud.living().into_iter().find(|found| &*found.facts.name == instance_type).unwrap();
        found.interfaces.iter().map(|interface| (interface.card, interface.kind.clone())).collect::<Vec<_>>()
    };
    let efas: Vec<(u32, String)> = (0..4).map(|card| (card, "efa".to_owned())).collect();
    assert_eq!(kinds("p4d.24xlarge"), efas);
    assert_eq!(label(&trains[0], "node.kubernetes.io/instance-type"), "p4d.24xlarge");
    if label(&webs[0], "node.kubernetes.io/instance-type") == "m5.2xlarge" {
        assert_eq!(kinds("m5.2xlarge"), [(0, "interface".to_owned())]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_partition_without_capacity_is_left_alone_and_the_next_one_is_taken() {
    let world = World::new(Arc::new(Plenty)).await;
    world.run_machinery();
    world.cloud.put_placement_group(PlacementGroup {
        id: "pg-0123456789abcdef0".to_owned(),
        name: "store".to_owned(),
        strategy: "partition".to_owned(),
        partitions: Some(3),
        spread_level: None,
        tags: BTreeMap::new(),
    });
    let _running = world.start(QUEUE).await;
    let requirements = json!([
        one_of("karpenter.sh/capacity-type", &["on-demand"]),
        one_of("node.kubernetes.io/instance-type", &["m5.2xlarge"]),
        one_of("topology.kubernetes.io/zone", &["us-west-2a"]),
    ]);
    world.create_pool(&json!({"placementGroupSelector": {"name": "store"}}), &requirements).await;
    pass(60).await;
    assert_eq!(world.class_condition("Ready").await.0, "True");
    let partitions = |values: &[&str]| {
        let term = json!({"matchExpressions": [one_of(PARTITION, values)]});
        let required =
            json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}});
        json!({"affinity": {"nodeAffinity": required}})
    };
    world.cloud.inject(Fault { times: Some(1), ..Fault::no_capacity("InsufficientInstanceCapacity", 1.0) });
    world.deploy("any", 1, &json!({"cpu": "5"}), &partitions(&["1", "2"])).await;
    pass(90).await;
    let [instance] = world.cloud.living().try_into().expect("another partition has room");
    assert_eq!(instance.partition, Some(2), "the first one was refused a moment ago");
    let [node] = world.nodes_of("any").await.try_into().unwrap();
    assert_eq!(label(&node, PARTITION), "2");

    world.deploy("first", 1, &json!({"cpu": "5"}), &partitions(&["1"])).await;
    pass(60).await;
    assert_eq!(world.cloud.living().len(), 1, "a refusal is remembered for three minutes");
    pass(240).await;
    let [node] = world.nodes_of("first").await.try_into().expect("then it is tried again");
    assert_eq!(label(&node, PARTITION), "1");
}
