//! What a scrape reads from the state about NodePools: limits, usage, and what their budgets say.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use karpenter_api::{LabelRules, NodePool};
use karpenter_core::disruption::{Allowance, DisruptionReason, allowances};
use karpenter_environment::Environment;
use karpenter_kube::node_pool::node_pool;
use karpenter_kube::resources::resource_list;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::Disruption;
use super::cluster::{Pairs, gauges, resources};
use crate::state::{Shared, State};

const REASONS: [DisruptionReason; 4] = [
    DisruptionReason::Empty,
    DisruptionReason::Underutilized,
    DisruptionReason::Drifted,
    DisruptionReason::Unhealthy,
];

/// Reads the pools at every scrape.
pub(super) struct Pools {
    state: Shared,
    rules: LabelRules,
    environment: Arc<dyn Environment>,
}

impl fmt::Debug for Pools {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Pools").finish_non_exhaustive()
    }
}

impl Pools {
    pub(super) fn new(state: Shared, rules: LabelRules, environment: Arc<dyn Environment>) -> Self {
        Self { state, rules, environment }
    }

    /// What the budgets of every pool say about every reason.
    fn allowances(&self, state: &State) -> Vec<(Pairs, Allowance)> {
        let mut snapshot = state.snapshot();
        let pools = state.pools().filter_map(|pool| node_pool(pool, &self.rules).ok());
        snapshot.node_pools = pools.map(Arc::new).collect();
        let now = self.environment.now();
        let of_reason = |reason: DisruptionReason| {
            allowances(&snapshot, reason, now).into_iter().map(move |(pool, allowance)| {
                let mut pairs = of_pool(&pool);
                pairs.push((Cow::Borrowed("reason"), Disruption::from(reason).metric().to_owned()));
                (pairs, allowance)
            })
        };
        REASONS.into_iter().flat_map(of_reason).collect()
    }
}

impl Collector for Pools {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let state = self.state.lock();
        encode_resources(&mut encoder, &state)?;
        let allowances = self.allowances(&state);
        let allowed = allowances.iter().map(|(pairs, allowance)| {
            // Where no budget applies any number is allowed; for upstream that is the largest 32-bit number.
            (pairs.clone(), f64::from(allowance.allowed.min(i32::MAX.unsigned_abs())))
        });
        let help = "How many nodes of a NodePool may be disrupted at once";
        gauges(&mut encoder, "karpenter_nodepools_allowed_disruptions", help, allowed)?;
        let consuming =
            allowances.iter().map(|(pairs, allowance)| (pairs.clone(), f64::from(allowance.disrupting)));
        let help = "How many nodes of a NodePool count against its budgets";
        gauges(&mut encoder, "karpenter_nodepools_nodes_consuming_budgets", help, consuming)
    }
}

fn encode_resources(encoder: &mut DescriptorEncoder<'_>, state: &State) -> fmt::Result {
    let name = |pool: &NodePool| of_pool(pool.metadata.name.as_deref().unwrap_or_default());
    let limits = state.pools().flat_map(|pool| {
        let listed = resource_list(pool.spec.limits.as_ref()).unwrap_or_default();
        resources(&listed, &name(pool)).collect::<Vec<_>>()
    });
    gauges(encoder, "karpenter_nodepools_limit", "Limits of NodePools", limits)?;
    let usage = state.pools().flat_map(|pool| {
        let used = pool.status.as_ref().and_then(|status| status.resources.as_ref());
        let used = resource_list(used).unwrap_or_default();
        resources(&used, &name(pool)).collect::<Vec<_>>()
    });
    gauges(encoder, "karpenter_nodepools_usage", "What the nodes of NodePools have together", usage)
}

fn of_pool(name: &str) -> Pairs {
    vec![(Cow::Borrowed("nodepool"), name.to_owned())]
}
