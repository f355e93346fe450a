//! The same seed is the same bytes, and a cluster at rest writes nothing.

use std::sync::{Arc, Mutex};

use futures::StreamExt as _;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use karpenter_models::ModelsConfig;
use kube::api::{Patch, PatchParams, WatchEvent, WatchParams};
use kube::{Api, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::deployments::deployment;
use crate::world::World;

type Log = Arc<Mutex<Vec<String>>>;

/// Writes every change of a kind down as the server tells it.
async fn follow<K>(world: &World, log: &Log)
where
    K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + std::fmt::Debug + Send + 'static,
{
    let api: Api<K> = Api::all(world.client.clone());
    let mut changes = api.watch(&WatchParams::default(), "0").await.unwrap().boxed();
    let log = Arc::clone(log);
    tokio::spawn(async move {
        while let Some(Ok(change)) = changes.next().await {
            let (verb, object) = match change {
                WatchEvent::Added(object) => ("added", object),
                WatchEvent::Modified(object) => ("modified", object),
                WatchEvent::Deleted(object) => ("deleted", object),
                WatchEvent::Bookmark(_) | WatchEvent::Error(_) => continue,
            };
            log.lock().unwrap().push(format!("{verb} {}", serde_json::to_string(&object).unwrap()));
        }
    });
}

/// Plays a quarter of an hour of a busy cluster and returns everything that was seen.
async fn play(seed: u64) -> Vec<String> {
    let world = World::seeded(seed, ModelsConfig::default());
    let log = Log::default();
    follow::<Pod>(&world, &log).await;
    follow::<Node>(&world, &log).await;
    follow::<ReplicaSet>(&world, &log).await;
    follow::<Deployment>(&world, &log).await;
    follow::<Event>(&world, &log).await;
    for index in 0..5 {
        world.add_node(&format!("n{index}"), ["a", "b", "c"][index % 3], json!({})).await;
    }
    world.create::<Deployment>(deployment("web", 10, json!({}))).await;
    world.create::<DaemonSet>(json!({"metadata": {"name": "agent"}, "spec": {"selector": {"matchLabels": {"app": "agent"}},
        "template": {"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [{"name": "c", "image": "a"}]}}}})).await;
    world.create::<StatefulSet>(json!({"metadata": {"name": "db"}, "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "db"}},
        "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "c", "image": "a"}]}}}})).await;
    world
        .create::<Job>(
            json!({"metadata": {"name": "sum"}, "spec": {"parallelism": 2, "completions": 6, "template": {
        "metadata": {"annotations": {"cluster.model/run-for": "30s"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "a"}]}}}}),
        )
        .await;
    world.pass(60).await;
    world
        .patch::<Deployment>("web", json!({"spec": {"template": {"metadata": {"labels": {"version": "2"}}}}}))
        .await;
    world.pass(60).await;
    let silence = json!({"metadata": {"annotations": {"cluster.model/kubelet": "unreachable"}}});
    world.cluster_api::<Node>().patch("n1", &PatchParams::default(), &Patch::Merge(silence)).await.unwrap();
    world.pass(600).await;
    world.patch::<Deployment>("web", json!({"spec": {"replicas": 3}})).await;
    world.pass(120).await;
    let log = log.lock().unwrap();
    log.clone()
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let run = |seed: u64| {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(play(seed))
    };
    let (first, second, other) = (run(1), run(1), run(2));
    assert!(first.len() > 300, "{}", first.len());
    for (one, same) in first.iter().zip(&second) {
        assert_eq!(one, same);
    }
    assert_eq!(first.len(), second.len());
    assert_ne!(first, other);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_at_rest_writes_nothing_but_heartbeats() {
    let world = World::start(ModelsConfig::default());
    for name in ["n1", "n2"] {
        world.add_node(name, "a", json!({})).await;
    }
    world.create::<Deployment>(deployment("web", 6, json!({}))).await;
    let mut huge = deployment("huge", 2, json!({}));
    huge["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "64".into();
    world.create::<Deployment>(huge).await;
    world.create::<StatefulSet>(json!({"metadata": {"name": "db"}, "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "db"}},
        "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "c", "image": "a"}]}}}})).await;
    world.create::<DaemonSet>(json!({"metadata": {"name": "agent"}, "spec": {"selector": {"matchLabels": {"app": "agent"}},
        "template": {"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [{"name": "c", "image": "a"}]}}}})).await;
    world
        .create::<Job>(json!({"metadata": {"name": "later"}, "spec": {"suspend": true, "template": {
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "a"}]}}}}))
        .await;
    world.pass(1200).await;
    let before = world.server.resource_version();
    world.pass(3600).await;
    let written = world.server.resource_version() - before;
    assert!(
        written <= 2 * 13,
        "{written} writes in an hour; two nodes renew their leases every five minutes"
    );
}
