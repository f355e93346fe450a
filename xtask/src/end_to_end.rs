//! `cargo xtask e2e`: the same scenarios for the controller on the embedded cluster and on a real control plane.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};

use crate::control_plane::{self, Component, Up};
use crate::observed::Observed;
use crate::parts::{Cases, Outcome};
use crate::test_run::libtest_summary;
use crate::workspace::Workspace;
use crate::{process, upstream_controller};

const PROGRAMS: [&str; 7] =
    ["keys", "etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager", "kubectl", "kwok"];
/// What plays the cluster, unless the API server alone is filled.
const COMPONENTS: [Component; 3] =
    [Component::KubeControllerManager, Component::KubeScheduler, Component::Kwok];
/// How long the embedded cluster may take to write its kubeconfig.
const READY_WAIT: Duration = Duration::from_secs(30);

#[derive(Args, Default)]
pub(crate) struct Wish {
    /// The cluster to run on
    #[arg(long, default_value = "embedded")]
    pub(crate) on: Plane,
    /// Run only scenarios whose name contains this
    #[arg(default_value = "")]
    pub(crate) filter: String,
    /// Instead of the scenarios, kill the leader of two replicas this often and count what that leaves behind
    #[arg(long)]
    pub(crate) kills: Option<u32>,
    /// Instead of the scenarios, shadow a cluster run by upstream's controller, take it over and hand it back
    #[arg(long)]
    pub(crate) take_over: bool,
    /// Instead of the scenarios, scale 1,000 pods to 100 under upstream's controller and under ours, built for release
    #[arg(long)]
    pub(crate) scale_down: bool,
    /// Instead of the scenarios, measure the controller, built for release, on so many nodes and pods (`1000x20000`); `0x20000` is a backlog
    #[arg(long)]
    pub(crate) size: Vec<String>,
}

impl Wish {
    /// What e2e-scenarios is told; `None` if that takes Go, which is not installed.
    fn arguments(&self, workspace: &Workspace) -> Result<Option<Vec<OsString>>> {
        let mut arguments: Vec<OsString> = vec![self.filter.clone().into()];
        arguments.extend(self.kills.map(|kills| format!("--kills={kills}").into()));
        arguments.extend(self.size.iter().map(|size| format!("--size={size}").into()));
        arguments.extend(self.take_over.then(|| "--take-over".into()));
        arguments.extend(self.scale_down.then(|| "--scale-down".into()));
        if self.take_over || self.scale_down {
            let Some(upstream) = upstream_controller::ensure(workspace)? else { return Ok(None) };
            arguments.extend(["--upstream".into(), upstream.program.into_os_string()]);
            for folder in upstream.definitions {
                arguments.extend(["--upstream-crds".into(), folder.into_os_string()]);
            }
        }
        Ok(Some(arguments))
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Plane {
    /// `karpenter local` without its controllers
    #[default]
    Embedded,
    /// etcd, kube-apiserver, kube-scheduler, kube-controller-manager and kwok
    Real,
}

pub(crate) fn run(workspace: &Workspace, wish: &Wish) -> Result<Outcome> {
    workspace.build(&["--bin", "karpenter", "--bin", "e2e-scenarios"])?;
    let rundir = std::env::temp_dir().join(format!("karpenter-e2e-{}-{:?}", std::process::id(), wish.on));
    fs::create_dir_all(&rundir).with_context(|| format!("creating {}", rundir.display()))?;
    let outcome = match wish.on {
        Plane::Embedded => on_embedded(workspace, &rundir, wish),
        Plane::Real => on_real(workspace, &rundir, wish),
    };
    fs::remove_dir_all(&rundir).with_context(|| format!("removing {}", rundir.display()))?;
    outcome
}

fn on_real(workspace: &Workspace, rundir: &Path, wish: &Wish) -> Result<Outcome> {
    if control_plane::programs_named(workspace, &PROGRAMS)?.is_none() {
        return Ok(
            Outcome::from(true).note("not run: a control plane is built with Go, which is not installed")
        );
    }
    let up = Up {
        rundir: rundir.to_owned(),
        with: if wish.size.is_empty() { COMPONENTS.to_vec() } else { Vec::new() },
        ..Up::default()
    };
    let outcome = control_plane::up(workspace, &up).and_then(|kubeconfig| play(workspace, &kubeconfig, wish));
    control_plane::down(rundir)?;
    outcome
}

fn on_embedded(workspace: &Workspace, rundir: &Path, wish: &Wish) -> Result<Outcome> {
    let kubeconfig = rundir.join("kubeconfig");
    let mut cluster = Embedded::start(workspace, &kubeconfig)?;
    let outcome = cluster.wait_for(&kubeconfig).and_then(|()| play(workspace, &kubeconfig, wish));
    cluster.stop();
    outcome
}

fn play(workspace: &Workspace, kubeconfig: &Path, wish: &Wish) -> Result<Outcome> {
    let Some(arguments) = wish.arguments(workspace)? else {
        return Ok(Outcome::from(true).note("not run: upstream is built with Go, which is not installed"));
    };
    let mut command = workspace.command(workspace.program("e2e-scenarios"));
    command.arg("--kubeconfig").arg(kubeconfig).arg("--karpenter").arg(karpenter(workspace, wish)?);
    command.args(arguments);
    let mut cases = Cases::default();
    let mut observed = Observed::default();
    let good = process::observed(&mut command, |line| {
        cases = libtest_summary(line).unwrap_or(cases);
        observed.add(line);
    })?;
    // A trial is one case.
    let cases = Some(cases).filter(|counted| *counted != Cases::default());
    Ok(Outcome { good, cases, note: observed.to_string() })
}

/// The program under test; figures are those of the one people run.
fn karpenter(workspace: &Workspace, wish: &Wish) -> Result<PathBuf> {
    if wish.size.is_empty() && !wish.scale_down {
        return Ok(workspace.program("karpenter"));
    }
    workspace.released_karpenter()
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
