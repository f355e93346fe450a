//! Plans on random small clusters: `plan_provisioning` answers, and the same question always gets the same answer.

mod found;
mod random;
mod random_pods;

use karpenter_core::plan::PodIndex;
use karpenter_core::{ProvisioningPlan, SolverOptions, plan_provisioning};
use proptest::prelude::*;

use random::Question;

fn answer(question: &Question) -> ProvisioningPlan {
    plan_provisioning(&question.snapshot, &question.catalog, &question.options)
}

/// Every pod the plan speaks of, as often as it does.
fn mentioned(plan: &ProvisioningPlan) -> Vec<PodIndex> {
    let placed =
        plan.claims.iter().map(|claim| &claim.pods).chain(plan.existing.iter().map(|(_, pods)| pods));
    let mut all: Vec<PodIndex> = placed.flatten().copied().collect();
    all.extend(plan.unschedulable.iter().map(|(pod, _)| *pod));
    all.extend(plan.ignored.iter().map(|(pod, _)| *pod));
    all.sort_unstable();
    all
}

proptest! {
    #![proptest_config(crate::repeatable(300))]

    #[test]
    fn the_same_question_gets_the_same_answer_on_one_core_or_several(question in random::question()) {
        let first = format!("{:?}", answer(&question));
        prop_assert_eq!(&first, &format!("{:?}", answer(&question)));
        let options = SolverOptions { parallel: !question.options.parallel, ..question.options.clone() };
        let elsewhere = plan_provisioning(&question.snapshot, &question.catalog, &options);
        prop_assert_eq!(&first, &format!("{elsewhere:?}"));
    }

    #[test]
    fn every_pod_is_accounted_for_once_and_every_claim_can_be_launched(question in random::question()) {
        let plan = answer(&question);
        let all: Vec<PodIndex> = (0..plan.pods.len() as PodIndex).collect();
        prop_assert_eq!(mentioned(&plan), all);
        for claim in &plan.claims {
            prop_assert!(!claim.pods.is_empty() && !claim.instance_types.is_empty());
            let known = question.catalog.types(&claim.node_pool);
            prop_assert!(claim.instance_types.iter().all(|listed| known.iter().any(|own| own.name == listed.name)));
            prop_assert!(claim.instance_types.iter().any(|listed| listed.name == claim.cheapest.instance_type));
            prop_assert!(claim.requirements.iter().all(|requirement| requirement.validate().is_ok()));
        }
        for (_, why) in &plan.unschedulable {
            prop_assert!(!why.to_string().is_empty(), "a pod without a place is told why");
        }
    }
}
