//! The cluster between decisions: every change enters here first, every plan starts from a snapshot of it.
//!
//! Nodes and NodeClaims are seen together: they belong to one machine when they carry its provider id. A claim without a node
//! stands for the node it will become. Start at [`Shared`] and [`StateKeeper`].

mod changes;
mod keeper;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::CSINode;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use karpenter_api::labels::NODEPOOL;
use karpenter_api::{LabelRules, NodeClaim, NodePool};
use karpenter_core::cluster::{Cluster, ClusterSnapshot, Event, PodId, PodOwner};
use karpenter_kube::{Interner, daemon_set};
use karpenter_provider::Overlays;
use karpenter_quantity::ResourceList;
use karpenter_runtime::Key;
use tokio::time::Instant;

pub(crate) use changes::unfile;
pub(crate) use keeper::StateKeeper;

use crate::buffers::{Chunks, Reserve};
use crate::launches::Launched;
use crate::node_class::NodeClasses;
use crate::nodeclaim::is_initialized;
use crate::observed::{ObservedPod, owner_path};
use crate::places::Places;
use crate::registrations::Registrations;
use crate::spread_defaults::SpreadDefaults;
use crate::waits::{Waited, Waits};

/// The state, shared by all controllers of one process. They run one after the other, so nobody ever waits.
pub type Shared = Arc<SharedState>;

/// See [`Shared`].
pub struct SharedState(Mutex<State>);

impl SharedState {
    /// An empty state that reads labels by `rules`.
    pub fn new(rules: &LabelRules) -> Shared {
        Arc::new(Self(Mutex::new(State::new(rules))))
    }

    /// Returns the state.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is known of the cluster.
pub struct State {
    cluster: Cluster,
    base: ClusterSnapshot,
    interner: Interner,
    rules: LabelRules,
    pools: BTreeMap<String, Arc<NodePool>>,
    claims: BTreeMap<String, Arc<NodeClaim>>,
    pods: BTreeMap<Key, Arc<ObservedPod>>,
    nodes: BTreeMap<String, Arc<Node>>,
    csi_nodes: BTreeMap<String, Arc<CSINode>>,
    /// Provider id to the names of the claims and nodes that carry it.
    claims_of: BTreeMap<String, BTreeSet<String>>,
    nodes_of: BTreeMap<String, BTreeSet<String>>,
    daemon_sets: BTreeMap<Key, karpenter_core::cluster::DaemonSet>,
    /// The youngest pod that was seen of each DaemonSet, by its path in the API.
    daemon_pods: BTreeMap<Arc<str>, Arc<karpenter_core::cluster::Pod>>,
    budgets: BTreeMap<Key, karpenter_core::cluster::DisruptionBudget>,
    pods_on: BTreeMap<Arc<str>, BTreeSet<Key>>,
    registrations: BTreeMap<String, Registrations>,
    /// Nodes that are about to go, so that their pods need another place.
    leaving: BTreeSet<Arc<str>>,
    /// Claims of static pools that a command is about to create, by pool.
    reserved: BTreeMap<String, u32>,
    /// Where waiting pods were planned to go.
    places: Places,
    /// When pods cease to refuse disruption.
    protections: BTreeSet<(Timestamp, Key)>,
    /// Moves with everything that may matter to disruption.
    version: u64,
    /// Pods their scheduler has yet to look at.
    unlooked_at: BTreeMap<Key, Unscheduled>,
    /// How many pods each scheduler has given up on.
    given_up: BTreeMap<Arc<str>, usize>,
    waits: Waits,
    spread: SpreadDefaults,
    reserve: Reserve,
    launched: Launched,
    /// What the pods of nodes cost ReplicaSets to give up, once that was found out.
    deletion_costs: Option<BTreeMap<Arc<str>, i32>>,
    /// The NodeOverlays in force, once they were looked at.
    overlays: Option<Overlays>,
    node_classes: NodeClasses,
    /// Since when the picture has not been complete.
    unsynced: Option<Instant>,
}

/// A pod nobody has tried to place yet, and whose business that is.
struct Unscheduled {
    pod: Arc<karpenter_core::cluster::Pod>,
    scheduler: Arc<str>,
}

impl State {
    fn new(rules: &LabelRules) -> Self {
        let base = ClusterSnapshot {
            label_rules: Arc::new(karpenter_kube::labels::label_rules(rules)),
            ..ClusterSnapshot::default()
        };
        Self {
            cluster: Cluster::default(),
            base,
            interner: Interner::default(),
            rules: rules.clone(),
            pools: BTreeMap::new(),
            claims: BTreeMap::new(),
            pods: BTreeMap::new(),
            nodes: BTreeMap::new(),
            csi_nodes: BTreeMap::new(),
            claims_of: BTreeMap::new(),
            nodes_of: BTreeMap::new(),
            daemon_sets: BTreeMap::new(),
            daemon_pods: BTreeMap::new(),
            budgets: BTreeMap::new(),
            pods_on: BTreeMap::new(),
            registrations: BTreeMap::new(),
            leaving: BTreeSet::new(),
            reserved: BTreeMap::new(),
            places: Places::default(),
            protections: BTreeSet::new(),
            version: 0,
            unlooked_at: BTreeMap::new(),
            given_up: BTreeMap::new(),
            waits: Waits::default(),
            spread: SpreadDefaults::default(),
            reserve: Reserve::default(),
            launched: Launched::default(),
            deletion_costs: None,
            overlays: None,
            node_classes: NodeClasses::default(),
            unsynced: Some(Instant::now()),
        }
    }

