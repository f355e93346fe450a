//! Tells on the terminal what happens in the cluster: NodeClaims and nodes as they come, get ready and go.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use karpenter_api::NodeClaim;
use karpenter_api::labels::{CAPACITY_TYPE, INSTANCE_TYPE, NODEPOOL, ZONE};
use karpenter_environment::SystemEnvironment;
use karpenter_runtime::{Caches, Change, Controller, Key, Outcome, Runtime, View, Wakes, Watches};
use kube::Client;
use tokio::sync::watch;

/// Tells until told to stop.
pub(super) async fn tell(client: Client, stop: watch::Receiver<bool>) {
    let mut runtime = Runtime::new(client, Arc::new(SystemEnvironment));
    runtime.add(Narrator { told: BTreeMap::new() });
    runtime.run(karpenter_local::told(stop)).await;
}

/// What was last said about each claim.
struct Narrator {
    told: BTreeMap<Key, &'static str>,
}

impl Controller for Narrator {
    type Request = Infallible;
    type Reply = Infallible;

    fn name(&self) -> &'static str {
        "narrator"
    }

    fn watches(&self, watches: &mut Watches) {
        watches.add::<NodeClaim>();
    }

    fn wake(&mut self, change: &Change, _: &Caches, _: &mut Wakes) {
        let Some(delta) = change.of::<NodeClaim>() else { return };
        let now = delta.new.map_or("gone", stage);
        if self.told.insert(change.key().clone(), now) != Some(now) {
            crate::say(sentence(change.key(), delta.latest(), now));
        }
        if delta.new.is_none() {
            self.told.remove(change.key());
        }
    }

    fn reconcile(&mut self, _: &Key, _: &View<'_>) -> Outcome<Infallible> {
        Outcome::done()
    }
}

/// How far a claim has come.
fn stage(claim: &NodeClaim) -> &'static str {
    let is_true = |type_: &str| {
        let conditions = claim.status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.into_iter().any(|condition| condition.type_ == type_ && condition.status == "True")
    };
    if claim.metadata.deletion_timestamp.is_some() {
        "leaving"
    } else if is_true("Initialized") {
        "ready"
    } else if is_true("Registered") {
        "joined"
    } else if is_true("Launched") {
        "launched"
    } else {
        "planned"
    }
}

fn sentence(key: &Key, claim: &NodeClaim, stage: &str) -> String {
    let label = |key: &str| {
        claim.metadata.labels.as_ref().and_then(|labels| labels.get(key)).map_or("", String::as_str)
    };
    let node = claim.status.as_ref().and_then(|status| status.node_name.as_deref()).unwrap_or_default();
    match stage {
        "planned" => format!("nodeclaim {key}  planned for NodePool {}", label(NODEPOOL)),
        "launched" => {
            format!(
                "nodeclaim {key}  launched as {} {} in {}",
                label(CAPACITY_TYPE),
                label(INSTANCE_TYPE),
                label(ZONE)
            )
        }
        "joined" => format!("nodeclaim {key}  joined as node {node}"),
        "ready" => format!("nodeclaim {key}  ready for pods"),
        "leaving" => format!("nodeclaim {key}  leaving"),
        _ => format!("nodeclaim {key}  gone"),
    }
}
