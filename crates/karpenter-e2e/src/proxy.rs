//! A road to the API server that can be closed: bytes are passed on as long as it is open.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use kube::config::Kubeconfig;
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A road, and a kubeconfig that leads over it.
pub(crate) struct Road {
    open: watch::Sender<bool>,
    folder: TempDir,
}

impl Road {
    /// Builds an open road to the server of a kubeconfig.
    pub(crate) async fn build(kubeconfig: &Path) -> anyhow::Result<Self> {
        let mut config = Kubeconfig::read_from(kubeconfig).context("reading the kubeconfig")?;
        let cluster = config.clusters.first_mut().and_then(|named| named.cluster.as_mut());
        let server = cluster.and_then(|cluster| cluster.server.as_mut()).context("finding the server")?;
        let target: SocketAddr =
            server.trim_start_matches("https://").parse().context("reading the server's address")?;
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        *server = format!("https://127.0.0.1:{}", listener.local_addr()?.port());
        let folder = tempfile::tempdir()?;
        std::fs::write(folder.path().join("kubeconfig"), serde_json::to_vec(&config)?)?;
        let (open, state) = watch::channel(true);
        tokio::spawn(accept(listener, target, state));
        Ok(Self { open, folder })
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// Cuts every connection and refuses new ones.
    pub(crate) fn close(&self) {
        self.open.send_replace(false);
    }

    pub(crate) fn open(&self) {
        self.open.send_replace(true);
    }
}

async fn accept(listener: TcpListener, target: SocketAddr, state: watch::Receiver<bool>) {
    while let Ok((inner, _)) = listener.accept().await {
        if *state.borrow() {
            tokio::spawn(pass_on(inner, target, state.clone()));
        }
    }
}

async fn pass_on(mut inner: TcpStream, target: SocketAddr, mut state: watch::Receiver<bool>) {
    let Ok(mut outer) = TcpStream::connect(target).await else { return };
    tokio::select! {
        // Both ends see a closed connection, whatever ended it.
        _ = tokio::io::copy_bidirectional(&mut inner, &mut outer) => {}
        _ = state.wait_for(|open| !open) => {}
    }
}