    /// The picture as it is now, without NodePools, which the caller adds.
    pub fn snapshot(&self) -> ClusterSnapshot {
        let mut snapshot = self.cluster.snapshot(&self.base);
        snapshot.daemon_sets = self.daemon_sets.iter().map(|(key, set)| self.as_running(key, set)).collect();
        snapshot.disruption_budgets = self.budgets.values().cloned().collect();
        if !self.leaving.is_empty() {
            let leaving = snapshot.nodes.iter_mut().filter(|node| self.leaving.contains(&node.name));
            leaving.for_each(|node| Arc::make_mut(node).deleting = true);
        }
        snapshot
    }

    /// A DaemonSet as its youngest pod shows it: admission may have added to its template.
    fn as_running(
        &self,
        key: &Key,
        set: &karpenter_core::cluster::DaemonSet,
    ) -> karpenter_core::cluster::DaemonSet {
        let path = owner_path("apps/v1", "DaemonSet", key.namespace().unwrap_or_default(), key.name());
        match self.daemon_pods.get(path.as_str()) {
            Some(pod) => daemon_set::as_running(set, &pod.spec),
            None => set.clone(),
        }
    }

    /// Changes with everything that may matter to disruption.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// What buffers keep free.
    pub(crate) fn reserve(&self) -> &Reserve {
        &self.reserve
    }

    /// The same, to be changed by plans.
    pub(crate) fn reserve_mut(&mut self) -> &mut Reserve {
        &mut self.reserve
    }

    /// Says what a buffer keeps free now; returns whether that is new.
    pub(crate) fn set_buffer(&mut self, buffer: &Key, chunks: Chunks) -> bool {
        let new = self.reserve.set(buffer, chunks);
        self.version += u64::from(new);
        new
    }

    /// Says which nodes are about to go.
    pub(crate) fn set_leaving(&mut self, nodes: BTreeSet<Arc<str>>) {
        self.leaving = nodes;
    }

    /// Says how many claims of each static pool a command is about to create.
    pub(crate) fn set_reserved(&mut self, reserved: BTreeMap<String, u32>) {
        self.reserved = reserved;
    }

    /// How many claims of a static pool a command is about to create.
    pub(crate) fn reserved(&self, pool: &str) -> u32 {
        self.reserved.get(pool).copied().unwrap_or_default()
    }

    /// Remembers where a pod was planned to go, unless it has gone meanwhile or found a node without us: nothing would ever come to
    /// make us forget it again.
    pub(crate) fn plan_to(&mut self, pod: &PodId, place: &Arc<str>) {
        let known = self.pods.get(&Key::namespaced(&pod.namespace, &pod.name));
        let moves = |node: &Arc<str>| self.leaving.contains(node) || self.is_going(node);
        let waits = |known: &ObservedPod| {
            known.uid() == &*pod.uid && known.deletion.is_none() && known.node.as_ref().is_none_or(moves)
        };
        if let Some(known) = known.filter(|known| waits(known))
            && let Ok(known) = &known.pod
        {
            self.places.give(&pod.uid, place, &known.spec);
        }
    }

    /// Whether a node or its claim is being deleted.
    fn is_going(&self, node: &str) -> bool {
        let going =
            |deleted: Option<&ObjectMeta>| deleted.is_some_and(|meta| meta.deletion_timestamp.is_some());
        going(self.nodes.get(node).map(|node| &node.metadata))
            || going(self.claim_of(node).map(|claim| &claim.metadata))
    }

    /// Where a waiting pod was planned to go.
    pub(crate) fn planned(&self, pod: &str) -> Option<&Arc<str>> {
        self.places.of(pod)
    }

