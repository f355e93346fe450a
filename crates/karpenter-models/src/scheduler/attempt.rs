//! One attempt to place a pod: what is the same for every node is worked out once.

use super::class::ClaimUse;
use super::cluster::{Cluster, CounterKind};
use super::reason::{Reason, Rejection};
use super::volume_filter::{VolumeChoice, VolumeNeeds};
use karpenter_runtime::Key;

/// A topology key and a counter over its domains.
type KeyedCounter = (usize, u32);

/// A pod about to be placed.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) class: u32,
    pod: Option<u32>,
    priority: i32,
    volumes: Option<VolumeNeeds>,
    /// Domains may hold at most this many pods already.
    spread: Vec<(KeyedCounter, i64)>,
    near: Vec<KeyedCounter>,
    /// Whether nobody is there to be near to, and the pod may be the first.
    may_be_first: bool,
    /// Counters of pods that want to be away from this one.
    avoided_by: Vec<KeyedCounter>,
}

impl Attempt {
    /// Prepares an attempt; an error is about the pod, whatever the node.
    pub(crate) fn new(
        cluster: &Cluster,
        class_id: u32,
        key: &Key,
        uid: &str,
        claims: &[ClaimUse],
    ) -> Result<Self, Reason> {
        let class = cluster.classes.get(class_id);
        let spec = cluster.classes.key(class_id);
        let pod = cluster.find_pod(key);
        let volumes = if claims.is_empty() {
            None
        } else {
            Some(VolumeNeeds::read(&cluster.volumes, key, uid, claims, pod)?)
        };
        let spread = class.spread.iter().map(|limit| {
            let counts = &cluster.counters.get(limit.counter).counts;
            let itself = i64::from(limit.counts_itself);
            let most = limit.max_skew + i64::from(counts.smallest(limit.domains_min)) - itself;
            ((limit.key, limit.counter), most)
        });
        let near = class.near.as_ref();
        let nobody = |near: &super::cluster::Near| {
            near.counters.iter().all(|(_, counter)| cluster.counters.get(*counter).counts.total() == 0)
        };
        Ok(Self {
            class: class_id,
            pod,
            priority: spec.priority,
            volumes,
            spread: spread.collect(),
            near: near.map(|near| near.counters.clone()).unwrap_or_default(),
            may_be_first: near.is_some_and(|near| near.matches_itself && nobody(near)),
            avoided_by: avoided_by(cluster, &class.matched),
        })
    }

    /// Returns the attempt with what follows from counts worked out anew.
    pub(crate) fn refreshed(&self, cluster: &Cluster) -> Result<Self, Reason> {
        let Some(pod) = self.pod.map(|id| cluster.pod(id)) else { return Ok(self.clone()) };
        Self::new(cluster, self.class, &pod.key, &pod.uid, &pod.claims)
    }

    /// Returns why a node refuses the pod: the reasons of the first filter that does.
    pub(crate) fn check(&self, cluster: &Cluster, node: u32) -> Result<(), Rejection> {
        self.check_alone(cluster, node)?;
        self.check_together(cluster, node)
    }

    /// Checks what depends on the class and the node alone, so that a refusal holds until the node improves.
    pub(crate) fn check_alone(&self, cluster: &Cluster, node: u32) -> Result<(), Rejection> {
        let class = cluster.classes.get(self.class);
        if let Some(reason) = &cluster.rules.get(class.rules)[node as usize] {
            return Err(Rejection::because(reason.clone()));
        }
        let state = cluster.nodes.get(node);
        let spec = cluster.classes.key(self.class);
        if !spec.ports.is_empty() && !state.ports.are_free(&spec.ports) {
            return Err(Rejection::because(Reason::HostPort));
        }
        self.check_room(cluster, node)
    }

