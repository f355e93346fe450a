//! `karpenter lint`: what it finds, on which line, and how it ends.

use serde_json::Value;

use crate::karpenter;

const POOL: &str = "\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general}
spec:
  limits: {cpu: 1}
  template:
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: defualt}
      requirements:
        - {key: karpenter.kwok.sh/instance-cpu, operator: Gte, values: [\"2\"]}
";
const CLASS: &str =
    "---\napiVersion: karpenter.kwok.sh/v1alpha1\nkind: KWOKNodeClass\nmetadata: {name: default}\n";

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("the program prints text")
}

#[test]
fn findings_come_with_their_line_their_cause_and_a_fix() {
    let found = karpenter(&["lint", "-f", "-"], &format!("{POOL}{CLASS}"));
    assert_eq!(found.status.code(), Some(1));
    let said = text(&found.stdout);
    assert!(said.contains("standard input:5: error: the limit is 1 cpu, and the smallest machine the pool may use has 2 [LimitBelowOneNode]"), "{said}");
    assert!(
        said.contains("standard input:8: error: there is no KWOKNodeClass named defualt [NodeClassMissing]"),
        "{said}"
    );
    assert!(said.contains("fix: did you mean default?"), "{said}");
    assert!(said.ends_with("2 errors, 0 warnings, 0 notes\n"), "{said}");
}

#[test]
fn machines_read_one_finding_per_line() {
    let found = karpenter(&["lint", "-f", "-", "--output", "json"], POOL);
    let said = text(&found.stdout);
    let finding: Value = serde_json::from_str(said.lines().next().expect("a line")).expect("JSON");
    assert_eq!((finding["line"].as_u64(), finding["code"].as_str()), (Some(5), Some("LimitBelowOneNode")));
}

#[test]
fn warnings_fail_only_when_that_is_asked_for_and_files_that_cannot_be_read_are_refused() {
    let budget = "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: web}\nspec: {maxUnavailable: 0}\n";
    assert_eq!(karpenter(&["lint", "-f", "-"], budget).status.code(), Some(0));
    assert_eq!(karpenter(&["lint", "-f", "-", "--strict"], budget).status.code(), Some(1));
    assert_eq!(karpenter(&["lint", "-f", "-"], "a: [b").status.code(), Some(2));
}
