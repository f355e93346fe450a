//! The runtime checks: every problem with its sentence, and the verdicts against upstream's.
//!
//! Each line of `nodepool_validation.jsonl` is a generated template and whether upstream's module, version
//! 1.15.0, finds it valid with the labels of Karpenter alone.

use karpenter_api::validation::{Findings, validate_capacitybuffer, validate_nodeoverlay, validate_nodepool};
use karpenter_api::{CapacityBuffer, LabelRules, NodeOverlay, NodePool, Provider};
use serde_json::{Value, json};

fn pool(template: &Value) -> NodePool {
    serde_json::from_value(json!({"metadata": {}, "spec": {"template": template}})).unwrap()
}

#[test]
fn the_verdict_on_every_generated_template_is_upstreams() {
    let rules = LabelRules::for_providers(&[]);
    let mut valid = 0;
    for line in include_str!("../data/nodepool_validation.jsonl").lines() {
        let vector: Value = serde_json::from_str(line).unwrap();
        let findings = validate_nodepool(&pool(&vector["template"]), &rules);
        assert_eq!(findings.is_valid(), vector["valid"], "{}\n{}", vector["template"], findings.message());
        valid += u32::from(findings.is_valid());
    }
    assert!(valid > 100, "both verdicts occur: {valid}");
}

fn check(findings: &Findings, expected: &str) {
    assert_eq!(findings.message(), expected);
}

fn requirement_error(requirement: &Value, expected: &str) {
    let template = json!({"spec": {"requirements": [requirement]}});
    let rules = LabelRules::for_providers(&[Provider::Aws]);
    check(&validate_nodepool(&pool(&template), &rules), expected);
}

