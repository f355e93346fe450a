//! Scenarios with known answers: the plans are feasible, no worse than upstream's, and always the same.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use karpenter_checker::cases::{self, Case};
use karpenter_checker::{PlanResult, Scenario, flexibility, judge};
use serde_json::Value;

use crate::planned::{printed_plan, read_plan};
use crate::{karpenter, stderr, stdout};

/// A case and the plan it got.
struct Answered {
    case: Case,
    scenario: Scenario,
    printed: String,
    result: PlanResult,
}

/// Planning all cases takes seconds, so the tests share the plans.
static SCHEDULING: LazyLock<Vec<Answered>> = LazyLock::new(|| cases::scheduling().map(answered).collect());
static QUIRKS: LazyLock<Vec<Answered>> = LazyLock::new(|| cases::quirks().map(answered).collect());

fn answered(case: Case) -> Answered {
    let printed = printed_plan(&case.scenario);
    Answered { scenario: case.scenario(), result: read_plan(&printed), printed, case }
}

fn everything() -> impl Iterator<Item = &'static Answered> {
    SCHEDULING.iter().chain(&*QUIRKS)
}

/// What is wrong with the plans. Being right includes being feasible.
fn complaints(answers: &[Answered]) -> Vec<String> {
    let of_case = |answer: &Answered| {
        let failures = judge(&answer.case.expected, &answer.scenario, &answer.result).failures;
        let name = answer.case.name().to_owned();
        failures.into_iter().map(move |failure| format!("{name}: {failure}"))
    };
    answers.iter().flat_map(of_case).collect()
}

#[test]
fn every_scheduling_case_is_answered_right() {
    assert_eq!(SCHEDULING.len(), 250);
    let complaints = complaints(&SCHEDULING);
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn every_scenario_that_upstream_gets_wrong_is_answered_right() {
    assert_eq!(QUIRKS.len(), 7);
    let complaints = complaints(&QUIRKS);
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn a_claim_with_the_same_pods_as_upstreams_lists_all_its_types() {
    let mut compared = 0;
    let mut missing = Vec::new();
    for answer in &*SCHEDULING {
        let flexibility = flexibility(&answer.case.expected, &answer.scenario, &answer.result);
        compared += flexibility.compared;
        for claim in flexibility.missing {
            missing.push(format!("{}: claim {} lacks {:?}", answer.case.name(), claim.claim, claim.types));
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
    assert!(compared >= 100, "only {compared} claims could be compared");
}

#[test]
fn half_of_the_claims_list_as_many_types_as_upstreams() {
    let of_claims = |result: &PlanResult| -> Vec<usize> {
        result.new_node_claims.iter().map(|claim| claim.instance_types.len()).collect()
    };
    let ours = median(SCHEDULING.iter().flat_map(|answer| of_claims(&answer.result)));
    let upstreams = median(SCHEDULING.iter().flat_map(|answer| answer.case.expected.types_per_claim()));
    assert!(ours >= upstreams, "the median claim lists {ours} types, upstream's {upstreams}");
}

fn median(counts: impl Iterator<Item = usize>) -> usize {
    let mut counts: Vec<usize> = counts.collect();
    counts.sort_unstable();
    counts[counts.len() / 2]
}

#[test]
fn the_order_in_which_facts_are_listed_does_not_matter() {
    const LISTS: &[&str] = &[
        "daemonSets",
        "instanceTypes",
        "namespaces",
        "nodePools",
        "nodes",
        "persistentVolumeClaims",
        "persistentVolumes",
        "podDisruptionBudgets",
        "podGroups",
        "storageClasses",
        "wellKnownLabels",
    ];
    let differs = |answer: &&Answered| {
        let mut scenario = answer.case.scenario.clone();
        for list in LISTS {
            if let Some(Value::Array(items)) = scenario.get_mut(list) {
                items.reverse();
            }
        }
        printed_plan(&scenario) != answer.printed
    };
    let different: Vec<&str> = everything().filter(differs).map(|answer| answer.case.name()).collect();
    assert_eq!(different, [""; 0]);
}

#[test]
fn the_program_prints_the_same_bytes_on_every_run_with_one_thread_or_two() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cases");
    fs::create_dir_all(&directory).expect("cargo gives tests a directory to write in");
    let write = |(index, answer): (usize, &Answered)| {
        let file = directory.join(format!("{index}.json"));
        fs::write(&file, answer.case.scenario.to_string()).expect("the directory can be written in");
        file.to_str().expect("the target directory's path is text").to_owned()
    };
    let files: Vec<String> = everything().enumerate().map(write).collect();
    for threads in ["1", "2"] {
        let mut arguments = vec!["solve", "--threads", threads];
        arguments.extend(files.iter().map(String::as_str));
        let output = karpenter(&arguments, "");
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let printed = stdout(&output);
        assert_eq!(printed.lines().count(), files.len());
        let differs = |(line, answer): &(&str, &Answered)| *line != answer.printed;
        let different = printed.lines().zip(everything()).filter(differs);
        let names: Vec<&str> = different.map(|(_, answer)| answer.case.name()).collect();
        assert_eq!(names, [""; 0], "with {threads} threads");
    }
}
