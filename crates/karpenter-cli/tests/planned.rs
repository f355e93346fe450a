//! How tests get a plan: scenario JSON in, and the printed plan back through the checker's own model.

use karpenter_checker::PlanResult;
use karpenter_core::plan_provisioning;
use karpenter_kube::scenario::{load, outcome};
use serde_json::Value;

/// Plans the scenario and prints the plan as `karpenter solve` does.
pub(crate) fn printed_plan(scenario: &Value) -> String {
    let problem = load(scenario.to_string().as_bytes()).expect("the scenario can be used");
    let plan = plan_provisioning(&problem.snapshot, &problem.catalog, &problem.options);
    serde_json::to_string(&outcome(&problem, &plan)).expect("every plan can be printed")
}

/// The plan as the checker reads it.
pub(crate) fn read_plan(printed: &str) -> PlanResult {
    serde_json::from_str(printed).expect("the checker reads what is printed")
}
