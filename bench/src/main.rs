//! Measures `karpenter solve` on fixed scenario files: time, price, nodes, flexibility, memory, the gap to a lower
//! bound of the price, instruction counts, and upstream's figures on the same files.
//!
//! The program under test runs as a child process of its own for every measurement, as a user would run it.

mod bound;
mod build;
mod catalogue;
mod files;
mod generate;
mod instructions;
mod measure;
mod quiescence;
mod random;
mod report;
mod table;
mod targets;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};

use files::BenchFile;
use measure::Program;
use report::Row;

/// Run the benchmarks
#[derive(Parser)]
#[command(name = "cargo xtask bench", version)]
struct Arguments {
    /// Benchmarks or series to run, all of them when none is named
    names: Vec<String>,
    /// Print the names of all benchmarks
    #[arg(long)]
    list: bool,
    /// Run upstream's scheduler on the same files and print ratios
    #[arg(long)]
    upstream: bool,
    /// Stop upstream after so many seconds on files that are not named one by one
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    upstream_limit: u64,
    /// Leave out the lower bounds of the price
    #[arg(long)]
    no_bound: bool,
    /// What to do about instruction counts; by default they are compared when no benchmark is named
    #[arg(long, value_enum, value_name = "ACTION")]
    instructions: Option<Instructions>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Instructions {
    /// Count none
    Skip,
    /// Count and compare with the committed baseline
    Compare,
    /// Count and make the counts the baseline
    Save,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs what was asked for; `false` when a file was not solved.
fn run(arguments: &Arguments) -> Result<bool> {
    let all = files::names()?;
    if arguments.list {
        println!("{}\n{}", all.join("\n"), catalogue::NAME);
        return Ok(true);
    }
    let (of_catalogue, names): (Vec<String>, Vec<String>) =
        arguments.names.iter().cloned().partition(|name| name == catalogue::NAME);
    let everything = arguments.names.is_empty();
    let selected = if names.is_empty() && !everything { Vec::new() } else { files::select(&all, &names)? };
    let folder = build::folder()?;
    let karpenter = build::karpenter()?;
    let upstream = if arguments.upstream { Some(build::upstream(&folder)?) } else { None };
    let mut rows = Vec::new();
    for name in &selected {
        let limit = (!arguments.names.contains(name)).then(|| Duration::from_secs(arguments.upstream_limit));
        let file = files::write(name, &folder)?;
        eprintln!("{name}");
        let two_cores = karpenter.on_two_cores();
        let program = if files::is_disruption(name) { &two_cores } else { &karpenter };
        let mut row = measure_both(&file, program, upstream.as_ref(), limit);
        if !arguments.no_bound && !files::is_disruption(name) {
            row.bound = bound::of_file(&file.path)?;
        }
        if name.starts_with("disruption-") {
            row.rest =
                Some(quiescence::reach(&two_cores, generate::scenario(name, files::stored)?, &folder)?);
        }
        rows.push(row);
    }
    let steps = if everything || !of_catalogue.is_empty() { catalogue::measure()? } else { Vec::new() };
    let by_default = if arguments.names.is_empty() { Instructions::Compare } else { Instructions::Skip };
    let action = arguments.instructions.unwrap_or(by_default);
    let counts =
        if action == Instructions::Skip { BTreeMap::new() } else { count_instructions(&karpenter, &folder)? };
    let text = report::render(&rows, &steps, &counts, &instructions::baseline()?);
    if action == Instructions::Save {
        instructions::save(&counts)?;
    }
    let path = folder.join("report.md");
    std::fs::write(&path, &text).with_context(|| format!("writing {}", path.display()))?;
    println!("{text}\nwritten to {}", path.display());
    Ok(rows.iter().all(|row| row.ours.is_ok()))
}

fn measure_both(
    file: &BenchFile,
    karpenter: &Program,
    upstream: Option<&Program>,
    limit: Option<Duration>,
) -> Row {
    let message = |error: anyhow::Error| format!("{error:#}");
    Row {
        name: file.name.clone(),
        ours: measure::median(karpenter, &file.path).map_err(message),
        upstream: upstream.map(|program| program.measure(&file.path, limit).map_err(message)),
        bound: None,
        rest: None,
    }
}

fn count_instructions(karpenter: &Program, folder: &Path) -> Result<BTreeMap<String, u64>> {
    let files =
        instructions::FILES.iter().map(|name| files::write(name, folder)).collect::<Result<Vec<_>>>()?;
    instructions::count(karpenter, &files, folder)
}
