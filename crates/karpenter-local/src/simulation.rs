//! The demo in simulated time: hours pass in seconds, and the same seed gives the same bytes.

use std::io::Write;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, bail};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter_api::options::FeatureGates;
use karpenter_api::{NodeClaim, Provider};
use karpenter_apiserver::{ApiServer, Options};
use karpenter_controllers::Computing;
use karpenter_environment::{Environment, SimulatedEnvironment};
use karpenter_models::ModelsConfig;
use karpenter_simcloud::{CloudDescription, market};
use kube::api::ListParams;
use kube::{Api, Client};
use tokio::sync::watch;

use crate::recorder::{log, record};
use crate::{Cloud, Cluster, Pools, install, play_demo};

/// When simulated time begins.
const BEGINNING: &str = "2026-01-05T09:00:00Z";

/// What is simulated.
pub struct Simulation {
    /// Where chance starts.
    pub seed: u64,
    /// How long, in simulated time.
    pub lasting: Duration,
    /// How long machines take to boot.
    pub boot_time: String,
    /// How the cloud behaves; without a description everything can be had.
    pub cloud: Option<CloudDescription>,
}

/// What was there at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// How many events the API told.
    pub events: u64,
    /// Nodes at the end.
    pub nodes: usize,
    /// Pods at the end.
    pub pods: usize,
    /// Pods at the end that have no node.
    pub waiting: usize,
    /// The last version of the API's objects: how many writes there were.
    pub writes: u64,
    /// NodeClaims at the end.
    pub nodeclaims: usize,
}

/// Plays the demo in simulated time and writes every event of the API to `out`, one a line.
///
/// # Errors
///
/// If the cluster cannot be set up, or `out` cannot be written.
pub fn simulate(simulation: &Simulation, out: impl Write + Send + 'static) -> anyhow::Result<Summary> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.context("starting a runtime")?.block_on(run(simulation, out))
}

async fn run(simulation: &Simulation, out: impl Write + Send + 'static) -> anyhow::Result<Summary> {
    let beginning: Timestamp = BEGINNING.parse().context("reading the time of the beginning")?;
    let environment: Arc<dyn Environment> = Arc::new(SimulatedEnvironment::new(simulation.seed, beginning));
    let server = ApiServer::new(Options { environment: environment.clone(), ..Options::default() });
    let client = Client::new(server.clone(), "default");
    let collector = server.clone();
    tokio::spawn(async move { collector.run_collector().await });
    install(&client, Provider::Kwok, &simulation.boot_time, Pools::Demo).await?;
    let (log, count) = log(out);
    let _recording = record(&client, &log);
    let (stopping, stop) = watch::channel(false);
    let market = market(simulation.cloud.clone(), simulation.seed, beginning);
    let cluster = Cluster {
        client: client.clone(),
        environment: environment.clone(),
        cloud: Cloud::kwok(client.clone(), environment.clone(), market),
        models: ModelsConfig::default(),
        computing: Computing::InPlace,
        gates: FeatureGates::default(),
        karpenter: true,
    };
    let running = cluster.start(stop).await?;
    tokio::select! {
        played = play_demo(client.clone(), environment) => played?,
        () = tokio::time::sleep(simulation.lasting) => {}
    }
    let summary = summary(&client, &server).await?;
    stopping.send_replace(true);
    running.ended().await;
    let count = count.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(failure) = &count.failure {
        bail!("the log of events cannot be written: {failure}");
    }
    Ok(Summary { events: count.lines, ..summary })
}

async fn summary(client: &Client, server: &ApiServer) -> anyhow::Result<Summary> {
    let everything = ListParams::default();
    let pods = Api::<Pod>::all(client.clone()).list(&everything).await?.items;
    let bound = |pod: &&Pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    Ok(Summary {
        events: 0,
        nodes: Api::<Node>::all(client.clone()).list(&everything).await?.items.len(),
        nodeclaims: Api::<NodeClaim>::all(client.clone()).list(&everything).await?.items.len(),
        waiting: pods.len() - pods.iter().filter(bound).count(),
        pods: pods.len(),
        writes: server.resource_version(),
    })
}
