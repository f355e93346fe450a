//! `cargo xtask control-plane`: a real Kubernetes control plane from Go modules, to judge ours against.
//!
//! `build` compiles it once into the cache of tools, `up RUNDIR` starts it on loopback, `down RUNDIR` stops it. What is
//! built is said by the modules below `tests/control-plane`; no container, no release download.

mod build;
mod process_files;
mod start;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use clap::{Args, Subcommand, ValueEnum};

use crate::process;
use crate::workspace::Workspace;

pub(crate) use start::free_ports;

/// Where the facts about built-in kinds are kept.
const KINDS: &str = "crates/karpenter-apiserver/src/schema/kinds.txt";

#[derive(Subcommand)]
pub(crate) enum ControlPlane {
    /// Build the programs that the cache does not hold and print their folder
    Build,
    /// Start it with its state in RUNDIR and print the path of an administrator's kubeconfig
    Up(Up),
    /// Stop what `up` started
    Down { rundir: PathBuf },
    /// Write what the Go types say about the built-in kinds, for the schemas of our API server
    Kinds {
        /// Write nothing; fail when the file is not what would be written
        #[arg(long)]
        check: bool,
    },
}

#[derive(Args, Default)]
pub(crate) struct Up {
    /// Folder for state, certificates and logs
    pub(crate) rundir: PathBuf,
    /// What to start beside etcd and kube-apiserver; a later `up` of the same folder adds what is missing
    #[arg(long, value_delimiter = ',', default_values_t = Component::ALL, num_args = 0..)]
    pub(crate) with: Vec<Component>,
    /// Let etcd write to the disk what it acknowledges
    #[arg(long)]
    pub(crate) fsync: bool,
    /// A further flag of kube-apiserver, such as `--api-flag=--v=4`
    #[arg(long)]
    pub(crate) api_flag: Vec<String>,
    /// More of the scheduler's configuration
    #[arg(skip)]
    pub(crate) scheduler_configuration: String,
    /// How kwok plays kubelet, instead of the usual way
    #[arg(skip)]
    pub(crate) kwok: Option<PathBuf>,
    /// The port on which kwok is the kubelet of nodes that name it, for connections to their pods
    #[arg(skip)]
    pub(crate) kubelet_port: Option<u16>,
}

/// What may run beside etcd and kube-apiserver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Component {
    KubeControllerManager,
    KubeScheduler,
    Kwok,
}

impl Component {
    const ALL: [Self; 3] = [Self::KubeControllerManager, Self::KubeScheduler, Self::Kwok];

    fn program(self) -> &'static str {
        match self {
            Self::KubeControllerManager => "kube-controller-manager",
            Self::KubeScheduler => "kube-scheduler",
            Self::Kwok => "kwok",
        }
    }
}

impl std::fmt::Display for Component {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.program())
    }
}

pub(crate) fn run(workspace: &Workspace, task: &ControlPlane) -> Result<bool> {
    match task {
        ControlPlane::Build => println!("{}", programs(workspace)?.display()),
        ControlPlane::Up(wish) => println!("{}", up(workspace, wish)?.display()),
        ControlPlane::Down { rundir } => down(rundir)?,
        ControlPlane::Kinds { check } => return kinds(workspace, *check),
    }
    Ok(true)
}

/// Builds what is missing, starts it and returns the path of an administrator's kubeconfig.
pub(crate) fn up(workspace: &Workspace, wish: &Up) -> Result<PathBuf> {
    start::up(&recipe(workspace), &programs(workspace)?, wish)
}

/// Starts a program that [`down`] stops before the servers: one of those that `process_files` names.
pub(crate) fn start_beside(rundir: &Path, command: &mut Command) -> Result<()> {
    process_files::start(rundir, command).map(drop)
}

/// Stops what [`up`] started.
pub(crate) fn down(rundir: &Path) -> Result<()> {
    process_files::stop_all(rundir)
}

/// Writes or checks the facts about built-in kinds.
pub(crate) fn kinds(workspace: &Workspace, check: bool) -> Result<bool> {
    let mut command = workspace.command("go");
    command.current_dir(recipe(workspace).join("kube")).args(["run", "-mod=readonly", "./facts"]);
    let facts = process::output(&mut command).context("asking the Go types of Kubernetes")?;
    let path = workspace.root().join(KINDS);
    if !check {
        fs::write(&path, facts).with_context(|| format!("writing {KINDS}"))?;
        return Ok(true);
    }
    let current = fs::read_to_string(&path).with_context(|| format!("reading {KINDS}"))? == facts;
    if !current {
        println!("{KINDS} is out of date: run `cargo xtask control-plane kinds`");
    }
    Ok(current)
}

/// The folder with the built programs; builds what is missing.
pub(crate) fn programs(workspace: &Workspace) -> Result<PathBuf> {
    build::ensure(&recipe(workspace))
}

/// The folder with these programs, built if need be; `None` when that would take Go, which is not installed.
pub(crate) fn programs_named(workspace: &Workspace, names: &[&str]) -> Result<Option<PathBuf>> {
    build::ensure_named(&recipe(workspace), names)
}

fn recipe(workspace: &Workspace) -> PathBuf {
    workspace.root().join(Path::new("tests").join("control-plane"))
}
