//! What the documentation shows works: examples are admitted, the policy is the code's, the checklist names tests that exist.

use karpenter_alibabacloud::rights::policy_document;
use serde_json::Value;

use crate::seeds::documents;
use crate::server::Server;

const POLICY: &str = include_str!("../../../../docs/examples/alibabacloud/policy.json");
const EXAMPLES: [&str; 2] = [
    include_str!("../../../../docs/examples/alibabacloud/handbook.yaml"),
    include_str!("../../../../docs/examples/alibabacloud/container-service.yaml"),
];
const CHECKLIST: &str = include_str!("../../../../docs/alibabacloud-checklist.md");

#[tokio::test]
async fn the_examples_are_admitted() {
    let server = Server::new().await;
    for document in EXAMPLES.iter().flat_map(|text| documents(text)) {
        let answer = server.apply(&document).await;
        assert!(answer.is_ok(), "{document}: {answer:?}");
    }
}

#[test]
fn the_policy_in_the_documentation_is_the_codes() {
    let shown: Value = serde_json::from_str(POLICY).unwrap();
    assert_eq!(
        shown,
        policy_document(),
        "write {}",
        serde_json::to_string_pretty(&policy_document()).unwrap()
    );
}

/// Every test of this program by its file and name.
fn tests_here() -> Vec<(&'static str, &'static str)> {
    vec![
        ("admission", include_str!("admission.rs")),
        ("catalogue", include_str!("catalogue.rs")),
        ("classes", include_str!("classes.rs")),
        ("conversion", include_str!("conversion.rs")),
        ("documents", include_str!("documents.rs")),
        ("interruptions", include_str!("interruptions.rs")),
        ("launches", include_str!("launches.rs")),
        ("machines", include_str!("machines.rs")),
        ("queue", include_str!("queue.rs")),
        ("seeds", include_str!("seeds.rs")),
    ]
}

#[test]
fn every_defect_has_a_row_and_every_row_a_test_that_exists() {
    let rows: Vec<&str> =
        CHECKLIST.lines().filter(|line| line.starts_with("| C") || line.starts_with("| A")).collect();
    assert_eq!(rows.len(), 38);
    for row in rows {
        let tests = row.rsplit('|').nth(1).unwrap();
        let named: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        assert!(!named.is_empty(), "{row}");
        for name in named.iter().filter(|name| !tests.contains(&format!("client: `{name}"))) {
            let Some((file, test)) = name.split_once("::") else { continue };
            let (_, source) = tests_here().into_iter().find(|(known, _)| *known == file).unwrap();
            assert!(source.contains(&format!("fn {test}(")), "there is no test {name}");
        }
    }
}
