//! How far the roll-outs of drifted NodePools are. A new process begins them anew, with the first stage.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_api::NodePool;
use karpenter_api::hash::nodepool_hash;
use karpenter_core::cluster::{Node, NodePool as CoreNodePool};
use karpenter_core::disruption::{Rollout, RolloutPause, RolloutProgress};

/// Roll-outs by pool, each of the template with this hash.
#[derive(Debug, Default)]
pub(super) struct Rollouts(BTreeMap<Arc<str>, (String, RolloutProgress)>);

impl Rollouts {
    /// How many drifted nodes of each pool may be replaced now, or why none; only pools that have something to say.
    pub(super) fn allowed<'p>(
        &mut self,
        pools: impl Iterator<Item = &'p Arc<CoreNodePool>>,
        objects: &[Arc<NodePool>],
        nodes: &[Arc<Node>],
        now: Timestamp,
    ) -> BTreeMap<Arc<str>, Result<u32, RolloutPause>> {
        let mut allowed = BTreeMap::new();
        for pool in pools.filter(|pool| pool.disruption.rollout != Rollout::default()) {
            let object = objects.iter().find(|object| object.metadata.name.as_deref() == Some(&*pool.name));
            let Some(hash) = object.map(|object| nodepool_hash(object)) else { continue };
            let (known, progress) = self.0.entry(pool.name.clone()).or_default();
            if *known != hash {
                (*known, *progress) = (hash, RolloutProgress::default());
            }
            let own: Vec<&Node> = nodes
                .iter()
                .filter(|node| node.node_pool.as_ref() == Some(&pool.name))
                .map(|node| &**node)
                .collect();
            allowed.insert(pool.name.clone(), pool.disruption.rollout.allowed(progress, &own, now));
        }
        allowed
    }

    /// A drifted node of a pool begins to be replaced.
    pub(super) fn begin(&mut self, pool: &str, now: Timestamp) {
        if let Some((_, progress)) = self.0.get_mut(pool) {
            progress.begin(now);
        }
    }

    /// That is over.
    pub(super) fn end(&mut self, pool: &str, went_well: bool, now: Timestamp) {
        if let Some((_, progress)) = self.0.get_mut(pool) {
            progress.end(went_well, now);
        }
    }
}
