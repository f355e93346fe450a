//! Nodes on which ACK's problem detector has set the condition that a spot machine is about to be taken back.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::Node;
use karpenter_runtime::{Caches, Change, Controller, Key, Outcome, View, Wakes, Watches};

use crate::ownership;

const CONDITION: &str = "InstanceExpired";

/// The identities of such nodes. Clones share one state.
#[derive(Clone, Debug, Default)]
pub struct ExpiredNodes(Arc<Mutex<BTreeMap<String, String>>>);

impl ExpiredNodes {
    /// All of them.
    pub fn all(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Takes in what a node says, or that it is gone.
    pub fn hear(&self, name: &str, node: Option<&Node>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match node.and_then(expired) {
            Some(id) => drop(known.insert(name.to_owned(), id)),
            None => drop(known.remove(name)),
        }
    }
}

/// The identity of a node of ECS with the condition.
fn expired(node: &Node) -> Option<String> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    let set = conditions.iter().any(|condition| condition.type_ == CONDITION && condition.status == "True");
    let id = node.spec.as_ref()?.provider_id.as_ref().filter(|id| ownership::instance_id(id).is_some())?;
    set.then(|| id.clone())
}

/// Keeps [`ExpiredNodes`] up to date. Nodes that no claim owns are of no concern to anybody: the warning finds no claim.
pub struct NodeConditions {
    nodes: ExpiredNodes,
}

impl NodeConditions {
    /// Keeps `nodes` up to date.
    pub fn new(nodes: ExpiredNodes) -> Self {
        Self { nodes }
    }
}

impl Controller for NodeConditions {
    type Request = Infallible;
    type Reply = ();

    fn name(&self) -> &'static str {
        "interruption.nodeconditions"
    }

    fn watches(&self, watches: &mut Watches) {
        watches.reads::<Node>();
    }

    fn wake(&mut self, change: &Change, caches: &Caches, _: &mut Wakes) {
        if change.of::<Node>().is_some() {
            let key = change.key();
            self.nodes.hear(&key.to_string(), caches.of::<Node>().get(key).map(|node| &**node));
        }
    }

    fn reconcile(&mut self, _: &Key, _: &View<'_>) -> Outcome<Infallible> {
        Outcome::done()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{NodeCondition, NodeSpec, NodeStatus};

    use super::*;

    fn node(provider_id: &str, status: &str) -> Node {
        Node {
            spec: Some(NodeSpec { provider_id: Some(provider_id.into()), ..Default::default() }),
            status: Some(NodeStatus {
                conditions: Some(vec![NodeCondition {
                    type_: CONDITION.into(),
                    status: status.into(),
                    ..Default::default()
                }]),
                ..Default::default()
            }),
            ..Default::default()
        }
    }

    #[test]
    fn only_nodes_of_ecs_with_the_condition_count_and_only_while_they_have_it() {
        let nodes = ExpiredNodes::default();
        nodes.hear("a", Some(&node("cn-hangzhou.i-1", "True")));
        nodes.hear("b", Some(&node("cn-hangzhou.i-2", "False")));
        nodes.hear("c", Some(&node("kwok://c", "True")));
        nodes.hear("d", Some(&Node::default()));
        assert_eq!(nodes.all(), ["cn-hangzhou.i-1"]);
        nodes.hear("a", None);
        assert!(nodes.all().is_empty());
    }
}
