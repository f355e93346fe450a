//! How far the roll-outs of drifted NodePools are. It is noted on the NodePool, so that a new process goes on with the same stage, with the failures so far
//! in mind; what was under way is begun anew.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_api::NodePool;
use karpenter_api::annotations::DRIFT_PROGRESS;
use karpenter_api::hash::nodepool_hash;
use karpenter_core::cluster::{Node, NodePool as CoreNodePool};
use karpenter_core::disruption::{Rollout, RolloutPause, RolloutProgress};
use karpenter_runtime::{Key, View, Write};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// What is noted on a NodePool.
#[derive(Debug, Deserialize, Serialize)]
struct Note {
    /// The hash of the template that is rolled out.
    template: String,
    #[serde(flatten)]
    progress: RolloutProgress,
}

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
            let Some(object) = object else { continue };
            let hash = nodepool_hash(object);
            let (known, progress) = self.0.entry(pool.name.clone()).or_insert_with(|| noted(object));
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

    /// Notes on NodePools that are not as they should be.
    pub(super) fn notes(&self, view: &View<'_>) -> Vec<Write> {
        let mut writes = Vec::new();
        for (name, (template, progress)) in &self.0 {
            let key = Key::cluster(name);
            let Some(pool) = view.caches.of::<NodePool>().get(&key) else { continue };
            let wanted = progress.certain().map(|progress| Note { template: template.clone(), progress });
            let wanted = wanted.and_then(|note| serde_json::to_string(&note).ok());
            if annotation(pool) != wanted.as_deref() {
                let patch = json!({"metadata": {"annotations": {DRIFT_PROGRESS: wanted}}});
                let version = pool.metadata.resource_version.as_deref().unwrap_or_default();
                let write = Write::merge_patch::<NodePool>(&key, patch).if_version(version);
                writes.push(write.tolerating(404).tolerating(409));
            }
        }
        writes
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

fn annotation(pool: &NodePool) -> Option<&str> {
    pool.metadata.annotations.as_ref()?.get(DRIFT_PROGRESS).map(String::as_str)
}

/// What is noted on a NodePool; nothing has begun where that cannot be read.
fn noted(pool: &NodePool) -> (String, RolloutProgress) {
    let note = annotation(pool).and_then(|text| serde_json::from_str::<Note>(text).ok());
    note.map(|note| (note.template, note.progress)).unwrap_or_default()
}
