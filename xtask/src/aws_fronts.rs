//! `cargo xtask aws-fronts`: boto3 as an independent client of the simulated AWS, with moto beside it for comparison.
//!
//! boto3 and moto are installed once into the cache of tools. The checks are a Python program of the simulated account's crate, which
//! starts the front itself and reaches nothing but loopback.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::parts::{Cases, Outcome};
use crate::test_run::libtest_summary;
use crate::workspace::Workspace;
use crate::{process, tools};

const BOTO3: &str = "1.44.3";
const MOTO: &str = "5.2.5";
const PACKAGE: &str = "karpenter-simcloud-aws";

pub(crate) fn run(workspace: &Workspace) -> Result<Outcome> {
    let Some(python) = python(workspace)? else {
        return Ok(
            Outcome::from(true).note("not run: boto3 needs Python 3 with venv, which is not installed")
        );
    };
    workspace.build(&["--example", "aws_front"])?;
    let front =
        workspace.program("examples").join("aws_front").with_extension(std::env::consts::EXE_EXTENSION);
    let checks = workspace.root().join("crates").join(PACKAGE).join("tests").join("boto3").join("fronts.py");
    let mut command = workspace.command(python);
    // What a person has configured for the real AWS is of no interest here.
    for name in ["AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"] {
        command.env_remove(name);
    }
    command
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .arg(checks)
        .arg(front);
    let mut cases = Cases::default();
    let good = process::observed(&mut command, |line| {
        cases = libtest_summary(line).unwrap_or(cases);
    })?;
    Ok(Outcome { good, cases: Some(cases), note: String::new() })
}

/// A Python that has boto3 and moto, made first when the cache does not hold it; `None` where there is no Python to make it with.
pub(crate) fn python(workspace: &Workspace) -> Result<Option<PathBuf>> {
    let folder = tools::cache()?.join(format!("boto3-{BOTO3}-moto-{MOTO}"));
    let inside = if cfg!(windows) { ["Scripts", "python.exe"] } else { ["bin", "python"] };
    let program = folder.join(inside[0]).join(inside[1]);
    if program.is_file() {
        return Ok(Some(program));
    }
    let mut probe = workspace.command("python3");
    if process::output(probe.args(["-c", "import venv, ensurepip"])).is_err() {
        return Ok(None);
    }
    println!("installing boto3 {BOTO3} and moto {MOTO} into {}", folder.display());
    // Another checkout may be installing them as well: the finished folder appears at once.
    let unfinished = tools::cache()?.join(format!("boto3-{BOTO3}-moto-{MOTO}.{}", std::process::id()));
    let mut venv = workspace.command("python3");
    if !process::succeeds(venv.args(["-m", "venv"]).arg(&unfinished))? {
        bail!("python3 could not make an environment of its own");
    }
    let mut install = workspace.command(unfinished.join(inside[0]).join(inside[1]));
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    install.args([format!("boto3=={BOTO3}"), format!("moto[server]=={MOTO}")]);
    if !process::succeeds(&mut install)? {
        bail!("pip could not install boto3 and moto: is the package registry reachable?");
    }
    match fs::rename(&unfinished, &folder) {
        Err(_) if program.is_file() => {
            fs::remove_dir_all(&unfinished).context("removing a second installation")?;
        }
        renamed => renamed.context("moving boto3 and moto into place")?,
    }
    Ok(Some(program))
}
