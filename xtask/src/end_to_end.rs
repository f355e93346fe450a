//! `cargo xtask e2e`: the same scenarios for the controller on the embedded cluster and on a real control plane.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};

use crate::control_plane::{self, Component, Up};
use crate::observed::Observed;
use crate::parts::{Cases, Outcome};
use crate::process;
use crate::test_run::libtest_summary;
use crate::workspace::Workspace;

const PROGRAMS: [&str; 7] =
    ["keys", "etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager", "kubectl", "kwok"];
/// How long the embedded cluster may take to write its kubeconfig.
const READY_WAIT: Duration = Duration::from_secs(30);

#[derive(Args)]
pub(crate) struct Wish {
    /// The cluster to run on
    #[arg(long, default_value = "embedded")]
    pub(crate) on: Plane,
    /// Run only scenarios whose name contains this
    #[arg(default_value = "")]
    pub(crate) filter: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Plane {
    /// `karpenter local` without its controllers
    Embedded,
    /// etcd, kube-apiserver, kube-scheduler, kube-controller-manager and kwok
    Real,
}

pub(crate) fn run(workspace: &Workspace, wish: &Wish) -> Result<Outcome> {
    let packages = ["--package", "karpenter-cli", "--package", "karpenter-e2e"];
    if !process::succeeds(workspace.cargo(["build", "--quiet"]).args(packages))? {
        return Ok(Outcome::default());
    }
    let rundir = std::env::temp_dir().join(format!("karpenter-e2e-{}-{:?}", std::process::id(), wish.on));
    fs::create_dir_all(&rundir).with_context(|| format!("creating {}", rundir.display()))?;
    let outcome = match wish.on {
        Plane::Embedded => on_embedded(workspace, &rundir, &wish.filter),
        Plane::Real => on_real(workspace, &rundir, &wish.filter),
    };
    fs::remove_dir_all(&rundir).with_context(|| format!("removing {}", rundir.display()))?;
    outcome
}

fn on_real(workspace: &Workspace, rundir: &Path, filter: &str) -> Result<Outcome> {
    if control_plane::programs_named(workspace, &PROGRAMS)?.is_none() {
        return Ok(
            Outcome::from(true).note("not run: a control plane is built with Go, which is not installed")
        );
    }
    let up = Up {
        rundir: rundir.to_owned(),
        with: vec![Component::KubeControllerManager, Component::KubeScheduler, Component::Kwok],
        ..Up::default()
    };
    let outcome =
        control_plane::up(workspace, &up).and_then(|kubeconfig| play(workspace, &kubeconfig, filter));
    control_plane::down(rundir)?;
    outcome
}

fn on_embedded(workspace: &Workspace, rundir: &Path, filter: &str) -> Result<Outcome> {
    let kubeconfig = rundir.join("kubeconfig");
    let mut cluster = Embedded::start(workspace, &kubeconfig)?;
    let outcome = cluster.wait_for(&kubeconfig).and_then(|()| play(workspace, &kubeconfig, filter));
    cluster.stop();
    outcome
}

fn play(workspace: &Workspace, kubeconfig: &Path, filter: &str) -> Result<Outcome> {
    let mut command = workspace.command(workspace.program("e2e-scenarios"));
    command.arg("--kubeconfig").arg(kubeconfig).arg("--karpenter").arg(workspace.program("karpenter"));
    command.arg(filter);
    let mut cases = Cases::default();
    let mut observed = Observed::default();
    let good = process::observed(&mut command, |line| {
        cases = libtest_summary(line).unwrap_or(cases);
        observed.add(line);
    })?;
    Ok(Outcome { good, cases: Some(cases), note: observed.to_string() })
}

/// The embedded cluster as a child process.
struct Embedded(Child);

impl Embedded {
    fn start(workspace: &Workspace, kubeconfig: &Path) -> Result<Self> {
        let mut command = workspace.command(workspace.program("karpenter"));
        command
            .args(["local", "--without-karpenter", "--quiet", "--port", "0", "--kubeconfig"])
            .arg(kubeconfig);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        Ok(Self(child.context("starting the embedded cluster")?))
    }

    fn wait_for(&mut self, kubeconfig: &Path) -> Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < READY_WAIT {
            if kubeconfig.exists() {
                return Ok(());
            }
            if let Some(status) = self.0.try_wait()? {
                bail!("the embedded cluster ended with {status}");
            }
            thread::sleep(Duration::from_millis(50));
        }
        bail!("the embedded cluster wrote no kubeconfig")
    }

    fn stop(&mut self) {
        // It holds nothing that could be lost.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
