//! How requests reach the other end: over HTTP, or in process where tests and the simulated cloud stand in for AWS.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls_platform_verifier::Verifier;

/// Nobody answered, or the answer broke off.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct TransportError(pub String);

/// The transport cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TransportSetupError {
    /// The file of further certificates is unusable.
    #[error("cannot read the certificates in {path}, which AWS_CA_BUNDLE names: {reason}")]
    CaBundle {
        /// The file.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The system's certificates are unusable.
    #[error("cannot set up TLS: {0}")]
    Tls(#[from] rustls::Error),
}

/// Sends a request and brings the whole answer.
pub trait Transport: Send + Sync + 'static {
    /// Sends `request`, which has an absolute URI.
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'static, Result<Response<Bytes>, TransportError>>;
}

impl<F> Transport for F
where
    F: Fn(Request<Bytes>) -> BoxFuture<'static, Result<Response<Bytes>, TransportError>>
        + Send
        + Sync
        + 'static,
{
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'static, Result<Response<Bytes>, TransportError>> {
        self(request)
    }
}

/// Sends `request` and waits for its answer, whatever its status, no longer than `timeout`.
///
/// # Errors
/// When nobody answers in time, or the answer breaks off.
pub async fn exchange(
    transport: &dyn Transport,
    request: Request<Bytes>,
    timeout: Duration,
) -> Result<Response<Bytes>, TransportError> {
    let late = |_| TransportError(format!("no answer within {} seconds", timeout.as_secs()));
    tokio::time::timeout(timeout, transport.send(request)).await.map_err(late)?
}

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Idle connections are dropped before the other end does it, which would cost a retry.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);

/// HTTP/1.1 with TLS by rustls and the system's certificates; connections are kept and reused.
#[derive(Clone, Debug)]
pub struct HttpTransport {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

impl HttpTransport {
    /// Sets up TLS; `ca_bundle` names a file of further certificates to trust.
    ///
    /// # Errors
    /// When certificates cannot be read.
    pub fn new(ca_bundle: Option<&Path>) -> Result<Self, TransportSetupError> {
        let extra = ca_bundle.map_or_else(|| Ok(Vec::new()), certificates)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = Verifier::new_with_extra_roots(extra, Arc::clone(&provider))?;
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        connector.set_nodelay(true);
        let connector = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_timer(TokioTimer::new())
            .build(connector);
        Ok(Self { client })
    }
}

impl Transport for HttpTransport {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'static, Result<Response<Bytes>, TransportError>> {
        let answer = self.client.request(request.map(Full::new));
        Box::pin(async move {
            let (parts, body) = answer.await.map_err(|error| TransportError(chain(&error)))?.into_parts();
            let body = body.collect().await.map_err(|error| TransportError(chain(&error)))?.to_bytes();
            Ok(Response::from_parts(parts, body))
        })
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TransportSetupError> {
    let wrong = |reason: String| TransportSetupError::CaBundle { path: path.display().to_string(), reason };
    let text = fs::read(path).map_err(|error| wrong(error.to_string()))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match found {
        Ok(certificates) if certificates.is_empty() => {
            Err(wrong("it holds no certificate in PEM form".into()))
        }
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(wrong(error.to_string())),
    }
}

/// An error with its causes: hyper says "client error (Connect)" and hides why.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
