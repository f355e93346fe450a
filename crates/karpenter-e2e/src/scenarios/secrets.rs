//! What must stay secret stays secret: nothing of it in logs, metrics or events.

use anyhow::ensure;
use k8s_openapi::api::core::v1::Event;
use karpenter_api::NodeClaim;
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use serde_json::json;

use crate::cluster::{Cluster, eventually};

/// What pods carry that is nobody's business.
const OF_A_POD: &str = "hush-of-a-pod-5d3a";
/// What whoever scrapes must show.
const OF_METRICS: &str = "hush-of-metrics-91c7";

/// Pods with a secret in their environment come, are drained and fail to be placed while everything is logged; the log, the metrics and all events are searched
/// for it, for the token of the metrics and for the token with which the controller reaches the cluster.
pub(super) async fn no_secret_is_told(cluster: Cluster) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let token_file = folder.path().join("token");
    std::fs::write(&token_file, OF_METRICS)?;
    cluster.create_pool("1s").await?;
    let token_flag = format!("--metrics-token-file={}", token_file.display());
    let controller =
        cluster.program.start_with(&["--disable-leader-election", "--log-level=debug", &token_flag])?;
    eventually("the controller is ready", || async { Ok(controller.is_ready().await) }).await?;
    let with_secret = |cpu: &str| {
        json!({"containers": [{
            "name": "main", "image": "main", "env": [{"name": "PASSWORD", "value": OF_A_POD}],
            "command": ["run", "--password", OF_A_POD], "resources": {"requests": {"cpu": cpu}},
        }]})
    };
    cluster.deploy_with("web", 2, "1", with_secret("1")).await?;
    cluster.pods_run(2).await?;
    cluster.deploy_with("giant", 1, "1", with_secret("1000")).await?;
    let claims = cluster.all::<NodeClaim>();
    let first = claims.list(&ListParams::default()).await?.items.into_iter().next();
    let name = first.and_then(|claim| claim.metadata.name).unwrap_or_default();
    claims.delete(&name, &DeleteParams::default()).await?;
    eventually("the claim is gone", || async { Ok(claims.get_opt(&name).await?.is_none()) }).await?;
    let events: Api<Event> = Api::all(cluster.client.clone());
    eventually("the giant is said to have no place", || async {
        let told = events.list(&ListParams::default()).await?.items;
        Ok(told.iter().any(|event| event.reason.as_deref() == Some("FailedScheduling")))
    })
    .await?;

    let refused = controller.metrics().await?;
    ensure!(refused.starts_with("HTTP/1.1 401"), "metrics are shown to whoever asks");
    let metrics = controller.metrics_with(OF_METRICS).await?;
    ensure!(metrics.contains("karpenter_nodeclaims_created_total"), "the token does not open the metrics");
    let told = serde_json::to_string(&events.list(&ListParams::default()).await?.items)?;
    let mut secrets = vec![OF_A_POD.to_owned(), OF_METRICS.to_owned()];
    secrets.extend(cluster.program.tokens()?);
    for (place, text) in [("the log", controller.log()), ("metrics", metrics), ("events", told)] {
        for secret in &secrets {
            ensure!(
                !text.contains(secret.as_str()),
                "a secret of {} letters stands in {place}",
                secret.len()
            );
        }
    }
    Ok(())
}
