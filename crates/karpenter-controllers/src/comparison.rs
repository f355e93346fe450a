//! What the nodes of the cluster cost, beside what they would cost had we bought them: the same pods, planned from nothing.
//!
//! Looked at in dry runs only, while another autoscaler does the work. Pods that wait have no node yet that could be compared, so a look is put off
//! while there are any. Nodes outside the pools, and those of static pools, stay as they are.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use karpenter_api::{LabelRules, NodePool};
use karpenter_core::cluster::ClusterSnapshot;
use karpenter_core::disruption::pool_costs;
use karpenter_core::{SolverOptions, plan_provisioning};
use karpenter_runtime::{Caches, Change, Controller, Effect, Key, Outcome, Request, View, Wakes, Watches};

use crate::Karpenter;
use crate::provisioning::{catalog, usable_pools};
use crate::state::Shared;

/// How often the cluster is looked at while it changes, and although nothing changed: prices do.
const LOOK: Duration = Duration::from_secs(10);
const LOOK_ANYWAY: Duration = Duration::from_mins(5);

/// What nodes cost per hour, and what ours would.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    /// When the cluster was looked at.
    pub at: Timestamp,
    /// Nodes of the pools.
    pub nodes: usize,
    /// What they cost.
    pub price: f64,
    /// Nodes whose price nobody knows; they count for nothing.
    pub unpriced: usize,
    /// Pods on them that would have to be placed.
    pub pods: usize,
    /// Nodes we would have for these pods.
    pub planned_nodes: usize,
    /// What those would cost.
    pub planned_price: f64,
    /// Pods for which we would find no place.
    pub without_place: usize,
}

/// Where the latest comparison is found.
#[derive(Clone, Debug, Default)]
pub struct Comparisons {
    latest: Arc<Mutex<Option<Comparison>>>,
}

impl Comparisons {
    /// The latest one, once there is one.
    pub fn latest(&self) -> Option<Comparison> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn put(&self, comparison: Comparison) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(comparison);
    }
}

/// The controller that compares.
pub(crate) struct Comparing {
    state: Shared,
    rules: LabelRules,
    options: SolverOptions,
    comparisons: Comparisons,
    /// The state that was last looked at, and when.
    looked: Option<(u64, Timestamp)>,
}

impl Comparing {
    pub(crate) fn new(
        state: Shared,
        rules: LabelRules,
        options: SolverOptions,
        comparisons: Comparisons,
    ) -> Self {
        Self { state, rules, options, comparisons, looked: None }
    }
}

/// What is to be compared.
pub(crate) struct Question {
    snapshot: ClusterSnapshot,
    pools: Vec<Arc<NodePool>>,
    options: SolverOptions,
    now: Timestamp,
}

impl Request for Question {
    fn action(&self) -> Option<String> {
        None
    }
}

impl Controller for Comparing {
    type Request = Question;
    type Reply = Comparison;

    fn name(&self) -> &'static str {
        "comparison"
    }

    fn watches(&self, watches: &mut Watches) {
        watches.reads::<NodePool>();
    }

    fn begin(&mut self, _: &Caches, wakes: &mut Wakes) {
        wakes.wake(Key::everything());
    }

    fn wake(&mut self, _: &Change, _: &Caches, _: &mut Wakes) {}

    fn reconcile(&mut self, _: &Key, view: &View<'_>) -> Outcome<Question> {
        let state = self.state.lock();
        let seen = state.version();
        let due = |(version, at): (u64, Timestamp)| at + if version == seen { LOOK_ANYWAY } else { LOOK };
        if self.looked.is_some_and(|looked| view.now < due(looked)) {
            return Outcome::after(LOOK);
        }
        let mut snapshot = state.snapshot();
        if !snapshot.pending.is_empty() || state.launching().next().is_some() {
            return Outcome::after(LOOK);
        }
        drop(state);
        let pools = usable_pools(&mut snapshot, &self.rules, view.caches);
        self.looked = Some((seen, view.now));
        let question = Question { snapshot, pools, options: self.options.clone(), now: view.now };
        Outcome::after(LOOK).then(Effect::Request(question))
    }

    fn hear(&mut self, _: &Key, comparison: Comparison, _: &View<'_>) {
        let same = |known: &Comparison| Comparison { at: known.at, ..comparison.clone() } == *known;
        if !self.comparisons.latest().as_ref().is_some_and(same) {
            tracing::info!(
                nodes = comparison.nodes,
                price = comparison.price,
                planned_nodes = comparison.planned_nodes,
                planned_price = comparison.planned_price,
                saving = comparison.price - comparison.planned_price,
                "compared the cluster with a plan of our own for its pods"
            );
        }
        self.comparisons.put(comparison);
    }
}

/// Answers questions.
pub(crate) fn handler(
    karpenter: &Karpenter,
    state: &Shared,
) -> impl Fn(Question) -> BoxFuture<'static, Comparison> + Send + 'static {
    let (assortment, computing) = (karpenter.assortment(state), karpenter.computing);
    let metrics = karpenter.metrics.clone();
    move |question| {
        let (assortment, metrics) = (assortment.clone(), metrics.clone());
        async move {
            let Question { mut snapshot, pools, options, now } = question;
            let (catalog, _) = catalog(&assortment, &pools, ("comparison", &metrics)).await;
            snapshot.node_pools.retain(|pool| catalog.by_pool.contains_key(&pool.name));
            let (nodes, pods) = unbuilt(&mut snapshot);
            computing
                .run(move || {
                    let plan = plan_provisioning(&snapshot, &catalog, &options);
                    let present = ClusterSnapshot { nodes, ..snapshot };
                    let costs = pool_costs(&present, &catalog);
                    Comparison {
                        at: now,
                        nodes: present.nodes.len(),
                        price: costs.per_hour.values().sum(),
                        unpriced: costs.unknown.len(),
                        pods,
                        planned_nodes: plan.claims.len(),
                        planned_price: plan.price(),
                        without_place: plan.unschedulable.len() + plan.ignored.len(),
                    }
                })
                .await
        }
        .boxed()
    }
}

/// Takes the nodes of the pools away, so that their pods wait. Returns these nodes and how many pods wait now.
fn unbuilt(snapshot: &mut ClusterSnapshot) -> (Vec<Arc<karpenter_core::cluster::Node>>, usize) {
    let pools: BTreeSet<Arc<str>> = snapshot.node_pools.iter().map(|pool| pool.name.clone()).collect();
    let of_pool = |node: &Arc<karpenter_core::cluster::Node>| {
        node.node_pool.as_ref().is_some_and(|pool| pools.contains(pool))
    };
    let (taken, left) = std::mem::take(&mut snapshot.nodes).into_iter().partition(of_pool);
    snapshot.nodes = left;
    let taken: Vec<_> = taken;
    let pods = taken.iter().flat_map(|node| &node.pods).filter(|pod| pod.is_reschedulable()).cloned();
    snapshot.pending.extend(pods);
    (taken, snapshot.pending.len())
}
