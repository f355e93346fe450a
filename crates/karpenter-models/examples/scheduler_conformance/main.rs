//! Compares the scheduler model with the real kube-scheduler: the same nodes, the same pods, who fits where?
//!
//! ```text
//! cargo run -p karpenter-models --example scheduler_conformance -- KUBECONFIG [--seed N] [--pods N] [--cluster N]
//! ```
//!
//! A cluster that differs is played again alone with `--cluster` and its number, which its name tells.
//!
//! The kubeconfig is of an API server with a kube-scheduler and nothing else beside it: no kubelets, no controllers.
//! `cargo xtask scheduler-conformance` starts one and runs this program.
#![allow(clippy::print_stdout, reason = "a program for people to read")]

mod chance;
mod cluster;
mod hearing;
mod play;
mod pods;
mod side;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use karpenter_apiserver::{ApiServer, Options};
use karpenter_environment::SystemEnvironment;
use karpenter_models::config::EventDetail;
use karpenter_models::storage::{StorageConfig, VolumeBinder};
use karpenter_models::{Models, ModelsConfig, ServiceAccounts};
use karpenter_runtime::Runtime;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use chance::Chance;
use cluster::Cluster;
use play::{Findings, Play};
use side::{Side, Trouble};

/// Pods of one generated cluster.
const PODS_PER_CLUSTER: usize = 40;

struct Wish {
    kubeconfig: String,
    seed: u64,
    pods: usize,
    /// The only cluster to play.
    cluster: Option<u64>,
}

impl Wish {
    fn read() -> Result<Self, Trouble> {
        let mut wish = Self { kubeconfig: String::new(), seed: 1, pods: 400, cluster: None };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{argument} needs a number"));
            match argument.as_str() {
                "--seed" => wish.seed = value()?.parse()?,
                "--cluster" => wish.cluster = Some(value()?.parse()?),
                "--pods" => wish.pods = value()?.parse()?,
                _ => wish.kubeconfig = argument,
            }
        }
        if wish.cluster.is_some() {
            wish.pods = PODS_PER_CLUSTER;
        }
        if wish.kubeconfig.is_empty() {
            return Err("name the kubeconfig of the real cluster".into());
        }
        Ok(wish)
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode, Trouble> {
    let wish = Wish::read()?;
    let start = Instant::now();
    let kubeconfig = Kubeconfig::read_from(&wish.kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let real = Side::new("kube-scheduler", Client::try_from(config)?);
    // Somebody has to bind volumes there, and the same somebody as with us leaves the scheduler alone to differ.
    let mut runtime = Runtime::new(real.client.clone(), Arc::new(SystemEnvironment));
    runtime.add(ServiceAccounts::new());
    runtime.add(VolumeBinder::new(StorageConfig::default()));
    tokio::spawn(runtime.run(std::future::pending()));
    let mut findings = Findings::default();
    let mut left = wish.pods;
    let mut clusters = 0;
    while left > 0 {
        let number = wish.cluster.unwrap_or(wish.seed.wrapping_mul(1000).wrapping_add(clusters));
        let mut chance = Chance::new(number);
        let cluster = Cluster::generate(&mut chance, number);
        let pods = left.min(PODS_PER_CLUSTER);
        let ours = Side::new("the model", our_cluster());
        let mut play = Play { real: &real, ours: &ours, cluster: &cluster, findings: &mut findings };
        play.run(&mut chance, pods).await?;
        left -= pods;
        clusters += 1;
    }
    Ok(report(&findings, clusters, &start))
}

/// Starts an API server with our scheduler and somebody who binds volumes.
fn our_cluster() -> Client {
    let environment = Arc::new(SystemEnvironment);
    let server = ApiServer::new(Options { environment: environment.clone(), ..Options::default() });
    let client = Client::new(server.clone(), "default");
    let mut runtime = Runtime::new(client.clone(), environment);
    let models = ModelsConfig {
        kubelets: None,
        nodes: false,
        workloads: false,
        storage: None,
        events: EventDetail::Silent,
        ..ModelsConfig::default()
    };
    Models::new(models).add_to(&mut runtime);
    runtime.add(VolumeBinder::new(StorageConfig::default()));
    tokio::spawn(async move { server.run_collector().await });
    tokio::spawn(runtime.run(std::future::pending()));
    client
}

fn report(findings: &Findings, clusters: u64, start: &Instant) -> ExitCode {
    let Findings { probes, bound, refused, preemptions, same_node, known, differences } = findings;
    println!(
        "{clusters} clusters in {:.0?}: {probes} probes, {bound} pods bound ({same_node} to the very same node), \
         {refused} refused, {preemptions} preemptions, {known} differences known and meant",
        start.elapsed()
    );
    let failed = differences.len() as u64;
    let passed = (probes + bound + refused + preemptions).saturating_sub(failed);
    let word = if failed == 0 { "ok" } else { "FAILED" };
    println!("test result: {word}. {passed} passed; {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
