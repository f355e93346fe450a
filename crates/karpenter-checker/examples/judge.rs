//! Scores a solver on a directory of cases: `judge CASES RESULTS.jsonl`.
//!
//! `CASES` is a case file or a directory of them (read in name order); line i of `RESULTS.jsonl` answers case i.
//! Prints a line per failing case, its reasons below, a line per claim that lacks types upstream lists for the same
//! pods, and a summary.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs, process};

use karpenter_checker::{Expected, Failure, PlanResult, Scenario, check, flexibility, judge};
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
    let mut choice = Choice::default();
    for (file, line) in files.iter().zip(&lines) {
        let question: Question = serde_json::from_str(&fs::read_to_string(file)?)?;
        let result: PlanResult = serde_json::from_str(line)?;
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        choice.note(&name, &question, &result);
        let failures = failures(&question, &result);
        if failures.is_empty() {
            right += 1;
            continue;
        }
        println!("FAIL {name}");
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
    choice.report();
    println!("{right} of {} right; failing cases by rule: {tally:?}", files.len());
    process::exit(i32::from(right != files.len()));
}

/// How many types claims list, ours and upstream's.
#[derive(Default)]
struct Choice {
    ours: Vec<usize>,
    upstream: Vec<usize>,
    compared: usize,
    thinner: usize,
}

impl Choice {
    fn note(&mut self, name: &str, question: &Question, result: &PlanResult) {
        let Question::Case { scenario, expected } = question else { return };
        self.ours.extend(result.new_node_claims.iter().map(|claim| claim.instance_types.len()));
        self.upstream.extend(expected.types_per_claim());
        let flexibility = flexibility(expected, scenario, result);
        self.compared += flexibility.compared;
        self.thinner += flexibility.missing.len();
        for missing in flexibility.missing {
            println!("THIN {name} newNodeClaims[{}] lacks {:?}", missing.claim, missing.types);
        }
    }

    fn report(&mut self) {
        let median = |counts: &mut Vec<usize>| {
            counts.sort_unstable();
            counts.get(counts.len() / 2).copied().unwrap_or(0)
        };
        let (ours, upstream) = (median(&mut self.ours), median(&mut self.upstream));
        println!(
            "{} of {} comparable claims lack types; median types per claim {ours}, upstream {upstream}",
            self.thinner, self.compared
        );
    }
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
