//! Claims, volumes and attachments, through the API, on simulated time.

use std::time::Duration;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod, ServiceAccount};
use k8s_openapi::api::storage::v1::{CSINode, StorageClass, VolumeAttachment};
use karpenter_models::ModelsConfig;
use karpenter_models::config::{CsiDriver, KubeletConfig};
use karpenter_models::storage::StorageConfig;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::{Value, json};

use crate::objects::{merge, read};
use crate::world::World;

const DRIVER: &str = "disk.example.com";

async fn world(config: ModelsConfig, mode: &str) -> World {
    let world = World::start(config);
    for (name, zone) in [("n1", "a"), ("n2", "b"), ("n3", "b")] {
        world.add_node(name, zone, json!({})).await;
    }
    let class = json!({"metadata": {"name": "disk", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": DRIVER, "reclaimPolicy": "Delete", "volumeBindingMode": mode});
    world.cluster_api::<StorageClass>().create(&PostParams::default(), &read(class)).await.unwrap();
    world
}

async fn claim(world: &World, name: &str, extra: Value) {
    let mut claim = json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"],
        "storageClassName": "disk", "resources": {"requests": {"storage": "1Gi"}}}});
    merge(&mut claim, extra);
    world.create::<PersistentVolumeClaim>(claim).await;
}

fn mounting(claim: &str, extra: Value) -> Value {
    let mut pod =
        json!({"spec": {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]}});
    merge(&mut pod, extra);
    pod
}

async fn attachments(world: &World) -> Vec<(String, bool)> {
    let list = world.cluster_api::<VolumeAttachment>().list(&ListParams::default()).await.unwrap();
    let mut found: Vec<(String, bool)> = list
        .items
        .into_iter()
        .map(|held| (held.spec.node_name, held.status.is_some_and(|status| status.attached)))
        .collect();
    found.sort();
    found
}

async fn phase(world: &World, name: &str) -> String {
    world.get::<PersistentVolumeClaim>(name).await.status.unwrap().phase.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_claim_waits_for_its_pod_and_the_volume_follows_the_node() {
    let storage = StorageConfig { attach_after: Duration::from_secs(3), ..StorageConfig::default() };
    let world =
        world(ModelsConfig { storage: Some(storage), ..ModelsConfig::default() }, "WaitForFirstConsumer")
            .await;
    claim(&world, "data", json!({})).await;
    world.pass(5).await;
    assert_eq!(phase(&world, "data").await, "Pending");
    let there = json!({"spec": {"nodeSelector": {"topology.kubernetes.io/zone": "b"}}});
    world.add_pod("db", "1", mounting("data", there)).await;
    world.pass(2).await;
    assert_eq!(phase(&world, "data").await, "Bound");
    let lines = world.pod_lines().await;
    assert!(lines[0].starts_with("db Pending unready n"), "{lines:?}: it is bound and waits for its volume");
    world.pass(5).await;
    let lines = world.pod_lines().await;
    assert!(lines[0].starts_with("db Running ready n"), "{lines:?}");
    let volumes = world.cluster_api::<PersistentVolume>().list(&ListParams::default()).await.unwrap().items;
    let affinity =
        serde_json::to_value(volumes[0].spec.as_ref().unwrap().node_affinity.as_ref().unwrap()).unwrap();
    assert_eq!(affinity["required"]["nodeSelectorTerms"][0]["matchExpressions"][0]["values"], json!(["b"]));
    let node = lines[0].rsplit(' ').next().unwrap().to_owned();
    assert_eq!(attachments(&world).await, [(node, true)]);
}

#[tokio::test(start_paused = true)]
async fn a_volume_is_detached_after_its_pod_and_deleted_after_its_claim() {
    let storage = StorageConfig { detach_after: Duration::from_secs(10), ..StorageConfig::default() };
    let world = world(ModelsConfig { storage: Some(storage), ..ModelsConfig::default() }, "Immediate").await;
    claim(&world, "data", json!({"spec": {"storageClassName": null}})).await;
    world.add_pod("db", "1", mounting("data", json!({}))).await;
    world.pass(5).await;
    assert_eq!(world.ready_pods().await, 1);
    let bound = world.get::<PersistentVolumeClaim>("data").await.spec.unwrap();
    assert_eq!(bound.storage_class_name.as_deref(), Some("disk"), "the default class is filled in");
    world.api::<Pod>().delete("db", &DeleteParams::default()).await.unwrap();
    world.pass(5).await;
    assert_eq!(attachments(&world).await.len(), 1);
    world.pass(10).await;
    assert!(attachments(&world).await.is_empty());
    world.api::<PersistentVolumeClaim>().delete("data", &DeleteParams::default()).await.unwrap();
    world.pass(5).await;
    assert!(
        world.cluster_api::<PersistentVolume>().list(&ListParams::default()).await.unwrap().items.is_empty()
    );
}

#[tokio::test(start_paused = true)]
async fn a_volume_for_one_node_moves_only_after_it_is_detached() {
    let storage = StorageConfig { detach_after: Duration::from_secs(20), ..StorageConfig::default() };
    let world =
        world(ModelsConfig { storage: Some(storage), ..ModelsConfig::default() }, "WaitForFirstConsumer")
            .await;
    let set = json!({"metadata": {"name": "db"}, "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "db"}},
        "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"nodeSelector": {"topology.kubernetes.io/zone": "b"},
            "containers": [{"name": "main", "image": "db"}]}},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
            "storageClassName": "disk", "resources": {"requests": {"storage": "1Gi"}}}}]}});
    world.create::<StatefulSet>(set).await;
    world.pass(5).await;
    assert_eq!(world.ready_pods().await, 1);
    assert_eq!(phase(&world, "data-db-0").await, "Bound");
    let node = world.get::<Pod>("db-0").await.spec.unwrap().node_name.unwrap();
    world.cluster_api::<Node>().delete(&node, &DeleteParams::default()).await.unwrap();
    world.pass(45).await;
    let moved = world.get::<Pod>("db-0").await;
    assert_ne!(moved.spec.unwrap().node_name.unwrap(), node);
    assert_eq!(world.ready_pods().await, 0, "the volume is still attached to the node that is gone");
    world.pass(30).await;
    assert_eq!(world.ready_pods().await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_claim_gets_the_smallest_volume_that_its_pods_node_reaches() {
    let world = world(ModelsConfig::default(), "WaitForFirstConsumer").await;
    for (name, size, zone) in
        [("small", "1Gi", "b"), ("large", "5Gi", "b"), ("fitting", "2Gi", "b"), ("far", "2Gi", "a")]
    {
        let reach = json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]});
        let volume = json!({"metadata": {"name": name}, "spec": {"capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"], "storageClassName": "disk",
            "csi": {"driver": DRIVER, "volumeHandle": name},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [reach]}]}}}});
        world.cluster_api::<PersistentVolume>().create(&PostParams::default(), &read(volume)).await.unwrap();
    }
    claim(&world, "data", json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}})).await;
    let there = json!({"spec": {"nodeSelector": {"topology.kubernetes.io/zone": "b"}}});
    world.add_pod("db", "1", mounting("data", there)).await;
    world.pass(5).await;
    assert_eq!(world.ready_pods().await, 1);
    let spec = world.get::<PersistentVolumeClaim>("data").await.spec.unwrap();
    assert_eq!(spec.volume_name.as_deref(), Some("fitting"));
    let volumes = world.cluster_api::<PersistentVolume>().list(&ListParams::default()).await.unwrap().items;
    let phases: Vec<&str> =
        volumes.iter().map(|volume| volume.status.as_ref().unwrap().phase.as_deref().unwrap()).collect();
    assert_eq!(phases, ["Available", "Bound", "Available", "Available"], "in the order of names");
}

