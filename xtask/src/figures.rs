//! `cargo xtask apiserver-figures`: our API server beside the real one, measured by one client in one run.
//!
//! Three servers are started on loopback: ours in memory, ours with a data directory, and kube-apiserver with an etcd
//! that writes to the disk what it acknowledges. The example `measure` of the API server's crate fills them one after
//! the other and prints the table.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::control_plane::{self, Up};
use crate::process;
use crate::workspace::{Workspace, text};

#[derive(Args)]
pub(crate) struct Figures {
    /// Nodes to create
    #[arg(long, default_value_t = 10_000)]
    nodes: u32,
    /// Pods to create
    #[arg(long, default_value_t = 100_000)]
    pods: u32,
    /// Leave the real server out, which has to be built the first time
    #[arg(long)]
    ours_only: bool,
}

pub(crate) fn run(workspace: &Workspace, wish: &Figures) -> Result<bool> {
    let mut command = workspace.cargo(["build", "--quiet", "--release", "--package", "karpenter-cli"]);
    command.args(["--package", "karpenter-apiserver", "--bin", "karpenter", "--example", "measure"]);
    if !process::succeeds(&mut command)? {
        bail!("the programs to measure do not compile");
    }
    let built = Path::new(text(&workspace.metadata()?, "target_directory")).join("release");
    let folder = std::env::temp_dir().join(format!("karpenter-figures-{}", std::process::id()));
    fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let good = measure(workspace, wish, &built, &folder);
    fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))?;
    good
}

fn measure(workspace: &Workspace, wish: &Figures, built: &Path, folder: &Path) -> Result<bool> {
    let in_memory = Ours::start(built, folder, "memory", false)?;
    let durable = Ours::start(built, folder, "durable", true)?;
    let mut command = workspace.command(built.join("examples").join("measure"));
    command.args(["--nodes", &wish.nodes.to_string(), "--pods", &wish.pods.to_string()]);
    command.arg(in_memory.target("ours, in memory")).arg(durable.target("ours, durable"));
    if wish.ours_only {
        return process::succeeds(&mut command);
    }
    let rundir = folder.join("real");
    let start = Instant::now();
    let kubeconfig =
        control_plane::up(workspace, &Up { rundir: rundir.clone(), fsync: true, ..Up::default() })?;
    println!("kube-apiserver and etcd: ready after {} ms", start.elapsed().as_millis());
    let processes = ["kube-apiserver", "etcd"].map(|name| {
        fs::read_to_string(rundir.join(name).with_extension("pid")).unwrap_or_default().trim().to_owned()
    });
    command.arg(format!("kube-apiserver+etcd={},{}", kubeconfig.display(), processes.join(",")));
    let good = process::succeeds(&mut command);
    control_plane::down(&rundir)?;
    good
}

/// One of our servers; it is killed when the value is dropped.
struct Ours {
    child: Child,
    kubeconfig: PathBuf,
}

impl Ours {
    fn start(built: &Path, folder: &Path, name: &str, durable: bool) -> Result<Self> {
        let kubeconfig = folder.join(name).with_extension("kubeconfig");
        let mut command = Command::new(built.join("karpenter"));
        command.args(["apiserver", "--port", "0", "--kubeconfig"]).arg(&kubeconfig);
        if durable {
            command.arg("--data-dir").arg(folder.join(name));
        }
        let start = Instant::now();
        let mut child = command.stdout(Stdio::piped()).spawn().context("starting our server")?;
        let stdout = child.stdout.take().context("standard output is a pipe")?;
        let mut greeting = String::new();
        BufReader::new(stdout).read_line(&mut greeting).context("waiting for our server")?;
        println!("ours, {name}: ready after {} ms", start.elapsed().as_millis());
        Ok(Self { child, kubeconfig })
    }

    fn target(&self, name: &str) -> String {
        format!("{name}={},{}", self.kubeconfig.display(), self.child.id())
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
