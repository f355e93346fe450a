//! Real kubectl and real helm against our API server: every command must print what it prints against a real one.
//!
//! A session is a transcript in `sessions/`: commands and what they printed when the session was recorded against the
//! real kube-apiserver (`--record KUBECONFIG`). A run starts our server for each session, gives the same commands
//! and compares, less times, uids and addresses. Sessions in `sessions/cluster` are about workloads that run: they were
//! recorded with the real scheduler, controllers and kwok, and ours play with the models of those. `cargo xtask test`
//! runs this with the programs of `cargo xtask control-plane`.

mod desk;
mod normal;
mod server;
mod transcript;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;

use desk::Desk;
use server::Machinery;
use transcript::{Step, Transcript};

#[derive(Parser)]
#[command(about = "Runs kubectl and helm sessions against the embedded API server")]
struct Arguments {
    /// Folder with kubectl and helm
    #[arg(long)]
    programs: PathBuf,
    /// Write the transcripts anew from the server of this kubeconfig, which must be a real one
    #[arg(long, value_name = "KUBECONFIG")]
    record: Option<PathBuf>,
    /// Only these sessions
    names: Vec<String>,
}

/// How many commands printed what they should.
#[derive(Default)]
struct Tally {
    passed: usize,
    failed: usize,
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("sessions");
    let mut tally = Tally::default();
    for (path, machinery) in sessions(&folder, &arguments.names)? {
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let transcript = Transcript::parse(&text);
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if let Some(kubeconfig) = &arguments.record {
            let desk = Desk::new(&arguments.programs, &fs::read_to_string(kubeconfig)?)?;
            fs::write(&path, record(&transcript, &desk)?.to_string())?;
            println!("{name}: recorded");
            continue;
        }
        let server = server::start(machinery).await?;
        let desk = Desk::new(&arguments.programs, &server.kubeconfig)?;
        // The commands block, and the server must go on.
        let outcome = tokio::task::spawn_blocking(move || compare(&name, &transcript, &desk));
        let outcome = outcome.await.context("a session panicked")??;
        tally.passed += outcome.passed;
        tally.failed += outcome.failed;
    }
    let verdict = if tally.failed == 0 { "ok" } else { "FAILED" };
    println!("test result: {verdict}. {} passed; {} failed", tally.passed, tally.failed);
    Ok(if tally.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the sessions asked for and what runs beside the server.
fn sessions(folder: &Path, names: &[String]) -> Result<Vec<(PathBuf, Machinery)>> {
    let mut found = Vec::new();
    for (folder, machinery) in
        [(folder.to_owned(), Machinery::None), (folder.join("cluster"), Machinery::Models)]
    {
        let entries = fs::read_dir(&folder).with_context(|| format!("listing {}", folder.display()))?;
        for entry in entries {
            let path = entry?.path();
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            if path.is_file() && (names.is_empty() || names.iter().any(|name| *name == stem)) {
                found.push((path, machinery));
            }
        }
    }
    found.sort();
    Ok(found)
}

fn record(transcript: &Transcript, desk: &Desk) -> Result<Transcript> {
    let step = |step: &Step| Ok(Step { printed: desk.run(&step.command)?, ..step.clone() });
    Ok(Transcript {
        preface: transcript.preface.clone(),
        steps: transcript.steps.iter().map(step).collect::<Result<_>>()?,
    })
}

/// Runs a session to its end and shows every difference.
fn compare(name: &str, transcript: &Transcript, desk: &Desk) -> Result<Tally> {
    let mut tally = Tally::default();
    for step in &transcript.steps {
        let printed = desk.run(&step.command)?;
        if printed == step.printed {
            tally.passed += 1;
            continue;
        }
        println!("{name}: $ {}", step.command);
        println!("{}", transcript::difference(&step.printed, &printed));
        tally.failed += 1;
    }
    println!("{name}: {} commands, {} differ", transcript.steps.len(), tally.failed);
    Ok(tally)
}
