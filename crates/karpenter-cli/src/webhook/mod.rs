//! `karpenter webhook`: tells whoever writes a NodePool or a PodDisruptionBudget at once what lint finds in it.
//!
//! It only warns: what upstream admits is admitted, and the API server asks no further if nobody answers here (`failurePolicy: Ignore`). The certificate is
//! made here, kept in a Secret that all replicas share, renewed long before it ends, and made known in the webhook's configuration.

mod certificate;
mod listener;
mod review;
mod trust;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use axum::Router;
use axum::body::Bytes;
use axum::http::{StatusCode, header};
use axum::routing::{get, post};
use clap::Args;
use karpenter_api::Provider;
use kube::Client;
use tokio::net::TcpListener;

use crate::apiserver::asked_to_stop;
use crate::arguments::provider_names;
use crate::controller::configuration;
use crate::lint::machines;
use certificate::Shown;
use listener::TlsListener;
use review::Reviewer;
use trust::Trust;

/// How often it is looked whether the certificate is still the one that everybody shares.
const LOOK_AGAIN: Duration = Duration::from_mins(1);
/// How soon it is tried again when the cluster did not answer.
const TRY_AGAIN: Duration = Duration::from_secs(5);

/// How the webhook is set up.
#[derive(Args, Debug)]
pub(crate) struct WebhookArguments {
    /// Where machines come from
    #[arg(long, value_name = "PROVIDER", value_parser = provider_names())]
    provider: Provider,
    /// The AWS region whose machines NodePools are compared with
    #[arg(long, env = "AWS_REGION", value_name = "REGION", default_value = "us-east-1")]
    region: String,
    /// The cluster's kubeconfig [default: $KUBECONFIG, ~/.kube/config, the pod's service account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The port to listen on, over TLS
    #[arg(long, env = "WEBHOOK_PORT", value_name = "PORT", default_value_t = 8443)]
    port: u16,
    /// The Service by which the API server finds this webhook
    #[arg(long, env = "WEBHOOK_SERVICE", value_name = "NAME", default_value = "karpenter-webhook")]
    service: String,
    /// The namespace of the Service and of the Secret [default: the kubeconfig's or the pod's]
    #[arg(long, env = "SYSTEM_NAMESPACE", value_name = "NAME")]
    namespace: Option<String>,
    /// The Secret that keeps the certificate
    #[arg(long, env = "WEBHOOK_SECRET", value_name = "NAME", default_value = "karpenter-webhook-cert")]
    secret: String,
    /// The webhook configuration that is told the certificate; empty if somebody else does that
    #[arg(long, env = "WEBHOOK_CONFIGURATION", value_name = "NAME", default_value = "karpenter-webhook")]
    configuration: String,
    /// A further name or address the certificate is for; give the option again for more
    #[arg(long = "name", value_name = "NAME")]
    names: Vec<String>,
    /// JSON file with the instance types that can be had, in the form of the KWOK provider
    #[arg(long, env = "INSTANCE_TYPES_FILE_PATH", value_name = "FILE")]
    instance_types_file_path: Option<PathBuf>,
}

/// Runs until a signal asks it to stop.
pub(crate) fn run(arguments: &WebhookArguments) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("starting threads")?.block_on(serve(arguments))
}

async fn serve(arguments: &WebhookArguments) -> anyhow::Result<ExitCode> {
    let config = configuration(arguments.kubeconfig.as_deref()).await?;
    let namespace = arguments.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    let client = Client::try_from(config).context("preparing to talk to the cluster")?;
    let provider = arguments.provider;
    // The chart passes an empty name for none.
    let file = arguments.instance_types_file_path.as_deref().filter(|file| !file.as_os_str().is_empty());
    let (types, labels) = machines(file, Some(provider), &arguments.region)?;
    if types.is_empty() {
        crate::say(
            "it is not known which machines there are, so requirements and limits are not compared with them",
        );
    }
    let shown = Arc::new(Shown::default());
    let trust = Trust {
        client: client.clone(),
        names: names(arguments, &namespace),
        namespace,
        secret: arguments.secret.clone(),
        configuration: arguments.configuration.clone(),
    };
    let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, arguments.port));
    let listener = TcpListener::bind(address).await.map_err(|error| {
        anyhow!("cannot listen on port {}: {error}; choose another with --port", arguments.port)
    })?;
    let reviewer = Arc::new(Reviewer::new(client, provider, types, labels));
    let router = router(reviewer);
    crate::say(format!("listening on {}", listener.local_addr()?));
    let tls = TlsListener::new(listener, Arc::clone(&shown))?;
    tokio::select! {
        served = axum::serve(tls, router).into_future() => served.context("answering reviews")?,
        () = keep(&trust, &shown) => {}
        () = asked_to_stop() => {}
    }
    Ok(ExitCode::SUCCESS)
}

fn names(arguments: &WebhookArguments, namespace: &str) -> Vec<String> {
    let service = &arguments.service;
    let mut names =
        vec![format!("{service}.{namespace}.svc"), format!("{service}.{namespace}"), service.clone()];
    names.extend(arguments.names.iter().cloned());
    names
}

fn router(reviewer: Arc<Reviewer>) -> Router {
    let review = move |body: Bytes| {
        let reviewer = Arc::clone(&reviewer);
        async move {
            let Ok(review) = serde_json::from_slice(&body) else {
                let message = "send an AdmissionReview of admission.k8s.io/v1 as JSON".to_owned();
                return (StatusCode::BAD_REQUEST, [(header::CONTENT_TYPE, "text/plain")], message);
            };
            let answer = reviewer.answer(&review).await.to_string();
            (StatusCode::OK, [(header::CONTENT_TYPE, "application/json")], answer)
        }
    };
    Router::new().route("/healthz", get(|| async { "ok" })).route("/validate", post(review))
}

/// Keeps the certificate valid and known, for ever.
async fn keep(trust: &Trust, shown: &Shown) {
    loop {
        let pause = match trust.look(shown, jiff::Timestamp::now()).await {
            Ok(()) => LOOK_AGAIN,
            Err(error) => {
                eprintln!(
                    "karpenter webhook: the certificate cannot be looked after: {error:#}; trying again"
                );
                TRY_AGAIN
            }
        };
        tokio::time::sleep(pause).await;
    }
}
