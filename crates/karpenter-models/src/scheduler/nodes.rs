//! Nodes as the scheduler keeps them: what they offer, what is taken, which domains they are in.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1 as core;
use karpenter_quantity::PODS;
use rustc_hash::FxHashMap;

use super::class::in_units;
use super::counts::Domain;
use super::ports::TakenPorts;
use super::requests::read_list;
use super::shared::Shared;
use super::taints::{Taint, read_taints};
use crate::selector::Labels;

/// The zone pods and nodes are spread over first.
pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";

/// What of a node matters for scheduling. A change of anything else is no change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeFacts {
    pub(crate) labels: Labels,
    pub(crate) taints: Vec<Taint>,
    pub(crate) unschedulable: bool,
    /// In the scheduler's units.
    pub(crate) allocatable: Vec<(String, i64)>,
    /// How many pods may be there.
    pub(crate) pods_max: i64,
}

impl NodeFacts {
    pub(crate) fn read(node: &core::Node) -> Self {
        let list = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
        let mut allocatable = in_units(&read_list(list));
        let pods = allocatable.iter().position(|(name, _)| name == PODS);
        let pods_max = pods.map_or(0, |place| allocatable.remove(place).1);
        Self {
            labels: node.metadata.labels.clone().unwrap_or_default(),
            taints: read_taints(node),
            unschedulable: node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false),
            allocatable,
            pods_max,
        }
    }
}

/// How many pods of a class are on a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tally {
    pub(crate) class: u32,
    pub(crate) pods: u32,
    /// Of these, on their way out.
    pub(crate) terminating: u32,
}

/// A node, or the name of one that pods are bound to and that is not there.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeState {
    pub(crate) name: String,
    pub(crate) is_there: bool,
    pub(crate) facts: NodeFacts,
    /// By resource.
    pub(crate) allocatable: Vec<i64>,
    /// By resource.
    pub(crate) requested: Vec<i64>,
    /// Cpu and memory with pods that ask for nothing counted at a small default, for scores.
    pub(crate) weighed: [i64; 2],
    pub(crate) pods: BTreeSet<u32>,
    pub(crate) ports: TakenPorts,
    /// By topology key; `None` when the node lacks the label.
    pub(crate) domains: Vec<Option<Domain>>,
    /// In the order of classes.
    pub(crate) tallies: Vec<Tally>,
    /// Pods that wait for others to leave this node.
    pub(crate) nominated: BTreeSet<u32>,
}

impl NodeState {
    pub(crate) fn free(&self, resource: usize) -> i64 {
        let amount = |list: &[i64]| list.get(resource).copied().unwrap_or(0);
        amount(&self.allocatable) - amount(&self.requested)
    }

    pub(crate) fn domain(&self, key: usize) -> Option<Domain> {
        self.domains.get(key).copied().flatten()
    }

    /// Changes the count of a class on the node.
    pub(crate) fn tally(&mut self, class: u32, pods: i64, terminating: i64) {
        let add = |count: u32, change: i64| {
            u32::try_from(i64::from(count) + change).expect("no more pods leave a node than came")
        };
        let place = match self.tallies.binary_search_by_key(&class, |tally| tally.class) {
            Ok(place) => place,
            Err(place) => {
                self.tallies.insert(place, Tally { class, pods: 0, terminating: 0 });
                place
            }
        };
        let tally = &mut self.tallies[place];
        tally.pods = add(tally.pods, pods);
        tally.terminating = add(tally.terminating, terminating);
        if tally.pods == 0 {
            self.tallies.remove(place);
        }
    }
}

/// All nodes. A node keeps its number while it is there or pods are bound to its name.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeTable {
    slots: Vec<NodeState>,
    free: Vec<u32>,
    index: FxHashMap<String, u32>,
    /// Nodes in the order they are tried: zones take turns.
    order: Vec<u32>,
    is_order_stale: bool,
    present: usize,
}

impl NodeTable {
    pub(crate) fn find(&self, name: &str) -> Option<u32> {
        self.index.get(name).copied()
    }

    pub(crate) fn enter(&mut self, name: &str) -> u32 {
        if let Some(id) = self.find(name) {
            return id;
        }
        let state = NodeState { name: name.to_owned(), ..NodeState::default() };
        let id = if let Some(id) = self.free.pop() {
            self.slots[id as usize] = state;
            id
        } else {
            self.slots.push(state);
            u32::try_from(self.slots.len() - 1).expect("fewer than four billion nodes")
        };
        self.index.insert(name.to_owned(), id);
        id
    }

