//! The cluster as the scheduler keeps it, changed one object at a time.
//!
//! Pods are grouped into classes ([`ClassSpec`]), and what is asked again and again is counted once and kept up to date: pods
//! per domain for spread and affinity, verdicts of tolerations and node selectors on nodes, room on nodes. A change touches
//! only what depends on it.
//!
//! Start at [`Cluster::fits`].

mod classes;
mod counters;
mod nodes;
mod pods;

use std::sync::Arc;

use fixedbitset::FixedBitSet;
use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::storage::v1 as storage;
use rustc_hash::FxHashMap;

use super::attempt::Attempt;
use super::class::{ClaimUse, ClassSpec, Demand, with_labels};
use super::nodes::{NodeTable, ResourceNames, Topologies};
use super::pod_terms::{Matcher, Namespaces};
use super::reason::{Reason, Rejection};
use super::rules::PlacementRules;
use super::shared::Shared;
use super::volumes::Volumes;
use crate::selector::Labels;
use karpenter_runtime::Key;

pub(crate) use classes::{ClassState, Near};
pub(crate) use counters::{Counter, CounterKind, CounterSpec, EligibilitySpec};
pub(crate) use pods::KnownPod;

/// A pod, waiting or placed.
#[derive(Clone, Debug)]
pub(crate) struct PodState {
    pub(crate) key: Key,
    pub(crate) uid: String,
    pub(crate) class: u32,
    /// Where it is bound, or is about to be.
    pub(crate) node: Option<u32>,
    pub(crate) is_terminating: bool,
    pub(crate) claims: Vec<ClaimUse>,
    own_labels: Labels,
    pub(crate) pin: Option<String>,
    /// When it started, for choosing victims.
    pub(crate) started: Option<Timestamp>,
    /// The node it waits for others to leave.
    pub(crate) nominated: Option<u32>,
}

/// Nodes, pods, volumes and namespaces, compiled for the question "does this pod fit there".
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    pub(crate) nodes: NodeTable,
    pub(crate) pods: Vec<Option<PodState>>,
    free_pods: Vec<u32>,
    pod_index: FxHashMap<Key, u32>,
    pub(crate) classes: Shared<ClassSpec, ClassState>,
    /// Rules and their verdict on each node.
    pub(crate) rules: Shared<PlacementRules, Vec<Option<Reason>>>,
    eligibilities: Shared<EligibilitySpec, FixedBitSet>,
    /// Sets of pods and the counters over them.
    pub(crate) matchers: Shared<Matcher, Vec<u32>>,
    pub(crate) counters: Shared<CounterSpec, Counter>,
    pub(crate) topologies: Topologies,
    pub(crate) resources: ResourceNames,
    namespaces: Namespaces,
    pub(crate) volumes: Volumes,
    keeps_numbers: bool,
    /// Counts changes, so that one can ask what changed since.
    pub(crate) revision: u64,
    /// Nodes that may take pods they refused before, since the list was last taken.
    improved: Vec<u32>,
}

impl Cluster {
    /// Returns an empty cluster.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns whether a pod fits on a node, or why not: the reasons of the first filter that refuses.
    ///
    /// The pod need not be known to the cluster; if it is, it does not stand in its own way.
    ///
    /// # Errors
    ///
    /// Why the node refuses the pod.
    pub fn fits(&mut self, pod: &core::Pod, node: &str) -> Result<(), Rejection> {
        let Some(node) = self.nodes.find(node).filter(|node| self.nodes.get(*node).is_there) else {
            return Err(Rejection::because(Reason::Pod(format!("node \"{node}\" not found"))));
        };
        let demand = Demand::read(pod);
        let key = key_of(&pod.metadata);
        let known = self.pod_index.get(&key).copied();
        let placed = known.and_then(|id| self.pod(id).node.map(|node| (id, node)));
        if let Some((id, _)) = placed {
            self.unplace(id);
        }
        let class = self.enter_class(self.class_of(&demand));
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let pin = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        let verdict = Attempt::new(self, class, &key, uid, &demand.claims)
            .map_err(Rejection::because)
            .and_then(|attempt| {
                let name = self.nodes.get(node).name.as_str();
                if pin.is_some_and(|pin| pin != name) {
                    return Err(Rejection::because(Reason::NodeName));
                }
                if demand.pin.as_ref().is_some_and(|pin| pin != name) {
                    return Err(Rejection::because(Reason::NotNamed));
                }
                attempt.check(self, node)
            });
        self.leave_class(class);
        if let Some((id, node)) = placed {
            self.place(id, node);
        }
        verdict
    }

