//! The program as its users see it: exit codes, texts and bytes.

mod apiserver;
mod behaviour;
mod commands;
mod disruption;
mod kops;
mod lint;
mod local;
#[path = "../../karpenter-kube/tests/mutation.rs"]
mod mutation;
mod never_panics;
mod oracle;
mod planned;
mod recombined;
mod solve;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The example of the documentation, which uses every field.
const EXAMPLE: &str = include_str!("../../../docs/examples/scenario.json");

/// The file the example is in.
fn example_file() -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/scenario.json");
    file.to_str().expect("the repository's path is text").to_owned()
}

/// Runs the program with `input` on standard input.
fn karpenter(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_karpenter"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program is built beside its tests");
    // A program that does not read its input has closed the pipe, which is not the test's business.
    let _ = child.stdin.take().expect("standard input is a pipe").write_all(input.as_bytes());
    child.wait_with_output().expect("the program ends")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("the program prints text")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("the program complains in text")
}
