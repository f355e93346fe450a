//! End-to-end scenarios: the `karpenter` program runs as a child against a cluster, and the API shows what came of it.
//!
//! The same scenarios run on the embedded cluster and on a real control plane; they see both only through the API. A cluster must
//! have a scheduler, workload controllers, and something that makes paper nodes ready; it is used up by the run.

mod cluster;
mod controller;
mod credentials;
mod probe;
mod proxy;
mod scenarios;
mod trials;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context as _;
use clap::Parser;
use jiff::SignedDuration;
use karpenter_environment::{Environment, SystemEnvironment};
use karpenter_observer::Observer;

use cluster::Cluster;
use controller::Program;
use scenarios::Scenario;
use trials::Trials;

/// What the controller cannot know yet: its watches, and a decision that is on its way.
const LAG: SignedDuration = SignedDuration::from_secs(3);

#[derive(Parser)]
struct Arguments {
    /// The cluster's kubeconfig
    #[arg(long)]
    kubeconfig: PathBuf,
    /// Another kubeconfig for the controller, for example with fewer rights
    #[arg(long)]
    controller_kubeconfig: Option<PathBuf>,
    /// The karpenter program
    #[arg(long)]
    karpenter: PathBuf,
    /// Run only scenarios whose name contains this
    #[arg(default_value = "")]
    filter: String,
    #[command(flatten)]
    trials: Trials,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    match runtime.context("starting threads").and_then(|runtime| runtime.block_on(run(&arguments))) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the scenarios one after the other, each on an empty cluster.
async fn run(arguments: &Arguments) -> anyhow::Result<bool> {
    let controllers = arguments.controller_kubeconfig.as_ref().unwrap_or(&arguments.kubeconfig);
    let program = Program::new(&arguments.karpenter, controllers)?;
    let cluster = Cluster::connect(&arguments.kubeconfig, program).await?;
    if arguments.trials.any() {
        return arguments.trials.run(&cluster).await.map(|()| true);
    }
    if !arguments.filter.is_empty() {
        // The first scenario, which does this, may be left out.
        cluster.install_definitions().await?;
    }
    let (mut passed, mut failed) = (0, 0);
    for scenario in scenarios::ALL.iter().filter(|found| found.name.contains(&arguments.filter)) {
        let begun = Instant::now();
        let outcome = match cluster.clear().await {
            Ok(()) => observed(&cluster, scenario).await,
            Err(error) => Err(error.context("emptying the cluster")),
        };
        let seconds = begun.elapsed().as_secs_f64();
        match outcome {
            Ok(said) => {
                passed += 1;
                println!("test {} ... ok ({seconds:.1} s)\n    {said}", scenario.name);
            }
            Err(error) => {
                failed += 1;
                println!("test {} ... FAILED ({seconds:.1} s)\n    {error:#}", scenario.name);
            }
        }
    }
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    println!(
        "test result: {verdict}. {passed} passed; {failed} failed; 0 ignored; 0 measured; 0 filtered out"
    );
    Ok(failed == 0)
}

/// Runs a scenario under the eyes of an observer, who has a word after it.
async fn observed(cluster: &Cluster, scenario: &Scenario) -> anyhow::Result<String> {
    let environment: Arc<dyn Environment> = Arc::new(SystemEnvironment);
    let observer = Observer::begin(&cluster.client, &environment, LAG);
    (scenario.run)(cluster.clone()).await?;
    let history = observer.history();
    if history.seen().is_empty() {
        return Ok(format!("{history}: the scenario made no nodes and no pods"));
    }
    history.verdict().map_err(|broken| anyhow::anyhow!("the observer saw: {broken}"))
}
