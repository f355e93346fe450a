//! What the controller answers over HTTP: probes of the kubelet, scrapes of Prometheus.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use anyhow::anyhow;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::IntoResponse;
use axum::routing::get;
use karpenter_controllers::Exporter;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::dry_run::Ledger;
use super::process::Process;
use super::text_format;

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
pub(crate) fn metrics(exporter: Exporter, ledger: Option<Ledger>) -> Router {
    let sources = Arc::new((Process::new(), ledger.clone(), exporter));
    let answer = move |headers: HeaderMap| {
        let (process, ledger, exporter) = &*sources;
        let text = process.text() + &ledger.as_ref().map(Ledger::metrics).unwrap_or_default();
        let (format, text) = text_format::answer(&headers, text + &exporter.text());
        async move { ([(header::CONTENT_TYPE, format)], text).into_response() }
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

/// Has whoever asks for anything show the token of a file, if one is named.
pub(super) fn guarded(router: Router, token_file: &str) -> Router {
    if token_file.is_empty() {
        return router;
    }
    let file: Arc<Path> = Path::new(token_file).into();
    router.layer(middleware::from_fn(move |request: Request, next: Next| {
        let refusal = refusal(request.headers(), &file);
        async move {
            match refusal {
                Some(refusal) => refusal.into_response(),
                None => next.run(request).await,
            }
        }
    }))
}

/// Why a scrape is not answered, if it is not. A token that cannot be read lets nobody in.
fn refusal(headers: &HeaderMap, file: &Path) -> Option<(StatusCode, &'static str)> {
    let Ok(token) = std::fs::read_to_string(file) else {
        tracing::error!("the token for metrics cannot be read from {}; nobody is answered", file.display());
        return Some((
            StatusCode::INTERNAL_SERVER_ERROR,
            "the token for metrics cannot be read; see the log",
        ));
    };
    let shown = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let shown = shown.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
    let token = token.trim();
    let known = !token.is_empty() && is_same(shown.trim().as_bytes(), token.as_bytes());
    (!known).then_some((StatusCode::UNAUTHORIZED, "show the token for metrics as a bearer token"))
}

/// Compares in a time that does not tell how much was right.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let differences = one.iter().zip(other).fold(0, |found, (a, b)| found | (a ^ b));
    one.len() == other.len() && differences == 0
}

/// Listens on a port of every interface; `flag` is what to change if that cannot be.
pub(crate) async fn serve(port: u16, flag: &str, router: Router) -> anyhow::Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(authorization: Option<&str>, token: &str) -> Option<StatusCode> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        std::fs::write(&file, token).unwrap();
        let mut headers = HeaderMap::new();
        authorization
            .into_iter()
            .for_each(|value| drop(headers.insert(header::AUTHORIZATION, value.parse().unwrap())));
        refusal(&headers, &file).map(|(status, _)| status)
    }

    #[test]
    fn only_the_token_opens_and_an_empty_one_never_does() {
        assert_eq!(asked(Some("Bearer secret"), "secret\n"), None);
        for wrong in
            [None, Some("Bearer secre"), Some("Bearer secret2"), Some("Basic secret"), Some("Bearer ")]
        {
            assert_eq!(asked(wrong, "secret"), Some(StatusCode::UNAUTHORIZED), "{wrong:?}");
        }
        assert_eq!(asked(Some("Bearer "), ""), Some(StatusCode::UNAUTHORIZED));
        let nowhere = refusal(&HeaderMap::new(), Path::new("/nonexistent/token"));
        assert_eq!(nowhere.map(|(status, _)| status), Some(StatusCode::INTERNAL_SERVER_ERROR));
    }
}
