//! The commands around solving.

use crate::{karpenter, stderr, stdout};

#[test]
fn the_version_names_the_commit() {
    let text = stdout(&karpenter(&["--version"], ""));
    let (name, commit) = text.trim().split_once(" (").expect("a version and a commit");
    assert_eq!(name, concat!("karpenter ", env!("CARGO_PKG_VERSION")));
    assert!(commit.strip_suffix(')').is_some_and(|commit| !commit.is_empty()), "{text}");
}

#[test]
fn without_a_command_the_help_is_shown() {
    let output = karpenter(&[], "");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("karpenter solve --explain"), "{}", stderr(&output));
}

#[test]
fn definitions_are_printed_for_every_kind_and_depend_on_the_provider() {
    let text = stdout(&karpenter(&["crds"], ""));
    for kind in ["CapacityBuffer", "NodeClaim", "NodeOverlay", "NodePool"] {
        assert!(text.contains(&format!("kind: {kind}\n")), "{kind}");
    }
    let strict = stdout(&karpenter(&["crds", "--provider", "aws"], ""));
    assert!(strict.contains("karpenter.k8s.aws"));
    assert_ne!(strict, text);
    let refused = karpenter(&["crds", "--provider", "nimbus"], "");
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("alibabacloud"), "the choices are listed: {}", stderr(&refused));
}

#[test]
fn completions_are_printed_for_every_shell() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let output = karpenter(&["completions", shell], "");
        assert_eq!(output.status.code(), Some(0), "{shell}");
        assert!(stdout(&output).contains("solve"), "{shell}");
    }
}
