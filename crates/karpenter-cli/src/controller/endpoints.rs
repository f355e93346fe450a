//! What the controller answers over HTTP: probes of the kubelet, scrapes of Prometheus.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::anyhow;
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use karpenter_controllers::Exporter;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::dry_run::Ledger;
use super::process::Process;

/// Serves probes: alive as long as it answers, ready once everything has been listed.
pub(super) fn probes(listed: watch::Receiver<bool>) -> Router {
    let readiness = move || {
        let ready = *listed.borrow();
        async move {
            if ready {
                (StatusCode::OK, "ok")
            } else {
                (StatusCode::INTERNAL_SERVER_ERROR, "the cluster's objects have not all been listed yet")
            }
        }
    };
    Router::new().route("/healthz", get(|| async { "ok" })).route("/readyz", get(readiness))
}

/// Serves metrics: of the process, of a dry run, then of the controllers, which say where the text ends.
pub(super) fn metrics(exporter: Exporter, ledger: Option<Ledger>) -> Router {
    let sources = Arc::new((Process::new(), ledger.clone(), exporter));
    let answer = move || {
        let (process, ledger, exporter) = &*sources;
        let text = process.text() + &ledger.as_ref().map(Ledger::metrics).unwrap_or_default();
        let text = text + &exporter.text();
        async move {
            let format = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, format)], text).into_response()
        }
    };
    let router = Router::new().route("/metrics", get(answer));
    match ledger {
        Some(ledger) => router.route("/dry-run", get(summary).with_state(ledger)),
        None => router,
    }
}

async fn summary(State(ledger): State<Ledger>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], ledger.summary())
}

/// Listens on a port of every interface; `flag` is what to change if that cannot be.
pub(super) async fn serve(port: u16, flag: &str, router: Router) -> anyhow::Result<()> {
    let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
    let listener = TcpListener::bind(address)
        .await
        .map_err(|error| anyhow!("cannot listen on port {port}: {error}; choose another with --{flag}"))?;
    tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, router).await {
            tracing::error!("port {port} is no longer served: {error}");
        }
    });
    Ok(())
}
