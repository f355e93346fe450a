//! `karpenter local`: a whole cluster in this process. Everything is put together here and decided elsewhere.

mod narrator;
mod scheduler;

use std::any::Any;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Args;
use karpenter_api::options::FeatureGates;
use karpenter_api::{GoDuration, Provider};
use karpenter_apiserver::User;
use karpenter_controllers::Computing;
use karpenter_environment::{Environment, SystemEnvironment};
use karpenter_local::accounts::{self, Parts};
use karpenter_local::{Cloud, Cluster, NodePlayer, Pools, install, play_demo};
use karpenter_models::ModelsConfig;
use karpenter_simcloud::market;
use kube::Client;
use tokio::sync::watch;

use crate::apiserver::{ApiserverArguments, Place, asked_to_stop, shell_word};
use crate::arguments::provider_names;
use crate::cloud::CloudArguments;
use crate::controller::endpoints;

use scheduler::SchedulerArguments;

#[derive(Args, Debug)]
pub(crate) struct LocalArguments {
    #[command(flatten)]
    server: ApiserverArguments,
    #[command(flatten)]
    cloud: CloudArguments,
    #[command(flatten)]
    scheduler: SchedulerArguments,
    /// Play workloads that come and go, on three NodePools: airflow-worker, trino-xsmall and jupyterhub-small
    #[arg(long)]
    demo: bool,
    /// Whose objects are used and whose protocol the simulated cloud speaks
    #[arg(long, value_name = "PROVIDER", value_parser = provider_names(), default_value = "kwok")]
    provider: Provider,
    /// Serve the simulated cloud at this port of 127.0.0.1, for its own command line and SDKs [default: any free one]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    cloud_port: u16,
    /// How long a machine takes from its launch until its node appears
    #[arg(long, value_name = "DURATION", default_value = "5s")]
    boot_time: String,
    /// Leave Karpenter out, with its CRDs and objects: karpenter controller can be run beside it, as on any cluster
    #[arg(long, conflicts_with = "demo")]
    without_karpenter: bool,
    /// Optional features of Karpenter to switch, such as NodeOverlay=true
    #[arg(long, value_name = "GATES", default_value = "", hide_default_value = true, value_parser = feature_gates)]
    feature_gates: FeatureGates,
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
    let scheduler = arguments.scheduler.config()?;
    let place = Place::open(&arguments.server).await?;
    let client = Client::new(place.server.acting_as(User::admin()), "default");
    let pools = if arguments.demo { Pools::Demo } else { Pools::Default };
    if !arguments.without_karpenter {
        install(&client, arguments.provider, &arguments.boot_time, pools).await?;
    }
    place.greet(&arguments.server, started);
    suggest(&place, arguments.demo);
    let (stopping, stop) = watch::channel(false);
    let environment: Arc<dyn Environment> = Arc::new(SystemEnvironment);
    let market = market(description, environment.below(u64::MAX), environment.now());
    let (machines, player) = NodePlayer::new();
    let parts = Parts {
        client: client.clone(),
        environment: environment.clone(),
        market,
        watcher: Arc::new(machines),
        boot_time: boot_time(&arguments.boot_time)?,
        port: arguments.cloud_port,
    };
    let (cloud, _served) = cloud(arguments.provider, parts).await?;
    tokio::spawn(player.play(client.clone()));
    let cluster = Cluster {
        client: client.clone(),
        environment: environment.clone(),
        cloud,
        models: ModelsConfig { scheduler: Some(scheduler), ..ModelsConfig::default() },
        computing: Computing::Aside,
        gates: arguments.feature_gates,
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

/// The cloud that machines come from, and what serves it.
async fn cloud(provider: Provider, parts: Parts) -> anyhow::Result<(Cloud, Option<Box<dyn Any + Send>>)> {
    let account = match provider {
        Provider::Kwok => return Ok((Cloud::kwok(parts.client, parts.environment, parts.market), None)),
        Provider::Aws => accounts::aws(parts).await?,
        Provider::AlibabaCloud => accounts::alibabacloud(parts).await?,
    };
    crate::say(format_args!("simulated cloud {}", account.url));
    for (name, value) in &account.variables {
        crate::say(format_args!("                export {name}={value}"));
    }
    Ok((account.cloud, Some(account.served)))
}

fn feature_gates(text: &str) -> Result<FeatureGates, String> {
    let (gates, unknown) = FeatureGates::parse(text).map_err(|error| error.to_string())?;
    if unknown.is_empty() { Ok(gates) } else { Err(format!("there is no gate {}", unknown.join(", "))) }
}

fn boot_time(text: &str) -> anyhow::Result<GoDuration> {
    GoDuration::parse(text).map_err(|error| anyhow::anyhow!("--boot-time {text}: {error}"))
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
