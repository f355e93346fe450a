//! The scheduler without any API: objects go in, decisions come out.
//!
//! What it decides counts at once (the pod is assumed to be on its node), so the next pod sees it.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;

use super::attempt::Attempt;
use super::cluster::{Cluster, CounterKind, KnownPod};
use super::preemption::{Budget, Preemption, preempt};
use super::queue::Queue;
use super::reason::Diagnosis;
use super::search::{Failure, Search};
use super::volume_filter::VolumeChoice;
use crate::config::{DEFAULT_SCHEDULER, SchedulerConfig, SchedulerProfile};
use karpenter_runtime::Key;

/// After this long without being bound a pod is tried again.
const ASSUMED_MAX: SignedDuration = SignedDuration::from_secs(30);
/// A pod that could not be bound is tried again after this long.
const BACK_OFF: SignedDuration = SignedDuration::from_secs(1);
/// Volumes may take longer.
const VOLUMES_MAX: SignedDuration = SignedDuration::from_mins(10);

/// What the scheduler wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Bind a pod to a node.
    Bind {
        /// The pod.
        pod: Key,
        /// The pod's uid.
        uid: String,
        /// The node's name.
        node: String,
    },
    /// Get a pod's claims their volumes on a node; binding the pod follows when they have them.
    Prepare {
        /// The pod.
        pod: Key,
        /// The node's name.
        node: String,
        /// Which claims get which volumes.
        choice: VolumeChoice,
    },
    /// Tell a pod why it has no place.
    Refuse {
        /// The pod.
        pod: Key,
        /// The pod's uid.
        uid: String,
        /// Why.
        message: String,
        /// The node that others are asked to leave for it.
        nominated: Option<String>,
    },
    /// Ask a pod to leave for a more important one.
    Evict {
        /// The pod that leaves.
        victim: Key,
        /// Its uid.
        uid: String,
        /// The pod it makes room for.
        preemptor: Key,
        /// The node it leaves.
        node: String,
    },
}

impl Decision {
    /// Returns the pod whose place is decided about.
    pub fn pod(&self) -> &Key {
        match self {
            Self::Bind { pod, .. } | Self::Prepare { pod, .. } | Self::Refuse { pod, .. } => pod,
            Self::Evict { preemptor, .. } => preemptor,
        }
    }
}

/// A pod that is assumed to be on a node.
#[derive(Clone, Debug)]
struct Assumed {
    until: Timestamp,
    /// Whether its claims still lack volumes.
    waits_for_volumes: bool,
}

/// Decides where pods go.
#[derive(Clone, Debug)]
pub struct Scheduler {
    config: SchedulerConfig,
    cluster: Cluster,
    queue: Queue,
    search: Search,
    budgets: BTreeMap<Key, Budget>,
    assumed: BTreeMap<u32, Assumed>,
    have_volumes_changed: bool,
    decisions: Vec<Decision>,
}

impl Scheduler {
    /// Returns a scheduler for the pods that ask for one of its profiles.
    pub fn new(config: SchedulerConfig) -> Self {
        Self {
            config,
            cluster: Cluster::new(),
            queue: Queue::default(),
            search: Search::default(),
            budgets: BTreeMap::new(),
            assumed: BTreeMap::new(),
            have_volumes_changed: false,
            decisions: Vec::new(),
        }
    }

    /// Returns the cluster, to take in nodes and namespaces.
    pub fn cluster_mut(&mut self) -> &mut Cluster {
        &mut self.cluster
    }

    /// Takes in a change of claims, volumes, storage classes or what nodes attach.
    pub fn change_volumes(&mut self, change: impl FnOnce(&mut Cluster) -> bool) {
        self.have_volumes_changed |= change(&mut self.cluster);
    }

    /// Takes in a disruption budget, or that it is gone.
    pub fn set_budget(&mut self, key: Key, budget: Option<&PodDisruptionBudget>) {
        match budget {
            Some(budget) => self.budgets.insert(key, Budget::read(budget)),
            None => self.budgets.remove(&key),
        };
    }

