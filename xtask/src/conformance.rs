//! `cargo xtask conformance`: the same generated requests to our API server and to the real one.
//!
//! Starts a fresh etcd and kube-apiserver in a folder of its own, without controllers, which would change objects, and
//! runs the program of `karpenter-conformance` against it.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use clap::Args;

use crate::control_plane::{self, Up};
use crate::parts::Outcome;
use crate::process;
use crate::workspace::Workspace;

const PROGRAMS: [&str; 4] = ["etcd", "kube-apiserver", "kubectl", "keys"];

#[derive(Args)]
pub(crate) struct Conformance {
    /// Arguments of the program, such as `--seed 2`; `--help` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Runs it with the arguments given.
pub(crate) fn run(workspace: &Workspace, wish: &Conformance) -> Result<bool> {
    let folder = std::env::temp_dir().join(format!("karpenter-conformance-{}", std::process::id()));
    let good = compare(workspace, &wish.arguments, &folder);
    control_plane::down(&folder)?;
    fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))?;
    good
}

/// Runs it as a part of the tests.
pub(crate) fn check(workspace: &Workspace) -> Result<Outcome> {
    if control_plane::programs_named(workspace, &PROGRAMS)?.is_none() {
        let note = "not run: the real API server is built with Go, which is not installed";
        return Ok(Outcome::from(true).note(note));
    }
    Ok(run(workspace, &Conformance { arguments: Vec::new() })?.into())
}

fn compare(workspace: &Workspace, arguments: &[String], folder: &Path) -> Result<bool> {
    workspace.build(&["--bin", "karpenter-conformance"])?;
    let wish = Up { rundir: folder.to_owned(), ..Up::default() };
    let kubeconfig = control_plane::up(workspace, &wish)?;
    let mut command = workspace.command(workspace.program("karpenter-conformance"));
    process::succeeds(command.arg("--kubeconfig").arg(kubeconfig).args(arguments))
}