    fn check_room(&self, cluster: &Cluster, node: u32) -> Result<(), Rejection> {
        let class = cluster.classes.get(self.class);
        let state = cluster.nodes.get(node);
        let rivals = self.rivals(cluster, node);
        let held = |resource: usize| -> i64 {
            rivals.iter().map(|rival| amount(&cluster.classes.get(*rival).requests, resource)).sum()
        };
        let mut reasons = Vec::new();
        let mut is_final = false;
        if state.pods.len() as i64 + rivals.len() as i64 + 1 > state.facts.pods_max {
            reasons.push(Reason::TooManyPods);
        }
        for (resource, amount) in &class.requests {
            if *amount > state.free(*resource) - held(*resource) {
                reasons.push(Reason::Insufficient(cluster.resources.name(*resource).to_owned()));
                is_final |= *amount > state.allocatable.get(*resource).copied().unwrap_or(0);
            }
        }
        if reasons.is_empty() { Ok(()) } else { Err(Rejection { reasons, is_final }) }
    }

    /// Classes of the pods that wait for room on a node and are not less important than this one.
    fn rivals(&self, cluster: &Cluster, node: u32) -> Vec<u32> {
        let nominated = cluster.nodes.get(node).nominated.iter();
        nominated
            .filter(|id| Some(**id) != self.pod)
            .map(|id| cluster.pod(*id).class)
            .filter(|class| cluster.classes.key(*class).priority >= self.priority)
            .collect()
    }

    /// Checks what depends on other pods and on volumes.
    pub(crate) fn check_together(&self, cluster: &Cluster, node: u32) -> Result<(), Rejection> {
        let state = cluster.nodes.get(node);
        if let Some(volumes) = &self.volumes {
            volumes.check(&cluster.volumes, state, &claims_on(cluster, node))?;
        }
        for ((key, counter), most) in &self.spread {
            let Some(domain) = state.domain(*key) else {
                return Err(Rejection::because(Reason::SpreadLabel));
            };
            if i64::from(cluster.counters.get(*counter).counts.pods(domain)) > *most {
                return Err(Rejection::because(Reason::Spread));
            }
        }
        let is_there = |(key, counter): &KeyedCounter| {
            state.domain(*key).is_some_and(|domain| cluster.counters.get(*counter).counts.pods(domain) > 0)
        };
        if !self.near.is_empty() {
            let has_keys = self.near.iter().all(|(key, _)| state.domain(*key).is_some());
            if !has_keys || (!self.may_be_first && !self.near.iter().all(is_there)) {
                return Err(Rejection::because(Reason::PodAffinity));
            }
        }
        if cluster.classes.get(self.class).apart.iter().any(is_there) {
            return Err(Rejection::because(Reason::PodAntiAffinity));
        }
        if self.avoided_by.iter().any(is_there) {
            return Err(Rejection::because(Reason::ExistingAntiAffinity));
        }
        Ok(())
    }

    /// Chooses volumes for the pod's claims on its node.
    pub(crate) fn choose_volumes(&self, cluster: &Cluster, node: u32) -> VolumeChoice {
        let chosen =
            self.volumes.as_ref().map(|volumes| volumes.choose(&cluster.volumes, cluster.nodes.get(node)));
        chosen.and_then(Result::ok).unwrap_or_default()
    }
}

fn amount(requests: &[(usize, i64)], resource: usize) -> i64 {
    requests.iter().find(|(held, _)| *held == resource).map_or(0, |(_, amount)| *amount)
}

fn avoided_by(cluster: &Cluster, matched: &[u32]) -> Vec<KeyedCounter> {
    let counters = matched.iter().flat_map(|matcher| cluster.matchers.get(*matcher));
    counters
        .filter_map(|id| {
            let spec = cluster.counters.key(*id);
            (spec.kind == CounterKind::Avoiding).then_some((spec.key, *id))
        })
        .collect()
}

/// Returns the claims of all pods on a node.
fn claims_on(cluster: &Cluster, node: u32) -> Vec<Key> {
    let pods = cluster.nodes.get(node).pods.iter().map(|id| cluster.pod(*id));
    pods.filter(|pod| !pod.claims.is_empty())
        .flat_map(|pod| {
            let namespace = pod.key.namespace().unwrap_or_default();
            pod.claims.iter().map(move |claim| Key::namespaced(namespace, &claim.name))
        })
        .collect()
}
