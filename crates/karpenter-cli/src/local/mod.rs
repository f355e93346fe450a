//! `karpenter local`: a whole cluster in this process. Everything is put together here and decided elsewhere.

mod narrator;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Args;
use karpenter_apiserver::User;
use karpenter_controllers::Computing;
use karpenter_environment::{Environment, SystemEnvironment};
use karpenter_kwok::market;
use karpenter_local::{Cluster, Pools, install, play_demo};
use karpenter_models::ModelsConfig;
use kube::Client;
use tokio::sync::watch;

use crate::apiserver::{ApiserverArguments, Place, asked_to_stop, shell_word};
use crate::cloud::CloudArguments;
use crate::controller::endpoints;

#[derive(Args, Debug)]
pub(crate) struct LocalArguments {
    #[command(flatten)]
    server: ApiserverArguments,
    #[command(flatten)]
    cloud: CloudArguments,
    /// Play workloads that come and go, on three NodePools: airflow-worker, trino-xsmall and jupyterhub-small
    #[arg(long)]
    demo: bool,
    /// How long a machine takes from its launch until its node appears
    #[arg(long, value_name = "DURATION", default_value = "5s")]
    boot_time: String,
    /// Leave Karpenter out, with its CRDs and objects: karpenter controller can be run beside it, as on any cluster
    #[arg(long, conflicts_with = "demo")]
    without_karpenter: bool,
    /// Serve Karpenter's metrics on this port, for Prometheus and the dashboards
    #[arg(long, value_name = "PORT", conflicts_with = "without_karpenter")]
    metrics_port: Option<u16>,
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
    let description = arguments.cloud.description()?;
    let place = Place::open(&arguments.server).await?;
    let client = Client::new(place.server.acting_as(User::admin()), "default");
    let pools = if arguments.demo { Pools::Demo } else { Pools::Default };
    if !arguments.without_karpenter {
        install(&client, &arguments.boot_time, pools).await?;
    }
    place.greet(&arguments.server, started);
    suggest(&place, arguments.demo);
    let (stopping, stop) = watch::channel(false);
    let environment: Arc<dyn Environment> = Arc::new(SystemEnvironment);
    let cluster = Cluster {
        client: client.clone(),
        environment: environment.clone(),
        market: market(description, environment.below(u64::MAX), environment.now()),
        models: ModelsConfig::default(),
        computing: Computing::Aside,
        karpenter: !arguments.without_karpenter,
    };
    let mut running = cluster.start(stop.clone()).await?;
    if let Some((port, exporter)) = arguments.metrics_port.zip(running.take_exporter()) {
        endpoints::serve(port, "metrics-port", endpoints::metrics(exporter, None)).await?;
    }
    if arguments.demo {
        tokio::spawn(demonstrate(client.clone(), environment));
    }
    if !arguments.quiet && !arguments.without_karpenter {
        tokio::spawn(narrator::tell(client, stop));
    }
    place.serve_until(asked_to_stop()).await?;
    crate::say("stopping");
    stopping.send_replace(true);
    // Both end with what they have begun; the API server they write to has ended, so there is nothing to wait long for.
    let _ = tokio::time::timeout(Duration::from_secs(2), running.ended()).await;
    Ok(ExitCode::SUCCESS)
}

async fn demonstrate(client: Client, environment: Arc<dyn Environment>) {
    if let Err(error) = play_demo(client, environment).await {
        tracing::warn!("the demo ends: {error:#}");
    }
}

fn suggest(place: &Place, demo: bool) {
    let kubeconfig = shell_word(&place.kubeconfig);
    crate::say(format_args!("                export KUBECONFIG={kubeconfig}"));
    if demo {
        crate::say("                kubectl get nodepools,deployments");
    } else {
        crate::say("                kubectl create deployment web --image=web --replicas=20");
        crate::say("                kubectl set resources deployment web --requests=cpu=1");
    }
    crate::say("                kubectl get nodeclaims -o wide -w");
}
