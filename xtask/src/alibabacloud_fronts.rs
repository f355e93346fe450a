//! `cargo xtask alibabacloud-fronts`: the official Python SDKs against the simulated Alibaba Cloud.
//!
//! The SDKs are installed once, in the versions that `requirements.txt` pins, into a virtual environment in the cache of tools.

use std::fs;
use std::hash::{DefaultHasher, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail};

use crate::parts::{Cases, Outcome};
use crate::test_run::libtest_summary;
use crate::workspace::Workspace;
use crate::{process, tools};

pub(crate) fn run(workspace: &Workspace) -> Result<Outcome> {
    let sources = workspace.root().join("crates/karpenter-simcloud-alibabacloud/sdk");
    let mut version = workspace.command("python3");
    if !version.arg("--version").stdout(Stdio::null()).status().is_ok_and(|status| status.success()) {
        return Ok(Outcome::from(true).note("not run: Python 3 is not installed"));
    }
    let python = environment(workspace, &sources)?;
    workspace.build(&["--example", "alibabacloud_front"])?;
    let mut exercise = workspace.command(python);
    exercise.arg("-B").arg(sources.join("exercise.py")).arg(workspace.program("examples/alibabacloud_front"));
    let mut cases = Cases::default();
    let good = process::observed(&mut exercise, |line| {
        if let Some(counted) = libtest_summary(line) {
            cases = counted;
        }
    })?;
    Ok(Outcome { good, cases: Some(cases), note: String::new() })
}

/// The Python of an environment that holds the SDKs, made first when the cache has none.
fn environment(workspace: &Workspace, sources: &Path) -> Result<PathBuf> {
    let requirements = sources.join("requirements.txt");
    let mut hasher = DefaultHasher::new();
    hasher.write(&fs::read(&requirements).context("reading which SDKs are wanted")?);
    let folder = tools::cache()?.join(format!("alibabacloud-sdks-{:016x}", hasher.finish()));
    let python = folder.join("bin/python");
    // Written last, so that a broken installation is made again.
    let finished = folder.join("finished");
    if finished.is_file() {
        return Ok(python);
    }
    println!("installing the Alibaba Cloud SDKs into {}", folder.display());
    if !process::succeeds(workspace.command("python3").args(["-m", "venv", "--clear"]).arg(&folder))? {
        bail!("python3 could not make a virtual environment: is its module venv installed?");
    }
    let mut install = workspace.command(&python);
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"]);
    if !process::succeeds(install.arg(&requirements))? {
        bail!("pip could not install the SDKs: is the package index reachable?");
    }
    fs::write(&finished, "").context("marking the SDKs as installed")?;
    Ok(python)
}
