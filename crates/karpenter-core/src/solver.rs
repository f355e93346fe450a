//! Provisioning: pending pods in, NodeClaims out.

use crate::catalog::Catalog;
use crate::cluster::ClusterSnapshot;
use crate::plan::{ProvisioningPlan, SolverOptions};

/// Plans the cheapest machines on which the pending pods fit.
pub fn plan_provisioning(snapshot: &ClusterSnapshot, catalog: &Catalog, options: &SolverOptions) -> ProvisioningPlan {
    let _ = (snapshot, catalog, options);
    ProvisioningPlan::default()
}
