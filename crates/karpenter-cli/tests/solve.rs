//! `karpenter solve` from outside.

use std::io::Write;
use std::process::{Command, Output, Stdio};

/// Runs the program with `input` on standard input.
pub(crate) fn karpenter(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_karpenter"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program is built beside its tests");
    child
        .stdin
        .take()
        .expect("standard input is a pipe")
        .write_all(input.as_bytes())
        .expect("the program reads");
    child.wait_with_output().expect("the program ends")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn an_empty_scenario_gets_an_empty_plan() {
    let output = karpenter(&["solve", "-"], "{}");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(output.stdout.starts_with(br#"{"newNodeClaims":[]"#));
}

#[test]
fn a_bad_quantity_is_named_by_file_and_path() {
    let input = r#"{"scenario": {"podGroups": [{"pod": {"spec": {"containers": [
        {"resources": {"requests": {"cpu": "1 x"}}}]}}}]}}"#;
    let output = karpenter(&["solve", "-"], input);
    assert_eq!(output.status.code(), Some(2));
    let path = "standard input: scenario.podGroups[0].pod.spec.containers[0].resources.requests.cpu: \"1 x\"";
    assert!(stderr(&output).contains(path), "{}", stderr(&output));
}
