//! A client-go informer against our API server: is it in sync after all that happens to it?
//!
//! The informer is a Go program of a few lines in `tests/informer`, built once into the cache of tools; what happens to
//! it is an example of the API server's crate.

use std::fs;
use std::hash::{DefaultHasher, Hasher as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::parts::Outcome;
use crate::workspace::Workspace;
use crate::{process, tools};

/// Everything the program is made of.
const SOURCES: [&str; 3] = ["go.mod", "go.sum", "main.go"];

/// Builds what is missing and runs the example, in which every kind of trouble comes up so many times.
pub(crate) fn check(workspace: &Workspace, times: u32) -> Result<Outcome> {
    let program = build(workspace)?;
    workspace.build(&["--bin", "karpenter", "--example", "informer"])?;
    let mut command = workspace.command(workspace.program("examples/informer"));
    command.arg(workspace.program("karpenter")).arg(program).arg(times.to_string());
    Ok(process::succeeds(&mut command)?.into())
}

/// The informer's program, built first when the cache does not hold it.
fn build(workspace: &Workspace) -> Result<PathBuf> {
    let sources = workspace.root().join("tests").join("informer");
    let folder = tools::cache()?.join(format!("informer-{:016x}", hash(&sources)?));
    let program = folder.join("informer").with_extension(std::env::consts::EXE_EXTENSION);
    if program.is_file() {
        return Ok(program);
    }
    println!("building the informer into {}", folder.display());
    fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    // Another checkout may be building it as well: the finished program appears at once.
    let unfinished = folder.join(format!("informer.{}", std::process::id()));
    let mut command = workspace.command("go");
    command
        .current_dir(&sources)
        .env("CGO_ENABLED", "0")
        .env("GOFLAGS", "-buildvcs=false -mod=readonly")
        .args(["build", "-trimpath", "-o"])
        .arg(&unfinished)
        .arg(".");
    if !process::succeeds(&mut command).context("is Go installed? the informer is built with it")? {
        bail!("go could not build the informer: is the module proxy reachable?");
    }
    fs::rename(&unfinished, &program).context("moving the informer into place")?;
    Ok(program)
}

fn hash(sources: &Path) -> Result<u64> {
    let mut hasher = DefaultHasher::new();
    for name in SOURCES {
        hasher
            .write(&fs::read(sources.join(name)).with_context(|| format!("reading {name} of the informer"))?);
    }
    Ok(hasher.finish())
}
