//! The scheduler's profiles: whose pods are placed, and which spread constraints they get.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Event, Service};
use karpenter_models::ModelsConfig;
use karpenter_models::config::{SchedulerConfig, SchedulerProfile};
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value, json};

use crate::objects::read;
use crate::world::World;

const SPREADING: &str = "topology-spread-defaults";

/// A cluster with a node that has room and one that has none, whose second profile spreads by host name: of pods that are to be
/// spread only one finds a place.
async fn world() -> World {
    let profile = |name: &str, default_constraints: Option<Value>| SchedulerProfile {
        scheduler_name: name.to_owned(),
        default_constraints: default_constraints.map(read),
    };
    let by_host = json!([{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"}]);
    let scheduler = SchedulerConfig {
        profiles: vec![profile("default-scheduler", None), profile(SPREADING, Some(by_host))],
    };
    let world = World::start(ModelsConfig { scheduler: Some(scheduler), ..ModelsConfig::default() });
    world.add_node("roomy", "z", json!({})).await;
    world.add_node("full", "z", json!({})).await;
    world.add_pod("filler", "4", json!({"spec": {"nodeName": "full"}})).await;
    world.pass(5).await;
    world
}

async fn add_deployment(world: &World, scheduler: &str, constraints: Value) {
    let requests = json!({"requests": {"cpu": "100m"}});
    world
        .create::<Deployment>(json!({
            "metadata": {"name": "web"},
            "spec": {
                "replicas": 3,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {
                        "schedulerName": scheduler,
                        "topologySpreadConstraints": constraints,
                        "containers": [{"name": "main", "image": "app", "resources": requests}],
                    },
                },
            },
        }))
        .await;
    world.pass(5).await;
}

async fn add_bare_pods(world: &World) {
    for name in ["a", "b", "c"] {
        let extra = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"schedulerName": SPREADING}});
        world.add_pod(name, "100m", extra).await;
    }
    world.pass(5).await;
}

async fn count_on_roomy(world: &World) -> usize {
    world.pod_lines().await.iter().filter(|line| line.ends_with("roomy")).count()
}

#[tokio::test(start_paused = true)]
async fn a_profile_with_default_constraints_spreads_the_pods_of_a_set() {
    let world = world().await;
    add_deployment(&world, SPREADING, json!([])).await;
    assert_eq!(count_on_roomy(&world).await, 1);
    let events = world.api::<Event>().list(&ListParams::default()).await.unwrap().items;
    let mut refusals =
        events.iter().filter(|event| event.reason.as_deref() == Some("FailedScheduling")).peekable();
    assert!(refusals.peek().is_some());
    assert!(refusals.all(|event| event.reporting_component.as_deref() == Some(SPREADING)));
}

#[tokio::test(start_paused = true)]
async fn other_profiles_and_constraints_of_their_own_keep_pods_from_default_constraints() {
    let own = json!([{"maxSkew": 5, "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "web"}}}]);
    for (scheduler, constraints) in [("default-scheduler", json!([])), (SPREADING, own)] {
        let world = world().await;
        add_deployment(&world, scheduler, constraints).await;
        assert_eq!(count_on_roomy(&world).await, 3, "{scheduler}");
    }
}

#[tokio::test(start_paused = true)]
async fn pods_that_nobody_selects_are_not_spread() {
    let world = world().await;
    add_bare_pods(&world).await;
    assert_eq!(count_on_roomy(&world).await, 3);
}

#[tokio::test(start_paused = true)]
async fn pods_are_spread_for_as_long_as_a_service_selects_them() {
    let world = world().await;
    let service =
        json!({"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
    world.create::<Service>(service).await;
    add_bare_pods(&world).await;
    assert_eq!(count_on_roomy(&world).await, 1);
    world.api::<Service>().delete("web", &DeleteParams::default()).await.unwrap();
    world.pass(5).await;
    assert_eq!(count_on_roomy(&world).await, 3);
}

#[tokio::test(start_paused = true)]
async fn pods_of_an_unknown_scheduler_hear_nothing() {
    let world = world().await;
    world.add_pod("foreign", "100m", json!({"spec": {"schedulerName": "other"}})).await;
    world.pass(600).await;
    let pod = world.get::<k8s_openapi::api::core::v1::Pod>("foreign").await;
    let conditions = pod.status.and_then(|status| status.conditions).unwrap_or_default();
    assert_eq!((pod.spec.unwrap().node_name, conditions), (None, Vec::new()));
}
