//! `karpenter controller`: the controllers on a cluster of the user's. Everything is put together here and decided elsewhere.

mod arguments;
mod dry_run;
pub(crate) mod endpoints;
mod logs;
mod process;
mod profile_format;
mod profiling;
mod text_format;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use karpenter_alibabacloud::AlibabaCloud;
use karpenter_api::options::{self, AlibabaCloudOptions, FeatureGate, Options};
use karpenter_aws::Aws;
use karpenter_controllers::{BatchSettings, DisruptionSettings, Exporter, Exposure, Karpenter, Metrics};
use karpenter_core::catalog::InstanceType;
use karpenter_core::plan::{MinValuesPolicy, PackingPolicy, PreferencePolicy, ReservedPolicy, SolverOptions};
use karpenter_environment::{Environment, SystemEnvironment};
use karpenter_kwok::{generated_instance_types, read_instance_types};
use karpenter_local::{Cloud, Resume, told};
use karpenter_runtime::{Candidacy, Leadership, Metering, Permit, Runtime, Throttle};
use karpenter_simcloud::Plenty;
use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio::sync::{oneshot, watch};

pub(crate) use arguments::{ControllerArguments, with_two_dashes};
use arguments::{ProviderOptions, Settings};
use dry_run::Ledger;

use crate::apiserver::asked_to_stop;

/// What a batch waits when nobody chose: planning is quick, and pods that come later join nodes that are on their way.
const QUICK: BatchSettings = BatchSettings {
    idle: Duration::from_millis(250),
    idle_in_a_crowd: Duration::from_secs(1),
    longest: Duration::from_secs(10),
};
/// How long to wait before machines that were on their way are looked for again.
const RESUME_AGAIN: Duration = Duration::from_secs(5);

