//! The mutable cluster: takes one watch event at a time and gives out snapshots.
//!
//! An event touches the object it is about and the one node a pod sits on, so its cost does not grow with the cluster: it depends
//! on how many pods that node carries, and on nothing else. Snapshots share everything that has not changed since; the first
//! event on a node after a snapshot copies that node. What a snapshot says follows from what exists, not from the order in which
//! it was heard of. Start at [`Cluster::apply`].

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::node::Node;
use super::pod::Pod;
use super::snapshot::ClusterSnapshot;

/// Something that happened in the cluster.
#[derive(Clone, Debug)]
pub enum Event {
    /// A pod is waiting for a place, or changed while waiting.
    PodPending(Arc<Pod>),
    /// A pod is bound to a node.
    PodBound(Arc<Pod>, Arc<str>),
    /// A pod is gone.
    PodGone {
        /// Its UID.
        uid: Arc<str>,
    },
    /// A node (or launched `NodeClaim`) appeared or changed; the pods on it are kept.
    Node(Box<Node>),
    /// A node is gone. Its pods are in no snapshot until they are deleted, bound elsewhere, or the node comes back.
    NodeGone {
        /// Its name.
        name: Arc<str>,
    },
}

/// The merged picture of nodes and pods, kept current by [`Cluster::apply`].
///
/// In a large cluster nearly every memory access of an event misses the caches, so there are few of them: a bound pod leads straight
/// to the slot of its node, and finding it among the node's pods does not look at the other pods.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    /// Waiting pods by UID.
    pending: FxHashMap<Arc<str>, Arc<Pod>>,
    /// UID of every bound pod to the slot of its node.
    bound: FxHashMap<Arc<str>, SlotId>,
    slots: Vec<Slot>,
    by_name: FxHashMap<Arc<str>, SlotId>,
    /// Slots that can be used again.
    free: Vec<SlotId>,
}

type SlotId = u32;

/// A node name, with the node, or with pods that are bound to it although there is no such node.
///
/// Pods and nodes are watched separately, so a pod may come before its node; and a Node object that is deleted and created again
/// brings no new events for the pods on it.
#[derive(Clone, Debug)]
struct Slot {
    name: Arc<str>,
    node: Option<Arc<Node>>,
    /// The pods while there is no node; ordered by UID, as a node's are.
    nodeless: Vec<Arc<Pod>>,
    /// The first bytes of each pod's UID, in the order of the pods.
    prefixes: Vec<u64>,
}

impl Cluster {
    /// Takes one event.
    pub fn apply(&mut self, event: Event) {
        match event {
            Event::PodPending(pod) => {
                self.remove_pod(&pod.id.uid);
                self.pending.insert(pod.id.uid.clone(), pod);
            }
            Event::PodBound(pod, node) => {
                self.remove_pod(&pod.id.uid);
                let slot = self.slot(node);
                self.bound.insert(pod.id.uid.clone(), slot);
                self.slots[slot as usize].insert(pod);
            }
            Event::PodGone { uid } => self.remove_pod(&uid),
            Event::Node(node) => {
                let slot = self.slot(node.name.clone());
                self.slots[slot as usize].put_node(*node);
            }
            Event::NodeGone { name } => self.remove_node(&name),
        }
    }

    /// The picture as it is now: nodes by name, pods by UID. The other parts of `base` are kept.
    pub fn snapshot(&self, base: &ClusterSnapshot) -> ClusterSnapshot {
        let mut nodes: Vec<Arc<Node>> = self.slots.iter().filter_map(|slot| slot.node.clone()).collect();
        nodes.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        let mut pending: Vec<Arc<Pod>> = self.pending.values().cloned().collect();
        pending.sort_unstable_by(|a, b| a.id.uid.cmp(&b.id.uid));
        ClusterSnapshot { nodes, pending, ..base.clone() }
    }

    fn remove_pod(&mut self, uid: &str) {
        if self.pending.remove(uid).is_some() {
            return;
        }
        if let Some(slot) = self.bound.remove(uid) {
            self.slots[slot as usize].remove(uid);
            self.release_if_empty(slot);
        }
    }

    fn remove_node(&mut self, name: &str) {
        if let Some(slot) = self.by_name.get(name).copied() {
            self.slots[slot as usize].remove_node();
            self.release_if_empty(slot);
        }
    }

    /// The slot of a name, a new one if need be.
    fn slot(&mut self, name: Arc<str>) -> SlotId {
        if let Some(slot) = self.by_name.get(&name) {
            return *slot;
        }
        let empty = Slot { name: name.clone(), node: None, nodeless: Vec::new(), prefixes: Vec::new() };
        let slot = if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = empty;
            slot
        } else {
            self.slots.push(empty);
            SlotId::try_from(self.slots.len() - 1).expect("a cluster has fewer than four billion nodes")
        };
        self.by_name.insert(name, slot);
        slot
    }

    fn release_if_empty(&mut self, id: SlotId) {
        let slot = &self.slots[id as usize];
        if slot.node.is_none() && slot.nodeless.is_empty() {
            self.by_name.remove(&slot.name);
            self.free.push(id);
        }
    }
}

impl Slot {
    fn pods(&mut self) -> &mut Vec<Arc<Pod>> {
        match &mut self.node {
            Some(node) => &mut Arc::make_mut(node).pods,
            None => &mut self.nodeless,
        }
    }

    fn insert(&mut self, pod: Arc<Pod>) {
        let prefix = prefix(&pod.id.uid);
        let place = self.position(prefix, &pod.id.uid).unwrap_or_else(|place| place);
        self.prefixes.insert(place, prefix);
        self.pods().insert(place, pod);
    }

    fn remove(&mut self, uid: &str) {
        if let Ok(place) = self.position(prefix(uid), uid) {
            self.prefixes.remove(place);
            self.pods().remove(place);
        }
    }

    /// Where the pod is, or else where it belongs.
    fn position(&self, prefix: u64, uid: &str) -> Result<usize, usize> {
        let start = self.prefixes.partition_point(|other| *other < prefix);
        let alike = self.prefixes[start..].iter().take_while(|other| **other == prefix).count();
        let pods = self.node.as_ref().map_or(&self.nodeless, |node| &node.pods);
        let found = pods[start..start + alike].binary_search_by(|pod| (*pod.id.uid).cmp(uid));
        found.map(|place| start + place).map_err(|place| start + place)
    }

    fn put_node(&mut self, mut node: Node) {
        node.pods = self.take_pods();
        self.node = Some(Arc::new(node));
    }

    fn remove_node(&mut self) {
        self.nodeless = self.take_pods();
        self.node = None;
    }

    fn take_pods(&mut self) -> Vec<Arc<Pod>> {
        match &mut self.node {
            Some(node) => match Arc::get_mut(node) {
                Some(node) => std::mem::take(&mut node.pods),
                None => node.pods.clone(),
            },
            None => std::mem::take(&mut self.nodeless),
        }
    }
}

/// The first eight bytes of a UID as a number that orders like the text.
fn prefix(uid: &str) -> u64 {
    let mut bytes = [0; 8];
    let count = uid.len().min(bytes.len());
    bytes[..count].copy_from_slice(&uid.as_bytes()[..count]);
    u64::from_be_bytes(bytes)
}