#[tokio::test(start_paused = true)]
async fn a_volume_made_at_once_is_where_its_class_allows_and_draws_the_pod_there() {
    let world = World::start(ModelsConfig::default());
    for (name, zone) in [("n1", "a"), ("n2", "b"), ("n3", "c")] {
        world.add_node(name, zone, json!({})).await;
    }
    let allowed =
        json!([{"matchLabelExpressions": [{"key": "topology.kubernetes.io/zone", "values": ["c", "b"]}]}]);
    let class = json!({"metadata": {"name": "disk"}, "provisioner": DRIVER, "volumeBindingMode": "Immediate",
        "allowedTopologies": allowed});
    world.cluster_api::<StorageClass>().create(&PostParams::default(), &read(class)).await.unwrap();
    claim(&world, "data", json!({})).await;
    world.pass(2).await;
    assert_eq!(phase(&world, "data").await, "Bound");
    world.add_pod("db", "1", mounting("data", json!({}))).await;
    world.pass(5).await;
    assert_eq!(world.pod_lines().await, ["db Running ready n3"]);
}

#[tokio::test(start_paused = true)]
async fn ephemeral_claims_come_and_go_with_their_pod() {
    let world = world(ModelsConfig::default(), "WaitForFirstConsumer").await;
    let template = json!({"spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "disk",
        "resources": {"requests": {"storage": "1Gi"}}}});
    world
        .add_pod(
            "p",
            "1",
            json!({"spec": {"volumes": [{"name": "tmp", "ephemeral": {"volumeClaimTemplate": template}}]}}),
        )
        .await;
    world.pass(5).await;
    assert_eq!(world.ready_pods().await, 1);
    assert_eq!(phase(&world, "p-tmp").await, "Bound");
    world.api::<Pod>().delete("p", &DeleteParams::default()).await.unwrap();
    world.pass(5).await;
    assert!(world.api::<PersistentVolumeClaim>().get_opt("p-tmp").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn nodes_say_what_their_drivers_can_attach() {
    let driver = CsiDriver { name: DRIVER.to_owned(), volumes_max: Some(1), topology_keys: Vec::new() };
    let kubelets = KubeletConfig { csi_drivers: vec![driver], ..KubeletConfig::default() };
    let world =
        world(ModelsConfig { kubelets: Some(kubelets), ..ModelsConfig::default() }, "WaitForFirstConsumer")
            .await;
    world.pass(1).await;
    assert_eq!(world.cluster_api::<CSINode>().list(&ListParams::default()).await.unwrap().items.len(), 3);
    let only = json!({"spec": {"nodeSelector": {"kubernetes.io/hostname": "n1"}}});
    for name in ["one", "two"] {
        claim(&world, name, json!({})).await;
        world.add_pod(name, "1", mounting(name, only.clone())).await;
    }
    world.pass(5).await;
    assert_eq!(world.ready_pods().await, 1, "{:?}", world.pod_lines().await);
    world.cluster_api::<Node>().delete("n3", &DeleteParams::default()).await.unwrap();
    world.pass(1).await;
    assert_eq!(world.cluster_api::<CSINode>().list(&ListParams::default()).await.unwrap().items.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn every_namespace_has_a_default_service_account() {
    let world = World::start(ModelsConfig::default());
    world.pass(1).await;
    assert!(world.api::<ServiceAccount>().get_opt("default").await.unwrap().is_some());
}
