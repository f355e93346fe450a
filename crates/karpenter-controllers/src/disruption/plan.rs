//! Answers the question which nodes can go: asks the provider what can be bought, then has the core plan.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use karpenter_api::NodePool;
use karpenter_core::cluster::ClusterSnapshot;
use karpenter_core::disruption::{
    DisruptionOptions, DisruptionPlan, PoolCosts, deletion_costs, plan_disruption_step_by_step, pool_costs,
};
use karpenter_provider::CatalogError;
use karpenter_runtime::Request;
use tokio::time::Instant;

use super::command::consolidation_type;
use crate::assortment::Assortment;
use crate::metrics::Metrics;
use crate::provisioning::{Computing, catalog};

/// What is to be planned.
pub(crate) struct MoveRequest {
    pub(crate) snapshot: ClusterSnapshot,
    pub(crate) pools: Vec<Arc<NodePool>>,
    pub(crate) options: DisruptionOptions,
    /// Whether it is asked what pods cost to give up; then, the nodes with pods that nobody would make anew.
    pub(crate) kept: Option<BTreeSet<Arc<str>>>,
    pub(crate) now: Timestamp,
}

impl Request for MoveRequest {
    fn action(&self) -> Option<String> {
        None
    }
}

/// A plan, and the pools it is about.
pub(crate) struct MoveReply {
    pub(crate) plan: DisruptionPlan,
    pub(crate) pools: Vec<Arc<NodePool>>,
    /// Pools whose instance types are not known.
    pub(crate) left_out: Vec<(String, CatalogError)>,
    /// What the nodes of every pool cost.
    pub(crate) costs: PoolCosts,
    /// What the pods of nodes cost ReplicaSets to give up, if that was asked.
    pub(crate) deletion_costs: Option<BTreeMap<Arc<str>, i32>>,
}

/// Plans.
#[derive(Clone)]
pub(crate) struct MovePlanner {
    assortment: Assortment,
    computing: Computing,
    metrics: Metrics,
}

impl MovePlanner {
    /// A planner that buys from `assortment`.
    pub(crate) fn new(assortment: Assortment, computing: Computing, metrics: Metrics) -> Self {
        Self { assortment, computing, metrics }
    }

    /// Plans.
    pub(crate) fn plan(&self, request: MoveRequest) -> BoxFuture<'static, MoveReply> {
        let planner = self.clone();
        async move {
            let MoveRequest { mut snapshot, mut pools, mut options, kept, now } = request;
            let (catalog, left_out) =
                catalog(&planner.assortment, &pools, ("disruption", &planner.metrics)).await;
            let known = |name: &str| catalog.by_pool.contains_key(name);
            snapshot.node_pools.retain(|pool| known(&pool.name));
            options.static_pools.retain(|own| known(&own.pool.name));
            pools.retain(|pool| pool.metadata.name.as_deref().is_some_and(known));
            let costs = pool_costs(&snapshot, &catalog);
            let solving = planner.metrics.solves.begin("disruption", snapshot.pending.len());
            let metrics = planner.metrics.clone();
            let compute = move || {
                let begun = Instant::now();
                let mut last = begun;
                let plan = plan_disruption_step_by_step(&snapshot, &catalog, &options, now, |method| {
                    let reason = format!("{:?}", method.reason()).to_lowercase();
                    let type_ = consolidation_type(method).to_owned();
                    let labels = [("reason", reason), ("consolidation_type", type_)];
                    metrics.evaluation.of(&labels).observe(last.elapsed().as_secs_f64());
                    last = Instant::now();
                });
                let labels = [("controller", "disruption".to_owned())];
                metrics.scheduling_duration.of(&labels).observe(begun.elapsed().as_secs_f64());
                let ranked = kept.map(|kept| deletion_costs(&snapshot, &catalog, &options, &kept, now));
                (plan, ranked)
            };
            let (plan, deletion_costs) = planner.computing.run(compute).await;
            drop(solving);
            MoveReply { plan, pools, left_out, costs, deletion_costs }
        }
        .boxed()
    }
}
