//! Connections over TLS for axum; a slow handshake keeps nobody else waiting.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::certificate::Shown;

/// A client that does not finish its handshake in this time is dropped.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Handshakes that may be under way at once; more wait in the kernel.
const HANDSHAKES: usize = 64;
/// After a failed accept: whatever is short needs time to come back.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

type Connection = (TlsStream<TcpStream>, SocketAddr);

/// Accepts connections whose handshake is done.
pub(super) struct TlsListener {
    ready: mpsc::Receiver<Connection>,
    local: SocketAddr,
}

impl TlsListener {
    /// Takes connections from `listener` and shows them the certificate of the moment.
    pub(super) fn new(listener: TcpListener, shown: Arc<Shown>) -> anyhow::Result<Self> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(shown);
        let local = listener.local_addr()?;
        let (send, ready) = mpsc::channel(HANDSHAKES);
        tokio::spawn(accept(listener, TlsAcceptor::from(Arc::new(config)), send));
        Ok(Self { ready, local })
    }
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, ready: mpsc::Sender<Connection>) {
    loop {
        let Ok(permit) = ready.clone().reserve_owned().await else { return };
        match listener.accept().await {
            Ok((stream, peer)) => {
                let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream));
                tokio::spawn(async move {
                    // A client that does not trust us breaks off; that is its business.
                    if let Ok(Ok(stream)) = handshake.await {
                        permit.send((stream, peer));
                    }
                });
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

impl axum::serve::Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> Connection {
        match self.ready.recv().await {
            Some(connection) => connection,
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.local)
    }
}
