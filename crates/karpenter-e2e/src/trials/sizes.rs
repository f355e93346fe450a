//! How much memory and processor time the controller takes on a cluster of a given size.
//!
//! Nodes, claims and pods are written as they would be on a cluster that has been running: pods are bound when they are created, claims are ready. Nobody plays kubelet or
//! scheduler, so all that moves is the controller.

use std::str::FromStr;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, ServiceAccount};
use karpenter_api::{NodeClaim, NodePool};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Usage, wait_until};
use crate::cluster::{Cluster, pool};
use crate::controller::Controller;

/// Requests under way while the API server is filled.
const AT_A_TIME: usize = 24;
/// How long the controller is watched once it has seen everything.
const REST: Duration = Duration::from_secs(90);
/// Cores and memory of every node: what 20 of the pods below fill.
const TYPE: &str = "c-4x-amd64-linux";

/// So many nodes with so many pods on them; without nodes, pods that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    nodes: usize,
    pods: usize,
}

impl FromStr for Size {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let (nodes, pods) = text.split_once('x').context("a size is NODESxPODS, such as 1000x20000")?;
        Ok(Self { nodes: nodes.parse()?, pods: pods.parse()? })
    }
}

pub(super) async fn run(cluster: &Cluster, size: Size) -> anyhow::Result<()> {
    cluster.install_definitions().await?;
    cluster.create_class("default", "1s").await.or_else(ignore_existing)?;
    cluster.create::<NodePool>(pool()).await.or_else(ignore_existing)?;
    let accounts: Api<ServiceAccount> = Api::default_namespaced(cluster.client.clone());
    // Pods are admitted with an account, which a controller that does not run here would make.
    create(&accounts, json!({"metadata": {"name": "default"}})).await.or_else(ignore_existing)?;
    let begun = Instant::now();
    fill(cluster, size).await?;
    eprintln!("{} nodes and {} pods are there after {:.0?}", size.nodes, size.pods, begun.elapsed());
    let controller = cluster.program.start()?;
    let listed = wait_until("the controller is ready", || async { Ok(controller.is_ready().await) }).await?;
    if size.nodes == 0 {
        return backlog(cluster, &controller, size, listed).await;
    }
    let at_start = Usage::of(&controller)?;
    tokio::time::sleep(REST).await;
    let at_rest = Usage::of(&controller)?;
    println!(
        "| {} | {} | {:.1} s | {:.1} s | {:.0} MB | {:.0} MB | {:.1} % |",
        size.nodes,
        size.pods,
        listed.as_secs_f64(),
        at_start.cpu,
        at_rest.peak,
        at_rest.memory,
        (at_rest.cpu - at_start.cpu) / REST.as_secs_f64() * 100.0
    );
    Ok(())
}

/// Pods that wait become claims; the claims say how many pods each is for.
async fn backlog(
    cluster: &Cluster,
    controller: &Controller,
    size: Size,
    listed: Duration,
) -> anyhow::Result<()> {
    let begun = Instant::now();
    let first = wait_until("a claim is there", || async { Ok(carried(cluster).await?.0 > 0) }).await?;
    wait_until("claims carry the whole backlog", || async { Ok(carried(cluster).await?.1 >= size.pods) })
        .await
        .with_context(|| format!("the controller's log: {}", controller.log()))?;
    let (claims, pods) = carried(cluster).await?;
    let all = begun.elapsed();
    let usage = Usage::of(controller)?;
    println!(
        "backlog of {}: ready after {:.1} s, first claim {:.1} s later, {claims} claims for {pods} pods after {:.1} s; {:.1} s CPU, peak {:.0} MB",
        size.pods,
        listed.as_secs_f64(),
        first.as_secs_f64(),
        all.as_secs_f64(),
        usage.cpu,
        usage.peak
    );
    Ok(())
}

/// How many claims there are, and for how many pods.
async fn carried(cluster: &Cluster) -> anyhow::Result<(usize, usize)> {
    let claims = cluster.claims().await?;
    let pods = claims.iter().filter_map(|claim| {
        let requests = claim.spec.resources.as_ref()?.requests.as_ref()?;
        requests.get("pods")?.0.parse::<usize>().ok()
    });
    Ok((claims.len(), pods.sum()))
}

async fn fill(cluster: &Cluster, size: Size) -> anyhow::Result<()> {
    let (claims, nodes) = (cluster.all::<NodeClaim>(), cluster.all::<Node>());
    in_parallel(size.nodes, |index| {
        let (claims, nodes) = (claims.clone(), nodes.clone());
        async move {
            create_with_status(&nodes, node(index)).await?;
            create_with_status(&claims, claim(index)).await
        }
    })
    .await?;
    let pods = cluster.pods();
    in_parallel(size.pods, |index| {
        let pods = pods.clone();
        async move {
            if size.nodes > 0 {
                return create(&pods, pod(index, size)).await;
            }
            create_with_status(&pods, pod(index, size)).await
        }
    })
    .await
}

/// Does something so many times, a few at once.
async fn in_parallel<F>(count: usize, each: impl Fn(usize) -> F) -> anyhow::Result<()>
where
    F: Future<Output = anyhow::Result<()>>,
{
    stream::iter((0..count).map(each)).buffer_unordered(AT_A_TIME).try_collect::<Vec<()>>().await?;
    Ok(())
}