    /// Takes in a pod as it is now.
    pub fn set_pod(&mut self, pod: &core::Pod) {
        let spec = pod.spec.as_ref();
        let is_ours = spec.is_some_and(|spec| {
            spec.scheduling_gates.as_ref().is_none_or(Vec::is_empty) && self.profile(spec).is_some()
        });
        self.set_known_pod(&KnownPod::read(pod), is_ours);
    }

    /// Takes in a pod as it is now; `is_ours` if this scheduler may place it.
    pub(crate) fn set_known_pod(&mut self, pod: &KnownPod<'_>, is_ours: bool) {
        if let Some(id) = self.cluster.find_pod(&pod.key)
            && self.cluster.pod(id).uid != pod.uid
        {
            self.remove_pod(&pod.key);
        }
        let is_bound = pod.node.is_some();
        let is_waiting = is_ours && !is_bound && !pod.is_terminating;
        if (!is_waiting || pod.is_finished)
            && let Some(id) = self.cluster.find_pod(&pod.key)
        {
            self.queue.remove(id);
            if self.assumed.remove(&id).is_some() && !is_bound {
                self.cluster.unplace(id);
            }
        }
        let Some(id) = self.cluster.set_known_pod(pod) else { return };
        if is_waiting && !self.assumed.contains_key(&id) {
            let class = self.cluster.pod(id).class;
            self.queue.push(id, class, self.cluster.classes.key(class).priority);
        }
    }

    /// Returns the profile that a pod asks for.
    pub(crate) fn profile(&self, spec: &core::PodSpec) -> Option<&SchedulerProfile> {
        self.config.profile(spec.scheduler_name.as_deref().unwrap_or(DEFAULT_SCHEDULER))
    }

    /// Takes in that a pod is gone.
    pub fn remove_pod(&mut self, key: &Key) {
        if let Some(id) = self.cluster.find_pod(key) {
            self.queue.remove(id);
            self.assumed.remove(&id);
            self.cluster.remove_pod(key);
        }
    }

    /// Takes in that a pod could not be bound; it is tried again in a moment.
    pub fn unbind(&mut self, key: &Key, now: Timestamp) {
        if let Some(id) = self.cluster.find_pod(key)
            && let Some(assumed) = self.assumed.get_mut(&id)
        {
            assumed.until = now.saturating_add(BACK_OFF).unwrap_or(Timestamp::MAX);
        }
    }

    /// Decides about waiting pods, at most about `limit` of them.
    pub fn decide(&mut self, now: Timestamp, limit: usize) -> Vec<Decision> {
        self.give_up_assumed(now);
        self.bind_with_volumes();
        self.wake_lines();
        for _ in 0..limit {
            let Some(pod) = self.queue.next() else { break };
            self.attempt(pod, now);
        }
        for (pod, message) in self.queue.take_untold(limit) {
            self.refuse(pod, message.as_ref().to_owned(), None);
        }
        std::mem::take(&mut self.decisions)
    }

    /// Returns whether there is more to decide now.
    pub fn has_work(&self) -> bool {
        self.queue.has_work()
    }

