//! The dependency policy of `deny.toml`: licences, duplicates, sources and, where the network allows, advisories.

use anyhow::Result;

use crate::parts::Outcome;
use crate::process;
use crate::tools::Tool;
use crate::workspace::Workspace;

const CARGO_DENY: Tool = Tool { name: "cargo-deny", version: "0.20.2" };

/// Runs `cargo deny check`. Without a way to fetch the advisory database the other three checks still run.
pub(crate) fn check(workspace: &Workspace) -> Result<Outcome> {
    let program = CARGO_DENY.ensure(workspace)?;
    let mut fetch = workspace.command(&program);
    fetch.args(["--log-level", "off", "fetch", "db"]);
    let advisories = process::succeeds(&mut fetch)?;
    let mut check = workspace.command(&program);
    check.args(["--log-level", "warn", "check", "--hide-inclusion-graph", "bans", "licenses", "sources"]);
    if advisories {
        check.arg("advisories");
    }
    let outcome = Outcome::from(process::succeeds(&mut check)?);
    if advisories {
        return Ok(outcome);
    }
    println!(
        "The advisory database cannot be fetched on this network: known vulnerabilities were not looked up."
    );
    Ok(outcome.note("without advisories: their database cannot be fetched here"))
}
