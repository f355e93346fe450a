//! The program under test as a child process.

use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::probe::{ask, get};

/// How long a controller may take that is to end by itself.
const ENDED_WITHIN: Duration = Duration::from_mins(2);

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

    /// The tokens and keys with which controllers show who they are.
    pub(crate) fn tokens(&self) -> anyhow::Result<Vec<String>> {
        let text = std::fs::read_to_string(&self.kubeconfig).context("reading the kubeconfig")?;
        let config: serde_json::Value = serde_saphyr::from_str(&text).context("reading the kubeconfig")?;
        let users = config["users"].as_array().into_iter().flatten().map(|user| &user["user"]);
        let secret = |user: &serde_json::Value| {
            let fields = ["token", "client-key-data", "password"];
            fields.map(|field| user[field].as_str().unwrap_or_default().to_owned())
        };
        Ok(users.flat_map(secret).filter(|secret| !secret.is_empty()).collect())
    }

    /// Starts a controller that acts at once.
    pub(crate) fn start(&self) -> anyhow::Result<Controller> {
        self.start_with(&["--disable-leader-election"])
    }

    /// Starts a controller with flags of the scenario's choice.
    pub(crate) fn start_with(&self, flags: &[&str]) -> anyhow::Result<Controller> {
        let mut command = Command::new(&self.path);
        command.args(["controller", "--provider", "kwok"]).args(flags);
        self.spawn(command)
    }

    /// Starts upstream's controller, which shares our flags' variables and our Lease.
    pub(crate) fn start_upstream(&self, path: &Path) -> anyhow::Result<Controller> {
        self.spawn(Command::new(path))
    }

    /// Both take where the cluster is, and where to listen, from variables.
    fn spawn(&self, mut command: Command) -> anyhow::Result<Controller> {
        let (probes, metrics) = (free_port()?, free_port()?);
        let log = self.folder.path().join(format!("controller-{probes}.log"));
        let out = File::create(&log).context("creating a log file")?;
        let child = command
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HEALTH_PROBE_PORT", probes.to_string())
            .env("METRICS_PORT", metrics.to_string())
            .env("LEADER_ELECTION_NAMESPACE", "kube-system")
            .env("SYSTEM_NAMESPACE", "kube-system")
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
        self.ask("/metrics").await
    }

    /// What it answers at a path of its port for metrics.
    pub(crate) async fn ask(&self, path: &str) -> anyhow::Result<String> {
        get(self.metrics, path).await
    }

    /// The id of its process, while it runs.
    pub(crate) fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Has it hear a signal, such as `STOP` and `CONT`.
    pub(crate) async fn signal(&self, name: &str) -> anyhow::Result<()> {
        let id = self.id().context("the controller has ended by itself")?;
        Command::new("kill").args([&format!("-{name}"), &id.to_string()]).status().await?;
        Ok(())
    }

    /// Waits until it ends by itself, and says how.
    pub(crate) async fn ended(mut self) -> anyhow::Result<ExitStatus> {
        let status = tokio::time::timeout(ENDED_WITHIN, self.child.wait()).await;
        Ok(status.context("the controller does not end")??)
    }

    /// Asks it to stop, and waits until it has, whatever it says about that.
    pub(crate) async fn end(mut self) -> anyhow::Result<()> {
        self.signal("TERM").await?;
        self.child.wait().await?;
        Ok(())
    }

    /// What Prometheus would read if it showed this token.
    pub(crate) async fn metrics_with(&self, token: &str) -> anyhow::Result<String> {
        ask(self.metrics, "/metrics", &format!("Authorization: Bearer {token}\r\n")).await
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
        self.signal("TERM").await?;
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
