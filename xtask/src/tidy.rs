//! The rules of the house that neither rustfmt nor clippy knows.
//!
//! Every rule is a function from a file (or all of them) to [`Finding`]s; this module reads the files once and asks
//! each rule in turn.

mod links;
mod reachable;
mod sources;
mod words;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::workspace::Workspace;

/// One breach of one rule.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    path: PathBuf,
    /// Counted from one; zero when the whole file is meant.
    line: usize,
    message: String,
}

impl Finding {
    fn new(path: &Path, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_path_buf(), line, message: message.into() }
    }
}

/// A text file of the checkout.
struct File {
    path: PathBuf,
    text: String,
}

impl File {
    fn has_extension(&self, extensions: &[&str]) -> bool {
        self.path.extension().is_some_and(|found| extensions.iter().any(|extension| found == *extension))
    }

    /// The lines with their numbers, counted from one.
    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }
}

/// Prints every breach; `true` when there is none.
pub(crate) fn run(workspace: &Workspace) -> Result<bool> {
    let files = read(workspace)?;
    let mut findings: Vec<Finding> = Vec::new();
    for file in &files {
        findings.extend(sources::check(file));
        findings.extend(words::check(file));
        findings.extend(links::check(workspace.root(), file));
    }
    findings.extend(reachable::check(workspace, &files)?);
    findings.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    for finding in &findings {
        println!("{}:{}: {}", finding.path.display(), finding.line, finding.message);
    }
    println!("{} files, {} findings", files.len(), findings.len());
    Ok(findings.is_empty())
}

/// Reads the checkout's text files; what is not UTF-8 is data and no rule applies to it.
fn read(workspace: &Workspace) -> Result<Vec<File>> {
    let mut files = Vec::new();
    for path in workspace.files()? {
        let bytes = std::fs::read(workspace.root().join(&path))
            .with_context(|| format!("reading {}", path.display()))?;
        if let Ok(text) = String::from_utf8(bytes) {
            files.push(File { path, text });
        }
    }
    Ok(files)
}

/// The module a line declares, inline or in a file of its own, whatever its visibility.
fn declared_module(line: &str) -> Option<&str> {
    let line = line.trim();
    let rest = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(')')?.1,
        Some(rest) => rest,
        None => line,
    };
    rest.trim_start().strip_prefix("mod ")?.split([';', ' ', '{']).next()
}

#[cfg(test)]
fn file(path: &str, text: &str) -> File {
    File { path: path.into(), text: text.to_owned() }
}
