//! Development tools that are programs of their own, built once into a cache outside the checkout.
//!
//! The cache's folder carries the version, so a new version is installed beside the old one and a fresh clone on
//! the same machine installs nothing.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::process;
use crate::workspace::Workspace;

/// A tool that cargo can install.
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
}

impl Tool {
    /// The program's path, installed first when the cache does not hold it.
    pub(crate) fn ensure(&self, workspace: &Workspace) -> Result<PathBuf> {
        let root = cache()?.join(format!("{}-{}", self.name, self.version));
        let program = root.join("bin").join(self.name).with_extension(std::env::consts::EXE_EXTENSION);
        if program.is_file() {
            return Ok(program);
        }
        println!("installing {} {} into {}", self.name, self.version, root.display());
        // An unoptimised build installs in a third of the time and still checks this workspace in about a second.
        let mut command =
            workspace.cargo(["install", "--quiet", "--locked", "--debug", "--version", self.version]);
        command.arg("--root").arg(&root).arg("--target-dir").arg(root.join("build")).arg(self.name);
        if !process::succeeds(&mut command)? {
            bail!(
                "cargo could not install {} {}: is the package registry reachable?",
                self.name,
                self.version
            );
        }
        std::fs::remove_dir_all(root.join("build")).context("removing the tool's build folder")?;
        Ok(program)
    }
}

/// `$XDG_CACHE_HOME/karpenter-rs/tools`, below `~/.cache` when the variable is not set.
pub(crate) fn cache() -> Result<PathBuf> {
    let base = match std::env::var_os("XDG_CACHE_HOME").filter(|value| !value.is_empty()) {
        Some(cache) => PathBuf::from(cache),
        None => {
            std::env::home_dir().context("set HOME or XDG_CACHE_HOME: tools are cached there")?.join(".cache")
        }
    };
    Ok(base.join("karpenter-rs").join("tools"))
}
