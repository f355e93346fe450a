//! How long the scheduler model takes: in memory alone, and with all models on an API server in this process.
//!
//! `cargo run --release -p karpenter-models --example measure -- NODES PODS DEPLOYMENTS [engine|cluster]`
#![allow(clippy::print_stdout, reason = "a program for people to read")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter_apiserver::{ApiServer, Options};
use karpenter_environment::SystemEnvironment;
use karpenter_models::config::{EventDetail, SchedulerConfig};
use karpenter_models::scheduler::{Decision, Scheduler};
use karpenter_models::{Models, ModelsConfig};
use karpenter_runtime::Runtime;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |place: usize, default: usize| {
        arguments.get(place).and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let (nodes, pods, deployments) = (number(0, 1000), number(1, 10_000), number(2, 100));
    println!("{nodes} nodes, {pods} pods of {deployments} deployments");
    let part = arguments.get(3).map_or("both", String::as_str);
    if part != "cluster" {
        measure_engine(nodes, pods, deployments);
    }
    if part != "engine" {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime starts");
        runtime.block_on(measure_cluster(nodes, pods, deployments));
    }
    println!("peak resident size {} MiB, {:.2} seconds of processor time", peak_mib(), processor_seconds());
}

/// Decides about pods that are only objects in memory.
fn measure_engine(nodes: usize, pods: usize, deployments: usize) {
    let nodes: Vec<Node> = (0..nodes).map(|index| read(node(index))).collect();
    let pods: Vec<Pod> = (0..pods).map(|index| read(pod(index, index % deployments))).collect();
    let start = Instant::now();
    let mut scheduler = Scheduler::new(SchedulerConfig::default());
    for node in &nodes {
        scheduler.cluster_mut().set_node(node);
    }
    for pod in &pods {
        scheduler.set_pod(pod);
    }
    let entered = start.elapsed();
    let mut bound = 0;
    while scheduler.has_work() {
        let decisions = scheduler.decide(Timestamp::UNIX_EPOCH, 500);
        bound += decisions.iter().filter(|decision| matches!(decision, Decision::Bind { .. })).count();
    }
    println!(
        "engine: objects taken in after {entered:.2?}, {bound} pods placed after {:.2?}",
        start.elapsed()
    );
}

/// Runs deployments on an API server with all models, until every pod runs.
async fn measure_cluster(nodes: usize, pods: usize, deployments: usize) {
    let environment = Arc::new(SystemEnvironment);
    let options = Options { environment: environment.clone(), history_limit: 100_000, ..Options::default() };
    let server = ApiServer::new(options);
    let client = Client::new(server.clone(), "default");
    let mut runtime = Runtime::new(client.clone(), environment);
    Models::new(ModelsConfig { events: EventDetail::Warnings, ..ModelsConfig::default() })
        .add_to(&mut runtime);
    let collector = server.clone();
    tokio::spawn(async move { collector.run_collector().await });
    tokio::spawn(runtime.run(std::future::pending()));
    let start = Instant::now();
    let api: Api<Node> = Api::all(client.clone());
    for index in 0..nodes {
        api.create(&PostParams::default(), &read(node(index))).await.expect("a node is created");
    }
    println!("cluster: nodes created after {:.2?}", start.elapsed());
    let api: Api<Deployment> = Api::default_namespaced(client.clone());
    for index in 0..deployments {
        let replicas = pods / deployments + usize::from(index < pods % deployments);
        let object = json!({"metadata": {"name": format!("app-{index}")}, "spec": {"replicas": replicas,
            "selector": {"matchLabels": {"app": format!("app-{index}")}}, "template": template(index)}});
        api.create(&PostParams::default(), &read(object)).await.expect("a deployment is created");
    }
    let created = Instant::now();
    let mut all_bound = None;
    let api: Api<Deployment> = Api::default_namespaced(client.clone());
    let pod_api: Api<Pod> = Api::default_namespaced(client);
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let unbound = pod_api
            .list_metadata(&ListParams::default().fields("spec.nodeName="))
            .await
            .expect("pods are listed");
        let list = api.list(&ListParams::default()).await.expect("deployments are listed");
        let available: i32 =
            list.items.iter().filter_map(|item| item.status.as_ref()?.available_replicas).sum();
        let existing: i32 = list.items.iter().filter_map(|item| item.status.as_ref()?.replicas).sum();
        if all_bound.is_none() && unbound.items.is_empty() && usize::try_from(existing) == Ok(pods) {
            all_bound = Some(created.elapsed());
        }
        if usize::try_from(available) == Ok(pods) {
            break;
        }
    }
    let bound = all_bound.unwrap_or_else(|| created.elapsed());
    println!("cluster: all pods bound after {bound:.2?}, available after {:.2?}", created.elapsed());
}

fn node(index: usize) -> Value {
    let name = format!("node-{index}");
    let room = json!({"cpu": "16", "memory": "64Gi", "pods": "110"});
    json!({"metadata": {"name": name, "labels": {
        "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": format!("zone-{}", index % 3),
    }}, "status": {"capacity": room, "allocatable": room}})
}

fn template(app: usize) -> Value {
    let labels = json!({"app": format!("app-{app}")});
    let requests = json!({"cpu": format!("{}m", 100 + 50 * (app % 5)), "memory": "256Mi"});
    let mut spec =
        json!({"containers": [{"name": "main", "image": "app", "resources": {"requests": requests}}]});
    // Every fourth application is spread over zones.
    if app.is_multiple_of(4) {
        spec["topologySpreadConstraints"] = json!([{"topologyKey": "topology.kubernetes.io/zone", "maxSkew": 1,
            "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": labels}}]);
    }
    json!({"metadata": {"labels": labels}, "spec": spec})
}

fn pod(index: usize, app: usize) -> Value {
    let mut pod = template(app);
    pod["metadata"]["name"] = format!("pod-{index}").into();
    pod["metadata"]["namespace"] = "default".into();
    pod["metadata"]["uid"] = format!("uid-{index}").into();
    pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "controller": true,
        "name": format!("app-{app}"), "uid": format!("set-{app}")}]);
    pod
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("the object is written in the API's own fields")
}

fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib: u64 = peak.and_then(|text| text.split_whitespace().next()?.parse().ok()).unwrap_or(0);
    kib / 1024
}

/// Processor time of this process so far.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // After the program's name: user and system time are the twelfth and thirteenth fields, in hundredths.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / 100.0
}
