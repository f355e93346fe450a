//! Tags machines with the name of their node, by which people look for them in the console. It is known only once the node has joined.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use karpenter_alibabacloud_client::ErrorKind;
use karpenter_alibabacloud_client::ecs::TagResources;
use karpenter_api::NodeClaim;
use karpenter_api::condition::nodeclaim::REGISTERED;
use karpenter_runtime::{
    Caches, Change, Controller, Effect, Key, Outcome, Request, View, Wakes, Watches, Write,
};
use serde_json::json;

use crate::instances::Instances;
use crate::node_class::{ClassKey, Classes, Dialect};
use crate::ownership;
use crate::rights::Rights;

/// How soon it is tried again.
const AGAIN: Duration = Duration::from_secs(30);
/// The same where the policy refuses it.
const REFUSED: Duration = Duration::from_mins(10);

/// Names a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamingRequest {
    claim: String,
    instance: String,
    node: String,
}

impl Request for NamingRequest {
    fn action(&self) -> Option<String> {
        Some(format!("tag the machine of NodeClaim {} with the name of its node", self.claim))
    }
}

impl NamingRequest {
    /// Gives the machine its name.
    ///
    /// # Errors
    /// How long to wait before the next try.
    pub async fn perform(self, instances: Arc<Instances>, rights: Rights) -> Result<(), Duration> {
        let named = instances.name(&self.instance, &self.node).await;
        rights.hear::<TagResources, _>(&named, instances.now());
        named.or_else(|error| {
            if error.is_not_found() {
                return Ok(());
            }
            if error.kind == ErrorKind::Denied {
                return Err(REFUSED);
            }
            if error.kind != ErrorKind::Throttled {
                tracing::warn!(
                    "machine {} cannot be tagged with the name of its node: {error}",
                    self.instance
                );
            }
            Err(AGAIN)
        })
    }
}

/// Has machines named whose claims have registered.
pub struct Naming {
    classes: Classes,
    /// How the naming of a claim's machine ended.
    ended: BTreeMap<Key, Result<(), Duration>>,
}

impl Naming {
    /// Names machines of `classes`.
    pub fn new(classes: Classes) -> Self {
        Self { classes, ended: BTreeMap::new() }
    }
}

/// The annotation of claims whose machine has its name.
fn tagged(dialect: Dialect) -> String {
    format!("{}/tagged", dialect.group())
}

/// What is to be done for a claim; nothing unless it has registered and its machine has no name yet.
fn due(claim: &NodeClaim) -> Option<(ClassKey, NamingRequest)> {
    let class = ClassKey::of(&claim.spec.node_class_ref)?;
    let status = claim.status.as_ref()?;
    let mut conditions = status.conditions.iter().flatten();
    let registered = conditions.any(|found| found.type_ == REGISTERED && found.status == "True");
    let done =
        claim.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(&tagged(class.dialect)));
    let request = NamingRequest {
        claim: claim.metadata.name.clone()?,
        instance: ownership::instance_id(status.provider_id.as_deref()?)?.to_owned(),
        node: status.node_name.clone()?,
    };
    (registered && !done && claim.metadata.deletion_timestamp.is_none()).then_some((class, request))
}

impl Controller for Naming {
    type Request = NamingRequest;
    type Reply = Result<(), Duration>;

    fn name(&self) -> &'static str {
        "nodeclaim.tagging"
    }

    fn watches(&self, watches: &mut Watches) {
        watches.reads::<NodeClaim>();
    }

    fn begin(&mut self, caches: &Caches, wakes: &mut Wakes) {
        let all = caches.of::<NodeClaim>().iter();
        all.filter(|(_, claim)| due(claim).is_some()).for_each(|(key, _)| wakes.wake(key.clone()));
    }

    fn wake(&mut self, change: &Change, _: &Caches, wakes: &mut Wakes) {
        if change.of::<NodeClaim>().and_then(|delta| delta.new).is_some_and(|claim| due(claim).is_some()) {
            wakes.wake(change.key().clone());
        }
    }

    fn reconcile(&mut self, key: &Key, view: &View<'_>) -> Outcome<NamingRequest> {
        let ended = self.ended.remove(key);
        let claim = view.caches.of::<NodeClaim>().get(key);
        let Some((class, request)) = claim.and_then(|claim| due(claim)) else { return Outcome::done() };
        match ended {
            Some(Ok(())) => {
                let patch = json!({"metadata": {"annotations": {tagged(class.dialect): "true"}}});
                Outcome::done().then(Write::merge_patch::<NodeClaim>(key, patch).tolerating(404))
            }
            Some(Err(pause)) => Outcome::after(pause),
            None => match self.classes.by_key(&class) {
                // The class gives machines a name of its own.
                Some(class) if class.class.tags.contains_key(ownership::NAME_TAG) => Outcome::done(),
                Some(_) => Outcome::done().then(Effect::Request(request)),
                None => Outcome::after(AGAIN),
            },
        }
    }

    fn hear(&mut self, key: &Key, reply: Result<(), Duration>, _: &View<'_>) {
        self.ended.insert(key.clone(), reply);
    }
}
