//! `cargo xtask test` and `cargo xtask lint`: which parts they have and in what order.
//!
//! The cheap parts come first, so that a person sees a formatting slip before the compiler starts.

use std::process::Command;

use anyhow::Result;

use crate::end_to_end::{self, Plane, Wish};
use crate::observed::Observed;
use crate::parts::{Cases, Outcome, Parts};
use crate::workspace::Workspace;
use crate::{
    alibabacloud_fronts, aws_fronts, aws_moto, charts, conformance, dashboards, deny, depcheck, fuzz,
    generated, informer, kops_store, process, scheduler_conformance, sessions, tidy, upstream_suites,
};

/// Property-test cases per property in the long run; the default is a few hundred.
const LONG_PROPTEST_CASES: &str = "4096";

/// Kills of the API server in the long run, 500 writes apart; the default is two.
const LONG_KILLS: &str = "20";

/// Kills of the leading replica in the long run.
const LEADER_KILLS: u32 = 20;

/// Launches in a storm of the long run.
const LONG_STORM: &str = "2000";

/// How often each kind of trouble comes over the informer in the long run.
const LONG_TROUBLES: u32 = 3;

/// Pods that our scheduler and the real one place.
const PODS: u32 = 400;
/// The same in the long run.
const LONG_PODS: u32 = 2000;

/// Benchmark files of the smoke run: one of each kind of catalog, both solved in well under a second.
const SMOKE_BENCHMARKS: [&str; 2] = ["bench-500", "large-1000"];

/// Runs every part and says whether all were good.
pub(crate) fn run(workspace: &Workspace, all: bool) -> bool {
    let mut parts = Parts::default();
    lint_parts(workspace, &mut parts);
    parts.run("tests", || cargo_test(&mut test_command(workspace)));
    parts.run("client sessions", || sessions::run(workspace));
    parts.run("API server conformance", || conformance::check(workspace));
    parts.run("simulated Alibaba Cloud, official SDKs", || alibabacloud_fronts::run(workspace));
    parts.run("generated files", || Ok(generated::run(workspace, true)?.into()));
    parts.run("simulated AWS, seen by boto3", || aws_fronts::run(workspace));
    parts.run("AWS provider on moto", || aws_moto::run(workspace));
    parts.run("kOps state stores in moto's S3", || kops_store::run(workspace));
    parts.run("client-go informer", || informer::check(workspace, if all { LONG_TROUBLES } else { 1 }));
    parts.run("scheduler against kube-scheduler", || {
        let pods = if all { LONG_PODS } else { PODS };
        scheduler_conformance::run(workspace, &scheduler_conformance::Wish { seed: 1, pods })
    });
    for (name, on) in
        [("end to end, embedded", Plane::Embedded), ("end to end, real control plane", Plane::Real)]
    {
        parts.run(name, || end_to_end::run(workspace, &Wish { on, ..Wish::default() }));
    }
    parts.run("upstream's suites, the quickest specs", || upstream_suites::quick(workspace));
    parts.run("charts on a real control plane", || charts::run(workspace));
    parts.run("dashboards on a real Prometheus", || dashboards::run(workspace));
    parts.run("dependency policy", || deny::check(workspace));
    if all {
        parts.run("long property tests", || {
            cargo_test(test_command(workspace).env("PROPTEST_CASES", LONG_PROPTEST_CASES))
        });
        parts.run("fuzzing", || fuzz::run(workspace, &fuzz::Wish::default()));
        parts.run("crashes of the API server", || crashes(workspace));
        parts.run("storms of launches", || storms(workspace));
        parts.run("kills of the leader", || {
            end_to_end::run(
                workspace,
                &Wish { on: Plane::Real, kills: Some(LEADER_KILLS), ..Wish::default() },
            )
        });
        parts.run("take-over from upstream and back", || {
            end_to_end::run(workspace, &Wish { on: Plane::Real, take_over: true, ..Wish::default() })
        });
        parts.run("benchmark smoke run", || smoke(workspace));
    }
    println!("{}", parts.table());
    parts.all_good()
}

/// Runs the parts that judge the text of the sources.
pub(crate) fn lint(workspace: &Workspace) -> bool {
    let mut parts = Parts::default();
    lint_parts(workspace, &mut parts);
    println!("{}", parts.table());
    parts.all_good()
}

fn lint_parts(workspace: &Workspace, parts: &mut Parts) {
    parts.run("formatting", || check(workspace, &["fmt", "--all", "--check"]));
    parts.run("tidy", || Ok(tidy::run(workspace)?.into()));
    parts.run("dependency direction", || Ok(depcheck::run(workspace)?.into()));
    parts.run("clippy", || {
        check(workspace, &["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"])
    });
}

fn check(workspace: &Workspace, arguments: &[&str]) -> Result<Outcome> {
    Ok(process::succeeds(&mut workspace.cargo(arguments))?.into())
}

fn smoke(workspace: &Workspace) -> Result<Outcome> {
    let mut command = workspace.cargo(["run", "--quiet", "--release", "--package", "karpenter-bench", "--"]);
    command.args(SMOKE_BENCHMARKS);
    Ok(process::succeeds(&mut command)?.into())
}

fn crashes(workspace: &Workspace) -> Result<Outcome> {
    let mut command = workspace.cargo(["test", "--quiet", "--package", "karpenter-cli", "--test", "main"]);
    cargo_test(command.args(["crashes", "--", "--nocapture"]).env("KARPENTER_TEST_KILLS", LONG_KILLS))
}

fn storms(workspace: &Workspace) -> Result<Outcome> {
    // For speed: in a debug build most of an hour would pass.
    let mut command = workspace.cargo(["test", "--release", "--tests"]);
    for package in ["karpenter-aws", "karpenter-alibabacloud", "karpenter-local"] {
        command.args(["--package", package]);
    }
    cargo_test(command.arg("a_storm_of").env("KARPENTER_TEST_STORM", LONG_STORM))
}

/// `cargo test` over the workspace.
fn test_command(workspace: &Workspace) -> Command {
    workspace.cargo(["test", "--quiet", "--workspace", "--no-fail-fast"])
}

/// Runs tests and counts their cases.
fn cargo_test(command: &mut Command) -> Result<Outcome> {
    let mut cases = Cases::default();
    let mut observed = Observed::default();
    let good = process::observed(command, |line| {
        if let Some(counted) = libtest_summary(line) {
            cases.passed += counted.passed;
            cases.failed += counted.failed;
        }
        observed.add(line);
    })?;
    Ok(Outcome { good, cases: Some(cases), note: observed.to_string() })
}

/// The counts of a line such as `test result: ok. 12 passed; 0 failed; 0 ignored; …`.
pub(crate) fn libtest_summary(line: &str) -> Option<Cases> {
    let (_, counts) = line.trim().strip_prefix("test result: ")?.split_once(". ")?;
    let count = |what: &str| counts.split("; ").find_map(|part| part.strip_suffix(what)?.trim().parse().ok());
    Some(Cases { passed: count("passed")?, failed: count("failed")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_line_of_libtest_is_counted() {
        let line = "test result: FAILED. 12 passed; 3 failed; 0 ignored; 0 measured; 1 filtered out; finished in 0.1s";
        assert_eq!(libtest_summary(line), Some(Cases { passed: 12, failed: 3 }));
    }

    #[test]
    fn other_lines_are_not_counted() {
        assert_eq!(libtest_summary("running 12 tests"), None);
        assert_eq!(libtest_summary("12 passed; 3 failed"), None);
    }
}
