//! A run in parts: each is timed, all run whatever the others say, and a table closes the run.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::Result;

/// How one part ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) good: bool,
    /// Test cases the part counted; `None` when the part is one check and counts as one case.
    pub(crate) cases: Option<Cases>,
    /// What a reader of the table must know beside good or bad.
    pub(crate) note: String,
}

/// Test cases by verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cases {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
}

impl From<bool> for Outcome {
    fn from(good: bool) -> Self {
        Self { good, ..Self::default() }
    }
}

impl Outcome {
    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    /// What the part adds to the closing count. A part that failed counts at least one failure: tests that do not
    /// compile have no cases to count.
    fn counted(&self) -> Cases {
        let mut cases = self.cases.unwrap_or(Cases { passed: u64::from(self.good), failed: 0 });
        if !self.good {
            cases.failed = cases.failed.max(1);
        }
        cases
    }
}

/// The parts run so far.
#[derive(Default)]
pub(crate) struct Parts {
    finished: Vec<(String, Duration, Outcome)>,
}

impl Parts {
    /// Runs one part. An error is printed and counts as a failure; later parts still run.
    pub(crate) fn run(&mut self, name: &str, part: impl FnOnce() -> Result<Outcome>) {
        println!("\n==> {name}");
        let start = Instant::now();
        let outcome = part().unwrap_or_else(|error| {
            println!("error: {error:#}");
            Outcome::default()
        });
        self.finished.push((name.to_owned(), start.elapsed(), outcome));
    }

    pub(crate) fn all_good(&self) -> bool {
        self.finished.iter().all(|(_, _, outcome)| outcome.good)
    }

    /// The closing table; its last line is `N passed, N failed`, for people and for whatever reads the log.
    pub(crate) fn table(&self) -> String {
        let width = self.finished.iter().map(|(name, ..)| name.len()).max().unwrap_or_default().max(5);
        let mut table = format!("\n{:<width$}  minutes  result\n", "part");
        let mut total = Cases::default();
        let mut elapsed = Duration::ZERO;
        for (name, duration, outcome) in &self.finished {
            let counted = outcome.counted();
            total.passed += counted.passed;
            total.failed += counted.failed;
            elapsed += *duration;
            let _ = writeln!(table, "{name:<width$}  {:>7.1}  {}", minutes(*duration), verdict(outcome));
        }
        let _ = writeln!(table, "{:<width$}  {:>7.1}", "total", minutes(elapsed));
        let _ = write!(table, "\n{} passed, {} failed", total.passed, total.failed);
        table
    }
}

fn verdict(outcome: &Outcome) -> String {
    let mut text = if outcome.good { "ok" } else { "FAILED" }.to_owned();
    if let Some(cases) = outcome.cases {
        let _ = write!(text, ", {} passed, {} failed", cases.passed, cases.failed);
    }
    if !outcome.note.is_empty() {
        let _ = write!(text, " ({})", outcome.note);
    }
    text
}

fn minutes(duration: Duration) -> f64 {
    duration.as_secs_f64() / 60.0
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    fn last_line(parts: &Parts) -> String {
        parts.table().lines().last().unwrap_or_default().to_owned()
    }

    #[test]
    fn cases_and_single_checks_add_up_in_the_last_line() {
        let mut parts = Parts::default();
        parts.run("fmt", || Ok(Outcome::from(true)));
        parts.run("tests", || {
            Ok(Outcome { good: true, cases: Some(Cases { passed: 41, failed: 0 }), note: String::new() })
        });
        assert!(parts.all_good());
        assert_eq!(last_line(&parts), "42 passed, 0 failed");
    }

    #[test]
    fn a_part_that_ends_in_an_error_fails_and_later_parts_run() {
        let mut parts = Parts::default();
        parts.run("broken", || bail!("no such tool"));
        parts.run("fine", || Ok(Outcome::from(true)));
        assert!(!parts.all_good());
        assert_eq!(last_line(&parts), "1 passed, 1 failed");
    }

    #[test]
    fn tests_that_do_not_compile_count_as_one_failure() {
        let mut parts = Parts::default();
        parts.run("tests", || Ok(Outcome { cases: Some(Cases::default()), ..Outcome::default() }));
        assert_eq!(last_line(&parts), "0 passed, 1 failed");
    }
}
