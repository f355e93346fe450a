//! From what EC2 sells, what a class asks for and what the market is like to instance types.
//!
//! [`Resolver::resolve`] is a function of its arguments; the resolver only remembers results. What does not depend on prices and stock is
//! worked out once for each class, labels once for all classes that have the same zones. When the market moves, only types whose
//! offerings moved become new objects; the rest stay the very same ones, so that whoever compiled them need not do so again.

use std::collections::BTreeSet;
use std::sync::Arc;

use karpenter_api::labels::{
    CAPACITY_TYPE, CAPACITY_TYPE_ON_DEMAND, CAPACITY_TYPE_RESERVED, CAPACITY_TYPE_SPOT, OS, WINDOWS_BUILD,
    ZONE, aws,
};
use karpenter_core::catalog::{InstanceType, Overlaid};
use karpenter_core::requirements::{RequirementSet, ValueSet};
use karpenter_quantity::{MEMORY, Quantity};
use rustc_hash::FxHashMap;

use crate::capacity::node_shape;
use crate::class::{CapacityReservation, ClassSettings, ControllerSettings, Expressions, PlacementGroup};
use crate::compatibility::compatibility;
use crate::market::Market;
use crate::offerings::{Places, same};
use crate::types::{RegionType, RegionTypes};

/// Remembers what classes resolved to.
pub struct Resolver {
    controller: ControllerSettings,
    expressions: Option<Arc<dyn Expressions>>,
    /// What the memory below is about.
    types: Option<Arc<RegionTypes>>,
    classes: FxHashMap<ClassSettings, Resolved>,
    labels: FxHashMap<LabelSettings, Arc<[RequirementSet]>>,
    /// Counts calls of [`Resolver::forget_unused`].
    round: u64,
}

/// One class.
struct Resolved {
    places: Places,
    market: Arc<Market>,
    types: Arc<[Arc<InstanceType>]>,
    used: u64,
}

/// The part of a class that labels depend on.
#[derive(Clone, PartialEq, Eq, Hash)]
struct LabelSettings {
    windows_build: Option<Arc<str>>,
    /// Names and ids.
    zones: Vec<(Arc<str>, Option<Arc<str>>)>,
    placement_group: Option<PlacementGroup>,
    reservations: Vec<CapacityReservation>,
}

impl Resolver {
    /// Remembers nothing yet. Without `expressions`, expressions in classes have no effect.
    pub fn new(controller: ControllerSettings, expressions: Option<Arc<dyn Expressions>>) -> Self {
        Self {
            controller,
            expressions,
            types: None,
            classes: FxHashMap::default(),
            labels: FxHashMap::default(),
            round: 0,
        }
    }

    /// The instance types of a class, by name. Types that cannot be nodes of the class are among them with no offering available, because
    /// nodes of them may still be running.
    pub fn resolve(
        &mut self,
        types: &Arc<RegionTypes>,
        class: &ClassSettings,
        market: &Arc<Market>,
    ) -> Arc<[Arc<InstanceType>]> {
        if !self.types.as_ref().is_some_and(|known| Arc::ptr_eq(known, types)) {
            self.types = Some(types.clone());
            self.classes.clear();
            self.labels.clear();
        }
        let class = relevant(class, market);
        let mut resolved = match self.classes.remove(&class) {
            Some(known) if Arc::ptr_eq(&known.market, market) => known,
            Some(known) if !forgotten(&known.market, market, &class) => {
                refreshed(known, types, &class, market)
            }
            _ => self.resolved(types, &class, market),
        };
        resolved.used = self.round;
        let result = resolved.types.clone();
        self.classes.insert(class, resolved);
        result
    }

    /// Forgets classes that nobody asked for since the last call.
    pub fn forget_unused(&mut self) {
        let round = self.round;
        self.classes.retain(|_, resolved| resolved.used == round);
        let used: Vec<LabelSettings> = self.classes.keys().map(LabelSettings::of).collect();
        self.labels.retain(|settings, _| used.contains(settings));
        self.round += 1;
    }

