//! Scores a solver on a directory of cases: `judge CASES RESULTS.jsonl`.
//!
//! `CASES` is a case file or a directory of them (read in name order); line i of `RESULTS.jsonl` answers case i.
//! Prints a line per failing case, its reasons below, and a summary.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs, process};

use karpenter_checker::{Expected, Failure, PlanResult, Scenario, check, judge};
use serde::Deserialize;

/// A bare scenario is examined for feasibility alone.
#[derive(Deserialize)]
#[serde(untagged)]
enum Question {
    Case { scenario: Box<Scenario>, expected: Box<Expected> },
    Bare(Box<Scenario>),
}

fn failures(question: &Question, result: &PlanResult) -> Vec<Failure> {
    match question {
        Question::Case { scenario, expected } => judge(expected, scenario, result).failures,
        Question::Bare(scenario) => check(scenario, result).into_iter().map(Failure::Infeasible).collect(),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [cases, results] = arguments.as_slice() else {
        eprintln!("usage: judge CASE_DIRECTORY_OR_FILE RESULTS.jsonl");
        process::exit(2);
    };
    let files = case_files(Path::new(cases))?;
    let results = fs::read_to_string(results)?;
    let lines: Vec<&str> = results.lines().filter(|line| !line.trim().is_empty()).collect();
    let mut tally: BTreeMap<String, usize> = BTreeMap::new();
    let mut right = 0;
    for (file, line) in files.iter().zip(&lines) {
        let question: Question = serde_json::from_str(&fs::read_to_string(file)?)?;
        let result: PlanResult = serde_json::from_str(line)?;
        let failures = failures(&question, &result);
        if failures.is_empty() {
            right += 1;
            continue;
        }
        println!("FAIL {}", file.file_stem().unwrap_or_default().to_string_lossy());
        for failure in &failures {
            println!("     {failure}");
        }
        for kind in failures.iter().map(rule).collect::<BTreeSet<String>>() {
            *tally.entry(kind).or_default() += 1;
        }
    }
    if files.len() != lines.len() {
        println!("WARNING {} cases but {} results", files.len(), lines.len());
    }
    println!("{right} of {} right; failing cases by rule: {tally:?}", files.len());
    process::exit(i32::from(right != files.len()));
}

fn rule(failure: &Failure) -> String {
    match failure {
        Failure::Infeasible(violation) => format!("(a) {}", violation.kind),
        Failure::MoreWithoutPlace { .. } => "(b) unplaced".to_owned(),
        Failure::IgnoredAlone(_) => "(b) ignored".to_owned(),
        Failure::Dearer { .. } => "(c) price".to_owned(),
        Failure::MoreClaims { .. } => "(d) claims".to_owned(),
    }
}

fn case_files(path: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        let file = entry?.path();
        if file.extension().is_some_and(|extension| extension == "json") {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}