    /// Frees the number of a node that is gone and has no pods.
    pub(crate) fn drop_if_empty(&mut self, id: u32) {
        let state = &self.slots[id as usize];
        if !state.is_there && state.pods.is_empty() && self.index.remove(&state.name).is_some() {
            self.slots[id as usize] = NodeState::default();
            self.free.push(id);
        }
    }

    /// Marks a node as there or gone.
    pub(crate) fn set_there(&mut self, id: u32, is_there: bool) {
        let state = &mut self.slots[id as usize];
        if state.is_there != is_there {
            state.is_there = is_there;
            self.is_order_stale = true;
            if is_there {
                self.present += 1;
            } else {
                self.present -= 1;
            }
        }
    }

    pub(crate) fn order_changed(&mut self) {
        self.is_order_stale = true;
    }

    pub(crate) fn get(&self, id: u32) -> &NodeState {
        &self.slots[id as usize]
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> &mut NodeState {
        &mut self.slots[id as usize]
    }

    /// Returns how many numbers are in use or were.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns how many nodes are there.
    pub(crate) fn present(&self) -> usize {
        self.present
    }

    /// Returns the nodes that are there by number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &NodeState)> {
        (0_u32..).zip(&self.slots).filter(|(_, node)| node.is_there)
    }

    /// Returns the nodes that are there in the order they are tried: as in kube-scheduler, zones take turns.
    pub(crate) fn order(&mut self) -> &[u32] {
        if self.is_order_stale {
            self.is_order_stale = false;
            let mut zones: std::collections::BTreeMap<&str, Vec<u32>> = std::collections::BTreeMap::new();
            for (id, node) in (0_u32..).zip(&self.slots).filter(|(_, node)| node.is_there) {
                zones.entry(node.facts.labels.get(ZONE).map_or("", String::as_str)).or_default().push(id);
            }
            let longest = zones.values().map(Vec::len).max().unwrap_or(0);
            let turns = (0..longest).flat_map(|turn| zones.values().filter_map(move |zone| zone.get(turn)));
            let order = turns.copied().collect();
            self.order = order;
        }
        &self.order
    }
}

/// Names of resources as small numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct ResourceNames {
    names: Vec<String>,
}

impl ResourceNames {
    pub(crate) fn id(&mut self, name: &str) -> usize {
        self.names.iter().position(|known| known == name).unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        })
    }

    pub(crate) fn name(&self, id: usize) -> &str {
        &self.names[id]
    }
}

/// Topology keys and their domains as small numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Topologies {
    keys: Vec<(String, Shared<String, ()>)>,
}

impl Topologies {
    /// Returns the number of a key and whether it is new.
    pub(crate) fn key(&mut self, name: &str) -> (usize, bool) {
        if let Some(place) = self.keys.iter().position(|(known, _)| known == name) {
            return (place, false);
        }
        self.keys.push((name.to_owned(), Shared::default()));
        (self.keys.len() - 1, true)
    }

    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Enters a node into its domain of a key.
    pub(crate) fn enter(&mut self, key: usize, labels: &Labels) -> Option<Domain> {
        let (name, values) = &mut self.keys[key];
        let value = labels.get(name)?;
        Some(values.join(value).unwrap_or_else(|| values.insert(value.clone(), ())))
    }

    /// Takes a node out of its domain of a key.
    pub(crate) fn leave(&mut self, key: usize, domain: Domain) {
        self.keys[key].1.leave(domain);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(zones: &[(&str, &str)]) -> NodeTable {
        let mut table = NodeTable::default();
        for (name, zone) in zones {
            let id = table.enter(name);
            table.get_mut(id).facts.labels.insert(ZONE.to_owned(), (*zone).to_owned());
            table.set_there(id, true);
        }
        table
    }

    #[test]
    fn zones_take_turns() {
        let mut table = table(&[("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b")]);
        assert_eq!(table.order(), [0, 3, 1, 2]);
    }

    #[test]
    fn the_number_of_a_node_is_used_again_once_its_pods_are_gone() {
        let mut table = table(&[("a1", "a")]);
        table.get_mut(0).pods.insert(7);
        table.set_there(0, false);
        table.drop_if_empty(0);
        assert_eq!((table.find("a1"), table.present()), (Some(0), 0));
        table.get_mut(0).pods.clear();
        table.drop_if_empty(0);
        assert_eq!((table.find("a1"), table.enter("b1")), (None, 0));
    }
}
