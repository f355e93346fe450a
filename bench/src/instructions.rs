//! Instructions executed on a small fixed set, counted by callgrind: unlike seconds they do not move with the
//! machine's load, so a change of a few percent is visible.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::build;
use crate::files::BenchFile;
use crate::measure::Program;

/// Small enough that each takes seconds under callgrind, different enough to reach most of the solver.
pub(crate) const FILES: [&str; 4] = ["bench-500", "large-1000", "small-distinct", "small-warm"];

/// Instructions by file; empty where valgrind is not installed.
pub(crate) fn count(program: &Program, files: &[BenchFile], folder: &Path) -> Result<BTreeMap<String, u64>> {
    let mut counts = BTreeMap::new();
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("valgrind is not installed: no instruction counts");
        return Ok(counts);
    }
    for file in files {
        counts.insert(file.name.clone(), count_one(program, file, folder)?);
    }
    Ok(counts)
}

fn count_one(program: &Program, file: &BenchFile, folder: &Path) -> Result<u64> {
    let report = folder.join("callgrind.out");
    let solve = program.command(&file.path);
    let mut command = Command::new("valgrind");
    command.arg("--tool=callgrind").arg(format!("--callgrind-out-file={}", report.display()));
    // One thread: how threads share the work is not part of the count.
    command.env("RAYON_NUM_THREADS", "1").arg(solve.get_program()).args(solve.get_args());
    let output = command.output().context("starting valgrind")?;
    if !output.status.success() {
        bail!("callgrind on {} failed: {}", file.name, String::from_utf8_lossy(&output.stderr).trim());
    }
    let text = fs::read_to_string(&report).with_context(|| format!("reading {}", report.display()))?;
    total(&text).with_context(|| format!("{} holds no total", report.display()))
}

/// The total of a callgrind report.
fn total(report: &str) -> Option<u64> {
    let line = report
        .lines()
        .find_map(|line| line.strip_prefix("totals: ").or_else(|| line.strip_prefix("summary: ")))?;
    line.trim().parse().ok()
}

/// The committed counts to compare with.
pub(crate) fn baseline() -> Result<BTreeMap<String, u64>> {
    let path = baseline_path();
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let mut counts = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, count) =
            line.split_once('\t').with_context(|| format!("{} has a line without a tab", path.display()))?;
        counts.insert(name.to_owned(), count.parse().with_context(|| format!("{}: {line}", path.display()))?);
    }
    Ok(counts)
}

/// Makes these counts the ones to compare with.
pub(crate) fn save(counts: &BTreeMap<String, u64>) -> Result<()> {
    let mut text =
        "# Instructions per file, written by `cargo xtask bench --instructions save`.\n".to_owned();
    for (name, count) in counts {
        let _ = writeln!(text, "{name}\t{count}");
    }
    let path = baseline_path();
    fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
}

fn baseline_path() -> PathBuf {
    build::repository().join("bench").join("instructions.tsv")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_found_in_a_report() {
        assert_eq!(total("events: Ir\nsummary: 12\nfn=(1)\ntotals: 12\n"), Some(12));
        assert_eq!(total("events: Ir\n"), None);
    }

    #[test]
    fn the_committed_baseline_is_of_the_fixed_set() {
        let known: Vec<String> = baseline().expect("the file is well formed").into_keys().collect();
        assert!(known.iter().all(|name| FILES.contains(&name.as_str())), "{known:?}");
    }
}
