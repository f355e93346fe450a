//! Which machines a claim may become, in the order they are tried: type, zone, way to buy, vSwitch, image and disk of each.
//!
//! Every candidate meets the claim's requirements, its zone included; nothing is drawn by lot.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_alibabacloud_client::ecs;
use karpenter_api::labels::{ARCH, CAPACITY_TYPE_ON_DEMAND, CAPACITY_TYPE_SPOT};
use karpenter_core::catalog::{InstanceType, Offering};
use karpenter_core::requirements::RequirementSet;
use karpenter_provider::{OfferingKey, choices};
use karpenter_quantity::ResourceList;

use super::addresses::Addresses;
use crate::catalogue::system_disk_categories;
use crate::market::{Refusals, Sales};
use crate::node_class::{Architecture, DiskCategory, ResolvedClass, VSwitch, ZonePolicy};

/// More are not tried for one claim: then it is given up, and its pods are planned anew.
const MOST: usize = 40;

/// A machine a claim may become.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The instance type as the solver sees it.
    pub instance_type: Arc<InstanceType>,
    /// Labels of this way to buy it.
    pub offering: Arc<RequirementSet>,
    /// Its key in the memory of refusals.
    pub key: OfferingKey,
    /// Its price.
    pub price: f64,
    /// Its architecture.
    pub architecture: Architecture,
    /// The vSwitch.
    pub v_switch: Arc<str>,
    /// The image.
    pub image: Arc<str>,
    /// The category of its system disk.
    pub disk: DiskCategory,
    /// The reservation it uses.
    pub reservation: Option<Arc<str>>,
}

impl Candidate {
    /// Whether it is bought on the spot market.
    pub fn is_spot(&self) -> bool {
        &*self.key.capacity_type == CAPACITY_TYPE_SPOT
    }
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The claim's requirements.
    pub requirements: &'a RequirementSet,
    /// What must fit.
    pub requests: &'a ResourceList,
}

/// What is known of the moment.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    /// The time.
    pub now: Timestamp,
    /// What is sold.
    pub sales: &'a Sales,
    /// What was refused.
    pub refusals: &'a Refusals,
    /// Types that refused a category of system disk.
    pub unsupported_disks: &'a BTreeSet<(Arc<str>, DiskCategory)>,
    /// Which addresses are taken.
    pub addresses: &'a Addresses,
    /// How many machines of the pool are in each zone.
    pub population: &'a BTreeMap<Arc<str>, usize>,
}

/// The candidates for a claim: what was paid for first, then spot before on-demand where both will do, then by price; `balanced` classes take the emptiest zone first.
pub fn candidates(
    class: &ResolvedClass,
    types: &[Arc<InstanceType>],
    wanted: Wanted<'_>,
    moment: Moment<'_>,
) -> Vec<Candidate> {
    let described: BTreeMap<&str, &ecs::InstanceType> =
        moment.sales.types.iter().map(|known| (known.instance_type_id.as_str(), &**known)).collect();
    let mut found: Vec<Candidate> = choices(types, wanted.requirements, wanted.requests)
        .into_iter()
        .filter_map(|choice| {
            let described = *described.get(&*choice.instance_type.name)?;
            candidate(class, (choice.instance_type, described), choice.offering, moment)
        })
        .collect();
    drop_needless_accelerators(&mut found, wanted.requests);
    drop_dear_spot(&mut found);
    let zone_order = |candidate: &Candidate| match class.class.zone_policy {
        ZonePolicy::Cheapest => 0,
        ZonePolicy::Balanced => moment.population.get(&candidate.key.zone).copied().unwrap_or(0),
    };
    // The sort is stable, so within these the order is the price's.
    found.sort_by_key(|candidate| {
        (candidate.reservation.is_none(), !candidate.is_spot(), zone_order(candidate))
    });
    found.truncate(MOST);
    found
}

fn candidate(
    class: &ResolvedClass,
    (instance_type, described): (&Arc<InstanceType>, &ecs::InstanceType),
    offering: &Offering,
    moment: Moment<'_>,
) -> Option<Candidate> {
    let key = OfferingKey {
        instance_type: instance_type.name.clone(),
        zone: offering.zone()?.clone(),
        capacity_type: offering.capacity_type()?.clone(),
    };
    if moment.refusals.is_refused(&key, moment.now) {
        return None;
    }
    let architecture = architecture(instance_type);
    let unsupported =
        |disk: &DiskCategory| moment.unsupported_disks.contains(&(instance_type.name.clone(), disk.clone()));
    let disks = system_disk_categories(described, &class.class.system_disk);
    Some(Candidate {
        disk: disks.into_iter().find(|disk| !unsupported(disk))?,
        v_switch: v_switch(class, &key.zone, moment)?.id.clone(),
        image: class.resolved.image(architecture)?.id.clone(),
        instance_type: instance_type.clone(),
        offering: offering.requirements.clone(),
        price: offering.price,
        reservation: offering.reservation.as_ref().map(|reservation| reservation.id.clone()),
        architecture,
        key,
    })
}

/// The vSwitch of a zone with most free addresses.
fn v_switch<'a>(class: &'a ResolvedClass, zone: &Arc<str>, moment: Moment<'_>) -> Option<&'a VSwitch> {
    class
        .resolved
        .v_switches
        .iter()
        .filter(|v_switch| v_switch.zone == *zone && !moment.refusals.is_full(&v_switch.id, moment.now))
        .map(|v_switch| (moment.addresses.free(v_switch, moment.now), v_switch))
        .filter(|(free, _)| *free > 0)
        .max_by(|(free, a), (other, b)| free.cmp(other).then_with(|| b.id.cmp(&a.id)))
        .map(|(_, v_switch)| v_switch)
}

/// The architecture of a type.
pub fn architecture(instance_type: &InstanceType) -> Architecture {
    let label = instance_type.requirements.get(ARCH).and_then(|set| set.single());
    label.and_then(|label| Architecture::parse(label)).unwrap_or(Architecture::Amd64)
}

/// A machine with accelerators nobody asked for is taken only where nothing else will do.
fn drop_needless_accelerators(found: &mut Vec<Candidate>, requests: &ResourceList) {
    let is_accelerator = |name: &str| name.ends_with("/gpu") || name.contains("gpu-mem");
    if requests.iter().any(|(name, _)| is_accelerator(name)) {
        return;
    }
    let has_one = |candidate: &Candidate| {
        candidate
            .instance_type
            .capacity
            .iter()
            .any(|(name, amount)| is_accelerator(name) && amount > karpenter_quantity::Quantity::ZERO)
    };
    if found.iter().any(|candidate| !has_one(candidate)) {
        found.retain(|candidate| !has_one(candidate));
    }
}

/// Spot that costs more than on-demand serves nobody.
fn drop_dear_spot(found: &mut Vec<Candidate>) {
    let on_demand = found.iter().filter(|candidate| &*candidate.key.capacity_type == CAPACITY_TYPE_ON_DEMAND);
    let Some(cheapest) = on_demand.map(|candidate| candidate.price).min_by(f64::total_cmp) else { return };
    found.retain(|candidate| !candidate.is_spot() || candidate.price <= cheapest);
}
