//! A Deployment of 1,000 pods is scaled to 100, under upstream's controller and under ours: who has the nodes gone sooner, at what price, with how many pods evicted?
//!
//! What is counted comes from a watch of the API that shares nothing with either controller.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use karpenter_api::NodePool;
use karpenter_api::labels::{CAPACITY_TYPE, INSTANCE_TYPE, ZONE};
use karpenter_environment::{Environment, SystemEnvironment};
use karpenter_observer::{History, Observer};
use serde_json::{Value, json};

use super::{Usage, read_all, start_upstream, wait_until};
use crate::cluster::{Cluster, pool};
use crate::controller::Controller;

const PODS: u32 = 1_000;
const LEFT: u32 = 100;
const CONSOLIDATE_AFTER: [&str; 2] = ["0s", "30s"];
/// Nobody is done before no node has come or gone for so long: upstream looks twice, 15 seconds apart, and waits between its looks.
const QUIET: Duration = Duration::from_secs(75);
/// How long anybody may take to come to rest.
const PATIENCE: Duration = Duration::from_mins(10);

/// How a controller came to rest.
struct Rest {
    nodes_before: usize,
    nodes: usize,
    price: f64,
    first_gone: Duration,
    settled: Duration,
    evictions: usize,
    cpu: f64,
}

pub(super) async fn run(cluster: &Cluster, upstream: &Path, definitions: &[PathBuf]) -> anyhow::Result<()> {
    let definitions = read_all(definitions)?;
    println!(
        "| consolidateAfter | controller | nodes | $/h after | first node gone | settled | evictions | CPU |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let mut worse = Vec::new();
    for after in CONSOLIDATE_AFTER {
        cluster.install(&definitions).await?;
        let theirs = trial(cluster, after, start_upstream(cluster, upstream).await?).await?;
        print(after, "upstream", &theirs);
        cluster.install_definitions().await?;
        let ours = trial(cluster, after, cluster.start().await?).await?;
        print(after, "ours", &ours);
        worse.extend(complaints(after, &ours, &theirs));
    }
    ensure!(worse.is_empty(), "{}", worse.join("; "));
    Ok(())
}

fn print(after: &str, who: &str, rest: &Rest) {
    println!(
        "| {after} | {who} | {} → {} | {:.4} | {:.1} s | {:.1} s | {} | {:.1} s |",
        rest.nodes_before,
        rest.nodes,
        rest.price,
        rest.first_gone.as_secs_f64(),
        rest.settled.as_secs_f64(),
        rest.evictions,
        rest.cpu
    );
}

/// What ours does worse, time aside: that depends on the machine.
fn complaints(after: &str, ours: &Rest, theirs: &Rest) -> Vec<String> {
    let mut complaints = Vec::new();
    if ours.price > theirs.price + 1e-9 {
        complaints.push(format!("with {after} ours is left with dearer nodes"));
    }
    if ours.evictions > theirs.evictions {
        complaints.push(format!("with {after} ours evicts more pods"));
    }
    complaints
}

async fn trial(cluster: &Cluster, after: &str, controller: Controller) -> anyhow::Result<Rest> {
    cluster.clear().await?;
    cluster.create_class("default", "0s").await?;
    cluster.create::<NodePool>(underutilized_pool(after)).await?;
    cluster.deploy("web", PODS, "1").await?;
    wait_until("all pods run", || running(cluster, PODS)).await?;
    at_rest(cluster).await.context("before the pods go")?;
    let nodes_before = cluster.nodes().await?.len();

    let environment: Arc<dyn Environment> = Arc::new(SystemEnvironment);
    let observer = Observer::begin(&cluster.client, &environment, SignedDuration::ZERO);
    let used = Usage::of(&controller)?.cpu;
    let scaled = Timestamp::now();
    cluster.scale("web", LEFT).await?;
    wait_until("the pods are gone", || running(cluster, LEFT)).await?;
    at_rest(cluster).await?;
    let history = observer.history();
    let nodes = cluster.nodes().await?;
    let (first_gone, settled) = first_and_last(&history, scaled)?;
    let rest = Rest {
        nodes_before,
        nodes: nodes.len(),
        price: price(&nodes)?,
        first_gone,
        settled,
        evictions: history.evictions(),
        cpu: Usage::of(&controller)?.cpu - used,
    };
    ensure!(running(cluster, LEFT).await?, "not all pods run");
    controller.end().await?;
    Ok(rest)
}

fn underutilized_pool(after: &str) -> Value {
    let mut pool = pool();
    pool["spec"]["disruption"] = json!({
        "consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": after, "budgets": [{"nodes": "100%"}],
    });
    let requirements = &mut pool["spec"]["template"]["spec"]["requirements"];
    if let Some(requirements) = requirements.as_array_mut() {
        requirements.push(json!({"key": CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]}));
    }
    pool
}

