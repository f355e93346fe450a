//! Garbage collection, both ways: claims whose machine has vanished, and machines whose claim has.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use karpenter_api::NodeClaim;
use karpenter_provider::Machine;
use karpenter_runtime::{Caches, Change, Controller, Effect, Key, Outcome, View, Wakes, Watches, Write};

use super::{is_ready, is_registered, uid};
use crate::cloud::{CloudReply, CloudRequest};
use crate::metrics::{Disruption, Metrics};
use crate::state::{Shared, provider_id};

const PERIOD: Duration = Duration::from_mins(2);
/// A machine younger than this may belong to a claim that has not been written down yet.
const YOUNG: SignedDuration = SignedDuration::from_mins(1);

/// The collector.
pub(crate) struct GarbageCollection {
    state: Shared,
    metrics: Metrics,
    listed: Option<Vec<Machine>>,
    /// When the provider was asked for the list.
    asked: Timestamp,
}

impl GarbageCollection {
    /// A collector over `state`.
    pub(crate) fn new(state: Shared, metrics: Metrics) -> Self {
        Self { state, metrics, listed: None, asked: Timestamp::UNIX_EPOCH }
    }

    /// Claims that were registered when the list was asked for and whose machine is not in it, unless the node says it is well.
    fn orphaned_claims(&self, machines: &[Machine], view: &View<'_>) -> Vec<Write> {
        let present: BTreeMap<&str, &Machine> =
            machines.iter().map(|machine| (machine.provider_id.as_str(), machine)).collect();
        let lost = |claim: &&Arc<NodeClaim>| {
            let Some(id) = provider_id(claim) else { return false };
            let old = claim.metadata.creation_timestamp.as_ref().is_some_and(|time| time.0 < self.asked);
            let nodes = self.state.lock().nodes_of(id);
            let well = nodes.iter().any(|name| {
                view.caches.of::<Node>().get(&Key::cluster(name)).is_some_and(|node| is_ready(node))
            });
            old && is_registered(claim)
                && claim.metadata.deletion_timestamp.is_none()
                && !present.contains_key(id)
                && !well
        };
        let claims = view.caches.of::<NodeClaim>();
        claims
            .iter()
            .map(|(_, claim)| claim)
            .filter(lost)
            .map(|claim| {
                tracing::info!("NodeClaim {} is deleted: its machine is gone", Key::of(&**claim));
                self.metrics.disrupted(Disruption::GarbageCollected, claim, &self.state);
                Write::delete::<NodeClaim>(&Key::of(&**claim)).if_uid(uid(claim)).tolerating(404)
            })
            .collect()
    }

    /// Machines that belong to no claim: each is asked to stop through a claim made up for it.
    fn orphaned_machines(machines: &[Machine], view: &View<'_>) -> Vec<Effect<CloudRequest>> {
        let claims = view.caches.of::<NodeClaim>();
        let known: std::collections::BTreeSet<&str> =
            claims.iter().filter_map(|(_, claim)| provider_id(claim)).collect();
        let orphaned = |machine: &&Machine| {
            let old = machine.created.is_some_and(|created| view.now.duration_since(created) > YOUNG);
            let owner =
                machine.claim.as_deref().is_some_and(|name| claims.get(&Key::cluster(name)).is_some());
            old && !machine.terminating && !owner && !known.contains(machine.provider_id.as_str())
        };
        machines
            .iter()
            .filter(orphaned)
            .map(|machine| {
                tracing::warn!("machine {} belongs to no NodeClaim and is stopped", machine.provider_id);
                let mut claim = NodeClaim::default();
                claim.metadata.name.clone_from(&machine.claim);
                claim.status.get_or_insert_default().provider_id = Some(machine.provider_id.clone());
                Effect::Request(CloudRequest::Terminate(Arc::new(claim)))
            })
            .collect()
    }
}

impl Controller for GarbageCollection {
    type Request = CloudRequest;
    type Reply = CloudReply;

    fn name(&self) -> &'static str {
        "nodeclaim.garbagecollection"
    }

    fn watches(&self, watches: &mut Watches) {
        watches.reads::<NodeClaim>();
        watches.reads::<Node>();
    }

    fn begin(&mut self, _: &Caches, wakes: &mut Wakes) {
        wakes.wake_after(Key::everything(), PERIOD);
    }

    fn wake(&mut self, _: &Change, _: &Caches, _: &mut Wakes) {}

    fn reconcile(&mut self, _: &Key, view: &View<'_>) -> Outcome<CloudRequest> {
        let Some(machines) = self.listed.take() else {
            // The reply brings the key back at once; the period counts from there.
            if view.now.duration_since(self.asked)
                < SignedDuration::try_from(PERIOD).unwrap_or(SignedDuration::ZERO)
            {
                return Outcome::after(PERIOD);
            }
            self.asked = view.now;
            return Outcome::done().then(Effect::Request(CloudRequest::List));
        };
        let orphaned_machines = Self::orphaned_machines(&machines, view);
        Outcome::after(PERIOD).then_all(self.orphaned_claims(&machines, view)).then_all(orphaned_machines)
    }

    fn hear(&mut self, _: &Key, reply: CloudReply, _: &View<'_>) {
        match reply {
            CloudReply::Listed(Ok(machines)) => self.listed = Some(machines),
            CloudReply::Listed(Err(error)) => tracing::warn!("machines cannot be listed: {error}"),
            _ => {}
        }
    }
}
