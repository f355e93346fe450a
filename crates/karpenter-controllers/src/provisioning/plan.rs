//! Answers the provisioner's question: asks the provider what can be bought, then has the core plan.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use karpenter_api::NodePool;
use karpenter_core::catalog::Catalog;
use karpenter_core::cluster::{ClusterSnapshot, Pod, PodSpec};
use karpenter_core::plan::ProvisioningPlan;
use karpenter_core::{SolverOptions, plan_provisioning, possible_zones};
use karpenter_provider::CatalogError;
use karpenter_runtime::Request;
use tokio::time::Instant;

use crate::assortment::Assortment;
use crate::metrics::{self, Call, Metrics};

/// Where plans are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Computing {
    /// On a thread of its own, so that the controllers go on meanwhile.
    Aside,
    /// In place: a simulation must not depend on how fast a thread is.
    InPlace,
}

impl Computing {
    /// Computes.
    pub(crate) async fn run<T: Send + 'static>(self, compute: impl FnOnce() -> T + Send + 'static) -> T {
        match self {
            Self::InPlace => compute(),
            Self::Aside => match tokio::task::spawn_blocking(compute).await {
                Ok(computed) => computed,
                Err(error) => std::panic::resume_unwind(error.into_panic()),
            },
        }
    }
}

/// What is to be planned.
pub(crate) struct PlanRequest {
    /// The cluster.
    pub(crate) snapshot: ClusterSnapshot,
    /// Its pools, as objects.
    pub(crate) pools: Vec<Arc<NodePool>>,
    /// Settings of the solver.
    pub(crate) options: SolverOptions,
}

impl Request for PlanRequest {
    fn action(&self) -> Option<String> {
        None
    }
}

/// A plan, and the pools it is about.
pub(crate) struct PlanReply {
    /// The plan.
    pub(crate) plan: ProvisioningPlan,
    /// The pools it was made with.
    pub(crate) pools: Vec<Arc<NodePool>>,
    /// Pools whose instance types are not known.
    pub(crate) left_out: Vec<(String, CatalogError)>,
}

/// Plans.
#[derive(Clone)]
pub(crate) struct Planner {
    assortment: Assortment,
    computing: Computing,
    metrics: Metrics,
}

impl Planner {
    /// A planner that buys from `assortment`.
    pub(crate) fn new(assortment: Assortment, computing: Computing, metrics: Metrics) -> Self {
        Self { assortment, computing, metrics }
    }

    /// Plans.
    pub(crate) fn plan(&self, request: PlanRequest) -> BoxFuture<'static, PlanReply> {
        let planner = self.clone();
        async move {
            let PlanRequest { mut snapshot, mut pools, options } = request;
            let (catalog, left_out) =
                catalog(&planner.assortment, &pools, ("provisioner", &planner.metrics)).await;
            let known = |name: &str| catalog.by_pool.contains_key(name);
            snapshot.node_pools.retain(|pool| known(&pool.name));
            pools.retain(|pool| pool.metadata.name.as_deref().is_some_and(known));
            let zones = pending_by_zone(&snapshot, &catalog);
            planner.metrics.pending_by_zone.replace(zones.into_iter().map(|(zone, pods)| {
                ([("controller", "provisioner".to_owned()), ("zone", zone)], pods as f64)
            }));
            let solving = planner.metrics.solves.begin("provisioner", snapshot.pending.len());
            let compute = move || plan_provisioning(&snapshot, &catalog, &options);
            let begun = Instant::now();
            let plan = planner.computing.run(compute).await;
            drop(solving);
            let labels = [("controller", "provisioner".to_owned())];
            let took = begun.elapsed().as_secs_f64();
            planner.metrics.scheduling_duration.of(&labels).observe(took);
            PlanReply { plan, pools, left_out }
        }
        .boxed()
    }
}

/// What can be bought for each pool, and the pools for which that is not known.
pub(crate) async fn catalog(
    assortment: &Assortment,
    pools: &[Arc<NodePool>],
    (controller, metrics): (&'static str, &Metrics),
) -> (Catalog, Vec<(String, CatalogError)>) {
    let mut by_pool = BTreeMap::new();
    let mut left_out = Vec::new();
    for pool in pools {
        let name = pool.metadata.name.clone().unwrap_or_default();
        let asked = Instant::now();
        let answer = assortment.of(Arc::clone(pool)).await;
        let call = Call {
            controller,
            method: "GetInstanceTypes",
            provider: assortment.provider(),
            node_pool: name.clone(),
        };
        metrics.called(&call, asked.elapsed(), metrics::catalog_failure(&answer));
        match answer {
            Ok(types) => drop(by_pool.insert(Arc::from(name), types)),
            Err(error) => left_out.push((name, error)),
        }
    }
    (Catalog { by_pool }, left_out)
}

/// How many pods wait by the zone they can be in: its name, `flexible` for several, `none` for none.
fn pending_by_zone(snapshot: &ClusterSnapshot, catalog: &Catalog) -> BTreeMap<String, usize> {
    let types = catalog.by_pool.values().flat_map(|types| types.iter());
    let offerings = types.flat_map(|known| known.offerings.iter());
    let zones: BTreeSet<Arc<str>> = offerings.filter_map(|offering| offering.zone().cloned()).collect();
    let mut counts = BTreeMap::new();
    // Pods of one workload come together, share their spec, and mostly have no volumes.
    let mut last: Option<(*const PodSpec, String)> = None;
    for pod in &snapshot.pending {
        let spec = Arc::as_ptr(&pod.spec);
        let known = last.as_ref().filter(|(seen, _)| *seen == spec && pod.volumes.is_empty());
        let zone = known.map_or_else(|| effective_zone(pod, snapshot, &zones), |(_, zone)| zone.clone());
        last = pod.volumes.is_empty().then(|| (spec, zone.clone()));
        *counts.entry(zone).or_default() += 1;
    }
    counts
}

fn effective_zone(pod: &Pod, snapshot: &ClusterSnapshot, zones: &BTreeSet<Arc<str>>) -> String {
    match possible_zones(pod, snapshot, zones)[..] {
        [] => "none".to_owned(),
        [zone] => zone.to_string(),
        _ => "flexible".to_owned(),
    }
}
