//! A kubelet in miniature for one node: the pods of Deployment `kube-system/karpenter` bound to it are processes of this machine.
//!
//! Upstream's end-to-end suites change the controller's environment in that Deployment, wait for pods that carry the change, read
//! the active one from the Lease and count restarts. A process per pod meets all of that without a container: it starts with the
//! environment of its pod, is Ready when it says so, is restarted and counted when it ends unasked, and gets a signal when its pod
//! is deleted. Any other pod bound here is merely shown as running.

mod host;
mod probe;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Parser;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use tokio::signal::unix::{SignalKind, signal};

use host::node::{self, NODE};
use host::process::{Process, Setting};

/// How often pods are looked at.
const LOOK: Duration = Duration::from_millis(300);
/// How often the node says that it lives.
const LEASE_RENEWAL: Duration = Duration::from_secs(8);

#[derive(Parser)]
struct Arguments {
    /// The cluster's kubeconfig; the processes get it too
    #[arg(long)]
    kubeconfig: PathBuf,
    /// The port on which a process serves metrics
    #[arg(long)]
    metrics_port: u16,
    /// The port on which a process says whether it is ready
    #[arg(long)]
    health_port: u16,
    /// The port of whoever forwards connections to pods of the node
    #[arg(long)]
    kubelet_port: Option<u16>,
    /// The address under which pods are reached
    #[arg(long, default_value = "127.0.0.1")]
    pod_ip: IpAddr,
    /// Where processes write
    #[arg(long)]
    log: PathBuf,
    /// The program of the pods and its arguments
    #[arg(required = true, last = true)]
    command: Vec<String>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime.context("starting").and_then(|runtime| runtime.block_on(run(arguments))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let file = Kubeconfig::read_from(&arguments.kubeconfig).context("reading the kubeconfig")?;
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    let client = Client::try_from(config)?;
    node::create(&client, arguments.kubelet_port).await?;
    let mut terminate = signal(SignalKind::terminate()).context("listening to signals")?;
    let setting = Setting {
        command: arguments.command,
        kubeconfig: arguments.kubeconfig.canonicalize().context("finding the kubeconfig")?,
        metrics_port: arguments.metrics_port,
        health_port: arguments.health_port,
        log: arguments.log,
    };
    let pod_ip = arguments.pod_ip;
    let mut host = Host { client, setting, pod_ip, processes: BTreeMap::new(), renewed: None };
    loop {
        // A busy API server is asked again.
        if let Err(error) = host.look().await {
            eprintln!("{error:#}");
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            _ = terminate.recv() => break,
        }
    }
    host.stop().await
}

struct Host {
    client: Client,
    setting: Setting,
    pod_ip: IpAddr,
    /// By the UID of the pod.
    processes: BTreeMap<String, Process>,
    /// When the node last said that it lives.
    renewed: Option<Instant>,
}

impl Host {
    async fn look(&mut self) -> anyhow::Result<()> {
        if self.renewed.is_none_or(|then| then.elapsed() > LEASE_RENEWAL) {
            node::renew_lease(&self.client).await?;
            self.renewed = Some(Instant::now());
        }
        let pods: Api<Pod> = Api::all(self.client.clone());
        let bound = ListParams::default().fields(&format!("spec.nodeName={NODE}"));
        let pods = pods.list(&bound).await.context("listing pods")?.items;
        for pod in &pods {
            self.look_at(pod).await?;
        }
        let uid = |pod: &Pod| pod.metadata.uid.clone().unwrap_or_default();
        let known: Vec<String> = pods.iter().map(uid).collect();
        for (_, process) in self.processes.iter_mut().filter(|(uid, _)| !known.contains(uid)) {
            process.stop();
        }
        self.processes.retain(|uid, process| known.contains(uid) || !process.has_stopped());
        Ok(())
    }

    async fn look_at(&mut self, pod: &Pod) -> anyhow::Result<()> {
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        if pod.metadata.deletion_timestamp.is_some() {
            if let Some(process) = self.processes.get_mut(&uid) {
                process.stop();
                if !process.has_stopped() {
                    return Ok(());
                }
            }
            self.processes.remove(&uid);
            return self.remove(pod).await;
        }
        if !host::is_karpenter(pod) {
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            if phase == Some("Pending") {
                self.show(pod, true, 0).await?;
            }
            return Ok(());
        }
        if let Some(process) = self.processes.get_mut(&uid) {
            let shown = process.shown();
            process.look(&self.setting).await?;
            if process.shown() != shown {
                let (ready, restarts) = process.shown();
                self.show(pod, ready, restarts).await?;
            }
        } else if self.processes.is_empty() {
            // One at a time: the ports are the machine's.
            let process = Process::start(pod, &self.setting)?;
            self.processes.insert(uid, process);
            self.show(pod, false, 0).await?;
        }
        Ok(())
    }

    async fn show(&self, pod: &Pod, ready: bool, restarts: u32) -> anyhow::Result<()> {
        host::show(&self.client, pod, self.pod_ip, (ready, restarts)).await
    }

    async fn remove(&self, pod: &Pod) -> anyhow::Result<()> {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        match pods.delete(pod.metadata.name.as_deref().unwrap_or_default(), &now).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            answer => answer.map(drop).context("removing a pod"),
        }
    }

    /// Ends every process.
    async fn stop(mut self) -> anyhow::Result<()> {
        self.processes.values_mut().for_each(Process::stop);
        while self.processes.values_mut().any(|process| !process.has_stopped()) {
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }
}
