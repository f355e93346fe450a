//! What Karpenter will not do, and how it says so.

use anyhow::{bail, ensure};
use k8s_openapi::api::core::v1::Event;
use karpenter_api::{NodeClaim, NodePool};
use kube::Api;
use kube::api::ListParams;
use serde_json::json;

use crate::cluster::{Cluster, eventually, pool};

pub(super) async fn a_pool_stays_within_its_limits(cluster: Cluster) -> anyhow::Result<()> {
    cluster.create_class("default", "1s").await?;
    let mut limited = pool();
    limited["spec"]["limits"] = json!({"cpu": "6"});
    cluster.create::<NodePool>(limited).await?;
    let _controller = cluster.start().await?;
    cluster.deploy("web", 12, "900m").await?;
    eventually("pods without a place are told why", || async {
        let events: Api<Event> = Api::namespaced(cluster.client.clone(), "default");
        let events = events.list(&ListParams::default()).await?.items;
        let told = |event: &Event| event.message.as_deref().is_some_and(|message| message.contains("limit"));
        Ok(events.iter().any(|event| event.reason.as_deref() == Some("FailedScheduling") && told(event)))
    })
    .await?;
    eventually("what the limit allows is bought", || async {
        let claims = cluster.claims().await?;
        Ok(!claims.is_empty() && claims.iter().all(|claim| cores(claim) > 0))
    })
    .await?;
    let bought: u32 = cluster.claims().await?.iter().map(cores).sum();
    ensure!(bought <= 6, "{bought} cores were bought");
    Ok(())
}

/// The cores of a claim's machine; none before it is launched.
fn cores(claim: &NodeClaim) -> u32 {
    let capacity = claim.status.as_ref().and_then(|status| status.capacity.as_ref());
    capacity.and_then(|capacity| capacity.get("cpu")?.0.parse().ok()).unwrap_or_default()
}

pub(super) async fn an_invalid_requirement_is_refused(cluster: Cluster) -> anyhow::Result<()> {
    let mut wrong = pool();
    wrong["spec"]["template"]["spec"]["requirements"] =
        json!([{"key": "karpenter.sh/capacity-type", "operator": "In", "values": []}]);
    let Err(refusal) = cluster.create::<NodePool>(wrong).await else { bail!("it was accepted") };
    let text = format!("{refusal:#}");
    ensure!(text.contains("must have a value defined"), "the refusal says: {text}");
    Ok(())
}

pub(super) async fn an_unknown_node_class_is_named(cluster: Cluster) -> anyhow::Result<()> {
    cluster.create::<NodePool>(pool()).await?;
    let _controller = cluster.start().await?;
    cluster.deploy("web", 1, "1").await?;
    let status = |wanted: &'static str| {
        let cluster = cluster.clone();
        move || {
            let cluster = cluster.clone();
            async move {
                let pool = cluster.all::<NodePool>().get("default").await?;
                let conditions = pool.status.and_then(|status| status.conditions).unwrap_or_default();
                let ready = conditions.into_iter().find(|found| found.type_ == "NodeClassReady");
                Ok(ready.is_some_and(|ready| ready.reason == wanted))
            }
        }
    };
    eventually("the pool says that its NodeClass is missing", status("NodeClassNotFound")).await?;
    ensure!(cluster.claims().await?.is_empty(), "a claim was made without a NodeClass");
    cluster.create_class("default", "1s").await?;
    eventually("the pool sees its NodeClass", status("NodeClassReady")).await?;
    cluster.pods_run(1).await
}
