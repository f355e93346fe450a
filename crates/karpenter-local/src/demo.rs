//! The demo's workloads: waves of Airflow tasks, a Trino cluster that grows and shrinks, notebooks that come with the working day.

use std::collections::BTreeMap;
use std::f64::consts::TAU;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use karpenter_environment::Environment;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;

/// How often the demand is looked at.
const TICK: Duration = Duration::from_secs(30);

/// A workload of the demo.
struct Workload {
    name: &'static str,
    node_pool: &'static str,
    cpu: &'static str,
    memory: &'static str,
    /// How many pods are wanted this many seconds after the beginning.
    demand: fn(u64) -> i32,
}

const WORKLOADS: [Workload; 4] = [
    Workload { name: "airflow-tasks", node_pool: "airflow-worker", cpu: "2", memory: "4Gi", demand: tasks },
    Workload {
        name: "trino-coordinator",
        node_pool: "trino-xsmall",
        cpu: "2",
        memory: "12Gi",
        demand: |_| 1,
    },
    Workload {
        name: "trino-workers",
        node_pool: "trino-xsmall",
        cpu: "3500m",
        memory: "26Gi",
        demand: workers,
    },
    Workload {
        name: "jupyter-notebooks",
        node_pool: "jupyterhub-small",
        cpu: "700m",
        memory: "1Gi",
        demand: notebooks,
    },
];

/// A wave of tasks every quarter of an hour, gone after five minutes; every fourth is a large one.
fn tasks(second: u64) -> i32 {
    let (wave, within) = (second / 900, second % 900);
    match (within < 300, wave % 4) {
        (false, _) => 0,
        (true, 0) => 40,
        (true, _) => 12,
    }
}

/// Queries come in blocks of two hours.
fn workers(second: u64) -> i32 {
    [3, 6, 2, 8, 4, 1][usize::try_from(second / 7200 % 6).unwrap_or_default()]
}

/// Few at night, many at noon.
fn notebooks(second: u64) -> i32 {
    let day = (second % 86_400) as f64 / 86_400.0;
    // Counted from midnight; the demo begins at nine.
    let height = (1.0 - (TAU * (day + 0.375)).cos()) / 2.0;
    (4.0 + 26.0 * height).round() as i32
}

/// Plays the workloads until it is dropped.
///
/// # Errors
///
/// If the API server refuses a workload.
pub async fn play(client: Client, environment: Arc<dyn Environment>) -> anyhow::Result<()> {
    let deployments: Api<Deployment> = Api::namespaced(client, "default");
    let begun = environment.now();
    let mut wanted: BTreeMap<&str, i32> = BTreeMap::new();
    loop {
        let second = elapsed(begun, environment.now());
        for workload in &WORKLOADS {
            let replicas = (workload.demand)(second);
            if wanted.insert(workload.name, replicas) != Some(replicas) {
                scale(&deployments, workload, replicas)
                    .await
                    .with_context(|| format!("scaling {}", workload.name))?;
            }
        }
        tokio::time::sleep(TICK).await;
    }
}

fn elapsed(begun: Timestamp, now: Timestamp) -> u64 {
    u64::try_from(now.duration_since(begun).as_secs()).unwrap_or_default()
}

async fn scale(deployments: &Api<Deployment>, workload: &Workload, replicas: i32) -> anyhow::Result<()> {
    let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
    match deployments.patch_scale(workload.name, &PatchParams::default(), &patch).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => {
            deployments.create(&PostParams::default(), &deployment(workload, replicas)?).await?;
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

fn deployment(workload: &Workload, replicas: i32) -> anyhow::Result<Deployment> {
    let labels = json!({"app": workload.name});
    let requests = json!({"cpu": workload.cpu, "memory": workload.memory});
    Ok(serde_json::from_value(json!({
        "metadata": {"name": workload.name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "nodeSelector": {"karpenter.sh/nodepool": workload.node_pool},
                    "tolerations": [{"key": workload.node_pool, "operator": "Exists"}],
                    "containers": [{"name": "main", "image": workload.name, "resources": {"requests": requests}}],
                },
            },
        },
    }))?)
}