/// Runs until a signal asks it to stop, or another replica leads.
pub(crate) fn run(arguments: &ControllerArguments) -> anyhow::Result<ExitCode> {
    let settings = match arguments.settings() {
        Ok(settings) => settings,
        Err(error) => {
            eprintln!("karpenter: {error}; see karpenter controller --help");
            return Ok(ExitCode::from(crate::BAD_INPUT));
        }
    };
    logs::begin(&settings.options)?;
    for warning in &settings.warnings {
        tracing::warn!("{warning}");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("starting threads")?.block_on(serve(arguments, &settings))
}

async fn serve(arguments: &ControllerArguments, settings: &Settings) -> anyhow::Result<ExitCode> {
    let mut config = configuration(arguments.kubeconfig.as_deref()).await?;
    // A refused eviction is an answer; when to ask again is the controllers' decision.
    config.default_retry = false;
    let namespace = config.default_namespace.clone();
    let trust = config.root_cert.as_deref().map(ca_bundle);
    let url = config.cluster_url.clone();
    let options = &settings.options;
    let permit = permit(options);
    let throttle = Throttle::new(options.kube_client_qps as f64, options.kube_client_burst as f64);
    let client = ClientBuilder::try_from(config).context("preparing to talk to the cluster")?;
    let metrics = Metrics::default();
    // Metered before it is throttled: a request that waits for its turn is not slow to be answered.
    let metering = Metering::new(Arc::new(metrics.clone()));
    // The permit is asked last of all: a write that waited for its turn may come too late.
    let client = client.with_layer(&permit).with_layer(&metering).with_layer(&throttle).build();
    let environment: Arc<dyn Environment> = Arc::new(SystemEnvironment);
    let cloud = cloud(settings, &client, &environment, trust).await?;
    let mut controllers = Runtime::new(client.clone(), environment.clone());
    controllers.permitted_by(permit.clone());
    let karpenter = Karpenter {
        solver: solver(options),
        batching: batching(settings),
        spread_defaults: options.scheduler_config.default_constraints.clone(),
        gates: options.feature_gates,
        disruption: DisruptionSettings {
            switched_off: options.disable_voluntary_disruption,
            legacy_repair: options.legacy_node_repair,
            ..DisruptionSettings::default()
        },
        metrics,
        ..Karpenter::new(cloud.provider.clone())
    };
    karpenter.repair_policies().map_err(|error| anyhow!(error))?;
    let state = cloud.install(&karpenter, &mut controllers);
    let ledger = options.dry_run.then(|| Ledger::new(karpenter.compare(&mut controllers, &state)));
    if let Some(ledger) = &ledger {
        controllers.only_show(Arc::new(ledger.clone()));
    }
    let exporter = Exporter::new(
        &karpenter.metrics,
        &state,
        &*karpenter.provider,
        &environment,
        (env!("CARGO_PKG_VERSION"), env!("KARPENTER_COMMIT")),
        exposure(options),
    );
    endpoints::serve(options.health_probe_port, "health-probe-port", endpoints::probes(controllers.listed()))
        .await?;
    let mut metrics = endpoints::metrics(exporter, ledger.clone());
    if options.enable_profiling {
        metrics = metrics.merge(profiling::router());
    }
    let metrics = endpoints::guarded(metrics, &options.metrics_token_file);
    endpoints::serve(options.metrics_port, "metrics-port", metrics).await?;
    tracing::info!(provider = cloud.provider.name(), "starting on {url}");

    let candidacy = candidacy(options, namespace, &*environment);
    let leadership = || Leadership::new(client, environment, candidacy, permit);
    let leadership = (!options.disable_leader_election && !options.dry_run).then(leadership);
    let finished = run_controllers(controllers, leadership, (!options.dry_run).then_some(cloud.resume)).await;
    if let Some(ledger) = ledger {
        println!("{}", ledger.summary());
    }
    finished.map(|()| ExitCode::SUCCESS)
}

/// Whether this process may write before it is elected: alone it may, and a dry run never does.
fn permit(options: &Options) -> Permit {
    if options.disable_leader_election && !options.dry_run { Permit::always() } else { Permit::never() }
}

/// Runs the controllers: they watch, and act once we lead. What was on its way in the cloud is taken up first.
async fn run_controllers(
    controllers: Runtime,
    leadership: Option<Leadership>,
    take_up: Option<Resume>,
) -> anyhow::Result<()> {
    let (stopping, stop) = watch::channel(false);
    let (lead, leads) = oneshot::channel();
    let permission = async move {
        if leads.await.is_err() {
            // Leadership was never gained.
            std::future::pending::<()>().await;
        }
        if let Some(take_up) = take_up {
            resume(&take_up).await;
        }
    };
    let running = tokio::spawn(controllers.run_once_allowed(permission, told(stop)));
    let finished = lead_until_told(leadership, lead).await;
    stopping.send_replace(true);
    running.await.context("running the controllers")?;
    if let Some(leadership) = finished? {
        leadership.release().await;
    }
    Ok(())
}

/// Lets the controllers act once we lead; ends when we are asked to stop, and fails when we no longer lead.
async fn lead_until_told(
    leadership: Option<Leadership>,
    lead: oneshot::Sender<()>,
) -> anyhow::Result<Option<Leadership>> {
    let Some(mut leadership) = leadership else {
        let _ = lead.send(());
        asked_to_stop().await;
        return Ok(None);
    };
    tokio::select! {
        () = leadership.acquire() => {}
        () = asked_to_stop() => return Ok(None),
    }
    tracing::info!("leading");
    let _ = lead.send(());
    tokio::select! {
        () = leadership.keep() => Err(anyhow!("this replica no longer leads; it ends, so that it begins anew")),
        () = asked_to_stop() => Ok(Some(leadership)),
    }
}

/// Where the cluster is: the file that was given, else wherever kubectl would look, else the pod's own cluster.
pub(crate) async fn configuration(kubeconfig: Option<&Path>) -> anyhow::Result<Config> {
    if let Some(path) = kubeconfig {
        let file = Kubeconfig::read_from(path).with_context(|| format!("reading {}", path.display()))?;
        let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
        return config.with_context(|| format!("using {}", path.display()));
    }
    Config::infer().await.map_err(|error| {
        anyhow!("no cluster is configured: {error}; name a kubeconfig with --kubeconfig or KUBECONFIG")
    })
}

/// Where machines come from, as the command line says.
async fn cloud(
    settings: &Settings,
    client: &Client,
    environment: &Arc<dyn Environment>,
    trust: Option<String>,
) -> anyhow::Result<Cloud> {
    let (client, environment) = (client.clone(), environment.clone());
    match &settings.provider {
        ProviderOptions::Kwok(kwok) => {
            let (types, labels) = instance_types(&kwok.instance_types_file_path)?;
            Ok(Cloud::kwok_with(client, environment, Arc::new(Plenty), types, labels))
        }
        ProviderOptions::Aws(aws) => {
            let wire = karpenter_aws_client::Client::from_process(environment.clone()).await?;
            let best_effort = settings.options.min_values_policy == options::MinValuesPolicy::BestEffort;
            let gates = (settings.options.feature_gates, best_effort);
            Ok(Cloud::aws(Aws::connect(client, wire, aws.clone(), gates, trust, environment).await?))
        }
        ProviderOptions::AlibabaCloud(options) => {
            let wire = karpenter_alibabacloud_client::Client::from_process(environment).await?;
            Ok(Cloud::alibabacloud(AlibabaCloud::new(wire, alibabacloud(options))))
        }
    }
}

/// The certificates by which this process trusts the API server, as nodes are told them: PEM in base64.
fn ca_bundle(certificates: &[Vec<u8>]) -> String {
    let armoured = certificates.iter().map(|der| {
        let text = BASE64.encode(der);
        let lines: Vec<&str> =
            text.as_bytes().chunks(64).filter_map(|line| std::str::from_utf8(line).ok()).collect();
        format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
    });
    BASE64.encode(armoured.collect::<String>())
}

fn alibabacloud(options: &AlibabaCloudOptions) -> karpenter_alibabacloud::Settings {
    karpenter_alibabacloud::Settings {
        cluster_id: Some(options.cluster_id.clone()).filter(|id| !id.is_empty()),
        memory_overhead: options.vm_memory_overhead_percent,
        interruption: options.interruption,
        interruption_queue: Some(options.interruption_queue.clone()).filter(|name| !name.is_empty()),
    }
}

/// The machines on paper: those of `file`, or the built-in ones if none is named; and the labels they bring along.
pub(crate) fn instance_types(file: &str) -> anyhow::Result<(Vec<InstanceType>, Vec<String>)> {
    if file.is_empty() {
        return Ok((generated_instance_types(), Vec::new()));
    }
    let text = std::fs::read(file).with_context(|| format!("reading {file}"))?;
    read_instance_types(&text).with_context(|| format!("reading the instance types of {file}"))
}

fn exposure(options: &Options) -> Exposure {
    Exposure {
        cluster_state: !options.disable_cluster_state_observability,
        pods: !options.disable_pod_metrics,
        most_series: usize::try_from(options.metrics_max_series).ok().filter(|most| *most > 0),
    }
}

fn solver(options: &Options) -> SolverOptions {
    let reserves = options.feature_gates.is_on(FeatureGate::ReservedCapacity);
    SolverOptions {
        preferences: match options.preference_policy {
            options::PreferencePolicy::Respect => PreferencePolicy::Respect,
            options::PreferencePolicy::Ignore => PreferencePolicy::Ignore,
        },
        min_values: match options.min_values_policy {
            options::MinValuesPolicy::Strict => MinValuesPolicy::Strict,
            options::MinValuesPolicy::BestEffort => MinValuesPolicy::BestEffort,
        },
        packing: match options.packing_policy {
            options::PackingPolicy::Cheapest => PackingPolicy::Cheapest,
            options::PackingPolicy::FewestNodes => PackingPolicy::FewestNodes,
        },
        reserved: reserves.then_some(ReservedPolicy::Strict),
        ignore_dynamic_resources: options.ignore_dra_requests,
        parallel: true,
        ..SolverOptions::default()
    }
}

fn batching(settings: &Settings) -> BatchSettings {
    if !settings.batching_is_chosen {
        return QUICK;
    }
    let duration = |chosen| Duration::try_from(chosen).unwrap_or_default();
    let idle = duration(settings.options.batch_idle_duration);
    BatchSettings { idle, idle_in_a_crowd: idle, longest: duration(settings.options.batch_max_duration) }
}

fn candidacy(options: &Options, own_namespace: String, environment: &dyn Environment) -> Candidacy {
    let chosen = Some(options.leader_election_namespace.clone()).filter(|name| !name.is_empty());
    let system = || std::env::var("SYSTEM_NAMESPACE").ok().filter(|name| !name.is_empty());
    let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "karpenter".to_owned());
    Candidacy {
        namespace: chosen.or_else(system).unwrap_or(own_namespace),
        name: options.leader_election_name.clone(),
        identity: format!("{host}_{}", environment.uid()),
    }
}

/// Takes up what a process before this one had begun; the cluster may need a moment to answer.
async fn resume(take_up: &Resume) {
    while let Err(error) = take_up().await {
        tracing::warn!("cannot look for machines that were on their way: {error}; trying again");
        tokio::time::sleep(RESUME_AGAIN).await;
    }
}
