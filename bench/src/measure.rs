//! One measurement: a program solves a scenario file in a process of its own and says what it cost.
//!
//! Both programs, ours and upstream's, print one line of JSON per file: `{"name": …, "stats": {…}}`.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// What a solve cost and what came out of it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Stats {
    pub(crate) solve_cpu_seconds: f64,
    pub(crate) solve_wall_seconds: f64,
    pub(crate) peak_memory_bytes: f64,
    pub(crate) pods: usize,
    pub(crate) nodes: usize,
    pub(crate) price: f64,
    pub(crate) types_per_claim_median: f64,
    pub(crate) unschedulable: usize,
    /// What the best command saves per hour.
    pub(crate) savings: f64,
}

#[derive(Deserialize)]
struct Line {
    stats: Stats,
}

/// How a measurement ended when it did not fail.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Measured {
    Stats(Stats),
    /// The program was stopped after this time.
    TookLonger(Duration),
}

/// A program that can be measured: its path and the arguments that come before the file.
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    pub(crate) arguments: Vec<String>,
}

impl Program {
    /// The same program with two threads: disruption is measured on two cores.
    pub(crate) fn on_two_cores(&self) -> Self {
        let mut arguments = self.arguments.clone();
        arguments.extend(["--threads".to_owned(), "2".to_owned()]);
        Self { path: self.path.clone(), arguments }
    }

    /// The same program printing whole results.
    pub(crate) fn printing_all(&self) -> Self {
        let arguments = self.arguments.iter().filter(|argument| *argument != "--stats").cloned().collect();
        Self { path: self.path.clone(), arguments }
    }

    pub(crate) fn command(&self, file: &Path) -> Command {
        let mut command = Command::new(&self.path);
        command.args(&self.arguments).arg(file);
        command
    }

    /// Solves a file once; stops the program after `limit`.
    pub(crate) fn measure(&self, file: &Path, limit: Option<Duration>) -> Result<Measured> {
        let mut command = self.command(file);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("starting {}", self.path.display()))?;
        let start = Instant::now();
        // Statistics are one short line, so the pipe never fills up while nobody reads.
        let status = loop {
            if let Some(status) = child.try_wait().context("waiting for the program under test")? {
                break status;
            }
            if let Some(limit) = limit.filter(|limit| start.elapsed() > *limit) {
                child.kill().context("stopping the program under test")?;
                child.wait().context("waiting for the program under test")?;
                return Ok(Measured::TookLonger(limit));
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let mut output = String::new();
        let mut errors = String::new();
        child.stdout.take().context("standard output is piped")?.read_to_string(&mut output)?;
        child.stderr.take().context("standard error is piped")?.read_to_string(&mut errors)?;
        if !status.success() {
            bail!("{} {}: {}", self.path.display(), status, first_line(&errors));
        }
        let line: Line = serde_json::from_str(output.trim()).with_context(|| {
            format!("{} printed no statistics: {}", self.path.display(), first_line(&output))
        })?;
        Ok(Measured::Stats(line.stats))
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or("no message")
}

/// Solves a file several times while that is quick and returns the run with the median CPU time. The answer must be
/// the same every time.
pub(crate) fn median(program: &Program, file: &Path) -> Result<Stats> {
    const RUNS: usize = 5;
    const QUICK: Duration = Duration::from_secs(20);
    /// Nobody waits longer for a plan; a solver that does not end must not stop the other benchmarks.
    const LIMIT: Duration = Duration::from_mins(10);
    let start = Instant::now();
    let mut runs: Vec<Stats> = Vec::new();
    while runs.is_empty() || (runs.len() < RUNS && start.elapsed() < QUICK) {
        let stats = match program.measure(file, Some(LIMIT))? {
            Measured::Stats(stats) => stats,
            Measured::TookLonger(limit) => bail!("stopped after {} s", limit.as_secs()),
        };
        if let Some(first) = runs.first()
            && (first.nodes, first.price.to_bits(), first.unschedulable, first.savings.to_bits())
                != (stats.nodes, stats.price.to_bits(), stats.unschedulable, stats.savings.to_bits())
        {
            bail!("two runs on {} gave different plans: every run must give the same bytes", file.display());
        }
        runs.push(stats);
    }
    runs.sort_by(|left, right| left.solve_cpu_seconds.total_cmp(&right.solve_cpu_seconds));
    Ok(runs.swap_remove(runs.len() / 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Program {
        Program { path: "sh".into(), arguments: vec!["-c".to_owned(), script.to_owned()] }
    }

    #[test]
    fn statistics_are_read_from_the_line_the_program_prints() {
        let program =
            shell(r#"echo '{"name":"x","stats":{"solveCpuSeconds":0.5,"nodes":3,"price":1.25,"new":1}}'"#);
        let expected = Stats { solve_cpu_seconds: 0.5, nodes: 3, price: 1.25, ..Stats::default() };
        assert_eq!(program.measure(Path::new("x"), None).expect("it runs"), Measured::Stats(expected));
    }

    #[test]
    fn a_failure_carries_the_programs_own_message() {
        let error =
            shell("echo cannot read >&2; exit 2").measure(Path::new("x"), None).expect_err("it fails");
        assert!(error.to_string().contains("cannot read"), "{error}");
    }

    #[test]
    fn a_program_past_its_limit_is_stopped() {
        let limit = Duration::from_millis(20);
        let measured =
            shell("exec tail -f /dev/null").measure(Path::new("x"), Some(limit)).expect("it starts");
        assert_eq!(measured, Measured::TookLonger(limit));
    }
}
