//! `cargo xtask e2e-upstream`: upstream's own end-to-end suites, unmodified, against our controller.
//!
//! The suites run in shards, several at once, each on a control plane of its own: nearly all their time is waiting. What came of
//! every spec is kept beside what upstream's controller makes of it, in [`report::REPORT`].

mod arrangement;
pub(crate) mod build;
mod report;
mod shards;

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::control_plane;
use crate::end_to_end::Plane;
use crate::parts::{Cases, Outcome};
use crate::workspace::Workspace;

use arrangement::Arrangement;
use build::Suites;
use report::{Report, Spec};
use shards::{PERFORMANCE, PERFORMANCE_SUITE, QUICK, SHARDS, Shard};

const PROGRAMS: [&str; 7] =
    ["keys", "etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager", "kubectl", "kwok"];

/// The programs that a cluster takes; the embedded one is in ours.
fn programs(on: Plane) -> &'static [&'static str] {
    match on {
        Plane::Real => &PROGRAMS,
        Plane::Embedded => &["kubectl"],
    }
}

#[derive(Args)]
pub(crate) struct Wish {
    /// Run these shards only, even if this build has run them before; the names are printed when one is unknown
    #[arg(long)]
    shard: Vec<String>,
    /// Run upstream's performance suite instead, one shard after the other
    #[arg(long)]
    performance: bool,
    /// How many shards run at once
    #[arg(long, default_value_t = 4)]
    at_once: usize,
    /// The cluster to run on
    #[arg(long, default_value = "real")]
    on: Plane,
    /// Run only specs that match this regular expression
    #[arg(long)]
    focus: Option<String>,
    /// Folder for logs and reports of the shards; shards that it holds a report of, younger than our controller, are not run again
    #[arg(long, default_value = "target/e2e-upstream")]
    rundir: PathBuf,
}

impl Wish {
    /// The shards that are named, or else all of the suites in question.
    fn shards(&self) -> Result<VecDeque<Shard>> {
        let all = || SHARDS.iter().chain(&PERFORMANCE).chain(&QUICK);
        let find = |name: &String| {
            let names = || all().map(|shard| shard.name).collect::<Vec<_>>().join(", ");
            let known = all().find(|shard| shard.name == name).copied();
            known.with_context(|| format!("there is no shard {name}; there are {}", names()))
        };
        match (&self.shard[..], self.performance) {
            ([], false) => Ok(SHARDS.into()),
            ([], true) => Ok(PERFORMANCE.into()),
            (names, _) => names.iter().map(find).collect(),
        }
    }
}

/// Runs shards and updates the report.
pub(crate) fn run(workspace: &Workspace, wish: &Wish) -> Result<bool> {
    let Some(programs) = control_plane::programs_named(workspace, programs(wish.on))? else {
        bail!("install Go: the suites and a control plane are built with it");
    };
    let mut chosen = wish.shards()?;
    if wish.on == Plane::Embedded && chosen.iter().any(|shard| shard.suite == PERFORMANCE_SUITE) {
        bail!(
            "the performance suite asks pods through the API server, which the embedded one does not pass on: leave out --on embedded"
        );
    }
    let suites = Suites::ensure(workspace, chosen.iter().map(|shard| shard.suite))?;
    // What is run is what people run.
    let arrangement = Arrangement::prepare(workspace, suites, (programs, workspace.released_karpenter()?))?;
    let rundir = workspace.root().join(&wish.rundir).join(format!("{:?}", wish.on).to_lowercase());
    if wish.shard.is_empty() {
        let all = chosen.len();
        chosen.retain(|shard| !is_done(&arrangement, &rundir.join(shard.name)));
        println!("{} of {all} shards have been run with this controller", all - chosen.len());
    }
    let at_once = if wish.performance { 1 } else { wish.at_once };
    let how = (wish.on, wish.focus.as_deref());
    let specs = play(&arrangement, chosen, &rundir, (at_once, how), |specs| {
        let mut report = Report::read(workspace)?;
        report.note(specs, wish.on);
        report.write(workspace)
    })?;
    let report = Report::read(workspace)?;
    let worse: Vec<&Spec> = specs.iter().filter(|spec| report.is_worse(spec)).collect();
    for spec in &worse {
        println!("FAILED {} {}: {}", spec.suite, spec.name, spec.message);
    }
    println!("{report}");
    Ok(worse.is_empty())
}

