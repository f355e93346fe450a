//! `cargo xtask kops-store`: `karpenter kops` on state stores in moto's S3.
//!
//! The checks are a Python program of the crate that reads and writes state stores. It runs in the environment with boto3 and moto that
//! [`crate::aws_fronts`] keeps, starts moto itself and reaches nothing but loopback.

use anyhow::Result;

use crate::parts::{Cases, Outcome};
use crate::test_run::libtest_summary;
use crate::workspace::Workspace;
use crate::{aws_fronts, process};

pub(crate) fn run(workspace: &Workspace) -> Result<Outcome> {
    let Some(python) = aws_fronts::python(workspace)? else {
        return Ok(Outcome::from(true).note("not run: moto needs Python 3 with venv, which is not installed"));
    };
    workspace.build(&["--bin", "karpenter"])?;
    let mut command = workspace.command(python);
    // What a person has configured for the real AWS is of no interest here.
    for name in ["AWS_PROFILE", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_SESSION_TOKEN"] {
        command.env_remove(name);
    }
    command
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .arg("-B")
        .arg(workspace.root().join("crates/karpenter-kops/tests/moto/store.py"))
        .arg(workspace.program("karpenter"))
        .arg(workspace.root().join("docs/examples/kops"));
    let mut cases = Cases::default();
    let good = process::observed(&mut command, |line| {
        cases = libtest_summary(line).unwrap_or(cases);
    })?;
    Ok(Outcome { good, cases: Some(cases), note: String::new() })
}
