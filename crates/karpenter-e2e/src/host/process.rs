//! The process of a pod.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Pod;

use super::node::now;
use crate::probe;

/// The longest wait before a process that ended is started again.
const RESTART_WAIT_MAX: Duration = Duration::from_secs(30);
/// Variables of this process that the others get.
const PASSED_ON: [&str; 4] = ["PATH", "HOME", "RUST_LOG", "RUST_BACKTRACE"];

/// What all processes have in common.
pub(crate) struct Setting {
    pub(crate) command: Vec<String>,
    pub(crate) kubeconfig: PathBuf,
    pub(crate) metrics_port: u16,
    pub(crate) health_port: u16,
    pub(crate) log: PathBuf,
}

/// The process of one pod.
pub(crate) struct Process {
    name: String,
    environment: BTreeMap<String, String>,
    child: Child,
    ready: bool,
    restarts: u32,
    /// When to start it again after it has ended.
    again: Option<Instant>,
    /// When to kill it, once it has been asked to stop.
    deadline: Option<Instant>,
    grace: Duration,
}

impl Process {
    /// Starts the process of a pod.
    pub(crate) fn start(pod: &Pod, setting: &Setting) -> anyhow::Result<Self> {
        let name = pod.metadata.name.clone().unwrap_or_default();
        let environment = environment(pod);
        let grace = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds).unwrap_or(30);
        let child = spawn(&name, &environment, setting)?;
        Ok(Self {
            name,
            environment,
            child,
            ready: false,
            restarts: 0,
            again: None,
            deadline: None,
            grace: Duration::from_secs(grace.unsigned_abs()),
        })
    }

    /// Starts it again if it has ended, and finds out whether it is ready.
    pub(crate) async fn look(&mut self, setting: &Setting) -> anyhow::Result<()> {
        if let Some(again) = self.again {
            if Instant::now() >= again {
                self.again = None;
                self.child = spawn(&self.name, &self.environment, setting)?;
            }
            return Ok(());
        }
        if self.child.try_wait().context("looking at the process")?.is_some() {
            let wait = Duration::from_secs(1 + 2_u64.saturating_pow(self.restarts));
            self.again = Some(Instant::now() + wait.min(RESTART_WAIT_MAX));
            self.restarts += 1;
            self.ready = false;
            return Ok(());
        }
        let answer = probe::get(setting.health_port, "/readyz").await;
        self.ready = answer.is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"));
        Ok(())
    }

    /// What others see of it: whether it is ready, and how often it was started again.
    pub(crate) fn shown(&self) -> (bool, u32) {
        (self.ready, self.restarts)
    }

    /// Asks it to stop; kills it once its time is up.
    pub(crate) fn stop(&mut self) {
        match self.deadline {
            None => {
                self.deadline = Some(Instant::now() + self.grace);
                let _ = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
            }
            Some(deadline) if Instant::now() > deadline => drop(self.child.kill()),
            Some(_) => {}
        }
    }

    /// Whether it has ended, having been asked to.
    pub(crate) fn has_stopped(&mut self) -> bool {
        self.deadline.is_some() && self.child.try_wait().is_ok_and(|status| status.is_some())
    }
}

/// The variables of the pod's first container.
fn environment(pod: &Pod) -> BTreeMap<String, String> {
    let container = pod.spec.as_ref().and_then(|spec| spec.containers.first());
    let variables = container.iter().flat_map(|container| container.env.iter().flatten());
    variables.map(|variable| (variable.name.clone(), variable.value.clone().unwrap_or_default())).collect()
}

fn spawn(name: &str, environment: &BTreeMap<String, String>, setting: &Setting) -> anyhow::Result<Child> {
    let mut log = OpenOptions::new().create(true).append(true).open(&setting.log).context("opening a log")?;
    writeln!(log, "=== {} {name} starts", now()).context("writing to the log")?;
    let passed_on = PASSED_ON.iter().filter_map(|name| Some((*name, std::env::var_os(name)?)));
    let [program, arguments @ ..] = &setting.command[..] else {
        anyhow::bail!("there is no program to start")
    };
    Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(passed_on)
        .envs(environment)
        .env("KUBECONFIG", &setting.kubeconfig)
        // Whoever holds the Lease is known by the name of its pod.
        .env("HOSTNAME", name)
        .env("POD_NAME", name)
        .env("METRICS_PORT", setting.metrics_port.to_string())
        .env("HEALTH_PROBE_PORT", setting.health_port.to_string())
        .stdin(Stdio::null())
        .stdout(log.try_clone().context("sharing the log")?)
        .stderr(log)
        .spawn()
        .with_context(|| format!("starting {program}"))
}
