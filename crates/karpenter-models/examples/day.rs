//! How long a simulated day of a busy cluster takes: nodes, deployments that grow and shrink every ten minutes, and a cron
//! job, on an API server in this process.
//!
//! `cargo run --release -p karpenter-models --example day -- NODES PODS HOURS HEARTBEAT_SECONDS`
#![allow(clippy::print_stdout, reason = "a program for people to read")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::CronJob;
use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter_apiserver::{ApiServer, Options};
use karpenter_environment::SimulatedEnvironment;
use karpenter_models::config::{EventDetail, KubeletConfig};
use karpenter_models::{Models, ModelsConfig};
use karpenter_runtime::Runtime;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

const DEPLOYMENTS: usize = 20;
const STEP: Duration = Duration::from_mins(10);

struct Load {
    nodes: usize,
    pods: usize,
    hours: u64,
    heartbeat: Duration,
}

fn main() {
    let arguments: Vec<u64> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let number = |place: usize, default: u64| arguments.get(place).copied().unwrap_or(default);
    let count = |place: usize, default: u64| usize::try_from(number(place, default)).unwrap_or(usize::MAX);
    let load = Load {
        nodes: count(0, 100),
        pods: count(1, 500),
        hours: number(2, 24),
        heartbeat: Duration::from_secs(number(3, KubeletConfig::default().heartbeat.as_secs())),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime starts");
    runtime.block_on(live(&load));
}

async fn live(load: &Load) {
    let start: Timestamp = "2030-01-01T00:00:00Z".parse().expect("a time");
    let environment = Arc::new(SimulatedEnvironment::new(1, start));
    let server = ApiServer::new(Options { environment: environment.clone(), ..Options::default() });
    let client = Client::new(server.clone(), "default");
    let mut runtime = Runtime::new(client.clone(), environment);
    let kubelets = KubeletConfig { heartbeat: load.heartbeat, ..KubeletConfig::default() };
    let config =
        ModelsConfig { kubelets: Some(kubelets), events: EventDetail::Warnings, ..ModelsConfig::default() };
    Models::new(config).add_to(&mut runtime);
    let collector = server.clone();
    tokio::spawn(async move { collector.run_collector().await });
    tokio::spawn(runtime.run(std::future::pending()));
    let begun = Instant::now();
    create(&client, load).await;
    tokio::time::sleep(STEP).await;
    println!("cluster up after {:.2?}, {} writes", begun.elapsed(), server.resource_version());
    let (begun, before) = (Instant::now(), server.resource_version());
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    let mut changed = 0;
    for step in 0..load.hours * 6 {
        let name = format!("app-{}", step % DEPLOYMENTS as u64);
        let usual = load.pods / DEPLOYMENTS;
        let replicas = if (step / DEPLOYMENTS as u64).is_multiple_of(2) { usual * 2 } else { usual / 2 };
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        deployments.patch(&name, &PatchParams::default(), &patch).await.expect("a deployment is scaled");
        tokio::time::sleep(STEP).await;
        changed += replicas.abs_diff(usual);
    }
    let pods: Api<Pod> = Api::default_namespaced(client);
    let running = pods.list(&ListParams::default()).await.expect("pods are listed").items.len();
    println!(
        "{} hours with {} nodes, heartbeats every {:?}: {:.2?}, {} writes, {changed} pods came or went, {running} at the end",
        load.hours,
        load.nodes,
        load.heartbeat,
        begun.elapsed(),
        server.resource_version() - before,
    );
}

async fn create(client: &Client, load: &Load) {
    let nodes: Api<Node> = Api::all(client.clone());
    for index in 0..load.nodes {
        let name = format!("node-{index}");
        let room = json!({"cpu": "16", "memory": "64Gi", "pods": "110"});
        let node = json!({"metadata": {"name": name, "labels": {
            "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": format!("zone-{}", index % 3),
        }}, "status": {"capacity": room, "allocatable": room}});
        nodes.create(&PostParams::default(), &read(node)).await.expect("a node is created");
    }
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    for index in 0..DEPLOYMENTS {
        let name = format!("app-{index}");
        let requests = json!({"cpu": "200m", "memory": "256Mi"});
        let deployment = json!({"metadata": {"name": name}, "spec": {"replicas": load.pods / DEPLOYMENTS,
            "selector": {"matchLabels": {"app": name}}, "template": {"metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "main", "image": "app", "resources": {"requests": requests}}]}}}});
        deployments.create(&PostParams::default(), &read(deployment)).await.expect("a deployment is created");
    }
    let jobs: Api<CronJob> = Api::default_namespaced(client.clone());
    let template = json!({"metadata": {"annotations": {"cluster.model/run-for": "60s"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "app"}]}});
    let job = json!({"metadata": {"name": "tick"}, "spec": {"schedule": "*/10 * * * *",
        "jobTemplate": {"spec": {"parallelism": 5, "completions": 5, "template": template}}}});
    jobs.create(&PostParams::default(), &read(job)).await.expect("a cron job is created");
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("the object is written in the API's own fields")
}
