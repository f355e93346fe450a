//! Voluntary disruption, whose rules the observer judges.

use anyhow::{Context as _, ensure};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use karpenter_api::NodePool;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::cluster::{Cluster, eventually, pool};

pub(super) async fn consolidation_keeps_every_promise(cluster: Cluster) -> anyhow::Result<()> {
    cluster.create_class("default", "1s").await?;
    let mut tidy = pool();
    tidy["spec"]["disruption"] = json!({
        "consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s", "budgets": [{"nodes": "1"}],
    });
    let _controller = cluster.start().await?;
    // A machine each, so that there is something to consolidate once the fillers are gone.
    for (round, name) in ["a", "b", "c"].into_iter().enumerate() {
        cluster.deploy(&format!("guarded-{name}"), 1, "300m").await?;
        cluster.deploy(&format!("filler-{name}"), 1, "1500m").await?;
        if round == 0 {
            cluster.create::<NodePool>(tidy.clone()).await?;
        }
        cluster.pods_run(2 * (round + 1)).await?;
    }
    let pinned = cluster.pods().list(&ListParams::default().labels("app=guarded-a")).await?.items;
    let pinned = pinned.first().and_then(|pod| pod.metadata.name.clone()).context("a pod runs")?;
    let annotations =
        Patch::Merge(json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}}));
    cluster.pods().patch(&pinned, &PatchParams::default(), &annotations).await?;
    let budget: PodDisruptionBudget = serde_json::from_value(json!({
        "metadata": {"name": "guarded"},
        "spec": {
            "maxUnavailable": 1,
            "selector": {"matchExpressions": [{
                "key": "app", "operator": "In", "values": ["guarded-a", "guarded-b", "guarded-c"],
            }]},
        },
    }))?;
    cluster.budgets().create(&PostParams::default(), &budget).await?;
    eventually("the budget is in force", || async {
        let status = cluster.budgets().get("guarded").await?.status;
        Ok(status.is_some_and(|status| status.disruptions_allowed == Some(1)))
    })
    .await?;
    let before = cluster.claims().await?.len();
    for name in ["a", "b", "c"] {
        cluster.scale(&format!("filler-{name}"), 0).await?;
    }
    eventually("a machine is given up", || async { Ok(cluster.claims().await?.len() < before) }).await?;
    cluster.pods_run(3).await?;
    ensure!(before > 1, "there was one machine from the beginning: nothing was consolidated");
    ensure!(cluster.pods().get_opt(&pinned).await?.is_some(), "the pod that says do-not-disrupt is gone");
    Ok(())
}
