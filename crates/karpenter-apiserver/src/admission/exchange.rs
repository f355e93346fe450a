//! Asking a webhook: one HTTPS request with a deadline, trusting the authority its configuration names.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::question::{Question, Verdict};
use super::route::Route;
use super::trust::Trust;
use super::webhook::{Address, Webhook};

/// Reviews larger than this are refused.
const ANSWER_LIMIT: usize = 3 * 1024 * 1024;

impl Question {
    /// Asks the webhook.
    pub(crate) async fn ask(self) -> (String, Verdict) {
        let webhook = self.webhook.as_deref().expect("questions are built for a webhook");
        let url = url(webhook);
        let endpoint = match self.route {
            Route::Endpoint(endpoint) => Some(endpoint),
            Route::Url | Route::Nowhere(_) => None,
        };
        let verdict = match &self.route {
            Route::Nowhere(why) => Err(why.clone()),
            Route::Url | Route::Endpoint(_) => {
                let answer = exchange(webhook, &url, endpoint, self.body.clone());
                let answer = tokio::time::timeout(webhook.timeout, answer).await;
                answer.unwrap_or_else(|_| Err("context deadline exceeded".to_owned()))
            }
        };
        let verdict = verdict.map_err(|error| match error.strip_prefix("status: ") {
            Some(status) => format!("failed to call webhook: {status}"),
            None => format!("failed to call webhook: Post {url:?}: {error}"),
        });
        let verdict = verdict.and_then(|body| self.read(&body));
        (self.key.clone(), verdict)
    }
}

/// Returns where to post.
fn url(webhook: &Webhook) -> String {
    let timeout = format!("timeout={}s", webhook.timeout.as_secs());
    match &webhook.address {
        Address::Url(url) => format!("{url}{}{timeout}", if url.contains('?') { '&' } else { '?' }),
        Address::Service { namespace, name, path, port } => {
            let path = path.strip_prefix('/').unwrap_or(path);
            format!("https://{name}.{namespace}.svc:{port}/{path}?{timeout}")
        }
    }
}

/// Connects to the endpoint of a Service, or to the host that a URL names.
async fn connect(host: &str, port: u16, endpoint: Option<SocketAddr>) -> Result<TcpStream, String> {
    let (stream, place) = match endpoint {
        Some(endpoint) => (TcpStream::connect(endpoint).await, endpoint.to_string()),
        None => (TcpStream::connect((host, port)).await, format!("{host}:{port}")),
    };
    stream.map_err(|error| match error.kind() {
        std::io::ErrorKind::ConnectionRefused => format!("dial tcp {place}: connect: connection refused"),
        _ => format!("dial tcp {place}: {error}"),
    })
}

async fn exchange(
    webhook: &Webhook,
    url: &str,
    endpoint: Option<SocketAddr>,
    body: Bytes,
) -> Result<Bytes, String> {
    let uri: Uri = url.parse().map_err(|error| format!("parse {url:?}: {error}"))?;
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let port = uri.port_u16().unwrap_or(443);
    let stream = connect(&host, port, endpoint).await?;
    let name = ServerName::try_from(host).map_err(|error| format!("tls: {error}"))?;
    let connector = TlsConnector::from(Arc::new(client_config(&webhook.authority_pem)?));
    let stream = connector
        .connect(name, stream)
        .await
        .map_err(|error| format!("tls: failed to verify certificate: x509: {error}"))?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| error.to_string())?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let request = Request::post(path)
        .header(header::HOST, uri.authority().map_or("", |authority| authority.as_str()))
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json, */*")
        .header(header::USER_AGENT, "kube-apiserver-admission")
        .body(Full::new(body))
        .map_err(|error| error.to_string())?;
    let answer = async {
        let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
        let status = response.status();
        let content_type = response.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let is_text = content_type.is_none_or(|name| name.starts_with("text/"));
        let body = Limited::new(response.into_body(), ANSWER_LIMIT).collect().await;
        let body = body.map_err(|error| error.to_string())?.to_bytes();
        if status.is_success() { Ok(body) } else { Err(refusal(status, is_text.then_some(&*body))) }
    };
    // The connection moves the bytes; it lives as long as its one answer needs.
    tokio::select! {
        answer = answer => answer,
        Err(error) = connection => Err(error.to_string()),
    }
}

/// Words an HTTP error as Kubernetes' own client does.
fn refusal(status: http::StatusCode, text: Option<&[u8]>) -> String {
    let text = text.map_or("unknown".into(), String::from_utf8_lossy);
    match status.as_u16() {
        404 => "status: the server could not find the requested resource".to_owned(),
        code if code >= 500 => {
            format!(
                "status: an error on the server ({:?}) has prevented the request from succeeding",
                text.trim()
            )
        }
        _ => format!("status: the server responded with the status code {status}: {}", text.trim()),
    }
}

fn client_config(authority_pem: &[u8]) -> Result<ClientConfig, String> {
    let unusable = |error: String| format!("unable to load root certificates: {error}");
    let certificates: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(authority_pem)
        .collect::<Result<_, _>>()
        .map_err(|error| unusable(error.to_string()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let trust = Trust::new(certificates, provider).map_err(unusable)?;
    Ok(config.dangerous().with_custom_certificate_verifier(Arc::new(trust)).with_no_client_auth())
}
