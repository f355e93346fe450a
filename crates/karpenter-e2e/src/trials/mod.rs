//! Longer runs than scenarios are, each for one question.

mod census;
mod kills;
mod scale_down;
mod sizes;
mod take_over;
mod usage;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use crate::cluster::{Cluster, eventually};
use crate::controller::Controller;
use usage::Usage;

/// How long a cluster may take to do what is wanted of it.
const PATIENCE: Duration = Duration::from_mins(10);

/// A question, with what it takes to ask it.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Trials {
    /// Kill the leader of two replicas this often while machines come and go, and count what that leaves behind
    #[arg(long)]
    kills: Option<u32>,
    /// Shadow a cluster that upstream's controller runs, take it over and hand it back
    #[arg(long, requires = "upstream")]
    take_over: bool,
    /// Scale 1,000 pods to 100 under upstream's controller and under ours
    #[arg(long, requires = "upstream")]
    scale_down: bool,
    /// Upstream's controller
    #[arg(long, requires = "upstream_crds")]
    upstream: Option<PathBuf>,
    /// Folders with upstream's definitions
    #[arg(long)]
    upstream_crds: Vec<PathBuf>,
    /// Fill the API server with so many nodes and pods (`1000x20000`), or pods that wait (`0x20000`), and measure the controller
    #[arg(long)]
    size: Vec<sizes::Size>,
}

impl Trials {
    /// Whether any was asked for.
    pub(crate) fn any(&self) -> bool {
        self.kills.is_some() || self.take_over || self.scale_down || !self.size.is_empty()
    }

    /// Runs what was asked for; each prints what it finds.
    pub(crate) async fn run(&self, cluster: &Cluster) -> anyhow::Result<()> {
        if let Some(kills) = self.kills {
            kills::run(cluster, kills).await?;
        }
        if let Some(upstream) = &self.upstream {
            if self.take_over {
                take_over::run(cluster, upstream, &self.upstream_crds).await?;
            }
            if self.scale_down {
                scale_down::run(cluster, upstream, &self.upstream_crds).await?;
            }
        }
        for size in &self.size {
            sizes::run(cluster, *size).await?;
        }
        Ok(())
    }
}

fn read_all(folders: &[PathBuf]) -> anyhow::Result<Vec<String>> {
    let mut texts = Vec::new();
    for folder in folders {
        for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
            let path = entry?.path();
            if path.extension().is_some_and(|found| found == "yaml") {
                texts.push(fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?);
            }
        }
    }
    Ok(texts)
}

async fn start_upstream(cluster: &Cluster, program: &Path) -> anyhow::Result<Controller> {
    let controller = cluster.program.start_upstream(program)?;
    let ready = eventually("upstream is ready", || async { Ok(controller.is_ready().await) }).await;
    ready.map_err(|error| anyhow::anyhow!("{error}; its log: {}", controller.log()))?;
    Ok(controller)
}

/// Asks once in a while until the answer is yes, and says how long that took.
async fn wait_until<F>(what: &str, mut ask: impl FnMut() -> F) -> anyhow::Result<Duration>
where
    F: Future<Output = anyhow::Result<bool>>,
{
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        if ask().await? {
            return Ok(begun.elapsed());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    bail!("it never came about that {what}")
}