    /// Whether a waiting pod has a place while nodes are on their way. Which of them it will go to is for its scheduler to say.
    pub(crate) fn is_awaited(&self, pod: &str) -> bool {
        let on_its_way =
            |claim: &NodeClaim| claim.metadata.deletion_timestamp.is_none() && !is_initialized(claim);
        self.places.of(pod).is_some() && self.claims.values().any(|claim| on_its_way(claim))
    }

    /// Nodes that waiting pods were planned to go to.
    pub(crate) fn nominated(&self) -> BTreeSet<Arc<str>> {
        let node = |place: &Arc<str>| {
            let claim = self.claims.get(&**place)?;
            claim.status.as_ref()?.node_name.as_deref().map(Arc::from)
        };
        self.places.all().map(|place| node(place).unwrap_or_else(|| place.clone())).collect()
    }

    /// The claim of a node.
    pub(crate) fn claim_of(&self, node: &str) -> Option<&Arc<NodeClaim>> {
        let id = self.nodes.get(node).and_then(|node| node_provider_id(node))?;
        self.claims_of.get(id)?.first().and_then(|name| self.claims.get(name))
    }

    /// Lets go of pods that refused disruption for a while which is over at `now`.
    pub(crate) fn end_protections(&mut self, now: Timestamp) {
        while let Some((end, key)) = self.protections.first().cloned() {
            if end > now {
                return;
            }
            self.protections.pop_first();
            let Some(observed) = self.pods.get(&key) else { continue };
            if let (Ok(pod), Some(node), false) = (&observed.pod, &observed.node, observed.is_terminal()) {
                let pod = self.spread.applied(observed, pod, &mut self.interner);
                let mut free = karpenter_core::cluster::Pod::clone(&pod);
                free.do_not_disrupt = false;
                self.cluster.apply(Event::PodBound(Arc::new(free), node.clone()));
            }
        }
    }

    /// Pods behind those their scheduler has given up on: it will give up on them as well, unless they fit somewhere, which the
    /// plan sees for itself. To plan for them now saves the time it takes to look at each.
    pub fn next_in_line(&self) -> impl Iterator<Item = &Arc<karpenter_core::cluster::Pod>> {
        let behind = |waiting: &&Unscheduled| self.given_up.contains_key(&waiting.scheduler);
        self.unlooked_at.values().filter(behind).map(|waiting| &waiting.pod)
    }

    /// Claims that have been created and not launched yet.
    pub fn launching(&self) -> impl Iterator<Item = &Arc<NodeClaim>> {
        self.claims
            .values()
            .filter(|claim| provider_id(claim).is_none() && claim.metadata.deletion_timestamp.is_none())
    }

    /// Names of the nodes with this provider id.
    pub fn nodes_of(&self, provider_id: &str) -> Vec<String> {
        self.nodes_of.get(provider_id).into_iter().flatten().cloned().collect()
    }

    /// Names of the claims with this provider id.
    pub fn claims_of(&self, provider_id: &str) -> Vec<String> {
        self.claims_of.get(provider_id).into_iter().flatten().cloned().collect()
    }

    /// Keys of the pods bound to a node.
    pub fn pods_on(&self, node: &str) -> impl Iterator<Item = &Key> {
        self.pods_on.get(node).into_iter().flatten()
    }

    /// The claims of all pools.
    pub fn claims(&self) -> impl Iterator<Item = &Arc<NodeClaim>> + Clone {
        self.claims.values()
    }

    /// All pools.
    pub fn pools(&self) -> impl Iterator<Item = &Arc<NodePool>> + Clone {
        self.pools.values()
    }

    /// A pool by its name.
    pub fn pool(&self, name: &str) -> Option<&Arc<NodePool>> {
        self.pools.get(name)
    }

    /// All pods.
    pub fn pods(&self) -> impl Iterator<Item = &Arc<ObservedPod>> + Clone {
        self.pods.values()
    }

    /// The claims of one pool.
    pub fn claims_of_pool(&self, pool: &str) -> impl Iterator<Item = &Arc<NodeClaim>> {
        self.claims.values().filter(move |claim| pool_of(&***claim) == Some(pool))
    }

    /// Remembers how the registration of a node of a pool went.
    pub(crate) fn note_registration(&mut self, pool: &str, went_well: bool) {
        self.registrations.entry(pool.to_owned()).or_default().note(went_well);
    }

    /// How the latest registrations of a pool's nodes went.
    pub(crate) fn registrations(&mut self, pool: &str) -> &mut Registrations {
        self.registrations.entry(pool.to_owned()).or_default()
    }

    /// A node by its name.
    pub fn node(&self, name: &str) -> Option<&Arc<Node>> {
        self.nodes.get(name)
    }

    /// All nodes.
    pub fn nodes(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.nodes.values()
    }