/// Runs the quickest specs, as part of `cargo xtask test`.
pub(crate) fn quick(workspace: &Workspace) -> Result<Outcome> {
    let Some(programs) = control_plane::programs_named(workspace, programs(Plane::Real))? else {
        let note = "not run: the suites and a control plane are built with Go, which is not installed";
        return Ok(Outcome::from(true).note(note));
    };
    workspace.build(&["--bin", "karpenter"])?;
    let suites = Suites::ensure(workspace, QUICK.iter().map(|shard| shard.suite))?;
    let arrangement = Arrangement::prepare(workspace, suites, (programs, workspace.program("karpenter")))?;
    let rundir = std::env::temp_dir().join(format!("karpenter-e2e-upstream-{}", std::process::id()));
    let specs = play(
        &arrangement,
        QUICK.iter().copied().collect(),
        &rundir,
        (QUICK.len(), (Plane::Real, None)),
        |_| Ok(()),
    )?;
    let failed: Vec<&Spec> = specs.iter().filter(|spec| spec.result != "passed").collect();
    for spec in &failed {
        println!("FAILED {} {}: {}", spec.suite, spec.name, spec.message);
    }
    let cases = Cases { passed: (specs.len() - failed.len()) as u64, failed: failed.len() as u64 };
    if failed.is_empty() {
        fs::remove_dir_all(&rundir).with_context(|| format!("removing {}", rundir.display()))?;
    } else {
        println!("logs are in {}", rundir.display());
    }
    Ok(Outcome { good: failed.is_empty(), cases: Some(cases), note: String::new() })
}

/// Whether a shard was run to its end with the controller as it is now.
fn is_done(arrangement: &Arrangement, rundir: &Path) -> bool {
    let modified = |path: &Path| fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    let (report, program) = (modified(&report::path(rundir)), modified(&arrangement.karpenter));
    report.zip(program).is_some_and(|(report, program)| report > program)
}

/// Runs shards, `at_once` of them at a time, and tells `note` what came of each. A shard that cannot be run does not stop the
/// others.
fn play(
    arrangement: &Arrangement,
    shards: VecDeque<Shard>,
    rundir: &Path,
    (at_once, how): (usize, (Plane, Option<&str>)),
    note: impl Fn(&[Spec]) -> Result<()> + Sync,
) -> Result<Vec<Spec>> {
    let waiting = Mutex::new(shards);
    let results: Mutex<(Vec<Spec>, Vec<anyhow::Error>)> = Mutex::default();
    // A function of its own, so that the lock is held for no longer than it takes.
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let work = || {
        while let Some(shard) = next() {
            let begun = Instant::now();
            let played = arrangement.play(&shard, &rundir.join(shard.name), how);
            let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
            match played.and_then(|specs| note(&specs).map(|()| specs)) {
                Ok(specs) => {
                    let passed = specs.iter().filter(|spec| spec.result == "passed").count();
                    let seconds = begun.elapsed().as_secs();
                    println!("{}: {passed} of {} specs passed, {seconds} s", shard.name, specs.len());
                    results.0.extend(specs);
                }
                Err(error) => results.1.push(error.context(format!("shard {}", shard.name))),
            }
        }
    };
    std::thread::scope(|scope| (0..at_once.max(1)).for_each(|_| drop(scope.spawn(work))));
    let (specs, errors) = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    match errors.into_iter().next() {
        Some(error) => Err(error),
        None => Ok(specs),
    }
}
