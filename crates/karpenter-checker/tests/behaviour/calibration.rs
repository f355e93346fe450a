//! The checker against upstream's own plans: it must accept them unless they are known to be wrong.

use karpenter_checker::{cases, check, flexibility, judge};

#[test]
fn upstreams_plans_are_accepted_except_those_known_to_be_wrong() {
    let mut examined = 0;
    for (case, plan) in cases::scheduling().zip(cases::upstream_plans()) {
        let violations = check(&case.scenario(), &plan);
        let known_wrong = case.expected.upstream_violations.is_some();
        assert_eq!(!violations.is_empty(), known_wrong, "{}: {violations:#?}", case.name());
        examined += 1;
    }
    assert_eq!(examined, 250);
}

#[test]
fn upstreams_plans_are_as_flexible_as_themselves() {
    let mut compared = 0;
    for (case, plan) in cases::scheduling().zip(cases::upstream_plans()) {
        let flexibility = flexibility(&case.expected, &case.scenario(), &plan);
        assert_eq!(flexibility.missing, [], "{}", case.name());
        compared += flexibility.compared;
    }
    assert!(compared > 500, "only {compared} claims could be compared");
}

#[test]
fn a_stable_upstream_plan_is_judged_right() {
    let mut judged = 0;
    for (case, plan) in cases::scheduling().zip(cases::upstream_plans()) {
        if case.expected.claims.is_some() {
            let wrong = case.expected.upstream_violations.is_some();
            let verdict = judge(&case.expected, &case.scenario(), &plan);
            assert_eq!(verdict.is_right(), !wrong, "{}: {:#?}", case.name(), verdict.failures);
            judged += 1;
        }
    }
    assert!(judged > 100, "only {judged} cases are stable");
}

#[test]
fn every_packed_file_can_be_read() {
    assert_eq!(cases::quirks().map(|c| c.name().to_owned()).filter(|n| !n.is_empty()).count(), 7);
    assert!(
        cases::disruption().all(|c| c.expected["variants"].is_array() && c.scenario["mode"] == "disrupt")
    );
    assert_eq!(cases::disruption().count(), 80);
}

#[test]
fn a_plan_for_another_scenario_is_refused_and_nothing_panics() {
    let others = cases::upstream_plans().skip(7).filter(|plan| !plan.new_node_claims.is_empty());
    for (case, plan) in cases::scheduling().zip(others) {
        assert!(!check(&case.scenario(), &plan).is_empty(), "{}", case.name());
    }
}
