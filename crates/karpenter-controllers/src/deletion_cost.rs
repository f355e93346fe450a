//! Tells ReplicaSets which of their pods to give up first when they shrink (gate `PodDeletionCostManagement`).
//!
//! What each node's pods should cost is found together with the moves of disruption and lies in the shared state; here it is written to pods, in
//! Kubernetes' own annotation and over whatever users wrote there. A node that is not listed says nothing, so its pods lose the annotation.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter_api::annotations::POD_DELETION_COST;
use karpenter_runtime::{Caches, Change, Controller, Key, Outcome, Status, View, Wakes, Watches, Write};
use serde_json::json;

use crate::metrics::Metrics;
use crate::observed::ObservedPod;
use crate::state::{Shared, State, pool_of};

/// How often costs are written.
const CYCLE: Duration = Duration::from_mins(1);
/// On how many nodes that are not going costs are changed in one cycle.
const NODES_PER_CYCLE: usize = 50;
/// Owners that make pods anew wherever they find a place.
const RENEWING: &[&str] = &["replicasets", "jobs", "daemonsets"];

/// The controller of deletion costs.
pub(crate) struct DeletionCosts {
    state: Shared,
    metrics: Metrics,
    /// The state in which nothing was left to write.
    settled: Option<u64>,
}

/// The pods of one node whose annotation must change.
struct Changes {
    node_pool: String,
    /// What they should say; none removes the annotation.
    cost: Option<i32>,
    pods: Vec<Key>,
}

impl Changes {
    fn is_going(&self) -> bool {
        self.cost == Some(i32::MIN)
    }
}

impl DeletionCosts {
    /// A controller over `state`.
    pub(crate) fn new(state: Shared, metrics: Metrics) -> Self {
        Self { state, metrics, settled: None }
    }

    /// What must change on every managed node: those that are going first, then in the order in which they are likely to go.
    fn changes(&self, state: &State) -> Vec<Changes> {
        let mut changes = Vec::new();
        for node in state.nodes() {
            let Some(node_pool) = pool_of(&**node) else { continue };
            let name = node.metadata.name.as_deref().unwrap_or_default();
            let cost = state.deletion_cost(name);
            let pods = self.unlike(state, name, cost);
            if !pods.is_empty() {
                changes.push(Changes { node_pool: node_pool.to_owned(), cost, pods });
            }
        }
        changes.sort_by_key(|node| node.cost.unwrap_or(0));
        changes
    }

    /// The replicas on a node that say something else.
    fn unlike(&self, state: &State, node: &str, cost: Option<i32>) -> Vec<Key> {
        let wanted = cost.map(|cost| cost.to_string());
        let mut pods = Vec::new();
        for (key, pod) in state.observed_on(node).filter(|(_, pod)| is_replica(pod)) {
            let said = pod.annotations().and_then(|all| all.get(POD_DELETION_COST));
            if said == wanted.as_ref() {
                self.count("skipped_unchanged");
            } else {
                pods.push(key.clone());
            }
        }
        pods
    }

    fn count(&self, result: &str) {
        self.metrics.deletion_cost_writes.of(&[("result", result.to_owned())]).inc();
    }
}

impl Controller for DeletionCosts {
    type Request = Infallible;
    type Reply = Infallible;

    fn name(&self) -> &'static str {
        "pod.deletioncost"
    }

    fn watches(&self, watches: &mut Watches) {
        watches.reads::<Node>();
        watches.reads::<ObservedPod>();
    }

    fn begin(&mut self, _: &Caches, wakes: &mut Wakes) {
        wakes.wake(Key::everything());
    }

    fn wake(&mut self, _: &Change, _: &Caches, _: &mut Wakes) {}

    fn reconcile(&mut self, _: &Key, view: &View<'_>) -> Outcome<Infallible> {
        let state = self.state.lock();
        let version = state.version();
        if self.settled == Some(version) || !state.has_deletion_costs() {
            return Outcome::after(CYCLE);
        }
        let changes = self.changes(&state);
        drop(state);
        let (mut writes, mut touched) = (Vec::new(), 0);
        let mut pending: BTreeMap<String, f64> = BTreeMap::new();
        for node in changes {
            if !node.is_going() && touched == NODES_PER_CYCLE {
                *pending.entry(node.node_pool).or_default() += 1.0;
                continue;
            }
            touched += usize::from(!node.is_going());
            writes.extend(node.pods.iter().filter_map(|key| write(key, node.cost, view)));
        }
        // What is written comes back as a change, and is looked at once more.
        self.settled = (pending.is_empty() && writes.is_empty()).then_some(version);
        let series = pending.into_iter().map(|(pool, nodes)| ([("nodepool", pool)], nodes));
        self.metrics.deletion_cost_pending.replace(series);
        Outcome::after(CYCLE).then_all(writes)
    }

    fn written(&mut self, _: &Key, _: &Write, _: &View<'_>) {
        self.count("updated");
    }

    fn refused(&mut self, _: &Key, _: &Write, status: &Status, _: &View<'_>) {
        self.count(match status.code {
            404 => "skipped_notfound",
            409 => "skipped_conflict",
            _ => "error",
        });
    }
}

fn write(key: &Key, cost: Option<i32>, view: &View<'_>) -> Option<Write> {
    let pod = view.caches.of::<ObservedPod>().get(key)?;
    let cost = cost.map(|cost| cost.to_string());
    let patch = json!({"metadata": {"annotations": {POD_DELETION_COST: cost}}});
    Some(Write::merge_patch::<Pod>(key, patch).if_version(pod.version()?).tolerating(404).tolerating(409))
}

/// What kind of object made a pod, as in URLs.
fn maker(pod: &ObservedPod) -> Option<&str> {
    pod.owner.as_deref()?.rsplit('/').nth(1)
}

fn is_replica(pod: &ObservedPod) -> bool {
    let of_apps = pod.owner.as_deref().is_some_and(|owner| owner.starts_with("/apis/apps/v1/"));
    of_apps && maker(pod) == Some("replicasets") && !pod.is_terminal() && pod.deletion.is_none()
}

/// Whether a node holds a pod, system pods apart, that nobody would make anew elsewhere.
pub(crate) fn is_kept(state: &State, node: &str) -> bool {
    let mut pods = state.observed_on(node).map(|(_, pod)| pod).filter(|pod| !pod.is_terminal());
    let renewed = |pod: &ObservedPod| maker(pod).is_some_and(|kind| RENEWING.contains(&kind));
    pods.any(|pod| pod.names().0 != "kube-system" && !renewed(pod))
}
