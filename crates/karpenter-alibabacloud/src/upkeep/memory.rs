//! How much memory machines turn out to have: less than their type says, and how much less is not known before one was seen.

use std::convert::Infallible;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use karpenter_api::NodeClaim;
use karpenter_api::labels::{INSTANCE_TYPE, REGISTERED};
use karpenter_quantity::Quantity;
use karpenter_runtime::{Caches, Change, Controller, Key, Outcome, View, Wakes, Watches};

use crate::market::Market;
use crate::node_class::ClassKey;

/// Tells the market what registered nodes have.
pub struct MemoryKeeper {
    market: Market,
}

impl MemoryKeeper {
    /// Tells `market`.
    pub fn new(market: Market) -> Self {
        Self { market }
    }
}

/// What a node teaches: the memory that its type has with its image. Nothing unless it is registered and of this cloud.
fn lesson(node: &Node, claim: &NodeClaim) -> Option<(Arc<str>, Arc<str>, Quantity)> {
    ClassKey::of(&claim.spec.node_class_ref)?;
    let labels = node.metadata.labels.as_ref().filter(|labels| labels.contains_key(REGISTERED))?;
    let image = claim.status.as_ref()?.image_id.as_deref()?;
    let memory = node.status.as_ref()?.capacity.as_ref()?.get("memory")?.0.parse().ok()?;
    Some((labels.get(INSTANCE_TYPE)?.as_str().into(), image.into(), memory))
}

impl Controller for MemoryKeeper {
    type Request = Infallible;
    type Reply = Infallible;

    fn name(&self) -> &'static str {
        "providers.instancetype.capacity"
    }

    fn watches(&self, watches: &mut Watches) {
        watches.reads::<Node>();
        watches.reads::<NodeClaim>();
    }

    fn wake(&mut self, change: &Change, _: &Caches, wakes: &mut Wakes) {
        let Some(delta) = change.of::<Node>() else { return };
        let registered =
            |node: &Node| node.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(REGISTERED));
        if delta.new.is_some_and(registered) && !delta.old.is_some_and(registered) {
            wakes.wake(change.key().clone());
        }
    }

    fn reconcile(&mut self, key: &Key, view: &View<'_>) -> Outcome<Infallible> {
        let Some(node) = view.caches.of::<Node>().get(key) else { return Outcome::done() };
        let Some(id) = node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()) else {
            return Outcome::done();
        };
        let of_node = |claim: &&Arc<NodeClaim>| {
            claim.status.as_ref().and_then(|status| status.provider_id.as_deref()) == Some(id)
        };
        let claim = view.caches.of::<NodeClaim>().iter().map(|(_, claim)| claim).find(of_node);
        if let Some((instance_type, image, memory)) = claim.and_then(|claim| lesson(node, claim)) {
            self.market.learn_memory(instance_type, image, memory);
        }
        Outcome::done()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn node(labels: &Value) -> Node {
        serde_json::from_value(json!({
            "metadata": {"name": "n", "labels": labels}, "status": {"capacity": {"memory": "7600Mi"}},
        }))
        .unwrap()
    }

    fn claim(group: &str) -> NodeClaim {
        serde_json::from_value(json!({
            "metadata": {"name": "c"},
            "spec": {"requirements": [], "nodeClassRef": {"group": group, "kind": "ECSNodeClass", "name": "default"}},
            "status": {"imageID": "image"},
        }))
        .unwrap()
    }

    #[test]
    fn only_registered_nodes_of_this_cloud_teach() {
        let ours = claim("karpenter.alibabacloud.com");
        let registered = json!({REGISTERED: "true", INSTANCE_TYPE: "ecs.g7.large"});
        let learned = lesson(&node(&registered), &ours).unwrap();
        assert_eq!(learned, ("ecs.g7.large".into(), "image".into(), "7600Mi".parse().unwrap()));
        assert_eq!(lesson(&node(&json!({INSTANCE_TYPE: "ecs.g7.large"})), &ours), None);
        assert_eq!(lesson(&node(&registered), &claim("karpenter.kwok.sh")), None);
    }
}
