//! A whole cluster in one process: API server, scheduler, kubelets and workload controllers as models, machines on paper, and the
//! real controllers. In real time for people ([`Cluster::start`]), in simulated time for tests ([`simulate`]); the parts are the same.

pub mod accounts;
mod cloud;
mod demo;
mod machines;
mod objects;
mod recorder;
mod simulation;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::TopologySpreadConstraint;
use karpenter_api::options::FeatureGates;
use karpenter_controllers::{BatchSettings, Computing, Exporter, Exposure, Karpenter};
use karpenter_core::SolverOptions;
use karpenter_environment::Environment;
use karpenter_models::config::DEFAULT_SCHEDULER;
use karpenter_models::{Models, ModelsConfig};
use karpenter_runtime::Runtime;
use kube::Client;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use cloud::{Cloud, Companions, Resume};
pub use demo::play as play_demo;
pub use machines::{Machines, NodePlayer};
pub use objects::{Pools, install};
pub use simulation::{Simulation, Summary, simulate};

/// Pods are collected for a moment only: planning is quick, and what comes later joins the nodes that are on their way.
const BATCHING: BatchSettings = BatchSettings {
    idle: Duration::from_millis(200),
    idle_in_a_crowd: Duration::from_millis(500),
    longest: Duration::from_secs(2),
};

/// What a cluster is made of besides its API.
pub struct Cluster {
    /// How its API is reached.
    pub client: Client,
    /// Time and chance.
    pub environment: Arc<dyn Environment>,
    /// Where machines come from.
    pub cloud: Cloud,
    /// How its own machinery behaves.
    pub models: ModelsConfig,
    /// Where plans are computed.
    pub computing: Computing,
    /// Which optional features of Karpenter are on.
    pub gates: FeatureGates,
    /// Whether Karpenter runs; without it somebody else may run it beside the cluster.
    pub karpenter: bool,
}

/// The parts of a cluster that run.
pub struct Running {
    models: JoinHandle<()>,
    controllers: Option<JoinHandle<()>>,
    /// Answers scrapes, if Karpenter runs.
    exporter: Option<Exporter>,
}

impl Running {
    /// Takes who answers scrapes; there is one, if Karpenter runs.
    pub fn take_exporter(&mut self) -> Option<Exporter> {
        self.exporter.take()
    }

    /// Waits until both have ended what they had begun.
    pub async fn ended(self) {
        // A part that panicked has said so.
        let controllers = async {
            if let Some(controllers) = self.controllers {
                let _ = controllers.await;
            }
        };
        let _ = tokio::join!(self.models, controllers);
    }
}

impl Cluster {
    /// Starts the cluster's own machinery and Karpenter, each on its own runtime: they share nothing but the API.
    ///
    /// # Errors
    ///
    /// If machines that were on their way cannot be looked for.
    pub async fn start(self, stop: watch::Receiver<bool>) -> anyhow::Result<Running> {
        let mut machinery = Runtime::new(self.client.clone(), self.environment.clone());
        Models::new(self.models.clone()).add_to(&mut machinery);
        let models = tokio::spawn(machinery.run(told(stop.clone())));
        if !self.karpenter {
            return Ok(Running { models, controllers: None, exporter: None });
        }
        let (controllers, exporter) = self.start_karpenter(stop).await?;
        Ok(Running { models, controllers: Some(controllers), exporter: Some(exporter) })
    }

    async fn start_karpenter(
        self,
        stop: watch::Receiver<bool>,
    ) -> anyhow::Result<(JoinHandle<()>, Exporter)> {
        let Self { client, environment, cloud, models, computing, gates, .. } = self;
        (cloud.resume)().await.context("finding machines that were on their way")?;
        let mut controllers = Runtime::new(client, environment.clone());
        let karpenter = Karpenter {
            solver: SolverOptions { parallel: computing == Computing::Aside, ..SolverOptions::default() },
            batching: BATCHING,
            computing,
            gates,
            spread_defaults: spread_defaults(&models),
            ..Karpenter::new(cloud.provider.clone())
        };
        let state = cloud.install(&karpenter, &mut controllers);
        let (metrics, provider) = (&karpenter.metrics, &*karpenter.provider);
        let build = (env!("CARGO_PKG_VERSION"), "");
        let exporter = Exporter::new(metrics, &state, provider, &environment, build, Exposure::default());
        Ok((tokio::spawn(controllers.run(told(stop))), exporter))
    }
}

/// The constraints that planning must share with the scheduler. It knows one set for all pods: that of the usual profile.
fn spread_defaults(models: &ModelsConfig) -> Vec<TopologySpreadConstraint> {
    let profile = models.scheduler.as_ref().and_then(|scheduler| scheduler.profile(DEFAULT_SCHEDULER));
    profile.and_then(|profile| profile.default_constraints.clone()).unwrap_or_default()
}

/// Waits until told to stop.
pub async fn told(mut stop: watch::Receiver<bool>) {
    // The sender is gone only when the program ends.
    let _ = stop.wait_for(|stop| *stop).await;
}
