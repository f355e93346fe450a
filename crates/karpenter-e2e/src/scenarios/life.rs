//! The life of a node, seen from outside.

use anyhow::ensure;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use karpenter_api::{NodeClaim, NodePool};
use karpenter_kwok::KWOKNodeClass;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::{Value, json};

use crate::cluster::{Cluster, condition, eventually};

pub(super) async fn pods_become_nodes_and_nodes_go_with_them(cluster: Cluster) -> anyhow::Result<()> {
    cluster.create_pool("1s").await?;
    let controller = cluster.start().await?;
    cluster.deploy("web", 20, "1").await?;
    cluster.pods_run(20).await?;
    eventually("all claims are ready", || async {
        let types = ["Launched", "Registered", "Initialized", "Ready"];
        let ready = |claim: &NodeClaim| types.iter().all(|type_| condition(claim, type_) == "True");
        Ok(cluster.claims().await?.iter().all(ready))
    })
    .await?;
    let claims = cluster.claims().await?;
    let nodes = cluster.nodes().await?;
    ensure!(nodes.len() == claims.len(), "{} nodes for {} claims", nodes.len(), claims.len());
    for node in &nodes {
        let labels = node.metadata.labels.clone().unwrap_or_default();
        for (key, value) in [("karpenter.sh/registered", "true"), ("karpenter.sh/nodepool", "default")] {
            ensure!(labels.get(key).is_some_and(|found| found == value), "{key} is not {value}");
        }
        let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
        ensure!(
            taints.iter().all(|taint| taint.key != "karpenter.sh/unregistered"),
            "a node is still fenced"
        );
    }
    cluster.scale("web", 0).await?;
    cluster.machines_are_gone().await?;
    let metrics = controller.metrics().await?;
    let created = format!(
        "karpenter_nodeclaims_created_total{{reason=\"provisioned\",nodepool=\"default\",min_values_relaxed=\"false\"}} {}",
        claims.len()
    );
    ensure!(metrics.contains(&created), "metrics do not say {created}");
    Ok(())
}

pub(super) async fn a_deleted_claim_waits_for_the_budget_of_its_pods(cluster: Cluster) -> anyhow::Result<()> {
    cluster.create_pool("1s").await?;
    let _controller = cluster.start().await?;
    cluster.deploy("web", 2, "1").await?;
    cluster.pods_run(2).await?;
    let budget: PodDisruptionBudget = serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}},
    }))?;
    cluster.budgets().create(&PostParams::default(), &budget).await?;
    eventually("the budget is in force", || async {
        let status = cluster.budgets().get("web").await?.status;
        Ok(status.is_some_and(|status| {
            status.expected_pods == Some(2) && status.disruptions_allowed.unwrap_or(0) == 0
        }))
    })
    .await?;
    let claims = cluster.claims().await?;
    let name = claims[0].metadata.name.clone().unwrap_or_default();
    cluster.all::<NodeClaim>().delete(&name, &DeleteParams::default()).await?;
    eventually("the node is fenced and says that it waits", || async {
        let fenced = cluster.nodes().await?.iter().any(|node| {
            let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
            taints.iter().any(|taint| taint.key == "karpenter.sh/disrupted")
        });
        let events: kube::Api<k8s_openapi::api::core::v1::Event> = kube::Api::all(cluster.client.clone());
        let events = events.list(&ListParams::default()).await?.items;
        Ok(fenced && events.iter().any(|event| event.reason.as_deref() == Some("FailedDraining")))
    })
    .await?;
    let pods = cluster.pods().list(&ListParams::default()).await?.items;
    ensure!(pods.iter().all(|pod| pod.metadata.deletion_timestamp.is_none()), "a protected pod was evicted");
    cluster.budgets().delete("web", &DeleteParams::default()).await?;
    eventually("the claim is gone", || async {
        Ok(cluster.all::<NodeClaim>().get_opt(&name).await?.is_none())
    })
    .await?;
    cluster.pods_run(2).await
}

pub(super) async fn pods_are_spread_over_zones(cluster: Cluster) -> anyhow::Result<()> {
    cluster.create_pool("1s").await?;
    let _controller = cluster.start().await?;
    // Without minDomains the scheduler spreads over the zones whose nodes have joined so far.
    let spread = json!({"topologySpreadConstraints": [{
        "maxSkew": 1, "minDomains": 4, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }]});
    cluster.deploy_with("web", 8, "500m", spread).await?;
    cluster.pods_run(8).await?;
    let mut zones: std::collections::BTreeMap<String, usize> = std::collections::BTreeMap::new();
    let nodes = cluster.nodes().await?;
    for pod in cluster.pods().list(&ListParams::default()).await?.items {
        let node = pod.spec.and_then(|spec| spec.node_name).unwrap_or_default();
        let node = nodes.iter().find(|found| found.metadata.name.as_deref() == Some(&node));
        let labels = node.and_then(|node| node.metadata.labels.clone()).unwrap_or_default();
        *zones.entry(labels.get("topology.kubernetes.io/zone").cloned().unwrap_or_default()).or_default() +=
            1;
    }
    ensure!(zones.values().all(|count| *count == 2) && zones.len() == 4, "pods per zone: {zones:?}");
    Ok(())
}

pub(super) async fn claims_are_listed_as_upstream_lists_them(cluster: Cluster) -> anyhow::Result<()> {
    let request = http::Request::get("/apis/karpenter.sh/v1/nodeclaims")
        .header("accept", "application/json;as=Table;g=meta.k8s.io;v=v1")
        .body(Vec::new())?;
    let table: Value = cluster.client.request(request).await?;
    let columns = table["columnDefinitions"].as_array().cloned().unwrap_or_default();
    let names: Vec<&str> = columns.iter().filter_map(|column| column["name"].as_str()).collect();
    let wanted = [
        "Name",
        "Type",
        "Capacity",
        "Zone",
        "Node",
        "Ready",
        "Age",
        "ImageID",
        "ID",
        "NodePool",
        "NodeClass",
        "Drifted",
    ];
    ensure!(names == wanted, "columns are {names:?}");
    Ok(())
}

/// The steps of docs/adoption.md.
pub(super) async fn an_uninstalled_karpenter_leaves_nothing_behind(cluster: Cluster) -> anyhow::Result<()> {
    cluster.create_pool("1s").await?;
    let controller = cluster.start().await?;
    cluster.deploy("web", 3, "3").await?;
    cluster.pods_run(3).await?;
    cluster.all::<NodePool>().delete("default", &DeleteParams::default()).await?;
    cluster.machines_are_gone().await?;
    cluster.all::<KWOKNodeClass>().delete("default", &DeleteParams::default()).await?;
    eventually("pools and classes are gone", || async {
        let pools = cluster.all::<NodePool>().list(&ListParams::default()).await?.items.len();
        Ok(pools + cluster.all::<KWOKNodeClass>().list(&ListParams::default()).await?.items.len() == 0)
    })
    .await?;
    controller.terminate().await?;
    let definitions = cluster.all::<CustomResourceDefinition>();
    let ours = |name: &str| name.ends_with(".karpenter.sh") || name.ends_with(".karpenter.kwok.sh");
    for definition in definitions.list(&ListParams::default()).await?.items {
        let name = definition.metadata.name.unwrap_or_default();
        if ours(&name) {
            definitions.delete(&name, &DeleteParams::default()).await?;
        }
    }
    eventually("the definitions are gone", || async {
        let left = definitions.list(&ListParams::default()).await?.items;
        Ok(left.iter().filter_map(|left| left.metadata.name.as_deref()).all(|name| !ours(name)))
    })
    .await
}
