//! `cargo xtask fuzz`: lets a fuzzer look for texts that our parsers cannot stand.
//!
//! The parsers are in `fuzz/src`, texts to start from in `fuzz/seeds`. Coverage counters are switched on by stable flags of the compiler, so neither
//! a nightly toolchain nor another tool is needed. What is found is kept below `target/fuzz/found` and repeated by the printed command.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::parts::{Cases, Outcome};
use crate::process;
use crate::workspace::Workspace;

const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1";

#[derive(Args)]
pub(crate) struct Wish {
    /// Fuzz these parsers only
    parsers: Vec<String>,
    /// How long each parser is fuzzed
    #[arg(long, default_value_t = 20)]
    seconds: u32,
}

impl Default for Wish {
    fn default() -> Self {
        Self { parsers: Vec::new(), seconds: 20 }
    }
}

pub(crate) fn run(workspace: &Workspace, wish: &Wish) -> Result<Outcome> {
    let folder = workspace.root().join("target/fuzz");
    let program = build(workspace, &folder)?;
    let known = process::output(workspace.command(&program).env("KARPENTER_FUZZ", "list"))?;
    let known: Vec<&str> = known.lines().collect();
    if let Some(unknown) = wish.parsers.iter().find(|name| !known.contains(&name.as_str())) {
        bail!("there is no parser {unknown}; there are {}", known.join(", "));
    }
    let mut cases = Cases::default();
    let chosen = |name: &&&str| wish.parsers.is_empty() || wish.parsers.iter().any(|wanted| wanted == **name);
    for name in known.iter().filter(chosen) {
        if fuzz(workspace, (&program, &folder), name, wish.seconds)? {
            cases.passed += 1;
        } else {
            cases.failed += 1;
        }
    }
    Ok(Outcome { good: cases.failed == 0, cases: Some(cases), note: String::new() })
}

fn build(workspace: &Workspace, folder: &Path) -> Result<PathBuf> {
    // With a target named, the flags leave build scripts and macros alone, which are not linked with the fuzzer.
    let version = process::output(workspace.command("rustc").arg("-vV"))?;
    let host =
        version.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc names its host")?;
    let mut command = workspace.cargo(["build", "--quiet", "--release", "--target", host, "--manifest-path"]);
    command.arg(workspace.root().join("fuzz/Cargo.toml")).arg("--target-dir").arg(folder);
    if !process::succeeds(command.env("RUSTFLAGS", COVERAGE))? {
        bail!("the parsers could not be built for fuzzing");
    }
    Ok(folder.join(host).join("release/parsers"))
}

/// Fuzzes one parser from the seeds and from what earlier runs found worth keeping; says whether it stood everything.
fn fuzz(workspace: &Workspace, (program, folder): (&Path, &Path), name: &str, seconds: u32) -> Result<bool> {
    let corpus = folder.join("corpus").join(name);
    let found = folder.join("found").join(name);
    for path in [&corpus, &found] {
        fs::create_dir_all(path).with_context(|| format!("creating {}", path.display()))?;
    }
    let mut command = workspace.command(program);
    command.env("KARPENTER_FUZZ", name).args(["-max_len=4096", "-timeout=10", "-rss_limit_mb=2048"]);
    command.args(["-print_final_stats=1", "-verbosity=0"]);
    command.arg(format!("-max_total_time={seconds}")).arg(format!("-artifact_prefix={}/", found.display()));
    command.arg(&corpus).arg(workspace.root().join("fuzz/seeds").join(name));
    println!("{name}:");
    let good = process::succeeds(&mut command)?;
    if !good {
        let again = format!("KARPENTER_FUZZ={name} {}", program.display());
        println!("{name} cannot stand what is in {}; repeat it with {again} FILE", found.display());
    }
    Ok(good)
}
