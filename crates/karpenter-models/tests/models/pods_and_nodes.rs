//! Pods on nodes, through the API, on simulated time.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Node, Pod};
use karpenter_models::ModelsConfig;
use karpenter_models::config::KubeletConfig;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;

use crate::world::World;

#[tokio::test(start_paused = true)]
async fn a_pod_is_bound_and_runs_as_soon_as_a_node_is_ready() {
    let world = World::start(ModelsConfig::default());
    world.add_pod("web", "1", json!({})).await;
    world.pass(1).await;
    assert_eq!(world.pod_lines().await, ["web Pending unready -"]);
    let pod: Pod = world.get("web").await;
    let condition = &pod.status.unwrap().conditions.unwrap()[0];
    assert_eq!(condition.message.as_deref(), Some("no nodes available to schedule pods"));
    world
        .add_node("n1", "a", json!({"metadata": {"annotations": {"cluster.model/ready-after": "20s"}}}))
        .await;
    world.pass(19).await;
    assert_eq!(world.pod_lines().await, ["web Pending unready -"]);
    world.pass(2).await;
    assert_eq!(world.pod_lines().await, ["web Running ready n1"]);
    let node: Node = world.cluster_api().get("n1").await.unwrap();
    assert!(node.spec.unwrap().taints.unwrap_or_default().is_empty());
}

