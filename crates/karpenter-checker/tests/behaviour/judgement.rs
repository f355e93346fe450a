//! Judging: feasibility, pods without a place, price and number of claims, each on its own.

use karpenter_checker::{Expected, Failure, PlanResult, Scenario, cases, judge};
use serde_json::{Value, json};

fn scenario() -> Scenario {
    serde_json::from_value(json!({
        "instanceTypes": [
            {"name": "small", "capacity": {"cpu": "2", "pods": "10"}, "offerings": [["a", "spot", 1.0, true]]},
            {"name": "large", "capacity": {"cpu": "8", "pods": "10"}, "offerings": [["a", "spot", 5.0, true]]},
        ],
        "nodePools": [{"metadata": {"name": "pool"}, "spec": {"template": {"spec": {}}}}],
        "podGroups": [{"count": 2, "pod": {"metadata": {"name": "web"}, "spec": {
            "containers": [{"resources": {"requests": {"cpu": "1"}}}]}}}],
    }))
    .expect("the test writes valid JSON")
}

fn claim(types: &[(&str, f64)], pods: &[&str]) -> Value {
    let names: Vec<&str> = types.iter().map(|(name, _)| *name).collect();
    json!({
        "nodePool": "pool", "requirements": [], "instanceTypes": names, "pods": pods,
        "requests": {"cpu": pods.len().to_string(), "pods": pods.len().to_string()},
        "cheapest": {"instanceType": types[0].0, "zone": "a", "capacityType": "spot", "price": types[0].1},
    })
}

fn expected(without_place: [usize; 2], claims: usize, price: [f64; 2]) -> Expected {
    let [min, max] = without_place;
    serde_json::from_value(json!({
        "unschedulableCount": {"min": min, "max": max},
        "unschedulableByGroup": {"default/web": {"min": min, "max": max}},
        "newNodeClaims": {"min": claims, "max": claims},
        "price": {"min": price[0], "max": price[1]},
    }))
    .expect("the test writes valid JSON")
}

fn failures(expected: &Expected, claims: Vec<Value>, errors: &[&str]) -> Vec<Failure> {
    let errors: serde_json::Map<String, Value> =
        errors.iter().map(|e| ((*e).to_owned(), json!("no room"))).collect();
    let plan: PlanResult = serde_json::from_value(json!({"newNodeClaims": claims, "errors": errors}))
        .expect("the test writes a plan");
    judge(expected, &scenario(), &plan).failures
}

const BOTH: &[(&str, f64)] = &[("small", 1.0), ("large", 5.0)];
const LARGE: &[(&str, f64)] = &[("large", 5.0)];
const PODS: &[&str] = &["default/web-0", "default/web-1"];

#[test]
fn an_equal_plan_is_right() {
    assert_eq!(failures(&expected([0, 0], 1, [1.0, 1.0]), vec![claim(BOTH, PODS)], &[]), []);
}

#[test]
fn a_dearer_plan_is_wrong() {
    let found = failures(&expected([0, 0], 1, [1.0, 9.0]), vec![claim(LARGE, PODS)], &[]);
    assert_eq!(found, [Failure::Dearer { price: 5.0, upstream: 1.0 }]);
}

#[test]
fn where_runs_place_different_numbers_the_dearest_run_is_the_bound() {
    let one = vec![claim(LARGE, &PODS[..1])];
    assert_eq!(failures(&expected([0, 1], 1, [1.0, 5.0]), one, &PODS[1..]), []);
}

#[test]
fn more_pods_without_a_place_are_wrong() {
    let found = failures(&expected([0, 0], 1, [1.0, 1.0]), vec![claim(BOTH, &PODS[..1])], &PODS[1..]);
    assert_eq!(found, [Failure::MoreWithoutPlace { group: "default/web".into(), count: 1, upstream: 0 }]);
}

#[test]
fn placing_more_may_cost_more() {
    assert_eq!(failures(&expected([1, 1], 1, [1.0, 1.0]), vec![claim(LARGE, PODS)], &[]), []);
}

#[test]
fn more_claims_need_a_lower_price() {
    let two = || vec![claim(BOTH, &PODS[..1]), claim(BOTH, &PODS[1..])];
    let found = failures(&expected([0, 0], 1, [2.0, 2.0]), two(), &[]);
    assert_eq!(found, [Failure::MoreClaims { count: 2, upstream: 1 }]);
    assert_eq!(failures(&expected([0, 0], 1, [2.5, 2.5]), two(), &[]), []);
}

#[test]
fn where_upstream_is_wrong_only_feasibility_counts() {
    let mut expected = expected([0, 0], 0, [0.0, 0.0]);
    expected.upstream_violations = Some(json!(["spread-relaxed-group"]));
    assert_eq!(failures(&expected, vec![claim(LARGE, PODS)], &[]), []);
}

#[test]
fn the_right_answer_to_a_contradiction_is_to_place_nothing() {
    let case = cases::quirks().find(|c| c.name().starts_with("2-")).unwrap();
    let nothing = json!({"errors": {"default/p-0": "contradiction", "default/p-1": "contradiction"}});
    let plan: PlanResult = serde_json::from_value(nothing).unwrap();
    assert!(judge(&case.expected, &case.scenario(), &plan).is_right());
}
