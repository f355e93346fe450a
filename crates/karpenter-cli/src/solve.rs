//! `karpenter solve`: scenario files in, plans out.

use std::fs;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use karpenter_core::{ProvisioningPlan, plan_disruption, plan_provisioning};
use karpenter_kube::scenario::{self, Mode, Problem};
use rayon::{ThreadPool, ThreadPoolBuilder};
use serde::Serialize;

use crate::arguments::SolveArguments;
use crate::explain::{explain, explain_disruption};
use crate::measure::{Cost, measured};

/// One line of `--stats`.
#[derive(Serialize)]
struct StatsLine<'a, F> {
    name: &'a str,
    stats: Stats<F>,
}

#[derive(Serialize)]
struct Stats<F> {
    #[serde(flatten)]
    cost: Cost,
    #[serde(flatten)]
    figures: F,
}

/// Answers every file; a file that cannot be used does not keep the others from being answered.
pub(crate) fn run(arguments: &SolveArguments) -> anyhow::Result<ExitCode> {
    let threads = (arguments.threads > 1)
        .then(|| ThreadPoolBuilder::new().num_threads(arguments.threads.into()).build());
    let threads = threads.transpose().context("starting the solver's threads")?;
    let mut output = BufWriter::new(io::stdout().lock());
    let mut exit = ExitCode::SUCCESS;
    for file in &arguments.files {
        match read_problem(file) {
            Ok(problem) => answer(&problem, arguments, threads.as_ref(), &mut output)?,
            Err(message) => {
                output.flush()?;
                eprintln!("karpenter solve: {}: {message}", display(file));
                exit = ExitCode::from(crate::BAD_INPUT);
            }
        }
    }
    output.flush()?;
    Ok(exit)
}

fn display(file: &Path) -> String {
    if is_stdin(file) { "standard input".to_owned() } else { file.display().to_string() }
}

fn is_stdin(file: &Path) -> bool {
    file == Path::new("-")
}

fn read_problem(file: &Path) -> Result<Problem, String> {
    let mut text = Vec::new();
    let read = if is_stdin(file) {
        io::stdin().lock().read_to_end(&mut text).map(drop)
    } else {
        fs::read(file).map(|bytes| text = bytes)
    };
    read.map_err(|error| format!("cannot be read: {error}"))?;
    scenario::load(&text).map_err(|invalid| invalid.to_string())
}

fn answer(
    problem: &Problem,
    arguments: &SolveArguments,
    threads: Option<&ThreadPool>,
    output: &mut impl Write,
) -> anyhow::Result<()> {
    if problem.mode == Mode::Disrupt {
        return answer_disruption(problem, arguments, threads, output);
    }
    let (plan, cost) = solve(problem, threads);
    if arguments.stats {
        let stats = Stats { cost, figures: scenario::figures(&plan) };
        serde_json::to_writer(&mut *output, &StatsLine { name: &problem.name, stats })
            .map_err(io::Error::from)?;
    } else if arguments.explain {
        write!(output, "{}", explain(&scenario::outcome(problem, &plan)))?;
    } else {
        serde_json::to_writer(&mut *output, &scenario::outcome(problem, &plan)).map_err(io::Error::from)?;
    }
    writeln!(output)?;
    Ok(())
}

fn answer_disruption(
    problem: &Problem,
    arguments: &SolveArguments,
    threads: Option<&ThreadPool>,
    output: &mut impl Write,
) -> anyhow::Result<()> {
    let mut options = problem.disruption_options();
    options.solver.parallel = threads.is_some();
    let plan = || plan_disruption(&problem.snapshot, &problem.catalog, &options, problem.now);
    let (plan, cost) = measured(|| threads.map_or_else(plan, |threads| threads.install(plan)));
    let outcome = scenario::disruption_outcome(problem, &plan);
    if arguments.stats {
        let stats = Stats { cost, figures: outcome.stats };
        serde_json::to_writer(&mut *output, &StatsLine { name: &problem.name, stats })
            .map_err(io::Error::from)?;
    } else if arguments.explain {
        write!(output, "{}", explain_disruption(&outcome))?;
    } else {
        serde_json::to_writer(&mut *output, &outcome).map_err(io::Error::from)?;
    }
    writeln!(output)?;
    Ok(())
}

/// Nothing but the plan itself is measured.
fn solve(problem: &Problem, threads: Option<&ThreadPool>) -> (ProvisioningPlan, Cost) {
    let mut options = problem.options.clone();
    options.parallel = threads.is_some();
    let plan = || plan_provisioning(&problem.snapshot, &problem.catalog, &options);
    measured(|| threads.map_or_else(plan, |threads| threads.install(plan)))
}
