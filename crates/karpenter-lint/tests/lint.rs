//! What lint says about objects as users write them, against the machines of the KWOK provider.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use karpenter_api::nodepool::NodeClassReference;
use karpenter_api::{LabelRules, NodePool, Provider};
use karpenter_core::catalog::{Catalog, InstanceType};
use karpenter_kwok::generated_instance_types;
use karpenter_lint::{Code, Facts, Finding, Severity, Workload, lint};
use proptest::prelude::*;
use serde_json::{Value, json};

fn machines() -> Arc<[Arc<InstanceType>]> {
    generated_instance_types().into_iter().map(Arc::new).collect()
}

fn class(name: &str) -> NodeClassReference {
    NodeClassReference {
        group: "karpenter.kwok.sh".to_owned(),
        kind: "KWOKNodeClass".to_owned(),
        name: name.to_owned(),
    }
}

fn pool(change: impl FnOnce(&mut Value)) -> NodePool {
    let mut value = json!({
        "metadata": { "name": "general" },
        "spec": {
            "limits": { "cpu": "100" },
            "template": { "spec": {
                "nodeClassRef": { "group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default" },
                "requirements": [],
            } },
        },
    });
    change(&mut value);
    serde_json::from_value(value).expect("a NodePool")
}

fn requiring(requirements: Value) -> NodePool {
    pool(|value| value["spec"]["template"]["spec"]["requirements"] = requirements)
}

fn budgets(budgets: &Value) -> NodePool {
    pool(|value| value["spec"]["disruption"] = json!({ "consolidateAfter": "1m", "budgets": budgets }))
}

fn findings_of(pools: &[NodePool], pdbs: &[PodDisruptionBudget], workloads: Vec<Workload>) -> Vec<Finding> {
    let rules = LabelRules::for_providers(&[Provider::Kwok]);
    let names = pools.iter().map(|pool| pool.metadata.name.as_deref().unwrap_or_default().into());
    lint(&Facts {
        now: "2026-01-01T12:00:00Z".parse().expect("an instant"),
        rules: &rules,
        node_pools: pools.iter().collect(),
        catalog: &Catalog::shared(names, machines()),
        served: vec![("karpenter.kwok.sh", "KWOKNodeClass")],
        node_classes: Some(BTreeSet::from([class("default")])),
        disruption_budgets: pdbs.iter().collect(),
        workloads,
    })
}

fn findings(pool: NodePool) -> Vec<Finding> {
    findings_of(&[pool], &[], Vec::new())
}

/// The only finding there is.
#[track_caller]
fn only(findings: Vec<Finding>) -> Finding {
    assert_eq!(findings.len(), 1, "{findings:#?}");
    findings.into_iter().next().expect("one finding")
}

#[test]
fn a_sound_pool_gives_no_finding() {
    assert_eq!(findings(pool(|_| {})), []);
    let narrow = requiring(json!([
        { "key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"] },
        { "key": "karpenter.kwok.sh/instance-cpu", "operator": "Gt", "values": ["3"] },
        { "key": "topology.kubernetes.io/zone", "operator": "NotIn", "values": ["test-zone-a"] },
        { "key": "example.com/team", "operator": "In", "values": ["a", "b"] },
    ]));
    assert_eq!(findings(narrow), []);
}

#[test]
fn an_architecture_that_the_chosen_machine_does_not_have_is_found_with_both_lines_and_a_way_out() {
    let found = only(findings(requiring(json!([
        { "key": "kubernetes.io/os", "operator": "In", "values": ["linux"] },
        { "key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"] },
        { "key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["c-4x-amd64-linux", "m-4x-amd64-linux"] },
    ]))));
    assert_eq!((found.code, found.severity), (Code::RequirementsUnsatisfiable, Severity::Error));
    assert_eq!(found.field, "spec.template.spec.requirements[2]");
    assert!(
        found.cause.contains("kubernetes.io/arch In [arm64] and node.kubernetes.io/instance-type In"),
        "{found}"
    );
    assert!(!found.cause.contains("linux]  and"), "{found}");
    assert!(found.remedy.contains("kubernetes.io/arch to amd64"), "{found}");
}