    fn resolved(&mut self, types: &RegionTypes, class: &ClassSettings, market: &Arc<Market>) -> Resolved {
        let settings = LabelSettings::of(class);
        let labels =
            self.labels.entry(settings).or_insert_with_key(|settings| all_labels(types, settings)).clone();
        let mut places = Places::default();
        let resolved = types.types().iter().zip(&*labels).map(|(known, labels)| {
            let shape = node_shape(known, class, self.controller, self.expressions.as_deref());
            let mut capacity = shape.capacity;
            if let Some(memory) = discovered(known, class, market) {
                capacity.insert(MEMORY, memory);
            }
            let compatible = compatibility(&known.facts, class).is_ok();
            Arc::new(InstanceType {
                name: known.facts.name.clone(),
                requirements: labels.clone(),
                offerings: places.offerings(known, class, market, compatible),
                capacity,
                overhead: shape.overhead,
                volume_limits: std::collections::BTreeMap::new(),
                overlaid: Overlaid::default(),
            })
        });
        let resolved = resolved.collect();
        Resolved { places, market: market.clone(), types: resolved, used: self.round }
    }
}

/// The class without what makes no difference in this market: images unless nodes of them were seen, subnets unless some are out of
/// addresses. Classes seldom differ in anything else.
fn relevant(class: &ClassSettings, market: &Market) -> ClassSettings {
    let mut class = class.clone();
    if !market.memory.keys().any(|(_, images)| *images == class.images) {
        class.images = Arc::default();
    }
    if market.refused.subnets.is_empty() {
        class.zones.iter_mut().for_each(|zone| zone.subnets.clear());
    }
    class
}

/// The class in another market: types that nothing happened to stay the same objects.
fn refreshed(
    mut before: Resolved,
    types: &RegionTypes,
    class: &ClassSettings,
    market: &Arc<Market>,
) -> Resolved {
    let touched = touched(&before.market, market, class);
    let mut changed = false;
    let now = types.types().iter().zip(&*before.types).map(|(known, before_type)| {
        if touched.as_ref().is_some_and(|touched| !touched.contains(&*known.facts.name)) {
            return before_type.clone();
        }
        let compatible = compatibility(&known.facts, class).is_ok();
        let offerings = before.places.offerings(known, class, market, compatible);
        let memory =
            discovered(known, class, market).filter(|memory| before_type.capacity.get(MEMORY) != *memory);
        if memory.is_none() && same(&before_type.offerings, &offerings) {
            return before_type.clone();
        }
        changed = true;
        let mut capacity = before_type.capacity.clone();
        if let Some(memory) = memory {
            capacity.insert(MEMORY, memory);
        }
        Arc::new(InstanceType {
            name: before_type.name.clone(),
            requirements: before_type.requirements.clone(),
            offerings,
            capacity,
            overhead: before_type.overhead.clone(),
            volume_limits: before_type.volume_limits.clone(),
            overlaid: before_type.overlaid,
        })
    });
    let now: Arc<[Arc<InstanceType>]> = now.collect();
    if changed {
        before.types = now;
    }
    before.market = market.clone();
    before
}

/// The types something may have happened to, unless it may be any.
fn touched<'a>(before: &'a Market, now: &'a Market, class: &'a ClassSettings) -> Option<BTreeSet<&'a str>> {
    let of_none_else = Arc::ptr_eq(&before.prices, &now.prices)
        && before.refused.capacity_types == now.refused.capacity_types
        && before.refused.subnets == now.refused.subnets
        && before.shifted_zones == now.shifted_zones
        && Arc::ptr_eq(&before.memory, &now.memory);
    let refused = before.refused.offerings.symmetric_difference(&now.refused.offerings);
    let emptied = |one: &&CapacityReservation| before.reserved.get(&one.id) != now.reserved.get(&one.id);
    let reserved = class.reservations.iter().filter(emptied);
    of_none_else.then(|| {
        let refused = refused.map(|one| &*one.instance_type);
        refused.chain(reserved.map(|one| &*one.instance_type)).collect()
    })
}

/// Whether memory that nodes of the class turned out to have is no longer known, so that it must be estimated again.
fn forgotten(before: &Market, now: &Market, class: &ClassSettings) -> bool {
    !Arc::ptr_eq(&before.memory, &now.memory)
        && before.memory.keys().any(|key| key.1 == class.images && !now.memory.contains_key(key))
}

/// The memory nodes of the type turned out to have with the class's images.
fn discovered(known: &RegionType, class: &ClassSettings, market: &Market) -> Option<Quantity> {
    if market.memory.is_empty() {
        return None;
    }
    market.memory.get(&(known.facts.name.clone(), class.images.clone())).copied()
}