    /// Returns when an assumed pod is given up next.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.assumed.values().map(|assumed| assumed.until).min()
    }

    fn attempt(&mut self, id: u32, now: Timestamp) {
        let pod = self.cluster.pod(id);
        let attempt = Attempt::new(&self.cluster, pod.class, &pod.key, &pod.uid, &pod.claims);
        let attempt = match attempt {
            Ok(attempt) => attempt,
            Err(reason) => {
                let mut diagnosis = Diagnosis::default();
                diagnosis.add(&reason, self.cluster.node_count());
                let message = diagnosis.message(self.cluster.node_count(), None);
                self.queue.park(id);
                self.refuse(id, message, None);
                return;
            }
        };
        let nominated = pod.nominated.filter(|node| attempt.check(&self.cluster, *node).is_ok());
        let pin = pod.pin.clone();
        let found = match (nominated, pin) {
            (Some(node), _) => Ok(node),
            (None, Some(pin)) => Search::find_pinned(&self.cluster, &attempt, &pin),
            (None, None) => self.search.find(&mut self.cluster, &attempt),
        };
        match found {
            Ok(node) => self.assume(id, node, &attempt, now),
            Err(failure) => self.fail(id, &attempt, &failure),
        }
    }

    fn assume(&mut self, id: u32, node: u32, attempt: &Attempt, now: Timestamp) {
        let choice = attempt.choose_volumes(&self.cluster, node);
        self.queue.remove(id);
        self.cluster.place(id, node);
        let pod = self.cluster.pod(id);
        let (key, uid) = (pod.key.clone(), pod.uid.clone());
        let name = self.cluster.nodes.get(node).name.clone();
        let waits_for_volumes = choice != VolumeChoice::default();
        let patience = if waits_for_volumes { VOLUMES_MAX } else { ASSUMED_MAX };
        let until = now.saturating_add(patience).unwrap_or(Timestamp::MAX);
        self.assumed.insert(id, Assumed { until, waits_for_volumes });
        self.decisions.push(if waits_for_volumes {
            Decision::Prepare { pod: key, node: name, choice }
        } else {
            Decision::Bind { pod: key, uid, node: name }
        });
    }

    fn fail(&mut self, id: u32, attempt: &Attempt, failure: &Failure) {
        let nodes = self.cluster.node_count();
        match self.preempt(id, attempt, failure) {
            Ok(preemption) => {
                let message = failure.diagnosis.message(nodes, None);
                self.evict(id, &preemption);
                self.queue.park(id);
                let node = self.cluster.nodes.get(preemption.node).name.clone();
                self.refuse(id, message, Some(node));
            }
            Err(help) => {
                let message = failure.diagnosis.message(nodes, Some(&help));
                let pod = self.cluster.pod(id);
                if pod.pin.is_some() || !pod.claims.is_empty() || pod.nominated.is_some() {
                    let nominated = pod.nominated.map(|node| self.cluster.nodes.get(node).name.clone());
                    self.queue.park(id);
                    self.refuse(id, message, nominated);
                } else {
                    let class = pod.class;
                    self.queue.block(class, &message, self.cluster.revision);
                }
            }
        }
    }

    fn preempt(&mut self, id: u32, attempt: &Attempt, failure: &Failure) -> Result<Preemption, String> {
        let pod = self.cluster.pod(id);
        let spec = self.cluster.classes.key(pod.class);
        if !spec.preempts {
            return Err("not eligible due to preemptionPolicy=Never.".to_owned());
        }
        if let Some(node) = pod.nominated {
            let mut pods = self.cluster.nodes.get(node).pods.iter().map(|id| self.cluster.pod(*id));
            let is_leaving = |pod: &super::cluster::PodState| {
                pod.is_terminating && self.cluster.classes.key(pod.class).priority < spec.priority
            };
            if pods.any(is_leaving) {
                return Err("not eligible due to a terminating pod on the nominated node.".to_owned());
            }
        }
        let preemption = preempt(&mut self.cluster, attempt, &failure.preemptible, &self.budgets);
        if preemption.is_err() {
            self.cluster.nominate(id, None);
        }
        preemption
    }

    fn evict(&mut self, id: u32, preemption: &Preemption) {
        let node = self.cluster.nodes.get(preemption.node).name.clone();
        let preemptor = self.cluster.pod(id).key.clone();
        for victim in &preemption.victims {
            let state = self.cluster.pod(*victim);
            if !state.is_terminating {
                let (victim, uid) = (state.key.clone(), state.uid.clone());
                let (preemptor, node) = (preemptor.clone(), node.clone());
                self.decisions.push(Decision::Evict { victim, uid, preemptor, node });
            }
        }
        let priority = self.cluster.classes.key(self.cluster.pod(id).class).priority;
        let others = self.cluster.nodes.get(preemption.node).nominated.clone();
        for other in others {
            let class = self.cluster.pod(other).class;
            if self.cluster.classes.key(class).priority < priority {
                self.cluster.nominate(other, None);
                self.queue.unpark(other);
            }
        }
        self.cluster.nominate(id, Some(preemption.node));
    }

    fn refuse(&mut self, id: u32, message: String, nominated: Option<String>) {
        let pod = self.cluster.pod(id);
        let (pod, uid) = (pod.key.clone(), pod.uid.clone());
        self.decisions.push(Decision::Refuse { pod, uid, message, nominated });
    }

    /// Tries pods again that were to be bound and were not.
    fn give_up_assumed(&mut self, now: Timestamp) {
        let late: Vec<u32> =
            self.assumed.iter().filter(|(_, assumed)| assumed.until <= now).map(|(id, _)| *id).collect();
        for id in late {
            self.forget(id);
        }
    }

    fn forget(&mut self, id: u32) {
        self.assumed.remove(&id);
        self.cluster.unplace(id);
        let class = self.cluster.pod(id).class;
        self.queue.push(id, class, self.cluster.classes.key(class).priority);
    }

    /// Binds pods whose claims have their volumes by now.
    fn bind_with_volumes(&mut self) {
        if !self.have_volumes_changed {
            return;
        }
        let waiting: Vec<u32> =
            self.assumed.iter().filter(|(_, assumed)| assumed.waits_for_volumes).map(|(id, _)| *id).collect();
        for id in waiting {
            let pod = self.cluster.pod(id);
            let namespace = pod.key.namespace().unwrap_or_default();
            let claims = pod.claims.iter().map(|claim| Key::namespaced(namespace, &claim.name));
            let are_bound =
                claims.map(|key| self.cluster.volumes.claim(&key).is_some_and(|claim| claim.is_bound));
            if are_bound.into_iter().all(|is_bound| is_bound) {
                let (key, uid) = (pod.key.clone(), pod.uid.clone());
                let node = pod.node.map(|node| self.cluster.nodes.get(node).name.clone());
                if let (Some(node), Some(assumed)) = (node, self.assumed.get_mut(&id)) {
                    assumed.waits_for_volumes = false;
                    self.decisions.push(Decision::Bind { pod: key, uid, node });
                }
            }
        }
    }

    /// Lets those try again whom a change may help.
    fn wake_lines(&mut self) {
        let improved = self.cluster.take_improved();
        let improved: Vec<u32> =
            improved.into_iter().filter(|node| self.cluster.nodes.get(*node).is_there).collect();
        let volumes_changed = std::mem::take(&mut self.have_volumes_changed);
        let helped: Vec<u32> = self
            .queue
            .blocked()
            .filter(|(class, pod, block)| {
                self.takes_one_of(*pod, &improved) || self.have_counts_changed(*class, block.revision)
            })
            .map(|(class, ..)| class)
            .collect();
        for class in helped {
            self.queue.unblock(class);
        }
        let parked: Vec<u32> = self.queue.parked().collect();
        for id in parked {
            let pod = self.cluster.pod(id);
            let by_volumes = volumes_changed && !pod.claims.is_empty();
            if by_volumes
                || pod.nominated.is_some_and(|node| improved.contains(&node))
                || self.takes_one_of(id, &improved)
            {
                self.queue.unpark(id);
            }
        }
    }

    fn takes_one_of(&self, id: u32, nodes: &[u32]) -> bool {
        let pod = self.cluster.pod(id);
        let mut named = nodes
            .iter()
            .filter(|node| pod.pin.as_ref().is_none_or(|pin| *pin == self.cluster.nodes.get(**node).name));
        let Some(first) = named.next() else { return false };
        // Claims are left out: whether they can be had is found out by trying.
        let attempt = Attempt::new(&self.cluster, pod.class, &pod.key, &pod.uid, &[]);
        attempt.is_ok_and(|attempt| {
            std::iter::once(first).chain(named).any(|node| attempt.check_alone(&self.cluster, *node).is_ok())
        })
    }

    fn have_counts_changed(&self, class: u32, since: u64) -> bool {
        let state = self.cluster.classes.get(class);
        let own = state.spread.iter().map(|limit| limit.counter);
        let near = state.near.iter().flat_map(|near| near.counters.iter().map(|(_, counter)| *counter));
        let apart = state.apart.iter().map(|(_, counter)| *counter);
        let matched = state.matched.iter().flat_map(|matcher| self.cluster.matchers.get(*matcher)).copied();
        let avoiding = matched.filter(|id| self.cluster.counters.key(*id).kind == CounterKind::Avoiding);
        own.chain(near).chain(apart).chain(avoiding).any(|id| self.cluster.counters.get(id).changed > since)
    }
}