#[test]
fn requirements_are_refused_with_the_remedy() {
    let at = "spec.template.spec.requirements[0]";
    let cases = [
        (
            json!({"key": "karpenter.sh/nodepool", "operator": "Exists"}),
            format!(
                "{at}.key: label \"karpenter.sh/nodepool\" is set by Karpenter and cannot be chosen; remove it"
            ),
        ),
        (
            json!({"key": "kubernetes.io/hostname", "operator": "Exists"}),
            format!(
                "{at}.key: label \"kubernetes.io/hostname\" is set by Karpenter and cannot be chosen; remove it"
            ),
        ),
        (
            json!({"key": "karpenter.k8s.aws/instance-famly", "operator": "Exists"}),
            format!(
                "{at}.key: label \"karpenter.k8s.aws/instance-famly\" lies in the reserved domain \"karpenter.k8s.aws\"; use a label Karpenter defines there or one of a domain of your own"
            ),
        ),
        (
            json!({"key": "a", "operator": "Near"}),
            format!(
                "{at}.operator: operator \"Near\" is not known; use one of In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte, Lte"
            ),
        ),
        (
            json!({"key": "a", "operator": "In"}),
            format!("{at}.values: label \"a\" with operator In needs at least one value"),
        ),
        (
            json!({"key": "a", "operator": "Gt", "values": ["x"]}),
            format!(
                "{at}.values: label \"a\" with operator Gt needs exactly one value, a whole number of at least 0"
            ),
        ),
        (
            json!({"key": "a", "operator": "In", "values": ["x"], "minValues": 2}),
            format!(
                "{at}.values: label \"a\" lists 1 values but minValues asks for 2; add values or lower minValues"
            ),
        ),
        (
            json!({"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["Spot"]}),
            format!(
                "{at}.values: label \"karpenter.sh/capacity-type\" cannot have the value \"Spot\"; use one of \"on-demand\", \"reserved\", \"spot\""
            ),
        ),
        (
            json!({"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "Spot"], "minValues": 2}),
            format!(
                "{at}.values: label \"karpenter.sh/capacity-type\" lists 1 possible values but minValues asks for 2; the possible values are \"on-demand\", \"reserved\", \"spot\""
            ),
        ),
        (
            json!({"key": "karpenter.k8s.aws/instance-tenancy", "operator": "In", "values": ["host"]}),
            format!(
                "{at}.values: label \"karpenter.k8s.aws/instance-tenancy\" cannot have the value \"host\"; use one of \"dedicated\", \"default\""
            ),
        ),
        (
            json!({"key": "a", "operator": "In", "values": ["x y"]}),
            format!(
                "{at}.values[0]: \"x y\" must consist of letters, digits, dashes, underscores and dots, and begin and end with a letter or digit"
            ),
        ),
    ];
    for (requirement, expected) in cases {
        requirement_error(&requirement, &expected);
    }
}

#[test]
fn a_value_that_does_not_exist_beside_one_that_does_is_a_warning() {
    let template = json!({"spec": {"requirements": [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "cheap"]}
    ]}});
    let findings = validate_nodepool(&pool(&template), &LabelRules::default());
    assert!(findings.is_valid());
    assert_eq!(
        findings.warnings[0].to_string(),
        "spec.template.spec.requirements[0].values: label \"karpenter.sh/capacity-type\" cannot have the value \"cheap\", which is ignored; use one of \"on-demand\", \"reserved\", \"spot\""
    );
}

#[test]
fn labels_and_taints_are_refused_with_the_remedy() {
    let template = json!({
        "metadata": {"labels": {"karpenter.sh/nodepool": "x", "karpenter.sh/y": "z"}},
        "spec": {
            "requirements": [],
            "taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "Odd"}],
            "startupTaints": [{"key": "a", "effect": "NoSchedule", "value": "v w"}]
        }
    });
    let findings = validate_nodepool(&pool(&template), &LabelRules::default());
    let lines: Vec<String> = findings.errors.iter().map(ToString::to_string).collect();
    let expected = [
        "spec.template.metadata.labels[karpenter.sh/nodepool]: label \"karpenter.sh/nodepool\" is set by Karpenter and cannot be chosen; remove it",
        "spec.template.metadata.labels[karpenter.sh/y]: label \"karpenter.sh/y\" lies in the reserved domain \"karpenter.sh\"; use a label Karpenter defines there or one of a domain of your own",
        "spec.template.spec.taints[1].effect: effect \"Odd\" is not known; use one of NoSchedule, PreferNoSchedule, NoExecute",
        "spec.template.spec.startupTaints[0].value: \"v w\" must consist of letters, digits, dashes, underscores and dots, and begin and end with a letter or digit",
        "spec.template.spec.startupTaints[0]: taint \"a\" with effect NoSchedule is listed more than once among taints and startupTaints; keep one",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn an_overlay_may_not_change_what_the_provider_computes() {
    let overlay: NodeOverlay = serde_json::from_value(json!({"spec": {
        "requirements": [{"key": "a", "operator": "NotIn"}],
        "capacity": {"vpc.amazonaws.com/efa": 1, "example.com/x": 1}
    }}))
    .unwrap();
    let findings = validate_nodeoverlay(&overlay, &LabelRules::for_providers(&[Provider::Aws]));
    check(
        &findings,
        "spec.requirements[0].values: label \"a\" with operator NotIn needs at least one value; spec.capacity[vpc.amazonaws.com/efa]: resource \"vpc.amazonaws.com/efa\" is computed by the provider and cannot be overlaid; remove it",
    );
    let findings = validate_nodeoverlay(&overlay, &LabelRules::for_providers(&[Provider::Kwok]));
    assert_eq!(findings.errors.len(), 1);
}

#[test]
fn a_buffer_needs_a_shape_it_understands() {
    let buffer = |spec: Value| -> CapacityBuffer { serde_json::from_value(json!({ "spec": spec })).unwrap() };
    let message = |spec: Value| validate_capacitybuffer(&buffer(spec)).message();
    assert_eq!(
        message(json!({})),
        "spec: the buffer names neither podTemplateRef nor scalableRef; set one of them"
    );
    assert_eq!(
        message(json!({"scalableRef": {"apiGroup": "batch", "kind": "Job", "name": "x"}})),
        "spec.scalableRef: a buffer cannot follow a Job of group \"batch\"; use a Deployment, StatefulSet or ReplicaSet of apps"
    );
    assert_eq!(message(json!({"scalableRef": {"kind": "Deployment", "name": "x"}})), "");
    assert_eq!(message(json!({"podTemplateRef": {"name": "x"}})), "");
}