async fn running(cluster: &Cluster, count: u32) -> anyhow::Result<bool> {
    let web = cluster.deployments().get("web").await?;
    let status = web.status.unwrap_or_default();
    let wanted = i32::try_from(count).ok();
    Ok(status.ready_replicas == wanted && status.replicas == wanted)
}

/// Waits until the same nodes have been there for a while.
async fn at_rest(cluster: &Cluster) -> anyhow::Result<()> {
    let begun = Instant::now();
    let mut known = Vec::new();
    let mut since = Instant::now();
    while since.elapsed() < QUIET {
        if begun.elapsed() > PATIENCE {
            bail!("the nodes never come to rest");
        }
        let mut names: Vec<Option<String>> =
            cluster.nodes().await?.into_iter().map(|node| node.metadata.name).collect();
        names.sort_unstable();
        if names != known {
            known = names;
            since = Instant::now();
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    Ok(())
}

/// When the first node was gone and when the last one came or went, counted from a moment.
fn first_and_last(history: &History, from: Timestamp) -> anyhow::Result<(Duration, Duration)> {
    let mut known = BTreeSet::new();
    let (mut first_gone, mut last) = (None, None);
    for seen in history.seen().iter().filter(|seen| seen.kind == "Node") {
        let came = known.insert(seen.object["metadata"]["uid"].to_string()) && is_new(&seen.object, from);
        if seen.gone {
            first_gone = first_gone.or(Some(seen.at));
        }
        if seen.gone || came {
            last = Some(seen.at);
        }
    }
    let since = |at: Option<Timestamp>| -> anyhow::Result<Duration> {
        let at = at.context("no node has gone")?;
        Ok(Duration::try_from(at.duration_since(from)).unwrap_or_default())
    };
    Ok((since(first_gone)?, since(last)?))
}

fn is_new(node: &Value, from: Timestamp) -> bool {
    let created = node["metadata"]["creationTimestamp"].as_str().and_then(|text| text.parse().ok());
    created.is_some_and(|created: Timestamp| created > from)
}

/// What the nodes cost per hour by the provider's list.
fn price(nodes: &[Node]) -> anyhow::Result<f64> {
    let catalogue = karpenter_kwok::generated_instance_types();
    let of = |node: &Node| -> Option<f64> {
        let labels = node.metadata.labels.as_ref()?;
        let known = catalogue
            .iter()
            .find(|known| Some(&*known.name) == labels.get(INSTANCE_TYPE).map(String::as_str))?;
        let offering = known.offerings.iter().find(|offering| {
            [ZONE, CAPACITY_TYPE].into_iter().all(|key| {
                let value = offering.requirements.get(key).and_then(|set| set.single());
                value.map(|value| &**value) == labels.get(key).map(String::as_str)
            })
        })?;
        Some(offering.price)
    };
    let prices: Option<Vec<f64>> = nodes.iter().map(of).collect();
    Ok(prices.context("a node is of no type that the provider sells")?.into_iter().sum())
}