    /// How many machines there are, with or without a node.
    pub(crate) fn node_count(&self) -> usize {
        let alone = |id: &&String| !self.nodes_of.contains_key(*id);
        self.nodes.len() + self.claims_of.keys().filter(alone).count()
    }

    /// How long the picture has not been complete; none if it is.
    pub(crate) fn unsynced_for(&self) -> Option<std::time::Duration> {
        self.unsynced.map(|since| Instant::now().duration_since(since))
    }

    /// How long pods wait.
    pub(crate) fn waits(&mut self) -> &mut Waits {
        &mut self.waits
    }

    /// Says where NodeClasses are found.
    pub(crate) fn set_node_classes(&mut self, classes: NodeClasses) {
        self.node_classes = classes;
    }

    /// The NodeClasses.
    pub(crate) fn node_classes(&self) -> &NodeClasses {
        &self.node_classes
    }

    /// Says which NodeOverlays are in force. Nodes may be too dear now.
    pub(crate) fn set_overlays(&mut self, overlays: Overlays) {
        self.overlays = Some(overlays);
        self.version += 1;
    }

    /// The NodeOverlays in force, once they were looked at.
    pub(crate) fn overlays(&self) -> Option<Overlays> {
        self.overlays.clone()
    }

    /// Says what the pods of nodes cost ReplicaSets to give up.
    pub(crate) fn set_deletion_costs(&mut self, costs: BTreeMap<Arc<str>, i32>) {
        if self.deletion_costs.as_ref() != Some(&costs) {
            self.deletion_costs = Some(costs);
            self.version += 1;
        }
    }

    /// Whether it was found out what pods cost to give up.
    pub(crate) fn has_deletion_costs(&self) -> bool {
        self.deletion_costs.is_some()
    }

    /// What the pods of a node cost ReplicaSets to give up, if it says anything.
    pub(crate) fn deletion_cost(&self, node: &str) -> Option<i32> {
        self.deletion_costs.as_ref()?.get(node).copied()
    }

    /// The pods bound to a node.
    pub(crate) fn observed_on(&self, node: &str) -> impl Iterator<Item = (&Key, &Arc<ObservedPod>)> {
        self.pods_on(node).filter_map(|key| Some((key, self.pods.get(key)?)))
    }

    /// How many nodes of each pool were launched lately.
    pub(crate) fn launched(&mut self) -> &mut Launched {
        &mut self.launched
    }

    /// How long a pod has waited.
    pub(crate) fn waited(&self, pod: &str) -> Option<Waited> {
        self.waits.of(pod)
    }

    /// How many pods of a node have to move if it goes.
    pub(crate) fn reschedulable_on(&self, node: &str) -> u64 {
        let pods = self.pods_on(node).filter_map(|key| self.pods.get(key));
        pods.filter(|pod| pod.pod.as_ref().is_ok_and(|pod| pod.is_reschedulable())).count() as u64
    }

    /// What the pods of a node may use at most: those of DaemonSets, or the others.
    pub(crate) fn limits_on(&self, node: &str, daemons: bool) -> ResourceList {
        let mut sum = ResourceList::default();
        for pod in self.pods_on(node).filter_map(|key| self.pods.get(key)).filter(|pod| !pod.is_terminal()) {
            let daemon = pod.pod.as_ref().is_ok_and(|pod| pod.owner == PodOwner::DaemonSet);
            if daemon == daemons {
                sum.merge_add(&pod.limits);
            }
        }
        sum
    }
}

/// The identity of the machine of a claim, once it is launched.
pub(crate) fn provider_id(claim: &NodeClaim) -> Option<&str> {
    claim.status.as_ref()?.provider_id.as_deref().filter(|id| !id.is_empty())
}

/// The name of a claim's node, once it is there.
pub(crate) fn node_of(claim: &NodeClaim) -> Option<&str> {
    claim.status.as_ref()?.node_name.as_deref()
}

/// The name of the NodePool that a claim or a node is of.
pub(crate) fn pool_of<K: kube::Resource>(object: &K) -> Option<&str> {
    object.meta().labels.as_ref()?.get(NODEPOOL).map(String::as_str)
}

/// The identity of the machine behind a node.
pub(crate) fn node_provider_id(node: &Node) -> Option<&str> {
    node.spec.as_ref()?.provider_id.as_deref().filter(|id| !id.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_that_has_gone_while_it_was_planned_holds_no_node() {
        let shared = SharedState::new(&LabelRules::default());
        let mut state = shared.lock();
        let gone = PodId { namespace: "default".into(), name: "web".into(), uid: "u".into() };
        state.plan_to(&gone, &"node".into());
        assert!(state.nominated().is_empty());
    }
}
