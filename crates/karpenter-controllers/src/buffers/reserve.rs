//! The pods that buffers stand for, and what the last plan made of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_core::cluster::{Pod, PodOwner};
use karpenter_core::plan::ProvisioningPlan;
use karpenter_runtime::Key;

/// The pods that one buffer stands for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chunks(Arc<[Arc<Pod>]>);

impl Chunks {
    pub(super) fn new(pods: Vec<Arc<Pod>>) -> Self {
        Self(pods.into())
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether plans would do the same about both. The pods of one buffer differ in their names only.
    fn same(&self, other: &Self) -> bool {
        let shape = |chunks: &Self| {
            chunks.0.first().map(|pod| (pod.id.uid.clone(), pod.labels.clone(), pod.spec.clone()))
        };
        self.len() == other.len() && shape(self) == shape(other)
    }
}

/// What a plan made of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Chunks that fit on nodes that are there or on their way.
    pub(super) placed: usize,
}

/// What all buffers keep free.
#[derive(Debug, Default)]
pub(crate) struct Reserve {
    buffers: BTreeMap<Key, (Chunks, Option<Verdict>)>,
    /// Chunks for which a claim was made that may not have been launched yet, by UID.
    claimed: BTreeMap<Arc<str>, Arc<str>>,
    /// Whether a plan is wanted because buffers changed.
    changed: bool,
}

impl Reserve {
    /// Whether nothing is kept free.
    pub(crate) fn is_empty(&self) -> bool {
        self.buffers.is_empty()
    }

    /// The pods to plan for.
    pub(crate) fn pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.buffers.values().flat_map(|(chunks, _)| chunks.0.iter())
    }

    /// Says what a buffer stands for now; returns whether that is new.
    pub(crate) fn set(&mut self, key: &Key, chunks: Chunks) -> bool {
        let known = self.buffers.get(key).map(|(known, _)| known);
        if known.map_or(chunks.len() == 0, |known| known.same(&chunks)) {
            return false;
        }
        if chunks.len() == 0 {
            self.buffers.remove(key);
        } else {
            // What a plan said of other chunks stands until the next.
            let verdict = self.buffers.get(key).and_then(|(_, verdict)| *verdict);
            self.buffers.insert(key.clone(), (chunks, verdict));
        }
        let alive: BTreeSet<Arc<str>> = self.pods().map(|pod| pod.id.uid.clone()).collect();
        self.claimed.retain(|uid, _| alive.contains(uid));
        self.changed = true;
        true
    }

    /// Whether buffers have changed since this was last asked.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// The claim that was made for a chunk.
    pub(crate) fn claim_for(&self, chunk: &str) -> Option<&Arc<str>> {
        self.claimed.get(chunk)
    }

    /// Notes that a claim was made for a chunk.
    pub(crate) fn note_claim(&mut self, chunk: &Arc<str>, claim: &Arc<str>) {
        self.claimed.insert(chunk.clone(), claim.clone());
    }

    /// Takes note of a plan; returns the buffers it says something new about.
    pub(crate) fn judge(&mut self, plan: &ProvisioningPlan) -> Vec<Key> {
        let placed = plan.existing.iter().flat_map(|(_, pods)| pods).map(|pod| &plan.pods[*pod as usize]);
        let placed: BTreeSet<&str> = placed.filter(|pod| is_chunk(pod)).map(|pod| &*pod.id.uid).collect();
        self.claimed.retain(|chunk, _| !placed.contains(&**chunk));
        let mut news = Vec::new();
        for (key, (chunks, verdict)) in &mut self.buffers {
            let count = chunks.0.iter().filter(|pod| placed.contains(&*pod.id.uid)).count();
            let found = Verdict { placed: count };
            if verdict.replace(found) != Some(found) {
                news.push(key.clone());
            }
        }
        news
    }

    /// What the last plan made of a buffer.
    pub(super) fn verdict(&self, key: &Key) -> Option<Verdict> {
        self.buffers.get(key).and_then(|(_, verdict)| *verdict)
    }
}

/// Whether a pod stands for the room that a buffer keeps free.
pub(crate) fn is_chunk(pod: &Pod) -> bool {
    pod.owner == PodOwner::CapacityBuffer
}