impl LabelSettings {
    fn of(class: &ClassSettings) -> Self {
        Self {
            windows_build: class.family.windows_build.clone(),
            zones: class.zones.iter().map(|zone| (zone.name.clone(), zone.id.clone())).collect(),
            placement_group: class.placement_group.clone(),
            reservations: class.reservations.clone(),
        }
    }
}

/// All labels of all types.
fn all_labels(types: &RegionTypes, settings: &LabelSettings) -> Arc<[RequirementSet]> {
    let keys = Keys::default();
    types.types().iter().map(|known| labels(known, settings, &keys)).collect()
}

/// Keys of labels that depend on the class, each text once.
struct Keys {
    os: Arc<str>,
    windows_build: Arc<str>,
    zone: Arc<str>,
    zone_id: Arc<str>,
    capacity_type: Arc<str>,
    reservation_id: Arc<str>,
    reservation_type: Arc<str>,
    reservation_interruptible: Arc<str>,
    group: Arc<str>,
    partition: Arc<str>,
    on_demand: Arc<str>,
    spot: Arc<str>,
    reserved: Arc<str>,
}

impl Default for Keys {
    fn default() -> Self {
        Self {
            os: OS.into(),
            windows_build: WINDOWS_BUILD.into(),
            zone: ZONE.into(),
            zone_id: aws::ZONE_ID.into(),
            capacity_type: CAPACITY_TYPE.into(),
            reservation_id: aws::CAPACITY_RESERVATION_ID.into(),
            reservation_type: aws::CAPACITY_RESERVATION_TYPE.into(),
            reservation_interruptible: aws::CAPACITY_RESERVATION_INTERRUPTIBLE.into(),
            group: aws::PLACEMENT_GROUP_ID.into(),
            partition: aws::PLACEMENT_GROUP_PARTITION.into(),
            on_demand: CAPACITY_TYPE_ON_DEMAND.into(),
            spot: CAPACITY_TYPE_SPOT.into(),
            reserved: CAPACITY_TYPE_RESERVED.into(),
        }
    }
}

/// The labels of a type: its own, and those the class decides.
fn labels(known: &RegionType, settings: &LabelSettings, keys: &Keys) -> RequirementSet {
    let mut labels = known.labels.clone();
    let windows = settings.windows_build.as_ref();
    labels.add(keys.os.clone(), &ValueSet::only([if windows.is_some() { "windows" } else { "linux" }]));
    labels.add(keys.windows_build.clone(), &present(windows.cloned()));
    let zones = || settings.zones.iter().filter(|(name, _)| known.zones.contains(name));
    labels.add(keys.zone.clone(), &ValueSet::only(zones().map(|(name, _)| name.clone())));
    let ids: Vec<Arc<str>> = zones().filter_map(|(_, id)| id.clone()).collect();
    if !ids.is_empty() {
        labels.add(keys.zone_id.clone(), &ValueSet::only(ids));
    }
    let reservations: Vec<_> =
        settings.reservations.iter().filter(|one| one.instance_type == known.facts.name).collect();
    let sold =
        [&keys.on_demand, &keys.spot].into_iter().filter(|usage| known.facts.usage_classes.contains(usage));
    let sold = sold.chain((!reservations.is_empty()).then_some(&keys.reserved));
    labels.add(keys.capacity_type.clone(), &ValueSet::only(sold.cloned()));
    labels.add(keys.reservation_id.clone(), &present(reservations.iter().map(|one| one.id.clone())));
    let kinds = reservations.iter().map(|one| one.reservation_type.clone());
    labels.add(keys.reservation_type.clone(), &present(kinds));
    let interruptible = reservations.iter().map(|one| one.interruptible.to_string().into());
    labels.add(keys.reservation_interruptible.clone(), &present(interruptible));
    if let Some(group) = &settings.placement_group {
        labels.add(keys.group.clone(), &ValueSet::only([group.id.clone()]));
        let partitions: Vec<_> = group.partition_values().collect();
        if !partitions.is_empty() {
            labels.add(keys.partition.clone(), &ValueSet::only(partitions));
        }
    }
    labels
}

/// One of the values, or no label if there are none.
fn present(values: impl IntoIterator<Item = Arc<str>>) -> ValueSet {
    let values: Vec<_> = values.into_iter().collect();
    if values.is_empty() { ValueSet::does_not_exist() } else { ValueSet::only(values) }
}
