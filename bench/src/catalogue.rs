//! What it costs the AWS provider to know what can be bought: every instance type for twenty NodeClasses, and a market that moves.
//!
//! An example of the catalogue's crate does the work in a process of its own and prints a line for each step.

use std::process::Stdio;

use anyhow::{Context, Result, bail};

use crate::build;

/// The name by which it is asked for.
pub(crate) const NAME: &str = "aws-catalogue";

/// One step: what was done, how long it took and how much memory stays in use.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Step {
    pub(crate) what: String,
    pub(crate) milliseconds: f64,
    pub(crate) mebibytes: f64,
}

/// Builds the example and runs it.
pub(crate) fn measure() -> Result<Vec<Step>> {
    let program = build::catalogue()?;
    let output = std::process::Command::new(&program).stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("running {}", program.display()))?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr));
    }
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(read).collect()
}

fn read(line: &str) -> Result<Step> {
    let parts: Vec<&str> = line.split('\t').collect();
    let [what, milliseconds, mebibytes] = parts[..] else { bail!("{line:?} is no step") };
    let figure = |text: &str| text.parse().with_context(|| format!("{line:?} has no figures"));
    Ok(Step { what: what.to_owned(), milliseconds: figure(milliseconds)?, mebibytes: figure(mebibytes)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_step_with_its_time_and_memory() {
        let step = Step { what: "20 classes".to_owned(), milliseconds: 12.5, mebibytes: 3.0 };
        assert_eq!(read("20 classes\t12.50\t3.0").expect("it has three parts"), step);
        assert!(read("20 classes").is_err());
    }
}
