//! Zones that traffic is moved away from: nothing is launched or ended there while that lasts, and people are told.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use karpenter_api::NodePool;
use karpenter_aws_client::ManagedResource;
use karpenter_runtime::{
    Caches, Change, Controller, Effect, Key, Outcome, Request, View, Wakes, Watches, Write,
};

use crate::events::event;
use crate::node_class::ResolvedClass;

const PERIOD: Duration = Duration::from_secs(30);

/// Zones by name.
pub(crate) type Zones = BTreeSet<Arc<str>>;

/// The names of the zones that are shifted away from at `now`. Shifts name zones by id; classes know both.
pub(crate) fn shifted_zones(
    resource: &ManagedResource,
    classes: &[Arc<ResolvedClass>],
    now: Timestamp,
) -> Zones {
    let shifts = resource.zonal_shifts.iter();
    let active: BTreeSet<&str> = shifts
        .filter(|shift| shift.applied_status == "APPLIED")
        .filter(|shift| shift.expiry_time.is_none_or(|end| now < end))
        .map(|shift| shift.away_from.as_str())
        .collect();
    let subnets = classes.iter().flat_map(|class| &class.subnets);
    subnets
        .filter(|subnet| subnet.zone_id.as_deref().is_some_and(|id| active.contains(id)))
        .map(|subnet| subnet.zone.as_str().into())
        .collect()
}

/// A look at the shifts of the cluster.
#[derive(Clone, Debug)]
pub(crate) struct Look;

impl Request for Look {
    fn action(&self) -> Option<String> {
        None
    }
}

/// Looks at shifts every so often, and tells of those that begin and end.
#[derive(Default)]
pub(crate) struct ZonalShifts {
    known: Zones,
    /// What the last look found.
    found: Option<Result<Zones, String>>,
}

impl ZonalShifts {
    /// Events on every NodePool about what is new.
    fn tell(&self, zones: &Zones, view: &View<'_>) -> Vec<Write> {
        let begun = zones.difference(&self.known).map(|zone| {
            let message = format!(
                "traffic is moved away from zone {zone}: nothing is launched there, and its machines are left alone"
            );
            ("ZonalShiftActive", message)
        });
        let ended = self
            .known
            .difference(zones)
            .map(|zone| ("ZonalShiftCleared", format!("traffic is no longer moved away from zone {zone}")));
        let news: Vec<(&str, String)> = begun.chain(ended).collect();
        let pools = view.caches.of::<NodePool>();
        let ours = pools.iter().map(|(_, pool)| pool);
        let ours = ours.filter(|pool| pool.spec.template.spec.node_class_ref.kind == "EC2NodeClass");
        ours.flat_map(|pool| news.iter().map(|(reason, message)| event(&**pool, reason, message, view)))
            .collect()
    }
}

impl Controller for ZonalShifts {
    type Request = Look;
    type Reply = Result<Zones, String>;

    fn name(&self) -> &'static str {
        "zonalshift"
    }

    fn watches(&self, watches: &mut Watches) {
        watches.reads::<NodePool>();
    }

    fn begin(&mut self, _: &Caches, wakes: &mut Wakes) {
        wakes.wake(Key::everything());
    }

    fn wake(&mut self, _: &Change, _: &Caches, _: &mut Wakes) {}

    fn reconcile(&mut self, _: &Key, view: &View<'_>) -> Outcome<Look> {
        match self.found.take() {
            Some(Ok(zones)) => {
                let events = self.tell(&zones, view);
                self.known = zones;
                Outcome::after(PERIOD).then_all(events)
            }
            Some(Err(_)) => Outcome::after(PERIOD),
            None => Outcome::after(PERIOD).then(Effect::Request(Look)),
        }
    }

    fn hear(&mut self, _: &Key, reply: Result<Zones, String>, _: &View<'_>) {
        if let Err(error) = &reply {
            tracing::warn!("{error}");
        }
        self.found = Some(reply);
    }
}

#[cfg(test)]
mod tests {
    use karpenter_aws_bootstrap::AmiFamily;
    use karpenter_aws_client::ZonalShift;

    use super::*;
    use crate::node_class::{EC2NodeClass, ResolvedSubnet};

    #[test]
    fn shifts_in_force_are_told_by_the_zones_names() {
        let now: Timestamp = "2026-11-17T06:00:00Z".parse().unwrap();
        let subnet = |zone: &str, id: &str| ResolvedSubnet {
            id: zone.into(),
            zone: zone.into(),
            zone_id: Some(id.into()),
            free_addresses: 1,
        };
        let class = Arc::new(ResolvedClass {
            class: Arc::new(EC2NodeClass::default()),
            family: AmiFamily::Al2023,
            hash: String::new(),
            subnets: vec![subnet("us-west-2a", "usw2-az1"), subnet("us-west-2b", "usw2-az2")],
            security_groups: vec![],
            amis: vec![],
            instance_profile: None,
            reservations: vec![],
            placement_group: None,
            service_cidr: None,
        });
        let shift = |status: &str, zone: &str, end: &str| ZonalShift {
            applied_status: status.into(),
            away_from: zone.into(),
            expiry_time: end.parse().ok(),
        };
        let resource = |shift| ManagedResource { arn: String::new(), zonal_shifts: vec![shift] };
        let cases = [
            (shift("APPLIED", "usw2-az1", "2026-11-17T07:00:00Z"), vec!["us-west-2a"]),
            (shift("APPLIED", "usw2-az1", "2026-11-17T05:00:00Z"), vec![]),
            (shift("NOT_APPLIED", "usw2-az1", "2026-11-17T07:00:00Z"), vec![]),
            (shift("APPLIED", "usw2-az9", "2026-11-17T07:00:00Z"), vec![]),
        ];
        for (shift, expected) in cases {
            let zones = shifted_zones(&resource(shift), &[Arc::clone(&class)], now);
            assert_eq!(zones.iter().map(|zone| &**zone).collect::<Vec<_>>(), expected);
        }
    }
}
