//! `cargo xtask scheduler-conformance`: our scheduler model and the real kube-scheduler about the same nodes and pods.
//!
//! A kube-apiserver with a kube-scheduler and nothing else is started on loopback; an example of the models' crate
//! generates clusters, plays them on both sides and says where they differ.

use std::fs;

use anyhow::{Context, Result};
use clap::Args;

use crate::control_plane::{self, Component, Up};
use crate::parts::{Cases, Outcome};
use crate::process;
use crate::test_run::libtest_summary;
use crate::workspace::Workspace;

const PROGRAMS: [&str; 5] = ["keys", "etcd", "kube-apiserver", "kube-scheduler", "kubectl"];

#[derive(Args)]
pub(crate) struct Wish {
    /// Which clusters and pods are generated
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// How many pods are placed, forty in each cluster
    #[arg(long, default_value_t = 400)]
    pub(crate) pods: u32,
}

pub(crate) fn run(workspace: &Workspace, wish: &Wish) -> Result<Outcome> {
    if control_plane::programs_named(workspace, &PROGRAMS)?.is_none() {
        return Ok(
            Outcome::from(true).note("not run: kube-scheduler is built with Go, which is not installed")
        );
    }
    workspace.build(&["--example", "scheduler_conformance"])?;
    let rundir = std::env::temp_dir().join(format!("karpenter-scheduler-{}", std::process::id()));
    let up = Up { rundir: rundir.clone(), with: vec![Component::KubeScheduler], ..Up::default() };
    let outcome = control_plane::up(workspace, &up).and_then(|kubeconfig| {
        let mut command = workspace.command(workspace.program("examples/scheduler_conformance"));
        command.arg(kubeconfig);
        command.args(["--seed", &wish.seed.to_string(), "--pods", &wish.pods.to_string()]);
        let mut cases = Cases::default();
        let good = process::observed(&mut command, |line| {
            cases = libtest_summary(line).unwrap_or(cases);
        })?;
        Ok(Outcome { good, cases: Some(cases), note: String::new() })
    });
    control_plane::down(&rundir)?;
    fs::remove_dir_all(&rundir).with_context(|| format!("removing {}", rundir.display()))?;
    outcome
}