#[tokio::test(start_paused = true)]
async fn startup_taints_are_for_others_to_take_off() {
    let world = World::start(ModelsConfig::default());
    let taint = json!({"spec": {"taints": [{"key": "startup", "effect": "NoExecute"}]}});
    world.add_node("n1", "a", taint).await;
    world.add_pod("web", "1", json!({})).await;
    world.pass(600).await;
    assert_eq!(world.pod_lines().await, ["web Pending unready -"]);
    let nodes = world.cluster_api::<Node>();
    let clean = json!({"spec": {"taints": null}});
    nodes.patch("n1", &PatchParams::default(), &Patch::Merge(clean)).await.unwrap();
    world.pass(1).await;
    assert_eq!(world.pod_lines().await, ["web Running ready n1"]);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_pod_takes_its_time_to_stop() {
    let world = World::start(ModelsConfig::default());
    world.add_node("n1", "a", json!({})).await;
    let slow = json!({"metadata": {"annotations": {"cluster.model/stop-after": "12s"}}});
    world.add_pod("slow", "1", slow).await;
    world.add_pod("quick", "1", json!({})).await;
    world.pass(1).await;
    for name in ["slow", "quick"] {
        world.api::<Pod>().delete(name, &DeleteParams::default()).await.unwrap();
    }
    world.pass(10).await;
    assert_eq!(world.pod_lines().await, ["slow Running unready n1 going"]);
    world.pass(3).await;
    assert!(world.pods().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_silent_node_is_tainted_and_its_pods_leave_after_five_minutes() {
    let world = World::start(ModelsConfig::default());
    world.add_node("n1", "a", json!({})).await;
    world.add_pod("web", "1", json!({})).await;
    world.pass(5).await;
    let nodes = world.cluster_api::<Node>();
    let silence = json!({"metadata": {"annotations": {"cluster.model/kubelet": "unreachable"}}});
    nodes.patch("n1", &PatchParams::default(), &Patch::Merge(silence)).await.unwrap();
    world.pass(45).await;
    assert_eq!(world.pod_lines().await, ["web Running ready n1"]);
    world.pass(10).await;
    assert_eq!(world.pod_lines().await, ["web Running unready n1"]);
    let keys: Vec<String> = nodes
        .get("n1")
        .await
        .unwrap()
        .spec
        .unwrap()
        .taints
        .unwrap()
        .into_iter()
        .map(|taint| taint.key)
        .collect();
    assert_eq!(keys, ["node.kubernetes.io/unreachable"; 2]);
    world.pass(280).await;
    assert_eq!(world.pod_lines().await, ["web Running unready n1"]);
    world.pass(30).await;
    assert_eq!(world.pod_lines().await, ["web Running unready n1 going"]);
    let back = json!({"metadata": {"annotations": {"cluster.model/kubelet": "running"}}});
    nodes.patch("n1", &PatchParams::default(), &Patch::Merge(back)).await.unwrap();
    world.pass(40).await;
    assert!(world.pods().await.is_empty());
    assert!(nodes.get("n1").await.unwrap().spec.unwrap().taints.unwrap_or_default().is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_others_say_of_a_node_that_is_called_unhealthy_stays() {
    let world = World::start(ModelsConfig::default());
    world.add_node("n1", "a", json!({})).await;
    world.add_node("n2", "a", json!({})).await;
    world.pass(5).await;
    let nodes = world.cluster_api::<Node>();
    let label = json!({"metadata": {"labels": {"kwok.x-k8s.io/stage": "unhealthy"}}});
    nodes.patch("n1", &PatchParams::default(), &Patch::Merge(label)).await.unwrap();
    let broken =
        json!({"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "Broken"}]}});
    for name in ["n1", "n2"] {
        nodes.patch_status(name, &PatchParams::default(), &Patch::Strategic(&broken)).await.unwrap();
    }
    world.pass(120).await;
    let mut ready = Vec::new();
    for name in ["n1", "n2"] {
        let conditions = nodes.get(name).await.unwrap().status.unwrap().conditions.unwrap();
        ready.extend(conditions.into_iter().find(|found| found.type_ == "Ready").map(|found| found.status));
    }
    assert_eq!(ready, ["False", "True"], "a kubelet that speaks says how its node is");
}

#[tokio::test(start_paused = true)]
async fn a_cluster_without_heartbeats_is_at_rest_and_still_finds_a_silent_node() {
    let year = Duration::from_hours(24 * 365);
    let kubelets = KubeletConfig { heartbeat: year, ..KubeletConfig::default() };
    let world = World::start(ModelsConfig { kubelets: Some(kubelets), ..ModelsConfig::default() });
    world.add_node("n1", "a", json!({})).await;
    world.add_pod("web", "1", json!({})).await;
    world.pass(600).await;
    let before = world.server.resource_version();
    world.pass(24 * 3600).await;
    assert_eq!(world.server.resource_version(), before, "nobody writes anything for a day");
    let silence = json!({"metadata": {"annotations": {"cluster.model/kubelet": "unreachable"}}});
    let nodes = world.cluster_api::<Node>();
    nodes.patch("n1", &PatchParams::default(), &Patch::Merge(silence)).await.unwrap();
    world.pass(45).await;
    assert_eq!(world.pod_lines().await, ["web Running ready n1"]);
    world.pass(10).await;
    assert_eq!(world.pod_lines().await, ["web Running unready n1"]);
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_vanished_node_are_cleared_away() {
    let world = World::start(ModelsConfig::default());
    world.add_node("n1", "a", json!({})).await;
    world.add_pod("web", "1", json!({})).await;
    world.pass(5).await;
    world.cluster_api::<Node>().delete("n1", &DeleteParams::default()).await.unwrap();
    world.pass(30).await;
    assert_eq!(world.pods().await.len(), 1);
    world.pass(20).await;
    assert!(world.pods().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_important_pod_takes_the_place_of_others() {
    let world = World::start(ModelsConfig::default());
    world.add_node("n1", "a", json!({})).await;
    for name in ["low-1", "low-2"] {
        world
            .add_pod(name, "2", json!({"metadata": {"annotations": {"cluster.model/stop-after": "5s"}}}))
            .await;
    }
    world.pass(1).await;
    assert_eq!(world.ready_pods().await, 2);
    let urgent = json!({"spec": {"priorityClassName": "system-cluster-critical"}});
    world.add_pod("urgent", "2", urgent).await;
    world.pass(1).await;
    let nominated = world.get::<Pod>("urgent").await.status.unwrap().nominated_node_name;
    assert_eq!(nominated.as_deref(), Some("n1"));
    world.pass(10).await;
    let lines = world.pod_lines().await;
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(lines[1], "urgent Running ready n1");
    let events = world.api::<Event>().list(&ListParams::default()).await.unwrap();
    let preempted = events.items.iter().filter(|event| event.reason.as_deref() == Some("Preempted"));
    assert_eq!(preempted.count(), 1);
}
