//! The leader of two replicas is killed, again and again, at other moments of a machine's life each time.
//!
//! Every pod needs a machine of its own, so the number of claims that must ever be is known: one for each pod that came to wait. More would be machines
//! launched twice, fewer pods that run nowhere, and what is left at the end leaked.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use karpenter_api::{NodeClaim, NodePool};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use super::census::Census;
use crate::cluster::{Cluster, eventually, pool};
use crate::controller::Controller;

/// Flags of both replicas.
const FLAGS: [&str; 1] = ["--leader-election-namespace=kube-system"];
/// Kills are this much later in each round, within the time a machine needs to be there.
const LATER: Duration = Duration::from_millis(271);
const LATEST: u32 = 11;

pub(super) async fn run(cluster: &Cluster, kills: u32) -> anyhow::Result<()> {
    prepare(cluster).await?;
    let census = Census::begin(&cluster.client);
    let mut leader = cluster.program.start_with(&FLAGS)?;
    eventually("the first replica leads", || async { Ok(leader.log().contains("leading")) }).await?;
    let mut standby = started(cluster).await?;
    cluster.deploy("web", 2, "1500m").await?;
    cluster.pods_run(2).await?;
    let (mut pods, mut expected, mut waits) = (2, 2, Vec::new());
    for round in 0..kills {
        // Something is always under way: machines that come, or one that goes and is replaced.
        if round % 2 == 0 {
            pods += 2;
            cluster.scale("web", pods).await?;
            expected += 2;
        } else {
            remove_a_claim(cluster).await?;
            expected += 1;
        }
        tokio::time::sleep(LATER * (round % LATEST)).await;
        leader.kill().await?;
        let killed = Timestamp::now();
        let ends = lease_end(cluster).await?;
        pods += 1;
        expected += 1;
        cluster.scale("web", pods).await?;
        let next = started(cluster).await?;
        leader = std::mem::replace(&mut standby, next);
        settled(cluster, &census, pods, expected).await.with_context(|| format!("after kill {round}"))?;
        let decided = census.first_claim_after(ends.max(killed)).unwrap_or(ends);
        let wait = decided.duration_since(ends).as_secs_f64();
        println!(
            "kill {:2}: the lease ended {:.1} s later, first decision {wait:.1} s after that; {}",
            round + 1,
            ends.duration_since(killed).as_secs_f64(),
            census.count()
        );
        waits.push(wait);
    }
    finish(cluster, &census).await?;
    waits.sort_by(f64::total_cmp);
    let (median, longest) = (waits.get(waits.len() / 2), waits.last());
    println!(
        "{kills} kills: {}; 0 leaked, 0 doubled; first decision after the lease's end: median {:.1} s, longest {:.1} s",
        census.count(),
        median.copied().unwrap_or_default(),
        longest.copied().unwrap_or_default()
    );
    Ok(())
}

/// Machines for one pod each, which nobody takes down while the run lasts.
async fn prepare(cluster: &Cluster) -> anyhow::Result<()> {
    cluster.install_definitions().await?;
    cluster.clear().await?;
    cluster.create_class("default", "1s").await?;
    let mut pool = pool();
    pool["spec"]["disruption"]["consolidateAfter"] = "Never".into();
    pool["spec"]["template"]["spec"]["requirements"][2]["values"] = json!(["2"]);
    cluster.create::<NodePool>(pool).await
}

async fn started(cluster: &Cluster) -> anyhow::Result<Controller> {
    let replica = cluster.program.start_with(&FLAGS)?;
    eventually("the second replica is ready", || async { Ok(replica.is_ready().await) }).await?;
    Ok(replica)
}

async fn remove_a_claim(cluster: &Cluster) -> anyhow::Result<()> {
    let claims = cluster.claims().await?;
    let name = claims.iter().filter_map(|claim| claim.metadata.name.clone()).min();
    let name = name.context("there is a claim")?;
    cluster.all::<NodeClaim>().delete(&name, &DeleteParams::default()).await?;
    Ok(())
}

/// When the lease ends if nobody renews it.
async fn lease_end(cluster: &Cluster) -> anyhow::Result<Timestamp> {
    let leases: Api<Lease> = Api::namespaced(cluster.client.clone(), "kube-system");
    let spec = leases.get("karpenter-leader-election").await?.spec.context("the Lease is held")?;
    let renewed = spec.renew_time.context("the Lease was renewed")?.0;
    let lasts = spec.lease_duration_seconds.context("the Lease has a length")?;
    Ok(renewed + SignedDuration::from_secs(i64::from(lasts)))
}

/// Waits until every pod runs on a machine of its own and says whether that took as many as it must.
async fn settled(cluster: &Cluster, census: &Census, pods: u32, expected: usize) -> anyhow::Result<()> {
    let running = usize::try_from(pods)?;
    cluster.pods_run(running).await?;
    eventually("every pod has a machine, and no other is left", || async {
        let count = census.count();
        Ok(count.claims_now == running && count.nodes_now == running)
    })
    .await
    .map_err(|error| anyhow::anyhow!("{error}: {}", census.count()))?;
    let count = census.count();
    ensure!(count.odd.is_empty(), "{:?}", count.odd);
    ensure!(
        (count.claims, count.nodes, count.machines) == (expected, expected, expected),
        "{expected} machines were needed, but there were {count}"
    );
    Ok(())
}

/// Without pods there are no machines.
async fn finish(cluster: &Cluster, census: &Census) -> anyhow::Result<()> {
    let patch = Patch::Merge(json!({"spec": {"disruption": {"consolidateAfter": "0s"}}}));
    cluster.all::<NodePool>().patch("default", &PatchParams::default(), &patch).await?;
    cluster.scale("web", 0).await?;
    cluster.machines_are_gone().await.map_err(|error| anyhow::anyhow!("{error}: {}", census.count()))
}
