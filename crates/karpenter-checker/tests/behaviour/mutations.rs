//! Right plans, broken in every way: each break must be reported under its kind.
//!
//! A break changes the plan, or the scenario under an unchanged plan; it applies to whichever of upstream's plans
//! has what it takes, and every one it applies to must be refused.

mod breaks;

use std::collections::BTreeSet;

use karpenter_checker::{PlanResult, Scenario, ViolationKind, cases, check};

/// How many plans each break is tried on; more would only take longer.
const PLANS_PER_BREAK: usize = 25;

/// Breaks something, or returns `false` where there is nothing to break.
type Break = fn(&mut Scenario, &mut PlanResult) -> bool;

#[test]
fn every_broken_plan_is_refused_for_the_right_reason() {
    let right: Vec<(Scenario, PlanResult)> = cases::scheduling()
        .zip(cases::upstream_plans())
        .filter(|(case, _)| case.expected.upstream_violations.is_none())
        .map(|(case, plan)| (case.scenario(), plan))
        .collect();
    for (kind, name, break_it) in breaks::BREAKS {
        let mut applied = 0;
        for (scenario, plan) in &right {
            if applied == PLANS_PER_BREAK {
                break;
            }
            let (mut scenario, mut plan) = (scenario.clone(), plan.clone());
            if !break_it(&mut scenario, &mut plan) {
                continue;
            }
            applied += 1;
            let found: BTreeSet<ViolationKind> =
                check(&scenario, &plan).into_iter().map(|v| v.kind).collect();
            assert!(found.contains(kind), "{name} in {}: expected {kind}, found {found:?}", scenario.name);
        }
        assert!(applied > 0, "{name}: no plan could be broken that way");
    }
}

#[test]
fn every_kind_of_violation_is_provoked() {
    let provoked: BTreeSet<ViolationKind> = breaks::BREAKS.iter().map(|(kind, _, _)| *kind).collect();
    let all: BTreeSet<ViolationKind> = ViolationKind::ALL.iter().copied().collect();
    assert_eq!(provoked, all);
}
