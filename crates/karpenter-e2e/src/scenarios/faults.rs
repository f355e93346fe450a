//! What goes wrong around a controller, and that nothing is lost by it.

use anyhow::ensure;

use crate::cluster::{Cluster, eventually};
use crate::credentials::Credentials;
use crate::proxy::Road;

pub(super) async fn a_missing_definition_is_waited_for(cluster: Cluster) -> anyhow::Result<()> {
    let controller = cluster.program.start()?;
    eventually("the controller says what is missing", || async {
        let log = controller.log();
        Ok(log.contains("NodePool") && log.contains("install its CRD"))
    })
    .await?;
    ensure!(!controller.is_ready().await, "it says that it is ready");
    cluster.install_definitions().await?;
    eventually("the controller is ready", || async { Ok(controller.is_ready().await) }).await
}

pub(super) async fn a_killed_controller_launches_nothing_twice(cluster: Cluster) -> anyhow::Result<()> {
    cluster.create_pool("4s").await?;
    let controller = cluster.start().await?;
    cluster.deploy("web", 3, "3").await?;
    eventually("claims are there", || async { Ok(!cluster.claims().await?.is_empty()) }).await?;
    controller.kill().await?;
    let _controller = cluster.start().await?;
    cluster.pods_run(3).await?;
    let (claims, nodes) = (cluster.claims().await?.len(), cluster.nodes().await?.len());
    ensure!(claims == nodes && claims <= 3, "{claims} claims and {nodes} nodes for three pods");
    cluster.scale("web", 0).await?;
    cluster.machines_are_gone().await
}

pub(super) async fn a_closed_road_loses_nothing(cluster: Cluster) -> anyhow::Result<()> {
    cluster.create_pool("1s").await?;
    let road = Road::build(&cluster.kubeconfig).await?;
    let controller = cluster.program.through(&road.kubeconfig()).start()?;
    eventually("the controller is ready", || async { Ok(controller.is_ready().await) }).await?;
    cluster.deploy("before", 1, "1").await?;
    cluster.pods_run(1).await?;
    for round in 0..3 {
        road.close();
        cluster.deploy(&format!("meanwhile-{round}"), 1, "1500m").await?;
        eventually("the controller says that the server is away", || async {
            Ok(controller.log().contains("trying again"))
        })
        .await?;
        road.open();
        cluster.pods_run(2 + round).await?;
    }
    Ok(())
}

pub(super) async fn renewed_credentials_are_taken_up(cluster: Cluster) -> anyhow::Result<()> {
    cluster.create_pool("1s").await?;
    cluster.deploy("web", 1, "1").await?;
    let credentials = Credentials::expired(&cluster.kubeconfig)?;
    let controller = cluster.program.through(&credentials.kubeconfig()).start()?;
    eventually("the controller says what to renew", || async {
        Ok(controller.log().contains("does not accept the credentials: renew"))
    })
    .await?;
    ensure!(!controller.is_ready().await, "it says that it is ready");
    credentials.renew(&cluster.client).await?;
    cluster.pods_run(1).await
}

pub(super) async fn of_two_replicas_one_acts(cluster: Cluster) -> anyhow::Result<()> {
    cluster.create_pool("1s").await?;
    let flags = ["--leader-election-namespace=kube-system"];
    let first = cluster.program.start_with(&flags)?;
    eventually("the first leads", || async { Ok(first.log().contains("leading")) }).await?;
    let second = cluster.program.start_with(&flags)?;
    eventually("the second is ready as well", || async { Ok(second.is_ready().await) }).await?;
    cluster.deploy("web", 1, "1").await?;
    cluster.pods_run(1).await?;
    ensure!(!second.log().contains("leading"), "the second leads as well");
    first.terminate().await?;
    eventually("the second leads", || async { Ok(second.log().contains("leading")) }).await?;
    cluster.deploy("more", 1, "1500m").await?;
    cluster.pods_run(2).await
}

const ELECTED: [&str; 1] = ["--leader-election-namespace=kube-system"];

pub(super) async fn a_killed_leader_is_followed_and_nothing_is_doubled(
    cluster: Cluster,
) -> anyhow::Result<()> {
    cluster.create_pool("4s").await?;
    let first = cluster.program.start_with(&ELECTED)?;
    eventually("the first leads", || async { Ok(first.log().contains("leading")) }).await?;
    let second = cluster.program.start_with(&ELECTED)?;
    eventually("the second is ready as well", || async { Ok(second.is_ready().await) }).await?;
    cluster.deploy("web", 3, "3").await?;
    eventually("claims are there", || async { Ok(!cluster.claims().await?.is_empty()) }).await?;
    first.kill().await?;
    cluster.deploy("more", 1, "3").await?;
    cluster.pods_run(4).await?;
    ensure!(second.log().contains("leading"), "the second does not say that it leads");
    let (claims, nodes) = (cluster.claims().await?.len(), cluster.nodes().await?.len());
    ensure!(claims == nodes && claims <= 4, "{claims} claims and {nodes} nodes for four pods");
    Ok(())
}

pub(super) async fn a_leader_that_was_stopped_ends_when_another_one_leads(
    cluster: Cluster,
) -> anyhow::Result<()> {
    cluster.create_pool("1s").await?;
    let first = cluster.program.start_with(&ELECTED)?;
    eventually("the first leads", || async { Ok(first.log().contains("leading")) }).await?;
    let second = cluster.program.start_with(&ELECTED)?;
    eventually("the second is ready as well", || async { Ok(second.is_ready().await) }).await?;
    first.signal("STOP").await?;
    // Both would act on this: the first has it in its sockets when it goes on.
    cluster.deploy("web", 1, "1").await?;
    cluster.pods_run(1).await?;
    ensure!(second.log().contains("leading"), "the second does not say that it leads");
    first.signal("CONT").await?;
    ensure!(!first.ended().await?.success(), "the first ends as if nothing had happened");
    let (claims, nodes) = (cluster.claims().await?.len(), cluster.nodes().await?.len());
    ensure!((claims, nodes) == (1, 1), "{claims} claims and {nodes} nodes for one pod");
    Ok(())
}
