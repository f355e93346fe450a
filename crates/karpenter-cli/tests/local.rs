//! `karpenter local` as its users see it: pods get nodes, nodes go when they are told to, and a restart forgets nothing.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Node;
use karpenter_api::NodeClaim;
use kube::api::{DeleteParams, ListParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, Client};
use serde_json::json;

use futures::StreamExt as _;

use crate::apiserver::process::{Server, client};

/// Longer than anything here takes on a busy machine; a test that hangs must end.
const PATIENCE: Duration = Duration::from_mins(3);

/// Waits until the deployment has this many ready pods.
pub(crate) async fn ready(client: &Client, name: &str, wanted: i32) {
    let api: Api<Deployment> = Api::namespaced(client.clone(), "default");
    let is_ready =
        |found: &Deployment| found.status.as_ref().and_then(|status| status.ready_replicas) == Some(wanted);
    let wait = async {
        loop {
            let params = WatchParams::default().fields(&format!("metadata.name={name}"));
            let mut events = std::pin::pin!(api.watch(&params, "0").await.expect("the server answers"));
            while let Some(Ok(event)) = events.next().await {
                if let WatchEvent::Added(found) | WatchEvent::Modified(found) = event
                    && is_ready(&found)
                {
                    return;
                }
            }
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.expect("the pods run");
}

/// Waits until no object of the kind is left with this name.
async fn gone(client: &Client, claim: &str) {
    let api: Api<NodeClaim> = Api::all(client.clone());
    let wait = async {
        loop {
            let Some(found) = api.get_opt(claim).await.expect("the server answers") else { return };
            let version = found.metadata.resource_version.expect("a stored object has a version");
            let params = WatchParams::default().fields(&format!("metadata.name={claim}"));
            let mut events = std::pin::pin!(api.watch(&params, &version).await.expect("the server answers"));
            while let Some(Ok(event)) = events.next().await {
                if matches!(event, WatchEvent::Deleted(_)) {
                    return;
                }
            }
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.expect("the claim goes");
}

#[tokio::test]
async fn pods_get_nodes_and_a_restart_forgets_nothing() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start_as("local", data.path(), &["--boot-time", "1s", "--quiet"]);
    let cluster = client(&server.kubeconfig()).await;
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {"replicas": 5, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "web", "resources": {"requests": {"cpu": "1"}}}]},
        }},
    }))
    .unwrap();
    let deployments: Api<Deployment> = Api::namespaced(cluster.clone(), "default");
    deployments.create(&PostParams::default(), &deployment).await.expect("the server answers");
    ready(&cluster, "web", 5).await;
    let nodes: Api<Node> = Api::all(cluster.clone());
    let before = nodes.list(&ListParams::default()).await.expect("the server answers").items.len();
    assert!((1..=5).contains(&before), "{before} nodes");
    assert!(server.stop().success());

    let server = Server::start_as("local", data.path(), &["--boot-time", "1s", "--quiet"]);
    let cluster = client(&server.kubeconfig()).await;
    ready(&cluster, "web", 5).await;
    let claims: Api<NodeClaim> = Api::all(cluster.clone());
    let first = claims.list(&ListParams::default()).await.expect("the server answers").items[0]
        .metadata
        .name
        .clone()
        .unwrap();
    claims.delete(&first, &DeleteParams::default()).await.expect("the server answers");
    gone(&cluster, &first).await;
    ready(&cluster, "web", 5).await;
    assert!(server.stop().success());
}
