//! `karpenter local`: a whole cluster in this process. Everything is put together here and decided elsewhere.

mod narrator;
mod objects;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Args;
use karpenter_apiserver::User;
use karpenter_controllers::{BatchSettings, Computing, Karpenter, Metrics};
use karpenter_core::SolverOptions;
use karpenter_environment::{Environment, SystemEnvironment};
use karpenter_kwok::{KWOKNodeClass, Kwok, Plenty, generated_instance_types};
use karpenter_models::{Models, ModelsConfig};
use karpenter_runtime::Runtime;
use kube::Client;
use tokio::sync::watch;

use crate::apiserver::{ApiserverArguments, Place, asked_to_stop, shell_word};

/// Pods are collected for a moment only: planning is quick, and what comes later joins the nodes that are on their way.
const BATCHING: BatchSettings =
    BatchSettings { idle: Duration::from_millis(200), longest: Duration::from_secs(2) };

#[derive(Args, Debug)]
pub(crate) struct LocalArguments {
    #[command(flatten)]
    server: ApiserverArguments,
    /// How long a machine takes from its launch until its node appears
    #[arg(long, value_name = "DURATION", default_value = "5s")]
    boot_time: String,
    /// Say nothing while it runs
    #[arg(long)]
    quiet: bool,
}

/// Runs until a signal asks it to stop.
pub(crate) fn run(arguments: LocalArguments) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "warn".into());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).without_time().init();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.context("starting threads")?.block_on(serve(arguments, started))
}

async fn serve(arguments: LocalArguments, started: Instant) -> anyhow::Result<ExitCode> {
    let place = Place::open(&arguments.server).await?;
    let client = Client::new(place.server.acting_as(User::admin()), "default");
    objects::install(&client, &arguments.boot_time).await?;
    place.greet(&arguments.server, started);
    suggest(&place);
    let (stopping, stop) = watch::channel(false);
    let (models, karpenter) = start(&client, stop.clone()).await?;
    if !arguments.quiet {
        tokio::spawn(narrator::tell(client, stop));
    }
    place.serve_until(asked_to_stop()).await?;
    crate::say("stopping");
    stopping.send_replace(true);
    // Both end with what they have begun; the API server they write to has ended, so there is nothing to wait long for.
    let _ = tokio::time::timeout(Duration::from_secs(2), async { tokio::join!(models, karpenter) }).await;
    Ok(ExitCode::SUCCESS)
}

type Task = tokio::task::JoinHandle<()>;

/// Starts the cluster's own machinery and Karpenter, each on its own runtime: they share nothing but the API.
async fn start(client: &Client, stop: watch::Receiver<bool>) -> anyhow::Result<(Task, Task)> {
    let environment: Arc<dyn Environment> = Arc::new(SystemEnvironment);
    let mut cluster = Runtime::new(client.clone(), environment.clone());
    Models::new(ModelsConfig::default()).add_to(&mut cluster);
    let kwok = Kwok::new(
        client.clone(),
        environment.clone(),
        Arc::new(Plenty),
        generated_instance_types(),
        Vec::new(),
    );
    kwok.resume().await.context("finding machines that were on their way")?;
    let mut controllers = Runtime::new(client.clone(), environment);
    let karpenter = Karpenter {
        provider: Arc::new(kwok),
        solver: SolverOptions { parallel: true, ..SolverOptions::default() },
        batching: BATCHING,
        computing: Computing::Aside,
        metrics: Metrics::default(),
    };
    karpenter.install::<KWOKNodeClass>(&mut controllers);
    Ok((tokio::spawn(cluster.run(told(stop.clone()))), tokio::spawn(controllers.run(told(stop)))))
}

/// Waits until told to stop.
pub(crate) async fn told(mut stop: watch::Receiver<bool>) {
    // The sender is gone only when the program ends.
    let _ = stop.wait_for(|stop| *stop).await;
}

fn suggest(place: &Place) {
    let kubeconfig = shell_word(&place.kubeconfig);
    crate::say(format_args!("                export KUBECONFIG={kubeconfig}"));
    crate::say("                kubectl create deployment web --image=web --replicas=20");
    crate::say("                kubectl set resources deployment web --requests=cpu=1");
    crate::say("                kubectl get nodeclaims,nodes -o wide -w");
}
