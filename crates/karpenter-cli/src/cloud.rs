//! `--cloud FILE`: how the simulated cloud behaves.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use karpenter_simcloud::CloudDescription;

#[derive(Args, Debug)]
pub(crate) struct CloudArguments {
    /// A file that says how the cloud behaves: capacity, prices, outages, interruptions; without it everything can be had
    ///
    /// docs/simulated-cloud.md describes it.
    #[arg(long, value_name = "FILE")]
    cloud: Option<PathBuf>,
}

impl CloudArguments {
    /// The description in the file, if one was given.
    pub(crate) fn description(&self) -> anyhow::Result<Option<CloudDescription>> {
        self.cloud.as_deref().map(read).transpose()
    }
}

fn read(path: &Path) -> anyhow::Result<CloudDescription> {
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    serde_saphyr::from_str(&text).with_context(|| {
        format!("{} is no description of a cloud; see docs/simulated-cloud.md", path.display())
    })
}
