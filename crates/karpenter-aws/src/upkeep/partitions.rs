//! The partition of machines that asked for none: EC2 chooses one, and says which only after the launch. Until the claim says it too, its node
//! does not count as registered, or pods that keep to partitions would be placed by a label that is not there.

use std::collections::BTreeMap;
use std::time::Duration;

use karpenter_api::NodeClaim;
use karpenter_api::labels::aws::{PLACEMENT_GROUP_ID, PLACEMENT_GROUP_PARTITION};
use karpenter_runtime::{
    Caches, Change, Controller, Effect, Key, Outcome, Request, View, Wakes, Watches, Write,
};
use serde_json::json;

use crate::instances::Instances;
use crate::names::instance_of;
use crate::node_class::ResolvedClasses;

/// How soon EC2 is asked again.
pub(crate) const AGAIN: Duration = Duration::from_secs(5);

/// Whether the machine of a claim is in a group with partitions and the claim does not say in which.
pub(crate) fn awaits_partition(claim: &NodeClaim, classes: &ResolvedClasses) -> bool {
    let label = |key| claim.metadata.labels.as_ref().and_then(|labels| labels.get(key));
    let class = classes.get(&claim.spec.node_class_ref.name);
    let group = class.as_ref().and_then(|class| class.placement_group.as_ref());
    group.is_some_and(|group| {
        group.partition_count.is_some()
            && label(PLACEMENT_GROUP_ID) == Some(&group.id)
            && label(PLACEMENT_GROUP_PARTITION).is_none_or(String::is_empty)
    })
}

/// Asks in which partition an instance is.
#[derive(Clone, Debug)]
pub(crate) struct PartitionQuestion {
    instance: String,
}

impl Request for PartitionQuestion {
    fn action(&self) -> Option<String> {
        None
    }
}

impl PartitionQuestion {
    /// Asks EC2 itself: what is remembered of the instance may be from before it was placed.
    pub(crate) async fn perform(self, instances: Instances) -> Result<Option<u32>, String> {
        let found = instances.find(&self.instance).await.map_err(|error| error.to_string())?;
        let placement = found.and_then(|found| found.placement.clone());
        Ok(placement.and_then(|placement| placement.partition_number).filter(|number| *number > 0))
    }
}

/// Writes the partition into claims that lack it.
pub(crate) struct Partitions {
    classes: ResolvedClasses,
    /// What EC2 said.
    heard: BTreeMap<Key, Option<u32>>,
}

impl Partitions {
    pub(crate) fn new(classes: ResolvedClasses) -> Self {
        Self { classes, heard: BTreeMap::new() }
    }

    fn question(&self, claim: &NodeClaim) -> Option<PartitionQuestion> {
        let id = claim.status.as_ref()?.provider_id.as_deref().and_then(instance_of)?;
        let due = claim.metadata.deletion_timestamp.is_none() && awaits_partition(claim, &self.classes);
        due.then(|| PartitionQuestion { instance: id.to_owned() })
    }
}

impl Controller for Partitions {
    type Request = PartitionQuestion;
    type Reply = Result<Option<u32>, String>;

    fn name(&self) -> &'static str {
        "nodeclaim.partition"
    }

    fn watches(&self, watches: &mut Watches) {
        watches.reads::<NodeClaim>();
    }

    fn begin(&mut self, caches: &Caches, wakes: &mut Wakes) {
        caches.of::<NodeClaim>().iter().for_each(|(key, _)| wakes.wake(key.clone()));
    }

    fn wake(&mut self, change: &Change, _: &Caches, wakes: &mut Wakes) {
        let claim = change.of::<NodeClaim>().and_then(|delta| delta.new);
        if claim.is_some_and(|claim| self.question(claim).is_some()) {
            wakes.wake(change.key().clone());
        }
    }

    fn reconcile(&mut self, key: &Key, view: &View<'_>) -> Outcome<PartitionQuestion> {
        let heard = self.heard.remove(key);
        let claim = view.caches.of::<NodeClaim>().get(key);
        let Some(question) = claim.and_then(|claim| self.question(claim)) else { return Outcome::done() };
        match heard {
            Some(Some(partition)) => {
                let label =
                    json!({"metadata": {"labels": {PLACEMENT_GROUP_PARTITION: partition.to_string()}}});
                Outcome::done().then(Write::merge_patch::<NodeClaim>(key, label).tolerating(404))
            }
            Some(None) => Outcome::after(AGAIN),
            None => Outcome::done().then(Effect::Request(question)),
        }
    }

    fn hear(&mut self, key: &Key, reply: Self::Reply, _: &View<'_>) {
        let partition = reply.unwrap_or_else(|error| {
            tracing::warn!("the partition of NodeClaim {key}'s machine is not known: {error}");
            None
        });
        self.heard.insert(key.clone(), partition);
    }
}
