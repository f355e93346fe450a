//! Longer runs than scenarios are, each for one question.

mod census;
mod kills;
mod sizes;
mod take_over;

use std::path::PathBuf;

use crate::cluster::Cluster;

/// A question, with what it takes to ask it.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Trials {
    /// Kill the leader of two replicas this often while machines come and go, and count what that leaves behind
    #[arg(long)]
    kills: Option<u32>,
    /// Take a cluster over from this program, upstream's controller, and hand it back
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
        self.kills.is_some() || self.upstream.is_some() || !self.size.is_empty()
    }

    /// Runs what was asked for; each prints what it finds.
    pub(crate) async fn run(&self, cluster: &Cluster) -> anyhow::Result<()> {
        if let Some(kills) = self.kills {
            kills::run(cluster, kills).await?;
        }
        if let Some(upstream) = &self.upstream {
            take_over::run(cluster, upstream, &self.upstream_crds).await?;
        }
        for size in &self.size {
            sizes::run(cluster, *size).await?;
        }
        Ok(())
    }
}
