//! The mutable cluster: takes one watch event at a time and gives out snapshots.
//!
//! An event touches the object it is about and the one node a pod sits on, so its cost does not grow with the cluster.
//! Snapshots share everything that has not changed since.

use std::collections::BTreeMap;
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
    /// A node (or launched NodeClaim) appeared or changed; the pods on it are kept.
    Node(Box<Node>),
    /// A node is gone, its pods with it.
    NodeGone {
        /// Its name.
        name: Arc<str>,
    },
}

/// Where a pod is.
#[derive(Clone, Debug)]
enum Place {
    Pending(Arc<Pod>),
    On(Arc<str>),
}

/// The merged picture of nodes and pods, kept current by [`Cluster::apply`].
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    nodes: BTreeMap<Arc<str>, Arc<Node>>,
    places: FxHashMap<Arc<str>, Place>,
    /// Pods bound to nodes that have not been seen yet.
    early: FxHashMap<Arc<str>, Vec<Arc<Pod>>>,
}

impl Cluster {
    /// Takes one event.
    pub fn apply(&mut self, event: Event) {
        match event {
            Event::PodPending(pod) => {
                self.remove_pod(&pod.id.uid);
                self.places.insert(pod.id.uid.clone(), Place::Pending(pod));
            }
            Event::PodBound(pod, node) => {
                self.remove_pod(&pod.id.uid);
                self.places.insert(pod.id.uid.clone(), Place::On(node.clone()));
                match self.nodes.get_mut(&node) {
                    Some(node) => Arc::make_mut(node).pods.push(pod),
                    None => self.early.entry(node).or_default().push(pod),
                }
            }
            Event::PodGone { uid } => self.remove_pod(&uid),
            Event::Node(node) => self.put_node(*node),
            Event::NodeGone { name } => self.remove_node(&name),
        }
    }

    /// The picture as it is now: nodes by name, pending pods by UID. The other parts of `base` are kept.
    pub fn snapshot(&self, base: &ClusterSnapshot) -> ClusterSnapshot {
        let mut pending: Vec<Arc<Pod>> = self
            .places
            .values()
            .filter_map(|place| match place {
                Place::Pending(pod) => Some(pod.clone()),
                Place::On(_) => None,
            })
            .collect();
        pending.sort_by(|a, b| a.id.uid.cmp(&b.id.uid));
        ClusterSnapshot { nodes: self.nodes.values().cloned().collect(), pending, ..base.clone() }
    }

    fn put_node(&mut self, mut node: Node) {
        node.pods = match self.nodes.get(&node.name) {
            Some(present) => present.pods.clone(),
            None => self.early.remove(&node.name).unwrap_or_default(),
        };
        self.nodes.insert(node.name.clone(), Arc::new(node));
    }

    fn remove_node(&mut self, name: &Arc<str>) {
        let Some(node) = self.nodes.remove(name) else { return };
        for pod in &node.pods {
            self.places.remove(&pod.id.uid);
        }
    }

    fn remove_pod(&mut self, uid: &Arc<str>) {
        let Some(Place::On(name)) = self.places.remove(uid) else { return };
        if let Some(node) = self.nodes.get_mut(&name) {
            Arc::make_mut(node).pods.retain(|pod| pod.id.uid != *uid);
        } else if let Some(pods) = self.early.get_mut(&name) {
            pods.retain(|pod| pod.id.uid != *uid);
        }
    }
}
