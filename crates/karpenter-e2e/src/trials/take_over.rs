//! A cluster that upstream's controller runs is shadowed, taken over, and handed back: no node is replaced by that, nor meant to be.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use karpenter_api::{NodeClaim, NodePool};
use serde_json::{Value, json};

use super::{read_all, start_upstream};
use crate::cluster::{Cluster, condition, eventually, pool};

/// How long each side is watched once everything runs: longer than it takes to look at every claim and at drift once.
const WATCHED: Duration = Duration::from_secs(45);
/// Ours waits for its turn at the same Lease as upstream.
const FLAGS: [&str; 1] = ["--leader-election-namespace=kube-system"];

pub(super) async fn run(cluster: &Cluster, upstream: &Path, definitions: &[PathBuf]) -> anyhow::Result<()> {
    let definitions = read_all(definitions)?;
    cluster.install(&definitions).await?;
    cluster.clear().await?;
    let theirs = start_upstream(cluster, upstream).await?;
    cluster.create_class("default", "1s").await?;
    cluster.create::<NodePool>(rich_pool()).await?;
    cluster.deploy("web", 12, "1").await?;
    cluster.deploy("batch", 4, "3").await?;
    cluster.pods_run(16).await?;
    let mut known = Known::default();
    known.learn(cluster).await?;
    println!("upstream runs 16 pods on {} nodes", known.0.len());

    shadow(cluster).await?;

    theirs.end().await?;
    cluster.install_definitions().await?;
    let ours = cluster.program.start_with(&FLAGS)?;
    eventually("ours leads", || async { Ok(ours.log().contains("leading")) }).await?;
    println!("ours leads");
    known.hold(cluster).await.context("after the take-over")?;
    cluster.scale("web", 24).await?;
    cluster.pods_run(28).await?;
    known.hold(cluster).await.context("after ours grew the cluster")?;
    let of_upstream = known.0.len();
    known.learn(cluster).await?;
    println!("ours kept the {of_upstream} nodes of upstream and added {}", known.0.len() - of_upstream);

    ours.terminate().await?;
    let theirs = start_upstream(cluster, upstream).await?;
    known.hold(cluster).await.context("after it was handed back")?;
    cluster.scale("batch", 8).await?;
    cluster.pods_run(32).await?;
    known.hold(cluster).await.context("after upstream grew the cluster again")?;
    println!("upstream kept all {} nodes", known.0.len());
    cluster.scale("web", 0).await?;
    cluster.scale("batch", 0).await?;
    cluster.machines_are_gone().await.context("upstream takes down the nodes of both")?;
    println!("upstream took all of them down, ours included");
    theirs.end().await
}

/// A NodePool that says something about everything a claim copies, so that a difference in any of it would show as drift.
fn rich_pool() -> Value {
    let mut pool = pool();
    let template = &mut pool["spec"]["template"];
    template["metadata"] = json!({"labels": {"team": "a"}, "annotations": {"example.com/note": "kept"}});
    template["spec"]["taints"] = json!([{"key": "example.com/soft", "effect": "PreferNoSchedule"}]);
    template["spec"]["expireAfter"] = "720h".into();
    template["spec"]["terminationGracePeriod"] = "48h".into();
    pool
}

/// Runs ours beside the one in charge, and prints what it would do.
async fn shadow(cluster: &Cluster) -> anyhow::Result<()> {
    let shadow = cluster.program.start_with(&["--dry-run"])?;
    eventually("the shadow is ready", || async { Ok(shadow.is_ready().await) }).await?;
    eventually("the shadow has compared prices", || async {
        Ok(shadow.ask("/dry-run").await?.contains("\"comparison\""))
    })
    .await?;
    tokio::time::sleep(WATCHED).await;
    let answer = shadow.ask("/dry-run").await?;
    let body = answer.split_once("\r\n\r\n").map_or(&*answer, |(_, body)| body);
    let summary: Value = serde_json::from_str(body.trim()).context("reading the summary of the dry run")?;
    println!("the shadow beside upstream says: {summary:#}");
    let metrics = shadow.metrics().await?;
    let requests: Vec<&str> =
        metrics.lines().filter(|line| line.starts_with("client_go_request_total{")).collect();
    ensure!(!requests.is_empty(), "the shadow counts no requests");
    let written = requests.iter().filter(|line| !line.contains("method=\"GET\""));
    let written: Vec<&&str> = written.collect();
    ensure!(written.is_empty(), "the shadow has written: {written:?}");
    shadow.terminate().await
}

/// Claims and their nodes, by the UID of the claim.
#[derive(Default)]
struct Known(BTreeMap<String, (String, String)>);

impl Known {
    async fn learn(&mut self, cluster: &Cluster) -> anyhow::Result<()> {
        for claim in cluster.claims().await? {
            let name = claim.metadata.name.clone().unwrap_or_default();
            let node = claim.status.as_ref().and_then(|status| status.node_name.clone());
            let node = node.with_context(|| format!("NodeClaim {name} has no node"))?;
            self.0.insert(claim.metadata.uid.clone().unwrap_or_default(), (name, node));
        }
        Ok(())
    }

    /// Watches for a while: every claim stays with its node, and nobody thinks of replacing one.
    async fn hold(&self, cluster: &Cluster) -> anyhow::Result<()> {
        let until = tokio::time::Instant::now() + WATCHED;
        while tokio::time::Instant::now() < until {
            self.check(cluster).await?;
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        Ok(())
    }

    async fn check(&self, cluster: &Cluster) -> anyhow::Result<()> {
        let claims = cluster.claims().await?;
        let nodes = cluster.nodes().await?;
        let uid = |claim: &NodeClaim| claim.metadata.uid.clone().unwrap_or_default();
        let present: BTreeMap<String, &NodeClaim> = claims.iter().map(|claim| (uid(claim), claim)).collect();
        for (uid, (name, node)) in &self.0 {
            let Some(claim) = present.get(uid) else { bail!("NodeClaim {name} is gone") };
            ensure!(claim.metadata.deletion_timestamp.is_none(), "NodeClaim {name} is being deleted");
            for unwanted in ["Drifted", "DisruptionReason"] {
                let found = condition(claim, unwanted);
                ensure!(found != "True", "NodeClaim {name} has {unwanted}: {:?}", claim.status);
            }
            let there = nodes.iter().any(|found| {
                found.metadata.name.as_ref() == Some(node) && found.metadata.deletion_timestamp.is_none()
            });
            ensure!(there, "node {node} is gone");
        }
        Ok(())
    }
}
