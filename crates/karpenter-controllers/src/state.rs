//! The cluster between decisions: every change enters here first, every plan starts from a snapshot of it.
//!
//! Nodes and NodeClaims are seen together: they belong to one machine when they carry its provider id. A claim without a node
//! stands for the node it will become. Start at [`Shared`] and [`StateKeeper`].

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{
    Namespace, Node, PersistentVolume, PersistentVolumeClaim, TopologySpreadConstraint,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use karpenter_api::labels::NODEPOOL;
use karpenter_api::{LabelRules, NodeClaim, NodePool};
use karpenter_core::cluster::{Cluster, ClusterSnapshot, Event, PodId, PodOwner};
use karpenter_kube::node::Machine;
use karpenter_kube::{Interner, daemon_set, disruption_budget, namespace, node, volume};
use karpenter_quantity::ResourceList;
use karpenter_runtime::{Caches, Change, Controller, Key, Outcome, View, Wakes, Watches};
use tokio::time::Instant;

use crate::buffers::{Chunks, Reserve};
use crate::launches::Launched;
use crate::nodeclaim::is_initialized;
use crate::observed::{ObservedPod, PodObserver, owner_path};
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
    /// Where waiting pods were planned to go, by UID: the name of a node, or of a claim that will become one.
    planned: BTreeMap<Arc<str>, Arc<str>>,
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
            planned: BTreeMap::new(),
            protections: BTreeSet::new(),
            version: 0,
            unlooked_at: BTreeMap::new(),
            given_up: BTreeMap::new(),
            waits: Waits::default(),
            spread: SpreadDefaults::default(),
            reserve: Reserve::default(),
            launched: Launched::default(),
            deletion_costs: None,
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

    fn note_daemon_pod(&mut self, observed: &ObservedPod) {
        let (Ok(pod), Some(owner)) = (&observed.pod, &observed.owner) else { return };
        if pod.owner != PodOwner::DaemonSet {
            return;
        }
        let known = self.daemon_pods.get(owner);
        if known.is_none_or(|known| known.created <= pod.created) {
            self.daemon_pods.insert(owner.clone(), pod.clone());
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
        if known.is_some_and(|known| waits(known)) {
            self.planned.insert(pod.uid.clone(), place.clone());
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
        self.planned.get(pod)
    }

    /// Whether a waiting pod has a place while nodes are on their way. Which of them it will go to is for its scheduler to say.
    pub(crate) fn is_awaited(&self, pod: &str) -> bool {
        let on_its_way =
            |claim: &NodeClaim| claim.metadata.deletion_timestamp.is_none() && !is_initialized(claim);
        self.planned.contains_key(pod) && self.claims.values().any(|claim| on_its_way(claim))
    }

    /// Nodes that waiting pods were planned to go to.
    pub(crate) fn nominated(&self) -> BTreeSet<Arc<str>> {
        let node = |place: &Arc<str>| {
            let claim = self.claims.get(&**place)?;
            claim.status.as_ref()?.node_name.as_deref().map(Arc::from)
        };
        self.planned.values().map(|place| node(place).unwrap_or_else(|| place.clone())).collect()
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

    fn apply(&mut self, change: &Change, caches: &Caches) {
        let key = change.key();
        self.version += u64::from(matters(change));
        if let Some(delta) = change.of::<ObservedPod>() {
            match caches.of::<ObservedPod>().get(key) {
                Some(pod) => drop(self.pods.insert(key.clone(), Arc::clone(pod))),
                None => drop(self.pods.remove(key)),
            }
            self.apply_pod(key, delta.old, delta.new);
        } else if let Some(delta) = change.of::<Node>() {
            put(&mut self.nodes, key.name(), caches.of::<Node>().get(key));
            self.index(
                key,
                delta.old.and_then(node_provider_id),
                delta.new.and_then(node_provider_id),
                Side::Node,
            );
        } else if let Some(delta) = change.of::<NodeClaim>() {
            put(&mut self.claims, key.name(), caches.of::<NodeClaim>().get(key));
            self.index(key, delta.old.and_then(provider_id), delta.new.and_then(provider_id), Side::Claim);
        } else if change.of::<NodePool>().is_some() {
            put(&mut self.pools, key.name(), caches.of::<NodePool>().get(key));
            if !self.pools.contains_key(key.name()) {
                self.registrations.remove(key.name());
            }
        } else if change.of::<CSINode>().is_some() {
            put(&mut self.csi_nodes, key.name(), caches.of::<CSINode>().get(key));
            self.refresh_node(key.name());
        } else if self.spread.apply(change) {
            self.read_pods_again(key.namespace().unwrap_or_default());
        } else {
            self.apply_base(change);
        }
    }

    /// Looks at the pods of a namespace again, because something selects them otherwise.
    fn read_pods_again(&mut self, namespace: &str) {
        let of_namespace = |key: &&Key| key.namespace() == Some(namespace);
        let keys: Vec<Key> = self.pods.keys().filter(of_namespace).cloned().collect();
        for key in keys {
            let pod = Arc::clone(&self.pods[&key]);
            self.enter_pod(&key, &pod);
        }
        self.version += 1;
    }

    fn apply_pod(&mut self, key: &Key, old: Option<&ObservedPod>, new: Option<&ObservedPod>) {
        if let Some(node) = old.and_then(|pod| pod.node.as_ref()) {
            unfile(&mut self.pods_on, node, key);
        }
        if let Some(gone) = old.filter(|old| new.is_none_or(|new| new.uid() != old.uid())) {
            self.planned.remove(gone.uid());
            self.waits.end(gone.uid());
            self.cluster.apply(Event::PodGone { uid: gone.uid().into() });
        }
        if let Some(end) = old.and_then(ObservedPod::protected_until) {
            self.protections.remove(&(end, key.clone()));
        }
        if let Some(end) = new.and_then(ObservedPod::protected_until) {
            self.protections.insert((end, key.clone()));
        }
        if let Some(old) = old.filter(|old| old.provisionable) {
            self.count_given_up(&old.scheduler, -1);
        }
        self.unlooked_at.remove(key);
        let Some(new) = new else { return };
        self.note_daemon_pod(new);
        if new.provisionable {
            self.count_given_up(&new.scheduler, 1);
        }
        if let Some(node) = &new.node {
            self.pods_on.entry(node.clone()).or_default().insert(key.clone());
        }
        self.enter_pod(key, new);
    }

    fn enter_pod(&mut self, key: &Key, new: &ObservedPod) {
        let pod = new.pod.as_ref().map(|pod| self.spread.applied(new, pod, &mut self.interner));
        if let (Ok(pod), true, None) = (&pod, new.awaits_scheduler, &new.refusal) {
            let waiting = Unscheduled { pod: pod.clone(), scheduler: new.scheduler.clone() };
            self.unlooked_at.insert(key.clone(), waiting);
        }
        let event = match (&pod, &new.node) {
            (Ok(pod), Some(node)) if !new.is_terminal() => Event::PodBound(pod.clone(), node.clone()),
            (Ok(pod), None) if new.provisionable && new.refusal.is_none() && !new.is_terminal() => {
                Event::PodPending(pod.clone())
            }
            _ => Event::PodGone { uid: new.uid().into() },
        };
        if !matches!(event, Event::PodPending(_)) && !new.awaits_scheduler {
            self.planned.remove(new.uid());
        }
        self.cluster.apply(event);
    }

    fn count_given_up(&mut self, scheduler: &Arc<str>, change: isize) {
        let count = self.given_up.entry(scheduler.clone()).or_default();
        *count = count.saturating_add_signed(change);
        if *count == 0 {
            self.given_up.remove(scheduler);
        }
    }

    /// Files an object under its provider id and looks at both sides of that machine again.
    fn index(&mut self, key: &Key, old: Option<&str>, new: Option<&str>, side: Side) {
        let index = match side {
            Side::Claim => &mut self.claims_of,
            Side::Node => &mut self.nodes_of,
        };
        if let Some(id) = old.filter(|old| Some(*old) != new) {
            unfile(index, id, key.name());
        }
        if let Some(id) = new {
            index.entry(id.to_owned()).or_default().insert(key.name().to_owned());
        }
        match side {
            Side::Claim => self.refresh_claim(key.name()),
            Side::Node => self.refresh_node(key.name()),
        }
        for id in [old, new].into_iter().flatten() {
            for claim in self.claims_of(id) {
                self.refresh_claim(&claim);
            }
            for node in self.nodes_of(id) {
                self.refresh_node(&node);
            }
        }
    }

    /// A claim stands for its node while there is none.
    fn refresh_claim(&mut self, name: &str) {
        let alone = self
            .claims
            .get(name)
            .filter(|claim| provider_id(claim).is_some_and(|id| !self.nodes_of.contains_key(id)));
        match alone.cloned() {
            Some(claim) => self.enter(Machine::Launched(&claim), None),
            None if !self.nodes.contains_key(name) => {
                self.cluster.apply(Event::NodeGone { name: name.into() });
            }
            None => {}
        }
    }

    fn refresh_node(&mut self, name: &str) {
        let Some(node) = self.nodes.get(name).cloned() else {
            self.cluster.apply(Event::NodeGone { name: name.into() });
            return;
        };
        let claim = node_provider_id(&node).and_then(|id| self.claims_of.get(id)).and_then(BTreeSet::first);
        let claim = claim.and_then(|name| self.claims.get(name)).cloned();
        let limits = self.csi_nodes.get(name).cloned();
        match &claim {
            Some(claim) => self.enter(Machine::Joined(claim, &node), limits.as_deref()),
            None => self.enter(Machine::Unmanaged(&node), limits.as_deref()),
        }
    }

    fn enter(&mut self, machine: Machine<'_>, limits: Option<&CSINode>) {
        match node::node(machine, limits, &mut self.interner) {
            Ok(node) => self.cluster.apply(Event::Node(Box::new(node))),
            Err(error) => tracing::warn!("a node cannot be used for planning: {error}"),
        }
    }

    /// Everything that changes rarely.
    fn apply_base(&mut self, change: &Change) {
        let key = change.key();
        let names = (key.namespace().unwrap_or_default().into(), key.name().into());
        if let Some(delta) = change.of::<Namespace>() {
            self.base.namespaces.remove(key.name());
            self.base
                .namespaces
                .extend(delta.new.map(|object| namespace::namespace(object, &mut self.interner)));
        } else if let Some(delta) = change.of::<PersistentVolumeClaim>() {
            self.base.volume_claims.remove(&names);
            self.base.volume_claims.extend(delta.new.map(|object| (names, volume::volume_claim(object))));
        } else if let Some(delta) = change.of::<PersistentVolume>() {
            self.base.volumes.remove(key.name());
            let converted =
                delta.new.and_then(|object| readable(key, volume::persistent_volume(object, &self.rules)));
            self.base.volumes.extend(converted.map(|converted| (key.name().into(), converted)));
        } else if let Some(delta) = change.of::<StorageClass>() {
            self.base.storage_classes.remove(key.name());
            self.base.storage_classes.extend(
                delta.new.map(|object| (key.name().into(), volume::storage_class(object, &self.rules))),
            );
        } else if let Some(delta) = change.of::<DaemonSet>() {
            self.daemon_sets.remove(key);
            if delta.new.is_none() {
                let namespace = key.namespace().unwrap_or_default();
                self.daemon_pods.remove(owner_path("apps/v1", "DaemonSet", namespace, key.name()).as_str());
            }
            let converted = delta.new.and_then(|object| {
                readable(key, daemon_set::daemon_set(object, None, &self.rules, &mut self.interner))
            });
            self.daemon_sets.extend(converted.map(|converted| (key.clone(), converted)));
        } else if let Some(delta) = change.of::<PodDisruptionBudget>() {
            self.budgets.remove(key);
            let converted =
                delta.new.and_then(|object| readable(key, disruption_budget::disruption_budget(object)));
            self.budgets.extend(converted.map(|converted| (key.clone(), converted)));
        }
    }
}

/// Whether a change may matter to disruption. Heartbeats do not, nor do pods on their way to a node.
fn matters(change: &Change) -> bool {
    if let Some(delta) = change.of::<ObservedPod>() {
        let place = |pod: Option<&ObservedPod>| {
            pod.map(|pod| (pod.node.clone(), pod.is_terminal(), pod.deletion, pod.annotations().cloned()))
        };
        return place(delta.old) != place(delta.new);
    }
    if let Some(delta) = change.of::<Node>() {
        let shape = |node: Option<&Node>| {
            let states = node.map(condition_states);
            node.map(|node| {
                (node.metadata.labels.clone(), node.metadata.annotations.clone(), node.spec.clone(), states)
            })
        };
        return shape(delta.old) != shape(delta.new);
    }
    // Their status changes all the time, and nothing here follows from it.
    change.of::<ReplicaSet>().is_none() && change.of::<StatefulSet>().is_none()
}

/// A node's conditions without their heartbeats and messages.
fn condition_states(node: &Node) -> Vec<(String, String, Option<String>)> {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.map(|found| (found.type_.clone(), found.status.clone(), found.reason.clone())).collect()
}

/// Takes an entry out of an index, and its heading if nothing is left under it.
fn unfile<H, E, Q, F>(index: &mut BTreeMap<H, BTreeSet<E>>, heading: &Q, entry: &F)
where
    H: std::borrow::Borrow<Q> + Ord,
    E: std::borrow::Borrow<F> + Ord,
    Q: Ord + ?Sized,
    F: Ord + ?Sized,
{
    if let Some(entries) = index.get_mut(heading) {
        entries.remove(entry);
        if entries.is_empty() {
            index.remove(heading);
        }
    }
}

#[derive(Clone, Copy)]
enum Side {
    Claim,
    Node,
}

fn put<K>(map: &mut BTreeMap<String, Arc<K>>, name: &str, object: Option<&Arc<K>>) {
    match object {
        Some(object) => drop(map.insert(name.to_owned(), Arc::clone(object))),
        None => drop(map.remove(name)),
    }
}

fn readable<T>(key: &Key, converted: Result<T, karpenter_kube::Invalid>) -> Option<T> {
    converted.map_err(|error| tracing::warn!("{key} cannot be used for planning: {error}")).ok()
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

/// Keeps the state: must be the first controller of its runtime, so that the others find it up to date.
pub(crate) struct StateKeeper {
    state: Shared,
    observer: PodObserver,
    /// Whether ReplicaSets and StatefulSets are watched.
    workloads: bool,
}

impl StateKeeper {
    /// A keeper of `state`. Where deletion costs are our own doing, they say nothing about pods.
    pub(crate) fn new(state: Shared, rules: &LabelRules, manages_deletion_costs: bool) -> Self {
        let observer = PodObserver::new(Arc::new(rules.clone()), manages_deletion_costs);
        Self { state, observer, workloads: false }
    }

    /// The same; pods without spread constraints get these.
    pub(crate) fn with_spread(self, constraints: &[TopologySpreadConstraint]) -> Self {
        let spread = SpreadDefaults::new(constraints);
        let workloads = self.workloads || !spread.is_empty();
        self.state.lock().spread = spread;
        Self { workloads, ..self }
    }

    /// The same; others read ReplicaSets and StatefulSets.
    pub(crate) fn with_workloads(self, read: bool) -> Self {
        Self { workloads: self.workloads || read, ..self }
    }
}

impl Controller for StateKeeper {
    type Request = Infallible;
    type Reply = Infallible;

    fn name(&self) -> &'static str {
        "state"
    }

    fn watches(&self, watches: &mut Watches) {
        let observer = self.observer.clone();
        watches.add_as(move |pod| observer.observe(pod));
        watches.add_as(lean_node);
        watches.add::<NodeClaim>();
        watches.add::<NodePool>();
        watches.add::<CSINode>();
        watches.add::<Namespace>();
        watches.add::<PersistentVolumeClaim>();
        watches.add::<PersistentVolume>();
        watches.add::<StorageClass>();
        watches.add::<DaemonSet>();
        watches.add::<PodDisruptionBudget>();
        if self.workloads {
            watches.add_as(|workload: ReplicaSet| ReplicaSet { status: None, ..workload });
            watches.add_as(|workload: StatefulSet| StatefulSet { status: None, ..workload });
        }
        if !self.state.lock().spread.is_empty() {
            SpreadDefaults::watch(watches);
        }
    }

    fn begin(&mut self, _: &Caches, _: &mut Wakes) {
        self.state.lock().unsynced = None;
    }

    fn wake(&mut self, change: &Change, caches: &Caches, _: &mut Wakes) {
        self.state.lock().apply(change, caches);
    }

    fn reconcile(&mut self, _: &Key, _: &View<'_>) -> Outcome<Infallible> {
        Outcome::done()
    }
}

/// A node without the lists nobody reads here; images alone can be most of a node.
fn lean_node(mut node: Node) -> Node {
    if let Some(status) = &mut node.status {
        status.images = None;
        status.volumes_attached = None;
        status.volumes_in_use = None;
    }
    node
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