    /// Sets the labels of a namespace, or forgets it.
    pub fn set_namespace(&mut self, name: &str, labels: Option<&Labels>) {
        let known = self.namespaces.get(name);
        if known == labels {
            return;
        }
        match labels {
            Some(labels) => self.namespaces.insert(name.to_owned(), labels.clone()),
            None => self.namespaces.remove(name),
        };
        self.rematch_namespaces();
    }

    /// Takes in a claim, or that it is gone.
    pub fn set_claim(&mut self, key: Key, claim: Option<&core::PersistentVolumeClaim>) -> bool {
        self.volumes.set_claim(key, claim)
    }

    /// Takes in a volume, or that it is gone.
    pub fn set_volume(&mut self, name: &str, volume: Option<&core::PersistentVolume>) -> bool {
        self.volumes.set_volume(name, volume)
    }

    /// Takes in a storage class, or that it is gone.
    pub fn set_storage_class(&mut self, name: &str, class: Option<&storage::StorageClass>) -> bool {
        self.volumes.set_class(name, class)
    }

    /// Takes in what a node can attach, or that nothing is known about it.
    pub fn set_csi_node(&mut self, name: &str, node: Option<&storage::CSINode>) -> bool {
        self.volumes.set_csi_node(name, node)
    }

    /// Takes in that a volume is attached to a node, or no longer.
    pub fn set_attachment(&mut self, name: &str, attachment: Option<&storage::VolumeAttachment>) -> bool {
        self.volumes.set_attachment(name, attachment)
    }

    /// Returns how many nodes there are.
    pub fn node_count(&self) -> usize {
        self.nodes.present()
    }

    /// Returns the nodes that may take pods they refused before, since the last call.
    pub(crate) fn take_improved(&mut self) -> Vec<u32> {
        let mut improved = std::mem::take(&mut self.improved);
        improved.sort_unstable();
        improved.dedup();
        improved
    }

    pub(crate) fn pod(&self, id: u32) -> &PodState {
        self.pods[id as usize].as_ref().expect("a pod's number is used only while the pod is known")
    }

    pub(crate) fn pod_mut(&mut self, id: u32) -> &mut PodState {
        self.pods[id as usize].as_mut().expect("a pod's number is used only while the pod is known")
    }

    pub(crate) fn find_pod(&self, key: &Key) -> Option<u32> {
        self.pod_index.get(key).copied()
    }

    fn class_of(&self, demand: &Demand) -> Arc<ClassSpec> {
        if self.keeps_numbers {
            with_labels(&demand.spec, &demand.own_labels)
        } else {
            Arc::clone(&demand.spec)
        }
    }

    /// Returns all labels of a pod.
    pub(crate) fn labels_of(&self, id: u32) -> Labels {
        let pod = self.pod(id);
        let mut labels = self.classes.key(pod.class).labels.clone();
        labels.extend(pod.own_labels.clone());
        labels
    }

    /// Notes that a node may take pods it refused before.
    fn improve(&mut self, node: u32) {
        self.improved.push(node);
        for (_, _, class) in self.classes.iter_mut() {
            if class.refused_by.contains(node as usize) {
                class.refused_by.set(node as usize, false);
            }
        }
    }
}

pub(crate) fn key_of(metadata: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta) -> Key {
    Key::namespaced(
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default(),
    )
}
