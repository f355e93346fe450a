//! Whatever a scenario says, it is refused or gets a plan that can be printed.

use karpenter_core::plan_provisioning;
use karpenter_kube::scenario::{load, outcome};
use proptest::prelude::*;

use crate::EXAMPLE;
use crate::mutation::{damaged, damages};

proptest! {
    #[test]
    fn a_scenario_with_odd_values_is_refused_or_planned(damages in damages()) {
        let example = serde_json::from_str(EXAMPLE).expect("the example is JSON");
        let Ok(problem) = load(damaged(&example, &damages).to_string().as_bytes()) else { return Ok(()) };
        let plan = plan_provisioning(&problem.snapshot, &problem.catalog, &problem.options);
        serde_json::to_string(&outcome(&problem, &plan)).expect("every plan can be printed");
    }
}
