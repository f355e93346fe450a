//! On the network: TLS on TCP, certificates made on the spot, and the kubeconfig that trusts them.
//!
//! [`serve`] answers HTTP/1.1 and HTTP/2; dropping its future stops it and closes every connection. The collector is
//! the caller's to run ([`ApiServer::run_collector`](crate::ApiServer::run_collector)).

mod clients;
mod identity;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use clients::ClientCertificates;
pub use identity::{ClientIdentity, Identity, IdentityError};

use crate::server::ApiServer;

/// A client that does not finish its handshake in this time is dropped.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves the API on a listener until the future is dropped.
///
/// # Errors
/// Returns why the certificate cannot be used; errors of single connections end only those.
pub async fn serve(
    server: ApiServer,
    listener: TcpListener,
    identity: &Identity,
) -> Result<(), IdentityError> {
    let clients = Arc::new(identity.client_certificates()?);
    let acceptor = TlsAcceptor::from(Arc::new(identity.server_config(Arc::clone(&clients))?));
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                // A failed accept (too many open files, a client gone) concerns that client only.
                if let Ok((stream, _)) = accepted {
                    connections.spawn(connection(server.clone(), acceptor.clone(), Arc::clone(&clients), stream));
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connection(
    server: ApiServer,
    acceptor: TlsAcceptor,
    clients: Arc<ClientCertificates>,
    stream: TcpStream,
) {
    // Watch events are small and must not wait for more data.
    let _ = stream.set_nodelay(true);
    let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream));
    let Ok(Ok(stream)) = handshake.await else { return };
    let peer = clients.peer(stream.get_ref().1.peer_certificates());
    let service = TowerToHyperService::new(server.facing(peer));
    // The client sees why its connection broke; the server has nothing to add.
    let _ = Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
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
