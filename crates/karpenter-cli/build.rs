//! Tells the program which commit it is built from.
//!
//! `KARPENTER_COMMIT` wins, for builds from an archive; without it and without git the commit is unknown.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=KARPENTER_COMMIT");
    // The log of HEAD grows with every commit and checkout.
    for file in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", file]).filter(|path| Path::new(path).exists()) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    let commit = std::env::var("KARPENTER_COMMIT").ok().filter(|commit| !commit.is_empty());
    let commit = commit.or_else(|| git(&["rev-parse", "--short=12", "HEAD"]));
    println!("cargo::rustc-env=KARPENTER_COMMIT={}", commit.as_deref().unwrap_or("unknown"));
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}
