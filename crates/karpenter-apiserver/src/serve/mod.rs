//! On the network: TLS on TCP, certificates made on the spot, and the kubeconfig that trusts them.
//!
//! [`serve`] answers HTTP/1.1 and HTTP/2; dropping its future stops it and closes every connection, [`serve_until`]
//! lets clients down gently. The collector is the caller's to run
//! ([`ApiServer::run_collector`](crate::ApiServer::run_collector)).

mod clients;
mod identity;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use clients::ClientCertificates;
pub use identity::{ClientIdentity, Identity, IdentityError};

use crate::server::ApiServer;

/// A client that does not finish its handshake in this time is dropped.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Requests under way when the server stops get this long to end.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// After a failed accept: whatever is short (open files, memory) needs time to come back.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// A controller has a watch per kind, and its client puts all of them on one connection.
const STREAMS_PER_CONNECTION: u32 = 1000;
/// How much of a request that should not be there is read.
const PLAIN_HTTP_DRAIN: u64 = 64 * 1024;
/// What Kubernetes tells those who forgot the s of https.
const PLAIN_HTTP: &[u8] =
    b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";

/// Serves the API on a listener until the future is dropped.
///
/// # Errors
/// Returns why the certificate cannot be used; errors of single connections end only those.
pub async fn serve(
    server: ApiServer,
    listener: TcpListener,
    identity: &Identity,
) -> Result<(), IdentityError> {
    serve_until(server, listener, identity, std::future::pending()).await
}

/// Serves the API on a listener until `stop` is ready; then ends watches, closes the server and lets requests that are
/// under way finish.
///
/// # Errors
/// Returns why the certificate cannot be used; errors of single connections end only those.
pub async fn serve_until(
    server: ApiServer,
    listener: TcpListener,
    identity: &Identity,
    stop: impl Future<Output = ()>,
) -> Result<(), IdentityError> {
    let clients = Arc::new(identity.client_certificates()?);
    let acceptor = TlsAcceptor::from(Arc::new(identity.server_config(Arc::clone(&clients))?));
    let front = Arc::new(Front { server, acceptor, clients });
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    let mut stop = std::pin::pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection(Arc::clone(&front), stream, graceful.watcher()));
                }
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
    drop(listener);
    front.server.close();
    // Whoever takes longer is cut off when the connections are dropped.
    let _ = tokio::time::timeout(STOP_TIMEOUT, graceful.shutdown()).await;
    Ok(())
}

/// What every connection needs.
struct Front {
    server: ApiServer,
    acceptor: TlsAcceptor,
    clients: Arc<ClientCertificates>,
}

async fn connection(front: Arc<Front>, stream: TcpStream, watcher: Watcher) {
    // Watch events are small and must not wait for more data.
    let _ = stream.set_nodelay(true);
    let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, shake_hands(&front.acceptor, stream));
    let Ok(Some(stream)) = handshake.await else { return };
    let peer = front.clients.peer(stream.get_ref().1.peer_certificates());
    let service = TowerToHyperService::new(front.server.facing(peer));
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http2().max_concurrent_streams(STREAMS_PER_CONNECTION);
    let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
    // The client sees why its connection broke; the server has nothing to add.
    let _ = watcher.watch(connection).await;
}

/// Sets up TLS; `None` when the client does not.
async fn shake_hands(acceptor: &TlsAcceptor, stream: TcpStream) -> Option<TlsStream<TcpStream>> {
    let mut first = [0];
    stream.peek(&mut first).await.ok()?;
    // No TLS record begins with a letter, and every HTTP request does.
    if first[0].is_ascii_alphabetic() {
        refuse_plain_http(stream).await;
        return None;
    }
    acceptor.accept(stream).await.ok()
}

async fn refuse_plain_http(mut stream: TcpStream) {
    // A client that is gone does not miss the answer.
    if stream.write_all(PLAIN_HTTP).await.is_ok() && stream.shutdown().await.is_ok() {
        // Closing on unread data would take the answer back.
        let _ = tokio::io::copy(&mut stream.take(PLAIN_HTTP_DRAIN), &mut tokio::io::sink()).await;
    }
}

/// Writes the kubeconfig for a server at `address`, with a token when the server asks for one.
pub fn kubeconfig(address: SocketAddr, identity: &Identity, token: Option<&str>) -> String {
    let authority = STANDARD.encode(identity.authority_pem());
    let user = token.map_or_else(|| "{}".to_owned(), |token| format!("{{token: {token:?}}}"));
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: karpenter\n\
         clusters:\n- name: karpenter\n  cluster:\n    server: https://{address}\n    \
         certificate-authority-data: {authority}\n\
         users:\n- name: karpenter\n  user: {user}\n\
         contexts:\n- name: karpenter\n  context: {{cluster: karpenter, user: karpenter, namespace: default}}\n"
    )
}