#[test]
fn lines_of_one_label_that_exclude_each_other_are_a_contradiction() {
    let found = only(findings(requiring(json!([
        { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"] },
        { "key": "karpenter.sh/capacity-type", "operator": "NotIn", "values": ["spot"] },
    ]))));
    assert_eq!(found.code, Code::RequirementsContradict);
    let by_label = pool(|value| {
        value["spec"]["template"]["metadata"] = json!({ "labels": { "example.com/team": "a" } });
        value["spec"]["template"]["spec"]["requirements"] =
            json!([{ "key": "example.com/team", "operator": "In", "values": ["b"] }]);
    });
    assert_eq!(only(findings(by_label)).code, Code::RequirementsContradict);
}

#[test]
fn values_that_nobody_sells_are_named_with_what_was_probably_meant() {
    let zone = |values: Value| {
        requiring(json!([{ "key": "topology.kubernetes.io/zone", "operator": "In", "values": values }]))
    };
    let found = only(findings(zone(json!(["tets-zone-a"]))));
    assert_eq!(found.code, Code::RequirementUnsatisfiable);
    assert!(found.remedy.contains("did you mean test-zone-a?"), "{found}");
    let found = only(findings(zone(json!(["test-zone-a", "test-zone-x"]))));
    assert_eq!((found.code, found.severity), (Code::ValueUnknown, Severity::Warning));
}

#[test]
fn labels_that_are_almost_known_are_suspected() {
    let found = only(findings(requiring(json!([
        { "key": "kubernetes.io/arhc", "operator": "In", "values": ["arm64"] },
    ]))));
    assert_eq!(found.code, Code::LabelMisspelt);
    assert!(found.remedy.contains("kubernetes.io/arch?"), "{found}");
}

#[test]
fn more_values_than_the_machines_have_cannot_be_demanded() {
    let found = only(findings(requiring(json!([
        { "key": "node.kubernetes.io/instance-type", "operator": "Exists", "minValues": 5 },
        { "key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["16"] },
        { "key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"] },
        { "key": "kubernetes.io/os", "operator": "In", "values": ["linux"] },
    ]))));
    assert_eq!(
        (found.code, found.field.as_str()),
        (Code::MinValuesUnreachable, "spec.template.spec.requirements[0].minValues")
    );
    assert!(found.remedy.contains("to 3 at most"), "{found}");
}

#[test]
fn a_limit_below_the_smallest_machine_is_an_error_and_zero_is_a_warning() {
    let limited = |limits: Value, cpu: &str| {
        pool(|value| {
            value["spec"]["limits"] = limits;
            value["spec"]["template"]["spec"]["requirements"] =
                json!([{ "key": "karpenter.kwok.sh/instance-cpu", "operator": "Gte", "values": [cpu] }]);
        })
    };
    let found = only(findings(limited(json!({ "cpu": "7" }), "8")));
    assert_eq!((found.code, found.field.as_str()), (Code::LimitBelowOneNode, "spec.limits.cpu"));
    assert!(found.cause.contains("limit is 7 cpu") && found.cause.contains("has 8"), "{found}");
    assert_eq!(findings(limited(json!({ "cpu": "8" }), "8")), []);
    assert_eq!(only(findings(limited(json!({ "cpu": "0" }), "8"))).code, Code::LimitZero);
    assert_eq!(
        only(findings(limited(json!({ "cpu": "10", "memroy": "10Gi" }), "8"))).code,
        Code::LimitWithoutEffect
    );
    // Machines with 8 processors have at least 16Gi.
    let found = only(findings(limited(json!({ "cpu": "8", "memory": "10Gi" }), "8")));
    assert_eq!(found.field, "spec.limits.memory");
}

#[test]
fn a_static_pool_cannot_be_larger_than_its_limit() {
    let found = only(findings(pool(|value| {
        value["spec"]["limits"] = json!({ "nodes": "2" });
        value["spec"]["replicas"] = json!(3);
    })));
    assert_eq!(found.code, Code::ReplicasAboveLimit);
}

#[test]
fn budgets_that_are_closed_at_all_times_never_open() {
    for closed in [
        json!([{ "nodes": "0" }]),
        json!([{ "nodes": "10%" }, { "nodes": "0%" }]),
        json!([{ "nodes": "0", "schedule": "@daily", "duration": "24h" }]),
        json!([{ "nodes": "0", "schedule": "0 0 * * *", "duration": "12h" }, { "nodes": "0", "schedule": "0 12 * * *", "duration": "12h" }]),
        json!([{ "nodes": "0", "reasons": ["Empty"] }, { "nodes": "0", "reasons": ["Underutilized", "Drifted"] }]),
    ] {
        assert_eq!(only(findings(budgets(&closed))).code, Code::BudgetNeverOpens, "{closed}");
    }
    for open in [
        json!([{ "nodes": "1" }, { "nodes": "0", "schedule": "0 9 * * mon-fri", "duration": "24h" }]),
        json!([{ "nodes": "1" }, { "nodes": "0", "schedule": "0 0 * * *", "duration": "23h" }]),
        json!([{ "nodes": "0", "reasons": ["Drifted"] }]),
    ] {
        assert_eq!(findings(budgets(&open)), [], "{open}");
    }
}

#[test]
fn schedules_that_cannot_be_read_or_never_come_are_found() {
    let found = only(findings(budgets(
        &json!([{ "nodes": "1" }, { "nodes": "5", "schedule": "61 * * * *", "duration": "1h" }]),
    )));
    assert_eq!(
        (found.code, found.field.as_str()),
        (Code::BudgetUnreadable, "spec.disruption.budgets[1].schedule")
    );
    let found = only(findings(budgets(
        &json!([{ "nodes": "1" }, { "nodes": "0", "schedule": "0 0 31 2 *", "duration": "1h" }]),
    )));
    assert_eq!(found.code, Code::BudgetNeverInForce);
    let found = only(findings(budgets(&json!([{ "nodes": "1", "schedule": "@daily", "duration": "1h" }]))));
    assert_eq!((found.code, found.severity), (Code::BudgetUnboundedOutside, Severity::Note));
}

#[test]
fn node_classes_that_do_not_exist_or_are_not_served_are_found() {
    let named = |name: &str, kind: &str| {
        pool(|value| {
            value["spec"]["template"]["spec"]["nodeClassRef"]["name"] = json!(name);
            value["spec"]["template"]["spec"]["nodeClassRef"]["kind"] = json!(kind);
        })
    };
    let found = only(findings(named("defualt", "KWOKNodeClass")));
    assert_eq!(
        (found.code, found.field.as_str()),
        (Code::NodeClassMissing, "spec.template.spec.nodeClassRef.name")
    );
    assert!(found.remedy.contains("did you mean default?"), "{found}");
    assert_eq!(only(findings(named("default", "EC2NodeClass"))).code, Code::NodeClassNotServed);
}

#[test]
fn what_validation_refuses_is_said_once_and_with_its_field() {
    let found = only(findings(requiring(json!([
        { "key": "karpenter.sh/nodepool", "operator": "In", "values": ["a"] },
    ]))));
    assert_eq!((found.code, found.field.as_str()), (Code::Invalid, "spec.template.spec.requirements[0].key"));
    let annotated =
        pool(|value| value["metadata"]["annotations"] = json!({ "karpenter.sh/disruption-paused": "maybe" }));
    let found = findings(annotated);
    assert!(found.iter().all(|finding| finding.code == Code::AnnotationUnreadable), "{found:?}");
}

#[test]
fn lives_shorter_than_the_rest_they_need_are_found() {
    let found = only(findings(pool(|value| {
        value["spec"]["disruption"] = json!({ "consolidateAfter": "24h" });
        value["spec"]["template"]["spec"]["expireAfter"] = json!("12h");
    })));
    assert_eq!(found.code, Code::NeverConsolidated);
    let found = only(findings(pool(|value| value["spec"]["template"]["spec"]["expireAfter"] = json!("10m"))));
    assert_eq!(found.code, Code::ShortLife);
}

#[test]
fn pools_of_one_weight_that_serve_the_same_pods_are_told_apart_by_name_alone() {
    let named = |name: &str, weight: i32, zone: &str| {
        let mut pool =
            requiring(json!([{ "key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone] }]));
        pool.metadata.name = Some(name.to_owned());
        pool.spec.weight = Some(weight);
        pool
    };
    let found =
        only(findings_of(&[named("a", 1, "test-zone-a"), named("b", 1, "test-zone-a")], &[], Vec::new()));
    assert_eq!((found.code, found.object.name.as_str()), (Code::EqualWeights, "b"));
    assert_eq!(
        findings_of(&[named("a", 1, "test-zone-a"), named("b", 2, "test-zone-a")], &[], Vec::new()),
        []
    );
    assert_eq!(
        findings_of(&[named("a", 1, "test-zone-a"), named("b", 1, "test-zone-b")], &[], Vec::new()),
        []
    );
}

fn pdb(name: &str, spec: &Value) -> PodDisruptionBudget {
    let mut value = json!({ "metadata": { "name": name, "namespace": "shop" }, "spec": spec });
    value["spec"]["selector"] = json!({ "matchLabels": { "app": "web" } });
    serde_json::from_value(value).expect("a PodDisruptionBudget")
}

fn web(replicas: i32) -> Workload {
    Workload {
        name: "Deployment web".to_owned(),
        namespace: "shop".to_owned(),
        labels: [("app".to_owned(), "web".to_owned())].into(),
        replicas,
    }
}

#[test]
fn budgets_of_pods_that_let_none_go_never_drain() {
    for spec in
        [json!({ "maxUnavailable": 0 }), json!({ "minAvailable": "100%" }), json!({ "minAvailable": 3 })]
    {
        let found = only(findings_of(&[], &[pdb("web", &spec)], vec![web(3)]));
        assert_eq!(
            (found.code, found.object.to_string().as_str()),
            (Code::NeverDrains, "PodDisruptionBudget shop/web"),
            "{spec}"
        );
    }
    for spec in [json!({ "maxUnavailable": 1 }), json!({ "minAvailable": 2 })] {
        assert_eq!(findings_of(&[], &[pdb("web", &spec)], vec![web(3)]), []);
    }
    // Of pods that nobody knows nothing can be said.
    assert_eq!(findings_of(&[], &[pdb("web", &json!({ "minAvailable": 3 }))], Vec::new()), []);
}

#[test]
fn two_budgets_for_one_pod_are_found() {
    let both = [pdb("one", &json!({ "maxUnavailable": 1 })), pdb("two", &json!({ "maxUnavailable": 1 }))];
    let found = only(findings_of(&[], &both, vec![web(3)]));
    assert_eq!((found.code, found.object.name.as_str()), (Code::BudgetsOverlap, "two"));
}

#[test]
fn every_code_has_a_name_of_its_own_that_a_condition_may_carry_and_a_meaning() {
    let names: BTreeSet<&str> = Code::ALL.iter().map(|code| code.name()).collect();
    assert_eq!(names.len(), Code::ALL.len());
    for code in Code::ALL {
        assert!(code.name().chars().all(|letter| letter.is_ascii_alphabetic()), "{code}");
        assert!(code.meaning().ends_with('.'), "{code}");
    }
}

#[test]
fn the_documentation_lists_every_code() {
    let page = include_str!("../../../docs/lint.md");
    for code in Code::ALL {
        let row = format!("| `{code}` | {} | {} |", code.severity(), code.meaning());
        assert!(page.contains(&row), "docs/lint.md has no row {row}");
    }
}

proptest! {
    /// What the API server admits can be anything within the schema; lint must have an answer for it.
    #[test]
    fn lint_has_an_answer_for_everything(
        requirements in prop::collection::vec(
            (prop::sample::select(vec!["kubernetes.io/arch", "topology.kubernetes.io/zone", "example.com/x", "a//b", "karpenter.kwok.sh/instance-cpu"]),
             prop::sample::select(vec!["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte", "Odd"]),
             prop::collection::vec("[a-z0-9.-]{0,6}", 0..3), prop::option::of(-1_i64..60)), 0..5),
        schedule in prop::option::of("[@*0-9a-z/, -]{0,20}"),
        nodes in "[0-9]{0,11}%?",
        limit in "[0-9]{1,4}(m|Gi|e9)?",
    ) {
        let lines: Vec<Value> = requirements.iter().map(|(key, operator, values, least)| {
            json!({ "key": key, "operator": operator, "values": values, "minValues": least })
        }).collect();
        let pool = pool(|value| {
            value["spec"]["template"]["spec"]["requirements"] = json!(lines);
            value["spec"]["limits"] = json!({ "cpu": limit });
            value["spec"]["disruption"] = json!({ "budgets": [{ "nodes": nodes, "schedule": schedule, "duration": "1h" }] });
        });
        let found = findings(pool);
        prop_assert!(found.iter().all(|finding| !finding.cause.is_empty() && !finding.remedy.is_empty()));
    }
}
