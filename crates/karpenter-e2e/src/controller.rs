//! The program under test as a child process.

use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::probe::get;

/// The `karpenter` program and the cluster it is pointed at.
#[derive(Clone)]
pub(crate) struct Program {
    path: PathBuf,
    kubeconfig: PathBuf,
    /// Logs of controllers.
    folder: Arc<TempDir>,
}

impl Program {
    pub(crate) fn new(path: &Path, kubeconfig: &Path) -> anyhow::Result<Self> {
        let path = path.canonicalize().with_context(|| format!("finding {}", path.display()))?;
        let folder = Arc::new(tempfile::tempdir().context("making a folder for logs")?);
        Ok(Self { path, kubeconfig: kubeconfig.to_owned(), folder })
    }

    /// The same program, pointed at the cluster by another way.
    pub(crate) fn through(&self, kubeconfig: &Path) -> Self {
        Self { kubeconfig: kubeconfig.to_owned(), ..self.clone() }
    }

    /// What `karpenter crds --provider kwok` prints.
    pub(crate) async fn crds(&self) -> anyhow::Result<String> {
        let output = Command::new(&self.path).args(["crds", "--provider", "kwok"]).output().await?;
        if !output.status.success() {
            bail!("karpenter crds failed: {}", String::from_utf8_lossy(&output.stderr));
        }
        String::from_utf8(output.stdout).context("reading the definitions")
    }

    /// Starts a controller that acts at once.
    pub(crate) fn start(&self) -> anyhow::Result<Controller> {
        self.start_with(&["--disable-leader-election"])
    }

    /// Starts a controller with flags of the scenario's choice.
    pub(crate) fn start_with(&self, flags: &[&str]) -> anyhow::Result<Controller> {
        let (probes, metrics) = (free_port()?, free_port()?);
        let log = self.folder.path().join(format!("controller-{probes}.log"));
        let out = File::create(&log).context("creating a log file")?;
        let child = Command::new(&self.path)
            .args(["controller", "--provider", "kwok", "--kubeconfig"])
            .arg(&self.kubeconfig)
            .arg(format!("--health-probe-port={probes}"))
            .arg(format!("--metrics-port={metrics}"))
            .args(flags)
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out)
            .kill_on_drop(true)
            .spawn()
            .context("starting the controller")?;
        Ok(Controller { child, probes, metrics, log })
    }
}

/// A running controller; it is killed when it is dropped.
pub(crate) struct Controller {
    child: Child,
    probes: u16,
    metrics: u16,
    log: PathBuf,
}

impl Controller {
    /// Whether it says that it is ready.
    pub(crate) async fn is_ready(&self) -> bool {
        get(self.probes, "/readyz").await.is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
    }

    /// What Prometheus would read.
    pub(crate) async fn metrics(&self) -> anyhow::Result<String> {
        get(self.metrics, "/metrics").await
    }

    /// What it has logged.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Takes it down without a chance to say goodbye.
    pub(crate) async fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill().await.context("killing the controller")
    }

    /// Asks it to stop, and waits until it has.
    pub(crate) async fn terminate(mut self) -> anyhow::Result<()> {
        let id = self.child.id().context("the controller has ended by itself")?;
        Command::new("kill").args(["-TERM", &id.to_string()]).status().await?;
        let status = self.child.wait().await?;
        if !status.success() {
            bail!("the controller ended with {status}: {}", self.log());
        }
        Ok(())
    }
}

fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0)).context("finding a free port")?.local_addr()?.port())
}
