//! Provisioning: pending pods in, NodeClaims out.
//!
//! ```text
//! snapshot, catalog ─► eligibility ─► Problem (compiled once) ─► strategies, each on a World ─► best outcome ─► ProvisioningPlan
//! ```
//! `problem` turns labels, resources and pods into small integers; `world` knows what may go where; `queue` and the other strategies decide the
//! order; `choice` picks the plan; `output` and `explain` write it down.

mod bin;
mod bits;
mod choice;
mod classes;
mod columns;
mod departure;
mod domains;
mod eligibility;
mod existing;
mod explain;
mod label_sets;
mod limits;
mod lots;
mod merging;
mod nodes;
mod output;
mod packing;
mod problem;
mod queue;
mod relaxation;
mod replacement;
mod reservations;
mod resources;
mod simulation;
mod states;
mod templates;
mod topology;
mod volumes;
mod world;
mod zones;

use std::sync::Arc;

use crate::catalog::Catalog;
use crate::cluster::ClusterSnapshot;
use crate::plan::{ProvisioningPlan, SolverOptions};

pub(crate) use eligibility::{covering, eligible, leaves_with_node};
pub(crate) use replacement::{PriceRule, Refusal, SpotRule, offering_price};
pub(crate) use simulation::{Placed, Settled, Stage, Trial, Way};

pub use zones::possible_zones;

/// Plans the cheapest machines on which the pending pods fit.
pub fn plan_provisioning(
    snapshot: &ClusterSnapshot,
    catalog: &Catalog,
    options: &SolverOptions,
) -> ProvisioningPlan {
    let eligible = eligibility::eligible(snapshot);
    let mut plan = ProvisioningPlan {
        ignored: eligible.ignored,
        pods: eligible.pods.clone(),
        ..ProvisioningPlan::default()
    };
    let (problem, states) = problem::Problem::new(
        snapshot,
        catalog,
        options,
        &eligible.pods,
        &eligible.wanted,
        eligible.wanted.len(),
    );
    let choice::Outcome { mut world, left } = choice::best(&problem, &states);
    let mut supply = output::PodSupply::new(&problem);
    output::write(&world, &mut supply, &mut plan);
    for share in left {
        let why = Arc::new(explain::unschedulable(&mut world, &problem.classes[share.class as usize]));
        plan.unschedulable.extend(supply.take(share).iter().map(|pod| (*pod, why.clone())));
    }
    plan
}
