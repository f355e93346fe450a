//! How much memory nodes turn out to have: less than EC2 says, and never known before one was seen.

use std::convert::Infallible;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use karpenter_api::NodeClaim;
use karpenter_api::labels::{INSTANCE_TYPE, REGISTERED};
use karpenter_runtime::{Caches, Change, Controller, Key, Outcome, View, Wakes, Watches};

use crate::catalogue::{Catalogue, images};
use crate::node_class::ResolvedClasses;

/// Tells the catalogue what registered nodes have.
pub(crate) struct MemoryKeeper {
    pub(crate) catalogue: Catalogue,
    pub(crate) classes: ResolvedClasses,
}

impl MemoryKeeper {
    /// What a node teaches; nothing unless it is registered and its image is one of its class's.
    fn learn(&self, node: &Node, claim: &NodeClaim, now: Timestamp) -> Option<()> {
        let labels = node.metadata.labels.as_ref()?;
        labels.get(REGISTERED).filter(|value| *value == "true")?;
        let class = self.classes.get(&claim.spec.node_class_ref.name)?;
        let image = claim.status.as_ref()?.image_id.as_deref()?;
        class.amis.iter().find(|ami| ami.id == image)?;
        let memory = node.status.as_ref()?.capacity.as_ref()?.get("memory")?.0.parse().ok()?;
        self.catalogue.learn_memory(labels.get(INSTANCE_TYPE)?, &images(&class), memory, now);
        Some(())
    }
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

    fn wake(&mut self, change: &Change, caches: &Caches, wakes: &mut Wakes) {
        let Some(delta) = change.of::<Node>() else { return };
        let registered =
            |node: &Node| node.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(REGISTERED));
        let newly = delta.new.is_some_and(registered) && !delta.old.is_some_and(registered);
        if newly && !caches.of::<NodeClaim>().is_empty() {
            wakes.wake(change.key().clone());
        }
    }

    fn reconcile(&mut self, key: &Key, view: &View<'_>) -> Outcome<Infallible> {
        let Some(node) = view.caches.of::<Node>().get(key) else { return Outcome::done() };
        let id = node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref());
        let claims = view.caches.of::<NodeClaim>();
        let mut claims = claims.iter().map(|(_, claim)| claim);
        let of_node = |claim: &&Arc<NodeClaim>| {
            claim
                .status
                .as_ref()
                .is_some_and(|status| status.provider_id.is_some() && status.provider_id.as_deref() == id)
        };
        if let Some(claim) = claims.find(of_node) {
            let _ = self.learn(node, claim, view.now);
        }
        Outcome::done()
    }
}
