//! Project tasks: what continuous integration, the Makefile and people run.
//!
//! Start at [`Task`]; each task is one module. Anything heavy (the `karpenter` binary, the benchmarks) is run as a
//! child through cargo, so that `cargo xtask` itself compiles in seconds.

mod alibabacloud_fronts;
mod aws_catalogue;
mod aws_fronts;
mod aws_moto;
mod charts;
mod conformance;
mod control_plane;
mod dashboards;
mod deny;
mod depcheck;
mod end_to_end;
mod figures;
mod fuzz;
mod generated;
mod informer;
mod kops_store;
mod observed;
mod parts;
mod process;
mod scheduler_conformance;
mod sessions;
mod test_run;
mod tidy;
mod tools;
mod upstream_controller;
mod upstream_suites;
mod workspace;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use workspace::Workspace;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Project tasks", version)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run every check and test, with the minutes each part took
    Test {
        /// Add the long runs: more property-test cases, a benchmark smoke run
        #[arg(long)]
        all: bool,
    },
    /// Check formatting, clippy, tidiness and the direction of dependencies
    Lint,
    /// Check the rules of the house that neither rustfmt nor clippy knows
    Tidy,
    /// Write the generated files: CRDs and reference pages
    Crds {
        /// Write nothing; fail when a file is not what would be written
        #[arg(long)]
        check: bool,
    },
    /// Build, start and stop a real Kubernetes control plane from Go modules
    #[command(subcommand)]
    ControlPlane(control_plane::ControlPlane),
    /// Compare our scheduler with the real kube-scheduler over generated nodes and pods
    SchedulerConformance(scheduler_conformance::Wish),
    /// Run the end-to-end scenarios of the controller on the embedded cluster or on a real control plane
    E2e(end_to_end::Wish),
    /// Run upstream's own end-to-end suites against our controller and update their report
    E2eUpstream(upstream_suites::Wish),
    /// Install, upgrade and remove the Helm charts on a real control plane, and hold their roles against what the controller does
    Charts,
    /// Ask a real Prometheus that scrapes the controller for everything the dashboards show
    Dashboards,
    /// Send the same requests to our API server and to the real one and compare the answers
    Conformance(conformance::Conformance),
    /// Let the official Python SDKs call the simulated Alibaba Cloud
    AlibabacloudFronts,
    /// Measure our API server and the real one side by side
    ApiserverFigures(figures::Figures),
    /// Fuzz everything that reads what others wrote
    Fuzz(fuzz::Wish),
    /// Derive the catalogue of instance types and prices that the AWS provider carries, from packages of the registries
    AwsCatalogue,
    /// Exercise the simulated AWS with boto3 and compare it with moto
    AwsFronts,
    /// Let the AWS provider live one life of a machine on moto
    AwsMoto,
    /// Let `karpenter kops` work on state stores in moto's S3
    KopsStore,
    /// Run the benchmarks; `cargo xtask bench --help` lists their options
    #[command(disable_help_flag = true)]
    Bench {
        /// Arguments of the benchmark program
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse().task) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs one task; `false` means it ran to its end and something was found wrong.
fn run(task: Task) -> Result<bool> {
    let workspace = Workspace::find()?;
    match task {
        Task::Test { all } => Ok(test_run::run(&workspace, all)),
        Task::Lint => Ok(test_run::lint(&workspace)),
        Task::Tidy => tidy::run(&workspace),
        Task::Crds { check } => generated::run(&workspace, check),
        Task::ControlPlane(task) => control_plane::run(&workspace, &task),
        Task::SchedulerConformance(wish) => Ok(scheduler_conformance::run(&workspace, &wish)?.good),
        Task::E2e(wish) => Ok(end_to_end::run(&workspace, &wish)?.good),
        Task::E2eUpstream(wish) => upstream_suites::run(&workspace, &wish),
        Task::Charts => Ok(charts::run(&workspace)?.good),
        Task::Dashboards => Ok(dashboards::run(&workspace)?.good),
        Task::Conformance(wish) => conformance::run(&workspace, &wish),
        Task::AlibabacloudFronts => Ok(alibabacloud_fronts::run(&workspace)?.good),
        Task::ApiserverFigures(wish) => figures::run(&workspace, &wish),
        Task::Fuzz(wish) => Ok(fuzz::run(&workspace, &wish)?.good),
        Task::AwsCatalogue => aws_catalogue::run(&workspace),
        Task::AwsFronts => Ok(aws_fronts::run(&workspace)?.good),
        Task::AwsMoto => Ok(aws_moto::run(&workspace)?.good),
        Task::KopsStore => Ok(kops_store::run(&workspace)?.good),
        Task::Bench { arguments } => {
            let mut command =
                workspace.cargo(["run", "--quiet", "--release", "--package", "karpenter-bench", "--"]);
            command.args(arguments);
            process::succeeds(&mut command)
        }
    }
}
