//! The whole cluster in simulated time: pods get nodes soon, and the same seed is the same run.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use karpenter_api::Provider;
use karpenter_api::options::FeatureGates;
use karpenter_apiserver::{ApiServer, Options};
use karpenter_controllers::Computing;
use karpenter_environment::{Environment, SimulatedEnvironment};
use karpenter_local::{Cloud, Cluster, Pools, Simulation, install, simulate};
use karpenter_models::ModelsConfig;
use karpenter_models::config::SchedulerConfig;
use karpenter_simcloud::Plenty;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::sync::watch;

/// Bytes that outlive whoever wrote them.
#[derive(Clone, Default)]
struct Bytes(Arc<Mutex<Vec<u8>>>);

impl Write for Bytes {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn demo(seed: u64) -> (Vec<u8>, karpenter_local::Summary) {
    let bytes = Bytes::default();
    let simulation =
        Simulation { seed, lasting: Duration::from_mins(20), boot_time: "20s".to_owned(), cloud: None };
    let summary = simulate(&simulation, bytes.clone()).unwrap();
    let written = bytes.0.lock().unwrap().clone();
    (written, summary)
}

#[test]
fn the_same_seed_is_the_same_run_byte_for_byte() {
    let (first, summary) = demo(1);
    let (second, _) = demo(1);
    assert!(first == second, "two runs of one seed differ");
    assert_ne!(first, demo(2).0, "another seed is another run");
    assert_eq!(summary.waiting, 0, "every pod has a node");
    assert_eq!(summary.nodes, summary.nodeclaims, "no machine is left over");
}

/// Starts a cluster whose machines take 20 s to boot; it stops when the sender is dropped.
async fn start(models: ModelsConfig) -> (Client, watch::Sender<bool>) {
    let environment: Arc<dyn Environment> =
        Arc::new(SimulatedEnvironment::new(1, "2026-01-01T00:00:00Z".parse().unwrap()));
    let server = ApiServer::new(Options { environment: environment.clone(), ..Options::default() });
    let client = Client::new(server.clone(), "default");
    tokio::spawn(async move { server.run_collector().await });
    install(&client, Provider::Kwok, "20s", Pools::Default).await.unwrap();
    let (stopping, stop) = watch::channel(false);
    let cluster = Cluster {
        client: client.clone(),
        environment: environment.clone(),
        cloud: Cloud::kwok(client.clone(), environment.clone(), Arc::new(Plenty)),
        models,
        computing: Computing::InPlace,
        gates: FeatureGates::default(),
        karpenter: true,
    };
    cluster.start(stop).await.unwrap();
    (client, stopping)
}

#[tokio::test(start_paused = true)]
async fn planning_knows_the_default_constraints_of_the_scheduler() {
    let by_host = json!([{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"}]);
    let mut scheduler = SchedulerConfig::default();
    scheduler.profiles[0].default_constraints = Some(serde_json::from_value(by_host).unwrap());
    let models = ModelsConfig { scheduler: Some(scheduler), ..ModelsConfig::default() };
    let (client, _stopping) = start(models).await;
    let web: Deployment = serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": "app", "resources": {"requests": {"cpu": "1"}}}]},
            },
        },
    }))
    .unwrap();
    Api::<Deployment>::namespaced(client.clone(), "default")
        .create(&PostParams::default(), &web)
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_mins(2)).await;
    let pods = Api::<Pod>::namespaced(client, "default").list(&ListParams::default()).await.unwrap().items;
    let nodes: BTreeSet<&String> =
        pods.iter().filter_map(|pod| pod.spec.as_ref()?.node_name.as_ref()).collect();
    assert_eq!((pods.len(), nodes.len()), (3, 3), "each pod has a node of its own");
}

/// How long a pod takes from its creation until it runs.
#[tokio::test(start_paused = true)]
async fn a_pod_runs_within_thirty_seconds_ninety_nine_times_in_a_hundred() {
    let (client, _stopping) = start(ModelsConfig::default()).await;
    let pods: Api<Pod> = Api::namespaced(client, "default");
    let mut trials = tokio::task::JoinSet::new();
    for trial in 0..100 {
        // Each needs a node of its own, and they come at all phases of everybody's timers.
        tokio::time::sleep(Duration::from_millis(2_310 + 37 * trial)).await;
        trials.spawn(until_running(pods.clone(), format!("trial-{trial}")));
    }
    let mut took = trials.join_all().await;
    took.sort_unstable();
    assert!(took[98] <= Duration::from_secs(30), "the 99th of 100 took {:?}", took[98]);
}

async fn until_running(pods: Api<Pod>, name: String) -> Duration {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "app", "resources": {"requests": {"cpu": "200"}}}]},
    }))
    .unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();
    let created = tokio::time::Instant::now();
    loop {
        let phase = pods.get(&name).await.unwrap().status.and_then(|status| status.phase);
        if phase.as_deref() == Some("Running") {
            return created.elapsed();
        }
        assert!(created.elapsed() < Duration::from_mins(10), "{name} never ran");
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}
