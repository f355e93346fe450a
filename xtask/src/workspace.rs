//! Where the workspace is, which files belong to it and what cargo says about its packages.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::process;

/// The checkout that xtask was compiled in.
pub(crate) struct Workspace {
    root: PathBuf,
}

impl Workspace {
    /// Finds the workspace from xtask's own manifest, so that tasks work from any folder inside it.
    pub(crate) fn find() -> Result<Self> {
        let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = manifest.parent().context("xtask must stand in a folder of the workspace")?.to_path_buf();
        Ok(Self { root })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// A command that runs in the workspace's root.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.root);
        command
    }

    /// The cargo that started xtask, in the workspace's root.
    pub(crate) fn cargo<I, S>(&self, arguments: I) -> Command
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        let mut command = self.command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.args(arguments);
        command
    }

    /// Where cargo put a program of the workspace that was built for development.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.target().join("debug").join(name)
    }

    /// Builds programs for development: `["--bin", NAME]`, `["--example", NAME]` and so on. `--workspace` resolves the features that
    /// the tests ask for, so that `cargo xtask test` does not compile the same crates a second time.
    pub(crate) fn build(&self, programs: &[&str]) -> Result<()> {
        if !process::succeeds(self.cargo(["build", "--quiet", "--workspace"]).args(programs))? {
            bail!("{} could not be built", programs.join(" "));
        }
        Ok(())
    }

    /// Builds `karpenter` as people run it, and says where it is.
    pub(crate) fn released_karpenter(&self) -> Result<PathBuf> {
        let mut build = self.cargo(["build", "--quiet", "--release", "--package", "karpenter-cli"]);
        if !process::succeeds(&mut build)? {
            bail!("the controller could not be built");
        }
        Ok(self.target().join("release").join("karpenter"))
    }

    fn target(&self) -> PathBuf {
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| self.root.join("target"), PathBuf::from)
    }

    /// Files under version control and new ones that are not ignored, relative to the root, sorted.
    pub(crate) fn files(&self) -> Result<Vec<PathBuf>> {
        let mut command = self.command("git");
        command.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
        let listing = process::output(&mut command).context("listing the files of the checkout")?;
        let mut files: Vec<PathBuf> = listing
            .split('\0')
            .filter(|name| !name.is_empty())
            .map(PathBuf::from)
            // A file deleted but not yet committed is still listed.
            .filter(|name| self.root.join(name).is_file())
            .collect();
        files.sort();
        files.dedup();
        Ok(files)
    }

    /// What `cargo metadata` says of the workspace's own packages.
    pub(crate) fn metadata(&self) -> Result<Value> {
        let mut command = self.cargo(["metadata", "--format-version", "1", "--no-deps"]);
        let text = process::output(&mut command).context("asking cargo for the workspace's packages")?;
        serde_json::from_str(&text).context("reading what cargo metadata printed")
    }
}

/// The elements of an array inside cargo's metadata; none when it is absent.
pub(crate) fn elements<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

/// A string inside cargo's metadata; empty when it is absent.
pub(crate) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}
