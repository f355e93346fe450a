//! Transcripts: commands and what they print.
//!
//! `$ ` begins a command, `> ` continues it on further lines, `## ` is a remark about the command that follows. Everything
//! else is output. Whatever stands before the first command is the preface, which says what the session shows.

use std::fmt;

/// One command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) remarks: Vec<String>,
    pub(crate) command: String,
    pub(crate) printed: String,
}

/// A session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Transcript {
    pub(crate) preface: String,
    pub(crate) steps: Vec<Step>,
}

impl Transcript {
    pub(crate) fn parse(text: &str) -> Self {
        let mut transcript = Self::default();
        let (mut preface, mut remarks): (Vec<&str>, Vec<String>) = (Vec::new(), Vec::new());
        let mut output: Vec<&str> = Vec::new();
        let mut commanding = false;
        let close = |steps: &mut Vec<Step>, output: &mut Vec<&str>| {
            if let Some(step) = steps.last_mut() {
                output.join("\n").trim_matches('\n').clone_into(&mut step.printed);
                output.clear();
            }
        };
        for line in text.lines() {
            if let Some(remark) = line.strip_prefix("## ") {
                remarks.push(remark.to_owned());
            } else if let Some(command) = line.strip_prefix("$ ") {
                close(&mut transcript.steps, &mut output);
                let remarks = std::mem::take(&mut remarks);
                transcript.steps.push(Step { remarks, command: command.to_owned(), printed: String::new() });
                commanding = true;
                continue;
            } else if let (Some(more), true, Some(step)) =
                (line.strip_prefix("> "), commanding, transcript.steps.last_mut())
            {
                step.command.push('\n');
                step.command.push_str(more);
                continue;
            } else if transcript.steps.is_empty() {
                preface.push(line);
            } else {
                output.push(line);
            }
            commanding = false;
        }
        close(&mut transcript.steps, &mut output);
        preface.join("\n").trim().clone_into(&mut transcript.preface);
        transcript
    }
}

impl fmt::Display for Transcript {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{}", self.preface)?;
        for step in &self.steps {
            writeln!(formatter)?;
            for remark in &step.remarks {
                writeln!(formatter, "## {remark}")?;
            }
            writeln!(formatter, "$ {}", step.command.replace('\n', "\n> "))?;
            if !step.printed.is_empty() {
                writeln!(formatter, "{}", step.printed)?;
            }
        }
        Ok(())
    }
}

/// Shows both texts line by line, equal lines once.
pub(crate) fn difference(expected: &str, actual: &str) -> String {
    let (expected, actual): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), actual.lines().collect());
    // The longest common subsequence, from the end.
    let mut lengths = vec![vec![0_usize; actual.len() + 1]; expected.len() + 1];
    for left in (0..expected.len()).rev() {
        for right in (0..actual.len()).rev() {
            lengths[left][right] = if expected[left] == actual[right] {
                lengths[left + 1][right + 1] + 1
            } else {
                lengths[left + 1][right].max(lengths[left][right + 1])
            };
        }
    }
    let (mut left, mut right, mut shown) = (0, 0, Vec::new());
    while left < expected.len() || right < actual.len() {
        if left < expected.len() && right < actual.len() && expected[left] == actual[right] {
            shown.push(format!("      {}", expected[left]));
            (left, right) = (left + 1, right + 1);
        } else if right == actual.len()
            || (left < expected.len() && lengths[left + 1][right] >= lengths[left][right + 1])
        {
            shown.push(format!("real  {}", expected[left]));
            left += 1;
        } else {
            shown.push(format!("ours  {}", actual[right]));
            right += 1;
        }
    }
    shown.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transcript_survives_being_written() {
        let text = "What it shows.\n\n## why\n$ one\n> two\nout 1\n\nout 2\n\n$ silent\n\n$ three\n$5\n";
        let transcript = Transcript::parse(text);
        assert_eq!(transcript.preface, "What it shows.");
        assert_eq!(transcript.steps.len(), 3);
        assert_eq!(transcript.steps[0].command, "one\ntwo");
        assert_eq!(transcript.steps[0].printed, "out 1\n\nout 2");
        assert_eq!(transcript.steps[1].printed, "");
        assert_eq!(transcript.steps[2].printed, "$5");
        assert_eq!(Transcript::parse(&transcript.to_string()), transcript);
    }

    #[test]
    fn differences_show_equal_lines_once() {
        assert_eq!(difference("a\nb\nc", "a\nx\nc"), "      a\nreal  b\nours  x\n      c");
    }
}
