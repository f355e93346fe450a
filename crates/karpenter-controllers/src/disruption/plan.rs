//! Answers the question which nodes can go: asks the provider what can be bought, then has the core plan.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use karpenter_api::NodePool;
use karpenter_core::cluster::ClusterSnapshot;
use karpenter_core::disruption::{DisruptionOptions, DisruptionPlan, plan_disruption};
use karpenter_provider::{CatalogError, Provider};
use tokio::time::Instant;

use crate::metrics::Metrics;
use crate::provisioning::{Computing, catalog};

/// What is to be planned.
pub(crate) struct MoveRequest {
    pub(crate) snapshot: ClusterSnapshot,
    pub(crate) pools: Vec<Arc<NodePool>>,
    pub(crate) options: DisruptionOptions,
    pub(crate) now: Timestamp,
}

/// A plan, and the pools it is about.
pub(crate) struct MoveReply {
    pub(crate) plan: DisruptionPlan,
    pub(crate) pools: Vec<Arc<NodePool>>,
    /// Pools whose instance types are not known.
    pub(crate) left_out: Vec<(String, CatalogError)>,
}

/// Plans.
#[derive(Clone)]
pub(crate) struct MovePlanner {
    provider: Arc<dyn Provider>,
    computing: Computing,
    metrics: Metrics,
}

impl MovePlanner {
    /// A planner that buys from `provider`.
    pub(crate) fn new(provider: Arc<dyn Provider>, computing: Computing, metrics: Metrics) -> Self {
        Self { provider, computing, metrics }
    }

    /// Plans.
    pub(crate) fn plan(&self, request: MoveRequest) -> BoxFuture<'static, MoveReply> {
        let planner = self.clone();
        async move {
            let MoveRequest { mut snapshot, mut pools, mut options, now } = request;
            let (catalog, left_out) = catalog(&*planner.provider, &pools).await;
            let known = |name: &str| catalog.by_pool.contains_key(name);
            snapshot.node_pools.retain(|pool| known(&pool.name));
            options.static_pools.retain(|own| known(&own.pool.name));
            pools.retain(|pool| pool.metadata.name.as_deref().is_some_and(known));
            let compute = move || plan_disruption(&snapshot, &catalog, &options, now);
            let begun = Instant::now();
            let plan = planner.computing.run(compute).await;
            let labels = [("reason", String::new()), ("consolidation_type", String::new())];
            planner.metrics.evaluation.get_or_create(&labels).observe(begun.elapsed().as_secs_f64());
            MoveReply { plan, pools, left_out }
        }
        .boxed()
    }
}
