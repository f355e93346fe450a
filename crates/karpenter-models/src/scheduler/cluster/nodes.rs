//! Nodes come, change and go.

use k8s_openapi::api::core::v1 as core;

use super::super::nodes::{NodeFacts, Tally};
use super::Cluster;

impl Cluster {
    /// Takes in a node as it is now; `true` if anything changed that matters here.
    pub fn set_node(&mut self, node: &core::Node) -> bool {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let facts = NodeFacts::read(node);
        let id = self.nodes.enter(name);
        let state = self.nodes.get(id);
        if state.is_there && state.facts == facts {
            return false;
        }
        self.revision += 1;
        self.take_down(id);
        let resources = &mut self.resources;
        let mut allocatable = Vec::new();
        for (name, amount) in &facts.allocatable {
            let resource = resources.id(name);
            if allocatable.len() <= resource {
                allocatable.resize(resource + 1, 0);
            }
            allocatable[resource] = *amount;
        }
        let state = self.nodes.get_mut(id);
        state.facts = facts;
        state.allocatable = allocatable;
        self.put_up(id);
        self.improve(id);
        true
    }

    /// Takes in that a node is gone. Its pods stay until they are gone too.
    pub fn remove_node(&mut self, name: &str) {
        let Some(id) = self.nodes.find(name) else { return };
        self.revision += 1;
        self.take_down(id);
        self.nodes.drop_if_empty(id);
    }

    /// Counts a node and its pods out of everything.
    fn take_down(&mut self, id: u32) {
        if !self.nodes.get(id).is_there {
            return;
        }
        for tally in self.nodes.get(id).tallies.clone() {
            self.count_tally(id, tally, -1);
        }
        self.count_node(id, false);
        for key in 0..self.topologies.len() {
            if let Some(domain) = self.nodes.get(id).domain(key) {
                self.topologies.leave(key, domain);
            }
        }
        self.nodes.get_mut(id).domains.clear();
        self.nodes.set_there(id, false);
        self.judge_node(id);
    }

    /// Counts a node and its pods into everything.
    fn put_up(&mut self, id: u32) {
        let keys = 0..self.topologies.len();
        let state = self.nodes.get_mut(id);
        state.domains = keys.map(|key| self.topologies.enter(key, &state.facts.labels)).collect();
        self.nodes.set_there(id, true);
        self.nodes.order_changed();
        self.judge_node(id);
        self.count_node(id, true);
        for tally in self.nodes.get(id).tallies.clone() {
            self.count_tally(id, tally, 1);
        }
    }

    fn count_tally(&mut self, id: u32, tally: Tally, sign: i64) {
        self.count_pods(id, tally.class, sign * i64::from(tally.pods), sign * i64::from(tally.terminating));
    }

    /// Returns the number of a topology key; every node gets its domain.
    pub(super) fn enter_key(&mut self, name: &str) -> usize {
        let (key, is_new) = self.topologies.key(name);
        if is_new {
            let ids: Vec<u32> = self.nodes.iter().map(|(id, _)| id).collect();
            for id in ids {
                let state = self.nodes.get_mut(id);
                state.domains.resize(key, None);
                state.domains.push(self.topologies.enter(key, &state.facts.labels));
            }
        }
        key
    }
}
