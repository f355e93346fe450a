//! `karpenter simulate`: the demo in simulated time.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use clap::Args;
use karpenter_api::duration::parse_duration;
use karpenter_local::{Simulation, simulate};

use crate::cloud::CloudArguments;

#[derive(Args, Debug)]
pub(crate) struct SimulateArguments {
    /// Where chance starts: the same seed gives the same run, byte for byte
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// How long, in simulated time
    #[arg(long = "for", value_name = "DURATION", default_value = "24h", value_parser = duration)]
    lasting: Duration,
    /// How long a machine takes from its launch until its node appears
    #[arg(long, value_name = "DURATION", default_value = "20s")]
    boot_time: String,
    #[command(flatten)]
    cloud: CloudArguments,
    /// Write every event of the API to this file, one a line
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
}

fn duration(text: &str) -> Result<Duration, String> {
    let parsed = parse_duration(text).map_err(|error| error.to_string())?;
    Duration::try_from(parsed).map_err(|_| "it must not be negative".to_owned())
}

/// Simulates, and says what came of it.
pub(crate) fn run(arguments: &SimulateArguments) -> anyhow::Result<ExitCode> {
    let out: Box<dyn Write + Send> = match &arguments.events {
        Some(path) => {
            let file = File::create(path).with_context(|| format!("creating {}", path.display()))?;
            Box::new(BufWriter::new(file))
        }
        None => Box::new(io::sink()),
    };
    let simulation = Simulation {
        seed: arguments.seed,
        lasting: arguments.lasting,
        boot_time: arguments.boot_time.clone(),
        cloud: arguments.cloud.description()?,
    };
    let begun = Instant::now();
    let summary = simulate(&simulation, out)?;
    let took = begun.elapsed();
    if summary.nodes != summary.nodeclaims {
        return Err(anyhow!("{} nodes and {} NodeClaims were left", summary.nodes, summary.nodeclaims));
    }
    crate::say(format_args!(
        "simulated {:?} with seed {} in {:.1} s: {} writes, {} events; at the end {} nodes, {} pods, {} of them waiting",
        arguments.lasting,
        arguments.seed,
        took.as_secs_f64(),
        summary.writes,
        summary.events,
        summary.nodes,
        summary.pods,
        summary.waiting,
    ));
    Ok(ExitCode::SUCCESS)
}
