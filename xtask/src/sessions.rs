//! kubectl and helm sessions against our API server, with the programs of the control plane.

use anyhow::Result;

use crate::parts::{Cases, Outcome};
use crate::test_run::libtest_summary;
use crate::workspace::Workspace;
use crate::{control_plane, process};

const PROGRAMS: [&str; 2] = ["kubectl", "helm"];

pub(crate) fn run(workspace: &Workspace) -> Result<Outcome> {
    let Some(programs) = control_plane::programs_named(workspace, &PROGRAMS)? else {
        return Ok(
            Outcome::from(true).note("not run: kubectl and helm are built with Go, which is not installed")
        );
    };
    workspace.build(&["--bin", "karpenter-client-sessions"])?;
    let mut command = workspace.command(workspace.program("karpenter-client-sessions"));
    command.arg("--programs").arg(programs);
    let mut cases = Cases::default();
    let good = process::observed(&mut command, |line| {
        if let Some(counted) = libtest_summary(line) {
            cases.passed += counted.passed;
            cases.failed += counted.failed;
        }
    })?;
    Ok(Outcome { good, cases: Some(cases), note: String::new() })
}
