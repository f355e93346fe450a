//! Runs child processes: for their verdict, for their output, or for both while a person watches.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Runs a command with this process's own output and says whether it succeeded.
pub(crate) fn succeeds(command: &mut Command) -> Result<bool> {
    let status = command.status().with_context(|| format!("starting {}", display(command)))?;
    Ok(status.success())
}

/// Runs a command and returns what it printed on standard output.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("starting {}", display(command)))?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        bail!("{} failed: {}", display(command), message.trim());
    }
    String::from_utf8(output.stdout)
        .with_context(|| format!("{} printed something that is not text", display(command)))
}

/// Runs a command, passes its standard output on line by line and shows each line to `observe` too.
pub(crate) fn observed(command: &mut Command, mut observe: impl FnMut(&str)) -> Result<bool> {
    command.stdout(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("starting {}", display(command)))?;
    let stdout = child.stdout.take().context("the child's standard output is piped")?;
    for line in BufReader::new(stdout).lines() {
        let line = line.with_context(|| format!("reading what {} prints", display(command)))?;
        println!("{line}");
        observe(&line);
    }
    let status = child.wait().with_context(|| format!("waiting for {}", display(command)))?;
    Ok(status.success())
}

/// The command as a person would type it.
fn display(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|argument| argument.to_string_lossy().into_owned()));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_command_is_named_with_its_arguments_and_what_it_said() {
        let error =
            output(Command::new("git").args(["no-such-command"])).expect_err("git knows no such command");
        let message = format!("{error:#}");
        assert!(message.contains("git no-such-command"), "{message}");
    }

    #[test]
    fn every_line_is_observed_in_order() {
        let mut seen = Vec::new();
        let good =
            observed(Command::new("git").args(["rev-parse", "--git-dir", "--is-bare-repository"]), |line| {
                seen.push(line.to_owned());
            });
        assert!(good.expect("git runs"));
        assert_eq!(seen.len(), 2);
        assert_eq!(seen[1], "false");
    }
}
