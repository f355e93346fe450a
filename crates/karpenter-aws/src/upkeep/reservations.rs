//! Claims on capacity reservations: those on a block that ends are given up in time, and those that lost their reservation say so.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use karpenter_api::NodeClaim;
use karpenter_api::labels::CAPACITY_TYPE;
use karpenter_api::labels::aws::{
    CAPACITY_RESERVATION_ID, CAPACITY_RESERVATION_INTERRUPTIBLE, CAPACITY_RESERVATION_TYPE,
};
use karpenter_core::catalog::{ON_DEMAND, RESERVED};
use karpenter_runtime::{Caches, Change, Controller, Key, Outcome, View, Wakes, Watches, Write};
use serde_json::json;

use crate::instances::Instances;
use crate::instances::machine::capacity_type;
use crate::names::instance_of;
use crate::node_class::ResolvedClasses;

const PERIOD: Duration = Duration::from_mins(1);

fn label<'c>(claim: &'c NodeClaim, key: &str) -> Option<&'c str> {
    claim.metadata.labels.as_ref()?.get(key).map(String::as_str)
}

/// Gives up claims on capacity blocks that are about to end.
pub(crate) struct Expirations {
    pub(crate) classes: ResolvedClasses,
}

impl Controller for Expirations {
    type Request = Infallible;
    type Reply = Infallible;

    fn name(&self) -> &'static str {
        "capacityreservation.expiration"
    }

    fn watches(&self, watches: &mut Watches) {
        watches.reads::<NodeClaim>();
    }

    fn begin(&mut self, _: &Caches, wakes: &mut Wakes) {
        wakes.wake(Key::everything());
    }

    fn wake(&mut self, _: &Change, _: &Caches, _: &mut Wakes) {}

    fn reconcile(&mut self, _: &Key, view: &View<'_>) -> Outcome<Infallible> {
        let classes = self.classes.all();
        let reservations = classes.iter().flat_map(|class| &class.reservations);
        let ending: BTreeSet<&str> =
            reservations.filter(|found| found.expiring).map(|found| found.id.as_str()).collect();
        if ending.is_empty() {
            return Outcome::after(PERIOD);
        }
        let claims = view.caches.of::<NodeClaim>();
        let deletions = claims.iter().filter(|(_, claim)| {
            claim.metadata.deletion_timestamp.is_none()
                && label(claim, CAPACITY_RESERVATION_ID).is_some_and(|id| ending.contains(id))
        });
        let deletions = deletions.map(|(key, claim)| {
            tracing::info!("NodeClaim {key} is deleted: its capacity block ends");
            let uid = claim.metadata.uid.as_deref().unwrap_or_default();
            Write::delete::<NodeClaim>(key).if_uid(uid).tolerating(404).tolerating(409)
        });
        Outcome::after(PERIOD).then_all(deletions)
    }
}

/// Corrects claims and nodes whose machine no longer runs on the reservation it was launched into.
pub(crate) struct Fallbacks {
    pub(crate) instances: Instances,
}

impl Fallbacks {
    /// Whether the machine of a claim that calls itself reserved runs on no reservation any more.
    fn fell_back(&self, claim: &NodeClaim) -> bool {
        let id = claim.status.as_ref().and_then(|status| status.provider_id.as_deref()).and_then(instance_of);
        label(claim, CAPACITY_TYPE) == Some(RESERVED)
            && id.and_then(|id| self.instances.remembered(id)).is_some_and(|instance| {
                capacity_type(&instance, true) == ON_DEMAND && instance.capacity_reservation_id.is_none()
            })
    }
}

impl Controller for Fallbacks {
    type Request = Infallible;
    type Reply = Infallible;

    fn name(&self) -> &'static str {
        "capacityreservation.capacitytype"
    }

    fn watches(&self, watches: &mut Watches) {
        watches.reads::<NodeClaim>();
        watches.reads::<Node>();
    }

    fn begin(&mut self, _: &Caches, wakes: &mut Wakes) {
        wakes.wake(Key::everything());
    }

    fn wake(&mut self, _: &Change, _: &Caches, _: &mut Wakes) {}

    fn reconcile(&mut self, _: &Key, view: &View<'_>) -> Outcome<Infallible> {
        let corrected = json!({"metadata": {"labels": {
            CAPACITY_TYPE: ON_DEMAND,
            CAPACITY_RESERVATION_ID: null,
            CAPACITY_RESERVATION_TYPE: null,
            CAPACITY_RESERVATION_INTERRUPTIBLE: null,
        }}});
        let claims = view.caches.of::<NodeClaim>();
        let mut writes = Vec::new();
        for (key, claim) in claims.iter().filter(|(_, claim)| self.fell_back(claim)) {
            tracing::info!("NodeClaim {key} fell back from its capacity reservation to on-demand");
            writes.push(Write::merge_patch::<NodeClaim>(key, corrected.clone()).tolerating(404));
            let node = claim.status.as_ref().and_then(|status| status.node_name.as_deref()).map(Key::cluster);
            if let Some(node) = node.filter(|node| view.caches.of::<Node>().get(node).is_some()) {
                writes.push(Write::merge_patch::<Node>(&node, corrected.clone()).tolerating(404));
            }
        }
        Outcome::after(PERIOD).then_all(writes)
    }
}