async fn create<K>(api: &Api<K>, object: Value) -> anyhow::Result<()>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    let object: K = serde_json::from_value(object)?;
    api.create(&PostParams::default(), &object).await?;
    Ok(())
}

async fn create_with_status<K>(api: &Api<K>, object: Value) -> anyhow::Result<()>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let status = Patch::Merge(json!({"status": object["status"]}));
    create(api, object).await?;
    api.patch_status(&name, &PatchParams::default(), &status).await?;
    Ok(())
}

fn labels(index: usize) -> Value {
    json!({
        "karpenter.sh/nodepool": "default",
        "karpenter.sh/registered": "true",
        "karpenter.sh/initialized": "true",
        "karpenter.sh/capacity-type": "on-demand",
        "karpenter.kwok.sh/kwoknodeclass": "default",
        "node.kubernetes.io/instance-type": TYPE,
        "topology.kubernetes.io/zone": format!("test-zone-{}", ["a", "b", "c", "d"][index % 4]),
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "kubernetes.io/hostname": format!("node-{index:05}"),
        "karpenter.kwok.sh/instance-cpu": "4",
        "karpenter.kwok.sh/instance-family": "c",
        "karpenter.kwok.sh/instance-size": "4x",
    })
}

fn resources() -> Value {
    json!({"cpu": "4", "memory": "8Gi", "pods": "110", "ephemeral-storage": "20Gi"})
}

fn conditions(types: &[&str]) -> Value {
    let now = Timestamp::now().to_string();
    let condition = |type_: &&str| json!({"type": type_, "status": "True", "reason": type_, "message": "", "lastTransitionTime": now});
    types.iter().map(condition).collect()
}

fn node(index: usize) -> Value {
    let mut status = json!({"capacity": resources(), "allocatable": resources(), "phase": "Running"});
    status["conditions"] = conditions(&["Ready"]);
    json!({
        "metadata": {"name": format!("node-{index:05}"), "labels": labels(index), "finalizers": ["karpenter.sh/termination"]},
        "spec": {"providerID": format!("kwok://node-{index:05}")},
        "status": status,
    })
}

fn claim(index: usize) -> Value {
    let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
    let requirement = |key: &str, values: Value| json!({"key": key, "operator": "In", "values": values});
    json!({
        "metadata": {"name": format!("default-{index:05}"), "labels": labels(index), "finalizers": ["karpenter.sh/termination"]},
        "spec": {
            "nodeClassRef": class,
            "requirements": [
                requirement("karpenter.sh/nodepool", json!(["default"])),
                requirement("node.kubernetes.io/instance-type", json!([TYPE, "m-4x-amd64-linux", "s-4x-amd64-linux"])),
                requirement("kubernetes.io/arch", json!(["amd64"])),
                requirement("kubernetes.io/os", json!(["linux"])),
            ],
            "resources": {"requests": {"cpu": "3", "memory": "4Gi", "pods": "20"}},
        },
        "status": {
            "providerID": format!("kwok://node-{index:05}"),
            "nodeName": format!("node-{index:05}"),
            "capacity": resources(),
            "allocatable": resources(),
            "conditions": conditions(&["Launched", "Registered", "Initialized", "Ready"]),
        },
    })
}

/// A pod as large as pods are: two containers, variables, probes, a volume.
fn pod(index: usize, size: Size) -> Value {
    let app = format!("app-{:03}", index % 200);
    let share = (3600 * size.nodes).checked_div(size.pods).filter(|share| *share > 0).unwrap_or(250);
    let container = |name: &str, cpu: usize| {
        let variables: Vec<Value> = (0..10)
            .map(|n| json!({"name": format!("SETTING_{n}"), "value": format!("value-{n}-of-{app}")}))
            .collect();
        let probe = json!({"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10});
        json!({
            "name": name, "image": format!("registry.example.com/team/{app}:1.2.3"), "env": variables,
            "resources": {"requests": {"cpu": format!("{cpu}m"), "memory": "100Mi"}, "limits": {"memory": "200Mi"}},
            "livenessProbe": probe, "readinessProbe": probe,
            "volumeMounts": [{"name": "settings", "mountPath": "/etc/settings"}],
        })
    };
    let mut spec = json!({
        "containers": [container("main", share - share / 5), container("sidecar", share / 5)],
        "volumes": [{"name": "settings", "configMap": {"name": app}}],
        "terminationGracePeriodSeconds": 30,
    });
    if size.nodes > 0 {
        spec["nodeName"] = format!("node-{:05}", index % size.nodes).into();
    }
    let controller = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": format!("00000000-0000-0000-0000-{:012}", index % 200), "controller": true});
    json!({
        "metadata": {
            "name": format!("{app}-{index:06}"),
            "labels": {"app": app, "pod-template-hash": "5d4f8c7b9", "team": format!("team-{}", index % 20)},
            "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "8080"},
            "ownerReferences": [controller],
        },
        "spec": spec,
        "status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node"}]},
    })
}

fn ignore_existing(error: anyhow::Error) -> anyhow::Result<()> {
    let exists = matches!(error.downcast_ref(), Some(kube::Error::Api(status)) if status.code == 409);
    if exists { Ok(()) } else { Err(error) }
}
