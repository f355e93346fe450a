//! `karpenter solve` from outside.

use serde_json::Value;

use crate::{EXAMPLE, example_file, karpenter, stderr, stdout};

#[test]
fn an_empty_scenario_gets_an_empty_plan() {
    let output = karpenter(&["solve", "-"], "{}");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let result: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(result["newNodeClaims"], Value::Array(Vec::new()));
    assert_eq!(result["stats"]["price"], 0.0);
}

#[test]
fn every_pod_of_the_example_is_somewhere() {
    let output = karpenter(&["solve", &example_file()], "");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let result: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let pods_of = |places: &Value| list(places).iter().map(|place| list(&place["pods"]).len()).sum::<usize>();
    let errors = result["errors"].as_object().unwrap();
    let placed = pods_of(&result["newNodeClaims"]) + pods_of(&result["existingNodes"]);
    assert_eq!(placed + errors.len(), 15, "{result}");
    assert!(errors.contains_key("default/too-big-0"), "{result}");
    let explained = list(&result["explanations"]);
    assert!(explained.iter().any(|explanation| explanation["group"] == "default/too-big"), "{result}");
}

#[test]
fn the_same_file_gives_the_same_bytes_with_any_number_of_threads() {
    let file = example_file();
    let first = karpenter(&["solve", &file], "").stdout;
    assert_eq!(karpenter(&["solve", &file], "").stdout, first);
    assert_eq!(karpenter(&["solve", "--threads", "2", &file], "").stdout, first);
    assert_eq!(karpenter(&["solve", "-"], EXAMPLE).stdout, first);
    let case = format!("{{\"expected\": {{}}, \"scenario\": {EXAMPLE}}}");
    assert_eq!(karpenter(&["solve", "-"], &case).stdout, first);
}

#[test]
fn a_bad_file_is_named_with_its_path_and_does_not_stop_the_others() {
    let input = r#"{"scenario": {"podGroups": [{"pod": {"spec": {"containers": [
        {"resources": {"requests": {"cpu": "1 x"}}}]}}}]}}"#;
    let file = example_file();
    let output = karpenter(&["solve", &file, "-", "does/not/exist.json", &file], input);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(stdout(&output).lines().count(), 2);
    let complaints = stderr(&output);
    let path = "standard input: scenario.podGroups[0].pod.spec.containers[0].resources.requests.cpu: \"1 x\"";
    assert!(complaints.contains(path), "{complaints}");
    assert!(complaints.contains("does/not/exist.json: cannot be read"), "{complaints}");
}

#[test]
fn a_cluster_without_nodes_has_nothing_to_disrupt() {
    let output = karpenter(&["solve", "-"], r#"{"mode": "disrupt"}"#);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let line: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(line["disruption"], serde_json::json!([]));
}

#[test]
fn stats_are_figures_only() {
    let output = karpenter(&["solve", "--stats", &example_file()], "");
    let line: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(line["name"], "example");
    let stats = line["stats"].as_object().unwrap();
    let mut names: Vec<&str> = stats.keys().map(String::as_str).collect();
    names.sort_unstable();
    let expected = [
        "nodes",
        "peakMemoryBytes",
        "pods",
        "price",
        "solveCpuSeconds",
        "solveWallSeconds",
        "typesPerClaimMedian",
        "unschedulable",
    ];
    assert_eq!(names, expected);
    assert!(stats["solveWallSeconds"].as_f64().is_some_and(|seconds| seconds > 0.0));
}

#[test]
fn people_get_a_table_and_a_sentence_for_every_group_without_a_place() {
    let text = stdout(&karpenter(&["solve", "--explain", &example_file()], ""));
    assert!(text.starts_with("example: 15 pods to place"), "{text}");
    assert!(text.contains("NODEPOOL") && text.contains("gpu.8"), "{text}");
    assert!(text.contains("no place for 1 pod of default/too-big"), "{text}");
    let conflict = karpenter(&["solve", "--explain", "--stats", "-"], "{}");
    assert_eq!(conflict.status.code(), Some(2));
}
