//! Tags that are known only once a machine has joined: the name of its node.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_api::NodeClaim;
use karpenter_api::condition::nodeclaim::REGISTERED;
use karpenter_aws_client::ec2::{Instance, Tag};
use karpenter_runtime::{
    Caches, Change, Controller, Effect, Key, Outcome, Request, View, Wakes, Watches, Write,
};
use serde_json::json;

use crate::instances::Instances;
use crate::instances::machine::tag;
use crate::names::{CLUSTER_NAME_TAGGED, EKS_CLUSTER, NODE_CLAIM, TAGGED, instance_of, zone_of};

/// Tags an instance.
#[derive(Clone, Debug)]
pub(crate) struct TaggingRequest {
    claim: String,
    zone: String,
    instance: String,
    tags: BTreeMap<&'static str, String>,
}

impl Request for TaggingRequest {
    fn action(&self) -> Option<String> {
        Some(format!("tag the machine of NodeClaim {}", self.claim))
    }
}

impl TaggingRequest {
    /// Where the instance is.
    pub(crate) fn zone(&self) -> &str {
        &self.zone
    }

    /// Adds the tags that the instance does not have.
    pub(crate) async fn perform(self, instances: Instances) -> Result<(), String> {
        let instance =
            instances.remembered_or_found(&self.instance).await.map_err(|error| error.to_string())?;
        let Some(instance) = instance else { return Ok(()) };
        let missing = missing(&instance, self.tags);
        if missing.is_empty() {
            return Ok(());
        }
        instances.tag(&self.instance, missing).await.map_err(|error| error.to_string())
    }
}

fn missing(instance: &Instance, wanted: BTreeMap<&'static str, String>) -> Vec<Tag> {
    let missing = wanted.into_iter().filter(|(key, _)| tag(instance, key).is_none());
    missing.map(|(key, value)| Tag { key: key.to_owned(), value }).collect()
}

/// Tags instances of claims that have registered.
pub(crate) struct Tagging {
    cluster: String,
    /// How the tagging of a claim ended.
    ended: BTreeMap<Key, Result<(), String>>,
}

impl Tagging {
    pub(crate) fn new(cluster: String) -> Self {
        Self { cluster, ended: BTreeMap::new() }
    }

    fn request(&self, claim: &NodeClaim) -> Option<TaggingRequest> {
        let status = claim.status.as_ref()?;
        let name = claim.metadata.name.clone()?;
        let tags = BTreeMap::from([
            ("Name", status.node_name.clone()?),
            (NODE_CLAIM, name.clone()),
            (EKS_CLUSTER, self.cluster.clone()),
        ]);
        let provider_id = status.provider_id.as_deref()?;
        let (zone, instance) = (zone_of(provider_id)?.to_owned(), instance_of(provider_id)?.to_owned());
        Some(TaggingRequest { claim: name, zone, instance, tags })
    }
}

/// Whether a claim has registered and its instance has not been tagged.
fn is_due(claim: &NodeClaim) -> bool {
    let conditions = claim.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let registered = conditions.into_iter().any(|found| found.type_ == REGISTERED && found.status == "True");
    let tagged = |key| claim.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(key));
    let done = tagged(TAGGED) && tagged(CLUSTER_NAME_TAGGED);
    registered && !done && claim.metadata.deletion_timestamp.is_none()
}

impl Controller for Tagging {
    type Request = TaggingRequest;
    type Reply = Result<(), String>;

    fn name(&self) -> &'static str {
        "nodeclaim.tagging"
    }

    fn watches(&self, watches: &mut Watches) {
        watches.reads::<NodeClaim>();
    }

    fn begin(&mut self, caches: &Caches, wakes: &mut Wakes) {
        let due = caches.of::<NodeClaim>().iter().filter(|(_, claim)| is_due(claim));
        due.for_each(|(key, _)| wakes.wake(key.clone()));
    }

    fn wake(&mut self, change: &Change, _: &Caches, wakes: &mut Wakes) {
        if change.of::<NodeClaim>().and_then(|delta| delta.new).is_some_and(is_due) {
            wakes.wake(change.key().clone());
        }
    }

    fn reconcile(&mut self, key: &Key, view: &View<'_>) -> Outcome<TaggingRequest> {
        let ended = self.ended.remove(key);
        let claim: Option<&Arc<NodeClaim>> = view.caches.of::<NodeClaim>().get(key);
        let Some(claim) = claim.filter(|claim| is_due(claim)) else { return Outcome::done() };
        match ended {
            Some(Ok(())) => {
                let patch =
                    json!({"metadata": {"annotations": {TAGGED: "true", CLUSTER_NAME_TAGGED: "true"}}});
                Outcome::done().then(Write::merge_patch::<NodeClaim>(key, patch).tolerating(404))
            }
            Some(Err(_)) => Outcome::after(std::time::Duration::from_secs(30)),
            None => match self.request(claim) {
                Some(request) => Outcome::done().then(Effect::Request(request)),
                None => Outcome::done(),
            },
        }
    }

    fn hear(&mut self, key: &Key, reply: Result<(), String>, _: &View<'_>) {
        if let Err(error) = &reply {
            tracing::warn!("the machine of NodeClaim {key} cannot be tagged: {error}");
        }
        self.ended.insert(key.clone(), reply);
    }
}
