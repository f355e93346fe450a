//! Deployments, through the API, on simulated time.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use karpenter_models::ModelsConfig;
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value, json};

use crate::objects::merge;
use crate::world::{World, is_ready};

pub(crate) fn deployment(name: &str, replicas: i32, extra: Value) -> Value {
    let mut object = json!({
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "100m"}}}]},
        }},
    });
    merge(&mut object, extra);
    object
}

async fn three_nodes() -> World {
    let world = World::start(ModelsConfig::default());
    for (name, zone) in [("n1", "a"), ("n2", "b"), ("n3", "c")] {
        world.add_node(name, zone, json!({})).await;
    }
    world
}

async fn sets(world: &World) -> Vec<(i32, String)> {
    let list = world.api::<ReplicaSet>().list(&ListParams::default()).await.unwrap();
    let mut sets: Vec<(i32, String)> = list
        .items
        .into_iter()
        .map(|set| {
            let revision = set.metadata.annotations.unwrap()["deployment.kubernetes.io/revision"].clone();
            (set.spec.unwrap().replicas.unwrap(), revision)
        })
        .collect();
    sets.sort_by_key(|(_, revision)| revision.clone());
    sets
}

fn condition<'a>(deployment: &'a Deployment, type_: &str) -> (&'a str, &'a str) {
    let conditions = deployment.status.as_ref().unwrap().conditions.as_ref().unwrap();
    let found = conditions.iter().find(|condition| condition.type_ == type_).unwrap();
    (found.status.as_str(), found.reason.as_deref().unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_deployment_comes_up_and_says_so() {
    let world = three_nodes().await;
    world.create::<Deployment>(deployment("web", 6, json!({}))).await;
    world.pass(5).await;
    assert_eq!(world.ready_pods().await, 6);
    let web: Deployment = world.get("web").await;
    let status = web.status.as_ref().unwrap();
    assert_eq!(
        (status.replicas, status.updated_replicas, status.available_replicas),
        (Some(6), Some(6), Some(6))
    );
    assert_eq!(status.observed_generation, web.metadata.generation);
    assert_eq!(condition(&web, "Available"), ("True", "MinimumReplicasAvailable"));
    assert_eq!(condition(&web, "Progressing"), ("True", "NewReplicaSetAvailable"));
    let mut nodes: Vec<String> =
        world.pods().await.iter().map(|pod| pod.spec.as_ref().unwrap().node_name.clone().unwrap()).collect();
    nodes.sort();
    assert_eq!(nodes, ["n1", "n1", "n2", "n2", "n3", "n3"]);
}

#[tokio::test(start_paused = true)]
async fn a_new_template_rolls_out_without_losing_too_many_pods() {
    let world = three_nodes().await;
    let slow =
        json!({"spec": {"template": {"metadata": {"annotations": {"cluster.model/ready-after": "5s"}}}}});
    world.create::<Deployment>(deployment("web", 8, slow)).await;
    world.pass(10).await;
    let change = json!({"spec": {"template": {"metadata": {"labels": {"version": "2"}}}}});
    world.patch::<Deployment>("web", change).await;
    let mut fewest = usize::MAX;
    for _ in 0..60 {
        world.pass(1).await;
        let pods = world.pods().await;
        fewest = fewest.min(pods.iter().filter(|pod| is_ready(pod)).count());
        assert!(pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()).count() <= 10);
    }
    assert!(fewest >= 6, "{fewest}");
    let new = |pod: &Pod| pod.metadata.labels.as_ref().unwrap().get("version").is_some();
    let pods = world.pods().await;
    assert_eq!((pods.len(), pods.iter().filter(|pod| new(pod)).count()), (8, 8));
    assert_eq!(sets(&world).await, [(0, "1".to_owned()), (8, "2".to_owned())]);
    let web: Deployment = world.get("web").await;
    assert_eq!(web.metadata.annotations.as_ref().unwrap()["deployment.kubernetes.io/revision"], "2");
    assert_eq!(condition(&web, "Progressing"), ("True", "NewReplicaSetAvailable"));
}

#[tokio::test(start_paused = true)]
async fn going_back_uses_the_old_set_again() {
    let world = three_nodes().await;
    world.create::<Deployment>(deployment("web", 4, json!({}))).await;
    world.pass(5).await;
    let image = |tag: &str| {
        json!({"spec": {"template": {"spec": {"containers": [
        {"name": "main", "image": format!("app:{tag}"), "resources": {"requests": {"cpu": "100m"}}}]}}}})
    };
    world.patch::<Deployment>("web", image("2")).await;
    world.pass(5).await;
    let before: Deployment = world.get("web").await;
    world.patch::<Deployment>("web", image("1")).await;
    world.pass(5).await;
    let after: Deployment = world.get("web").await;
    assert_ne!(before.spec.unwrap().template, after.spec.unwrap().template);
    assert_eq!(sets(&world).await.len(), 2, "no third set is made");
    assert_eq!(sets(&world).await.last(), Some(&(4, "3".to_owned())));
}

#[tokio::test(start_paused = true)]
async fn scaling_adds_and_removes_pods() {
    let world = three_nodes().await;
    world.create::<Deployment>(deployment("web", 2, json!({}))).await;
    world.pass(5).await;
    for size in [7, 3, 0] {
        world.patch::<Deployment>("web", json!({"spec": {"replicas": size}})).await;
        world.pass(5).await;
        assert_eq!(world.ready_pods().await, usize::try_from(size).unwrap());
    }
    let web: Deployment = world.get("web").await;
    assert_eq!(web.status.unwrap().replicas, None, "zero is left out, as Kubernetes leaves it out");
}

#[tokio::test(start_paused = true)]
async fn recreation_stops_everything_first() {
    let world = three_nodes().await;
    let recreate = json!({"spec": {"strategy": {"type": "Recreate"},
        "template": {"metadata": {"annotations": {"cluster.model/stop-after": "4s"}}}}});
    world.create::<Deployment>(deployment("web", 3, recreate)).await;
    world.pass(5).await;
    world
        .patch::<Deployment>("web", json!({"spec": {"template": {"metadata": {"labels": {"version": "2"}}}}}))
        .await;
    world.pass(2).await;
    let pods = world.pods().await;
    assert!(
        pods.iter().all(|pod| pod.metadata.deletion_timestamp.is_some()),
        "old pods stop before new ones come"
    );
    world.pass(10).await;
    assert_eq!(world.ready_pods().await, 3);
}

#[tokio::test(start_paused = true)]
async fn a_rollout_that_gets_stuck_says_so() {
    let world = three_nodes().await;
    let huge = json!({"spec": {"progressDeadlineSeconds": 60}});
    let mut object = deployment("web", 1, huge);
    object["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "64".into();
    world.create::<Deployment>(object).await;
    world.pass(50).await;
    let web: Deployment = world.get("web").await;
    assert_eq!(condition(&web, "Progressing").0, "True");
    assert_eq!(condition(&web, "Available"), ("False", "MinimumReplicasUnavailable"));
    world.pass(20).await;
    let web: Deployment = world.get("web").await;
    assert_eq!(condition(&web, "Progressing"), ("False", "ProgressDeadlineExceeded"));
}

#[tokio::test(start_paused = true)]
async fn deleting_a_deployment_takes_its_sets_and_pods_along() {
    let world = three_nodes().await;
    world.create::<Deployment>(deployment("web", 3, json!({}))).await;
    world.pass(5).await;
    world.api::<Deployment>().delete("web", &DeleteParams::background()).await.unwrap();
    world.pass(5).await;
    assert!(world.pods().await.is_empty());
    assert!(sets(&world).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_loses_its_labels_is_let_go_and_replaced() {
    let world = three_nodes().await;
    world.create::<Deployment>(deployment("web", 2, json!({}))).await;
    world.pass(5).await;
    let name = world.pods().await[0].metadata.name.clone().unwrap();
    world.patch::<Pod>(&name, json!({"metadata": {"labels": {"app": "other"}}})).await;
    world.pass(5).await;
    let pods = world.pods().await;
    assert_eq!(pods.len(), 3);
    let freed: Pod = world.get(&name).await;
    assert!(freed.metadata.owner_references.unwrap_or_default().is_empty());
    world.patch::<Pod>(&name, json!({"metadata": {"labels": {"app": "web"}}})).await;
    world.pass(5).await;
    assert_eq!(world.pods().await.len(), 2, "the pod is taken back and one too many goes");
}

#[tokio::test(start_paused = true)]
async fn history_is_kept_as_long_as_asked() {
    let world = three_nodes().await;
    world.create::<Deployment>(deployment("web", 1, json!({"spec": {"revisionHistoryLimit": 2}}))).await;
    for version in 0..5 {
        let label = json!({"spec": {"template": {"metadata": {"labels": {"version": version.to_string()}}}}});
        world.patch::<Deployment>("web", label).await;
        world.pass(10).await;
    }
    let revisions: Vec<String> = sets(&world).await.into_iter().map(|(_, revision)| revision).collect();
    assert_eq!(revisions, ["4", "5", "6"]);
}
