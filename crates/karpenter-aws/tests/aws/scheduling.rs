//! Pods, pools and machines of EC2 from end to end: scheduling, consolidation, repair, claims that people make, room that is kept free.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use karpenter_api::NodeClaim;
use karpenter_api::options::FeatureGate;
use karpenter_simcloud::Plenty;
use karpenter_simcloud_aws::CapacityType;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::world::{QUEUE, World, capacity_type, label, one_of, pass};

const TYPE: &str = "node.kubernetes.io/instance-type";
const POOL: &str = "karpenter.sh/nodepool";

async fn world() -> World {
    let world = World::new(Arc::new(Plenty)).await;
    world.run_machinery();
    world
}

#[tokio::test(start_paused = true)]
async fn pods_get_the_machines_that_their_labels_and_resources_ask_for() {
    let world = world().await;
    let _running = world.start(QUEUE).await;
    world.create_pool(&json!({}), &capacity_type(&["on-demand"])).await;
    pass(60).await;
    let cases = [
        ("arm", json!({"cpu": "1"}), json!({"nodeSelector": {"kubernetes.io/arch": "arm64"}})),
        ("zone", json!({"cpu": "1"}), json!({"nodeSelector": {"topology.kubernetes.io/zone": "us-west-2c"}})),
        ("zone-id", json!({"cpu": "1"}), json!({"nodeSelector": {"topology.k8s.aws/zone-id": "usw2-az2"}})),
        ("gpu", json!({"nvidia.com/gpu": "1"}), json!({})),
        (
            "family",
            json!({"cpu": "1"}),
            json!({"nodeSelector": {"karpenter.k8s.aws/instance-family": "c6i"}}),
        ),
        ("neuron", json!({"aws.amazon.com/neuron": "1"}), json!({})),
    ];
    for (name, requests, spec) in &cases {
        world.deploy(name, 1, requests, spec).await;
    }
    pass(180).await;
    let story = world.story().await;
    for (name, requests, spec) in &cases {
        let [node] =
            world.nodes_of(name).await.try_into().unwrap_or_else(|_| panic!("{name} does not run: {story}"));
        for (key, value) in spec["nodeSelector"].as_object().into_iter().flatten() {
            assert_eq!(Some(label(&node, key)), value.as_str(), "{name}");
        }
        let allocatable = node.status.as_ref().unwrap().allocatable.as_ref().unwrap();
        for resource in requests.as_object().unwrap().keys() {
            assert!(allocatable.contains_key(resource), "{name}: {resource}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn pods_spread_over_the_zones_of_the_class() {
    let world = world().await;
    let _running = world.start(QUEUE).await;
    world.create_pool(&json!({}), &capacity_type(&["spot"])).await;
    pass(60).await;
    let spread = json!({"topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }]});
    world.deploy("web", 4, &json!({"cpu": "1"}), &spread).await;
    pass(120).await;
    let nodes = world.nodes_of("web").await;
    let zones: BTreeSet<&str> = nodes.iter().map(|node| label(node, "topology.kubernetes.io/zone")).collect();
    assert_eq!((nodes.len(), zones.len()), (4, 4), "{zones:?}");
}

#[tokio::test(start_paused = true)]
async fn the_heavier_pool_goes_first_and_a_tainted_one_serves_those_who_tolerate_it() {
    let world = world().await;
    let _running = world.start(QUEUE).await;
    world.create_pool(&json!({}), &capacity_type(&["on-demand"])).await;
    world.create_named_pool("cheap", &json!({"weight": 10}), &capacity_type(&["spot"])).await;
    let batch = json!({"template": {"spec": {
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
        "taints": [{"key": "batch", "value": "yes", "effect": "NoSchedule"}],
        "requirements": [one_of("karpenter.sh/capacity-type", &["spot"])],
    }}, "weight": 100});
    world.create_named_pool("batch", &batch, &json!([])).await;
    pass(60).await;
    world.deploy("web", 1, &json!({"cpu": "1"}), &json!({})).await;
    let tolerant = json!({"tolerations": [{"key": "batch", "operator": "Exists"}]});
    world.deploy("job", 1, &json!({"cpu": "1"}), &tolerant).await;
    pass(120).await;
    let pool = async |app: &str| label(&world.nodes_of(app).await.remove(0), POOL).to_owned();
    assert_eq!((pool("web").await.as_str(), pool("job").await.as_str()), ("cheap", "batch"));
}

#[tokio::test(start_paused = true)]
async fn a_machine_too_large_is_replaced_by_a_cheaper_one() {
    let world = world().await;
    let _running = world.start(QUEUE).await;
    world.create_pool(&json!({}), &capacity_type(&["on-demand"])).await;
    pass(60).await;
    world.deploy("app", 6, &json!({"cpu": "2"}), &json!({})).await;
    pass(120).await;
    let before: f64 = world.cloud.living().iter().filter_map(|found| found.price).sum();
    world.scale("app", 1).await;
    pass(900).await;
    let [after] = world.cloud.living().try_into().expect("one pod needs one machine");
    assert!(after.price.unwrap() < before / 2.0, "{before} before, {:?} after", after.price);
    assert_eq!(world.nodes_of("app").await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn spot_is_replaced_by_cheaper_spot_only_where_that_is_asked_for() {
    for (on, replaced) in [(false, false), (true, true)] {
        let mut world = World::new(Arc::new(Plenty)).await;
        world.run_machinery();
        if on {
            world = world.with(FeatureGate::SpotToSpotConsolidation);
        }
        let _running = world.start(QUEUE).await;
        world.create_pool(&json!({}), &capacity_type(&["spot"])).await;
        pass(60).await;
        let large = json!({"nodeSelector": {"karpenter.k8s.aws/instance-cpu": "32"}});
        world.deploy("large", 1, &json!({"cpu": "20"}), &large).await;
        world.deploy("small", 1, &json!({"cpu": "1"}), &json!({})).await;
        pass(120).await;
        let before = world.cloud.living();
        world.scale("large", 0).await;
        pass(900).await;
        let [after] = world.cloud.living().try_into().expect("one pod needs one machine");
        assert_eq!(after.capacity_type, CapacityType::Spot);
        let same = before.iter().any(|machine| machine.id == after.id);
        assert_eq!(!same, replaced, "gate {on}: {} instead of {}", after.facts.name, before[0].facts.name);
    }
}

#[tokio::test(start_paused = true)]
async fn a_budget_of_zero_keeps_machines_that_nobody_needs() {
    let world = world().await;
    let _running = world.start(QUEUE).await;
    world.create_class(&json!({})).await;
    let disruption = json!({"disruption": {
        "consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s", "budgets": [{"nodes": "0"}],
    }});
    world.create_named_pool("general", &disruption, &capacity_type(&["spot"])).await;
    pass(60).await;
    world.deploy("app", 1, &json!({"cpu": "1"}), &json!({})).await;
    pass(120).await;
    world.scale("app", 0).await;
    pass(900).await;
    assert_eq!(world.cloud.living().len(), 1);
    let open = Patch::Merge(json!({"spec": {"disruption": {"budgets": [{"nodes": "100%"}]}}}));
    world.pools().patch("general", &PatchParams::default(), &open).await.unwrap();
    pass(300).await;
    assert_eq!(world.cloud.living().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_accelerators_fail_is_repaired_after_ten_minutes() {
    let world = World::new(Arc::new(Plenty)).await.with(FeatureGate::NodeRepair);
    world.run_machinery();
    let _running = world.start(QUEUE).await;
    world.create_pool(&json!({}), &capacity_type(&["on-demand"])).await;
    pass(60).await;
    world.deploy("train", 1, &json!({"nvidia.com/gpu": "1"}), &json!({})).await;
    pass(120).await;
    let [before] = world.cloud.living().try_into().unwrap();
    let [node] = world.nodes_of("train").await.try_into().unwrap();
    // EKS's node monitoring agent says so.
    let condition = json!({
        "type": "AcceleratedHardwareReady", "status": "False", "reason": "NvidiaXID79Error",
        "lastTransitionTime": "2026-12-01T00:03:00Z", "lastHeartbeatTime": "2026-12-01T00:03:00Z",
    });
    let nodes: Api<Node> = Api::all(world.kube.clone());
    let patch = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
    let name = node.metadata.name.unwrap();
    nodes.patch_status(&name, &PatchParams::default(), &patch).await.unwrap();
    pass(480).await;
    assert!(world.cloud.living().iter().any(|alive| alive.id == before.id), "ten minutes are tolerated");
    pass(420).await;
    let [after] = world.cloud.living().try_into().expect("one took the place of the other");
    assert_ne!(after.id, before.id);
    assert_eq!(world.nodes_of("train").await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_people_make_gets_a_machine_and_keeps_it() {
    let world = world().await;
    let _running = world.start(QUEUE).await;
    world.create_class(&json!({})).await;
    pass(60).await;
    let claim: NodeClaim = serde_json::from_value(json!({
        "metadata": {"name": "pet", "labels": {"team": "web"}},
        "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            "requirements": [one_of(TYPE, &["c5.large"]), one_of("karpenter.sh/capacity-type", &["on-demand"])],
            "taints": [{"key": "own", "effect": "NoSchedule"}],
            "resources": {"requests": {"cpu": "1"}},
        },
    }))
    .unwrap();
    let claims: Api<NodeClaim> = Api::all(world.kube.clone());
    claims.create(&PostParams::default(), &claim).await.unwrap();
    pass(120).await;
    let [node] = world.nodes().await.try_into().unwrap();
    assert_eq!((label(&node, TYPE), label(&node, "team")), ("c5.large", "web"));
    assert!(node.spec.unwrap().taints.unwrap().iter().any(|taint| taint.key == "own"));
    assert_eq!(World::condition(&claims.get("pet").await.unwrap(), "Initialized"), "True");
    pass(900).await;
    assert_eq!(world.cloud.living().len(), 1, "nobody consolidates what belongs to no pool");
    claims.delete("pet", &DeleteParams::default()).await.unwrap();
    pass(120).await;
    assert_eq!((world.cloud.living().len(), world.nodes().await.len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn room_is_kept_free_on_machines_of_ec2() {
    let world = World::new(Arc::new(Plenty)).await.with(FeatureGate::CapacityBuffer);
    world.run_machinery();
    let _running = world.start(QUEUE).await;
    world.create_pool(&json!({}), &capacity_type(&["on-demand"])).await;
    pass(60).await;
    let template = json!({
        "apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "room", "namespace": "default"},
        "template": {"metadata": {}, "spec": {"containers": [
            {"name": "main", "image": "app", "resources": {"requests": {"cpu": "3"}}},
        ]}},
    });
    let templates: Api<k8s_openapi::api::core::v1::PodTemplate> =
        Api::namespaced(world.kube.clone(), "default");
    templates.create(&PostParams::default(), &serde_json::from_value(template).unwrap()).await.unwrap();
    let buffers: Api<karpenter_api::CapacityBuffer> = Api::namespaced(world.kube.clone(), "default");
    let buffer = json!({
        "metadata": {"name": "room"},
        "spec": {"podTemplateRef": {"name": "room"}, "replicas": 2},
    });
    buffers.create(&PostParams::default(), &serde_json::from_value(buffer).unwrap()).await.unwrap();
    pass(180).await;
    let room = world.cloud.living();
    assert!(!room.is_empty(), "machines stand by");
    world.deploy("app", 2, &json!({"cpu": "3"}), &json!({})).await;
    pass(5).await;
    let ready = world.nodes_of("app").await;
    assert_eq!(ready.len(), 2, "pods need not wait for machines");
    let zone = |node: &Node| node.spec.as_ref().and_then(|spec| spec.provider_id.clone()).unwrap();
    assert!(ready.iter().all(|node| room.iter().any(|machine| machine.provider_id() == zone(node))));
}
