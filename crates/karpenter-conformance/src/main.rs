//! Sends the same generated requests to our API server and to the real kube-apiserver and compares the answers.
//!
//! Everything follows from a seed: [`families`] writes scripts, [`side`] sends them to a server, [`normal`] takes out
//! what no two servers share, [`compare`] finds what is left. A difference that is not in `accepted.yaml` is printed
//! with the request, both answers and the numbers that repeat it, and the run fails.

mod accepted;
mod compare;
mod families;
mod kinds;
mod mutate;
mod normal;
mod random;
mod run;
mod samples;
mod script;
mod side;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use karpenter_apiserver::{ApiServer, Options};
use kube::config::{KubeConfigOptions, Kubeconfig};

use side::Side;

#[derive(Parser)]
#[command(about = "Compare our API server with the real one", version)]
struct Arguments {
    /// Kubeconfig of the real API server
    #[arg(long)]
    kubeconfig: PathBuf,
    /// Seed of all scripts
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many requests to send at least
    #[arg(long, default_value_t = 5000)]
    requests: usize,
    /// Only scripts of this family
    #[arg(long, value_parser = clap::builder::PossibleValuesParser::new(families::names()))]
    family: Option<String>,
    /// Only the script with this number, with all its answers
    #[arg(long)]
    script: Option<u64>,
    /// What the names of namespaces start with; another one lets a second run use the same server
    #[arg(long, default_value = "c")]
    prefix: String,
    /// How many differences to print in full
    #[arg(long, default_value_t = 20)]
    show: usize,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Arguments::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &Arguments) -> Result<bool> {
    let server = ApiServer::new(Options::default());
    let ours = Side { client: kube::Client::new(server.clone(), "default"), embedded: Some(server) };
    let real = Side { client: client(&arguments.kubeconfig).await?, embedded: None };
    run::run(arguments, &ours, &real).await
}

async fn client(path: &PathBuf) -> Result<kube::Client> {
    let kubeconfig = Kubeconfig::read_from(path).with_context(|| format!("reading {}", path.display()))?;
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .context("using the kubeconfig")?;
    // The first answer is the one to compare.
    config.default_retry = false;
    kube::Client::try_from(config).context("connecting to the real API server")
}
