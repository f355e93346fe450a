//! Builds the programs under test: our own release build and upstream's scheduler behind the same interface.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::measure::Program;

/// The folder for scenario files, reports and built programs, below cargo's target folder.
pub(crate) fn folder() -> Result<PathBuf> {
    let folder = target_directory()?.join("bench");
    std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    Ok(folder)
}

/// Builds `karpenter` in release form.
pub(crate) fn karpenter() -> Result<Program> {
    run(cargo().args(["build", "--release", "--quiet", "--package", "karpenter-cli"]), "building karpenter")?;
    let path =
        target_directory()?.join("release").join("karpenter").with_extension(std::env::consts::EXE_EXTENSION);
    Ok(Program { path, arguments: vec!["solve".to_owned(), "--stats".to_owned()] })
}

/// Builds the program that measures the AWS catalogue.
pub(crate) fn catalogue() -> Result<PathBuf> {
    let package = ["build", "--release", "--quiet", "--package", "karpenter-aws-catalogue"];
    run(cargo().args(package).args(["--example", "catalogue_cost"]), "building the AWS catalogue")?;
    let folder = target_directory()?.join("release").join("examples");
    Ok(folder.join("catalogue_cost").with_extension(std::env::consts::EXE_EXTENSION))
}

/// Builds upstream's scheduler from its Go module.
pub(crate) fn upstream(folder: &Path) -> Result<Program> {
    let path = folder.join("upstream").with_extension(std::env::consts::EXE_EXTENSION);
    let mut command = Command::new("go");
    command
        .current_dir(repository().join("bench").join("upstream"))
        .args(["build", "-o"])
        .arg(&path)
        .arg(".");
    // Upstream's module asks for a newer Go than many machines have; the go command fetches it like any module.
    command.env("GOTOOLCHAIN", "auto");
    run(&mut command, "building upstream's scheduler, which needs Go 1.21 or newer")?;
    // One worker is what a controller with the default CPU request runs.
    Ok(Program { path, arguments: vec!["-concurrency".to_owned(), "1".to_owned()] })
}

/// The repository's root.
pub(crate) fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the benchmarks stand in a folder of the repository")
}

fn target_directory() -> Result<PathBuf> {
    let mut command = cargo();
    command.args(["metadata", "--format-version", "1", "--no-deps"]);
    let output = command.output().context("asking cargo for its target folder")?;
    let metadata: Value =
        serde_json::from_slice(&output.stdout).context("reading what cargo metadata printed")?;
    let folder = metadata["target_directory"].as_str().context("cargo metadata names no target folder")?;
    Ok(PathBuf::from(folder))
}

fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(repository());
    command
}

fn run(command: &mut Command, what: &str) -> Result<()> {
    let status = command.status().with_context(|| what.to_owned())?;
    if !status.success() {
        bail!("{what} failed with {status}");
    }
    Ok(())
}
