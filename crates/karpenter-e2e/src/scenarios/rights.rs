//! A life in which the controller does everything it has a right to: `cargo xtask charts` holds the chart's roles against it.

use anyhow::ensure;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use karpenter_api::{NodeClaim, NodePool};
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::json;

use crate::cluster::{Cluster, eventually, pool};

/// Nodes come, pods are evicted from one, deleted from another whose time is over, and empty nodes go; the controller is elected before and released after.
pub(super) async fn a_whole_life_under_leadership(cluster: Cluster) -> anyhow::Result<()> {
    cluster.create_class("default", "1s").await?;
    let mut hasty = pool();
    hasty["spec"]["template"]["spec"]["terminationGracePeriod"] = json!("10s");
    cluster.create::<NodePool>(hasty).await?;
    let controller = cluster.program.start_with(&["--leader-election-namespace=kube-system"])?;
    eventually("the controller leads", || async { Ok(controller.log().contains("leading")) }).await?;
    cluster.deploy("web", 2, "1").await?;
    cluster.pods_run(2).await?;

    // Nothing stands in the way of these pods: they are evicted.
    delete_first_claim(&cluster).await?;
    cluster.pods_run(2).await?;

    // These may not be evicted, and are deleted when the claim's time is over.
    let budget: PodDisruptionBudget = serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}},
    }))?;
    cluster.budgets().create(&PostParams::default(), &budget).await?;
    eventually("the budget is in force", || async {
        let status = cluster.budgets().get("web").await?.status;
        Ok(status.is_some_and(|status| status.expected_pods == Some(2)))
    })
    .await?;
    delete_first_claim(&cluster).await?;
    cluster.budgets().delete("web", &DeleteParams::default()).await?;
    cluster.pods_run(2).await?;

    cluster.scale("web", 0).await?;
    cluster.machines_are_gone().await?;
    let metrics = controller.metrics().await?;
    ensure!(metrics.contains("karpenter_pods_drained_total"), "no pod was drained");
    controller.terminate().await
}

async fn delete_first_claim(cluster: &Cluster) -> anyhow::Result<()> {
    let claims = cluster.all::<NodeClaim>();
    let first = claims.list(&ListParams::default()).await?.items.into_iter().next();
    let name = first.and_then(|claim| claim.metadata.name).unwrap_or_default();
    claims.delete(&name, &DeleteParams::default()).await?;
    eventually("the claim is gone", || async { Ok(claims.get_opt(&name).await?.is_none()) }).await
}
