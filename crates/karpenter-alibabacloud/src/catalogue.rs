//! From what the cloud says it sells, and what a class asks for, to the instance types the core plans with.
//!
//! Pure: the same answers give the same types. What costs time is done once: machines are described when the list of types changes, and put
//! together when a class's shape does; classes of one shape share them. New prices and stock change only the offerings they concern.

mod capacity;
mod disks;
mod labels;
mod name;
mod price;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_alibabacloud_client::ecs;
use karpenter_api::labels::alibabacloud::ZONE_ID;
use karpenter_api::labels::{
    CAPACITY_TYPE, CAPACITY_TYPE_ON_DEMAND, CAPACITY_TYPE_RESERVED, CAPACITY_TYPE_SPOT, ZONE,
};
use karpenter_core::catalog::{InstanceType, Offering, Overlaid, Reservation as Reserved};
use karpenter_core::requirements::{RequirementSet, ValueSet};
use karpenter_provider::{InstanceTypes, OfferingKey};

pub use capacity::Unsuited;
pub use disks::system_disk_categories;

use crate::market::{Refusals, Sales};
use crate::node_class::{
    Architecture, DiskCategory, Kubelet, Network, Reservation, ReservationPreference, ResolvedClass,
};

/// What was paid for in advance costs next to nothing more, and less where its type is cheaper.
const PAID_ALREADY: f64 = 1e-7;

/// Settings of the catalogue.
#[derive(Clone, Debug, PartialEq)]
pub struct CatalogueOptions {
    /// The region, a label of every node.
    pub region: Arc<str>,
    /// The share of a machine's memory that never reaches its system: `VM_MEMORY_OVERHEAD_PERCENT`.
    pub memory_overhead: f64,
}

/// Instance types for classes, remembered as long as nothing they depend on changes.
#[derive(Debug)]
pub struct Catalogue {
    options: CatalogueOptions,
    /// The list of types that the shelves were filled from.
    described: Arc<[Arc<ecs::InstanceType>]>,
    shelves: Vec<Shelf>,
}

/// Everything of a class that instance types depend on.
#[derive(Clone, Debug, PartialEq)]
struct Shape {
    zones: Vec<Arc<str>>,
    /// The image for each architecture.
    images: BTreeMap<Architecture, Arc<str>>,
    network: Network,
    kubelet: Kubelet,
    disk_gib: u32,
    disk_categories: Vec<DiskCategory>,
    encrypted: bool,
    /// Reservations: id, type and zone.
    reservations: Vec<[Arc<str>; 3]>,
    /// vSwitches with free addresses: zone and id.
    v_switches: Vec<[Arc<str>; 2]>,
}

/// The types of one shape.
#[derive(Debug)]
struct Shelf {
    shape: Shape,
    /// What the offerings were last brought up to date with.
    sales: Arc<Sales>,
    /// Whether something was refused then: what is refused changes with time.
    refused: bool,
    listed: Vec<Listed>,
    types: InstanceTypes,
}

/// A type and what its offerings are called.
#[derive(Debug)]
struct Listed {
    instance_type: Arc<InstanceType>,
    estimate: f64,
    keys: Vec<OfferingKey>,
    /// The image that machines of the type get.
    image: Arc<str>,
}

/// How many shapes are remembered; the least recently used goes first.
const SHELVES: usize = 16;

impl Catalogue {
    /// A catalogue that knows nothing yet.
    pub fn new(options: CatalogueOptions) -> Self {
        Self { options, described: Arc::default(), shelves: Vec::new() }
    }

    /// The instance types of a class with the prices and the stock of `now`. Every zone of the class is offered, in stock or not, so that a
    /// zone that sells out is no reason to replace the nodes in it.
    pub fn instance_types(
        &mut self,
        class: &ResolvedClass,
        sales: &Arc<Sales>,
        refusals: &Refusals,
        now: Timestamp,
    ) -> InstanceTypes {
        if !Arc::ptr_eq(&self.described, &sales.types) {
            self.described = Arc::clone(&sales.types);
            self.shelves.clear();
        }
        let shape = Shape::of(class);
        let known = self.shelves.iter().position(|shelf| shelf.shape == shape);
        let mut wanted = match known {
            Some(index) => self.shelves.remove(index),
            None => Shelf::fill(shape, class, &self.options, sales),
        };
        wanted.update(class, sales, refusals, now);
        let types = Arc::clone(&wanted.types);
        self.shelves.truncate(SHELVES - 1);
        self.shelves.insert(0, wanted);
        types
    }
}

impl Shape {
    fn of(class: &ResolvedClass) -> Self {
        let image = |architecture| Some((architecture, class.resolved.image(architecture)?.id.clone()));
        let disk = &class.class.system_disk;
        Self {
            zones: class.resolved.zones(),
            images: [Architecture::Amd64, Architecture::Arm64].into_iter().filter_map(image).collect(),
            network: class.resolved.cluster.as_ref().map_or(Network::Other, |cluster| cluster.network),
            kubelet: class.class.kubelet.clone(),
            disk_gib: disk.size_gib,
            disk_categories: disk.categories.clone(),
            encrypted: disk.encrypted,
            reservations: reservations(class).map(Reservation::name).collect(),
            v_switches: class
                .resolved
                .v_switches
                .iter()
                .filter(|one| one.free_addresses > 0)
                .map(|one| [one.zone.clone(), one.id.clone()])
                .collect(),
        }
    }
}

/// What a class may use of what was paid for in advance.
fn reservations(class: &ResolvedClass) -> impl Iterator<Item = &Reservation> {
    let used = class.class.reservation_preference != ReservationPreference::None;
    class.resolved.reservations.iter().filter(move |_| used)
}

impl Reservation {
    fn name(&self) -> [Arc<str>; 3] {
        [self.id.clone(), self.instance_type.clone(), self.zone.clone()]
    }
}

impl Shelf {
    fn fill(shape: Shape, class: &ResolvedClass, options: &CatalogueOptions, sales: &Arc<Sales>) -> Self {
        let terms = capacity::Terms {
            network: shape.network,
            kubelet: &shape.kubelet,
            system_disk_gib: shape.disk_gib,
            memory_overhead: options.memory_overhead,
        };
        let everywhere = places(&shape.zones);
        let list = |described: &Arc<ecs::InstanceType>| {
            let architecture = architecture(described)?;
            let sound = !described.instance_type_id.is_empty() && described.cpu_core_count > 0;
            let usable = sound && !system_disk_categories(described, &class.class.system_disk).is_empty();
            let pods = capacity::pods(described, &terms).filter(|_| usable)?;
            let image = shape.images.get(&architecture)?.clone();
            let reserved = reserved_places(&shape, &described.instance_type_id);
            let places: Vec<&Place> = everywhere.iter().chain(&reserved).collect();
            let instance_type = put_together(described, architecture, pods, (&terms, &places), options);
            Some(Listed {
                estimate: price::estimate(described, architecture),
                keys: places.iter().map(|place| place.key(&instance_type.name)).collect(),
                image,
                instance_type: Arc::new(instance_type),
            })
        };
        let mut listed: Vec<Listed> = sales.types.iter().filter_map(list).collect();
        listed.sort_by(|one, other| one.instance_type.name.cmp(&other.instance_type.name));
        Self { shape, sales: Arc::default(), refused: true, listed, types: Arc::default() }
    }

    /// Brings prices and stock up to date; types of which nothing changed are shared with those who hold the list of before.
    fn update(&mut self, class: &ResolvedClass, sales: &Arc<Sales>, refusals: &Refusals, now: Timestamp) {
        let settled = !self.refused && !refusals.any(now) && self.shape.reservations.is_empty();
        if settled && Arc::ptr_eq(&self.sales, sales) {
            return;
        }
        let today = Today::new(&self.shape, class, sales, refusals, now);
        let mut changed = self.types.len() != self.listed.len();
        for Listed { instance_type, estimate, keys, image } in &mut self.listed {
            let learned = sales.memory.get(&(instance_type.name.clone(), image.clone()));
            if let Some(memory) = learned.filter(|memory| instance_type.capacity.get("memory") != **memory) {
                Arc::make_mut(instance_type).capacity.insert("memory", *memory);
                changed = true;
            }
            for (index, key) in keys.iter().enumerate() {
                if let Some(offering) = today.news(&instance_type.offerings[index], key, *estimate) {
                    Arc::make_mut(instance_type).offerings[index] = offering;
                    changed = true;
                }
            }
        }
        if changed {
            self.types = self.listed.iter().map(|listed| Arc::clone(&listed.instance_type)).collect();
        }
        self.sales = Arc::clone(sales);
        self.refused = refusals.any(now);
    }
}

/// What offerings are brought up to date with.
struct Today<'a> {
    sales: &'a Sales,
    refusals: &'a Refusals,
    now: Timestamp,
    /// Zones in which a vSwitch has free addresses.
    open: BTreeSet<Arc<str>>,
    /// Machines left of reservations, by id, type and zone.
    left: BTreeMap<[Arc<str>; 3], u32>,
}

impl<'a> Today<'a> {
    fn new(
        shape: &Shape,
        class: &ResolvedClass,
        sales: &'a Sales,
        refusals: &'a Refusals,
        now: Timestamp,
    ) -> Self {
        let has_room = shape.v_switches.iter().filter(|[_, id]| !refusals.is_full(id, now));
        let left = |one: &Reservation| one.remaining.saturating_sub(refusals.taken(&one.id, now));
        Self {
            open: has_room.map(|[zone, _]| zone.clone()).collect(),
            left: reservations(class).map(|one| (one.name(), left(one))).collect(),
            sales,
            refusals,
            now,
        }
    }

    /// The offering as it is now; `None` if nothing has changed.
    fn news(&self, before: &Offering, key: &OfferingKey, estimate: f64) -> Option<Offering> {
        let spot = &*key.capacity_type == CAPACITY_TYPE_SPOT;
        let stocked =
            before.reservation.is_some() || self.sales.in_stock(&key.instance_type, &key.zone, spot);
        let available = stocked && self.open.contains(&key.zone) && !self.refusals.is_refused(key, self.now);
        let share = if before.reservation.is_some() { PAID_ALREADY } else { 1.0 };
        let price = price_of(self.sales, key, spot, estimate) * share;
        let reservation = before.reservation.as_ref().map(|Reserved { id, .. }| {
            let name = [id.clone(), key.instance_type.clone(), key.zone.clone()];
            Reserved { id: id.clone(), remaining: self.left.get(&name).copied().unwrap_or_default() }
        });
        let same = before.available == available
            && before.price.total_cmp(&price).is_eq()
            && before.reservation == reservation;
        (!same).then(|| Offering { available, price, reservation, ..before.clone() })
    }
}

/// The price the cloud said, or what is to be expected.
fn price_of(sales: &Sales, key: &OfferingKey, spot: bool, estimate: f64) -> f64 {
    let list_price = sales.on_demand_prices.get(&key.instance_type).copied().unwrap_or(estimate);
    if !spot {
        return list_price;
    }
    let zones = sales.spot_prices.get(&key.instance_type);
    zones.and_then(|zones| zones.get(&key.zone)).copied().unwrap_or(list_price * price::SPOT_SHARE)
}

/// A type's architecture. One that we do not know is no type that our images run on.
pub fn architecture(described: &ecs::InstanceType) -> Option<Architecture> {
    described.cpu_architecture.as_deref().map_or(Some(Architecture::Amd64), Architecture::parse)
}

/// A zone and capacity type that every type is offered in.
struct Place {
    requirements: Arc<RequirementSet>,
    zone: Arc<str>,
    capacity_type: Arc<str>,
    /// The reservation that a machine uses there.
    reservation: Option<Arc<str>>,
}

impl Place {
    fn key(&self, instance_type: &Arc<str>) -> OfferingKey {
        OfferingKey {
            instance_type: instance_type.clone(),
            zone: self.zone.clone(),
            capacity_type: self.capacity_type.clone(),
        }
    }
}

fn places(zones: &[Arc<str>]) -> Vec<Place> {
    let capacity_types: [Arc<str>; 2] = [CAPACITY_TYPE_SPOT.into(), CAPACITY_TYPE_ON_DEMAND.into()];
    let in_zones = |capacity_type: &Arc<str>| -> Vec<Place> {
        zones.iter().map(|zone| place(zone, capacity_type, None)).collect()
    };
    capacity_types.iter().flat_map(in_zones).collect()
}

fn place(zone: &Arc<str>, capacity_type: &Arc<str>, reservation: Option<Arc<str>>) -> Place {
    let mut requirements = RequirementSet::default();
    for (key, value) in [(ZONE, zone), (ZONE_ID, zone), (CAPACITY_TYPE, capacity_type)] {
        requirements.add(key.into(), &ValueSet::only([value.clone()]));
    }
    Place {
        requirements: Arc::new(requirements),
        zone: zone.clone(),
        capacity_type: capacity_type.clone(),
        reservation,
    }
}

/// The reservations of a type in the zones of the class.
fn reserved_places(shape: &Shape, instance_type: &str) -> Vec<Place> {
    let capacity_type: Arc<str> = CAPACITY_TYPE_RESERVED.into();
    let here =
        |[_, of_type, zone]: &&[Arc<str>; 3]| **of_type == *instance_type && shape.zones.contains(zone);
    let reserved = shape.reservations.iter().filter(here);
    reserved.map(|[id, _, zone]| place(zone, &capacity_type, Some(id.clone()))).collect()
}

fn put_together(
    described: &ecs::InstanceType,
    architecture: Architecture,
    pods: u64,
    (terms, places): (&capacity::Terms<'_>, &[&Place]),
    options: &CatalogueOptions,
) -> InstanceType {
    let name: Arc<str> = described.instance_type_id.as_str().into();
    let mut requirements = RequirementSet::default();
    for (key, value) in labels::of(described, architecture, &options.region) {
        requirements.add(key.into(), &ValueSet::only([value]));
    }
    let zones = || places.iter().map(|place| place.zone.clone());
    requirements.add(ZONE.into(), &ValueSet::only(zones()));
    requirements.add(ZONE_ID.into(), &ValueSet::only(zones()));
    let capacity_types = places.iter().map(|place| place.capacity_type.clone());
    requirements.add(CAPACITY_TYPE.into(), &ValueSet::only(capacity_types));
    InstanceType {
        name,
        requirements,
        offerings: places.iter().map(|place| offering(place)).collect(),
        capacity: capacity::capacity(described, pods, terms),
        overhead: capacity::overhead(described, pods, terms),
        volume_limits: volume_limits(described),
        overlaid: Overlaid::default(),
    }
}

fn offering(place: &Place) -> Offering {
    Offering {
        requirements: Arc::clone(&place.requirements),
        price: f64::NAN,
        available: false,
        reservation: place.reservation.clone().map(|id| Reserved { id, remaining: 0 }),
        capacity_override: None,
        overhead_override: None,
    }
}

/// The driver of cloud disks attaches as many as the type says, the system disk among them.
fn volume_limits(described: &ecs::InstanceType) -> BTreeMap<Arc<str>, u32> {
    let disks = described.disk_quantity.filter(|disks| *disks > 1);
    disks.map(|disks| ("diskplugin.csi.alibabacloud.com".into(), disks - 1)).into_iter().collect()
}

/// The labels a node of this type has in a zone: what is certain once the machine is chosen.
pub fn node_labels(instance_type: &InstanceType, offering: &Offering) -> BTreeMap<String, String> {
    let certain = |requirements: &RequirementSet| -> Vec<(String, String)> {
        let single =
            requirements.iter().filter_map(|(key, set)| Some((key.to_string(), set.single()?.to_string())));
        single.collect()
    };
    certain(&instance_type.requirements).into_iter().chain(certain(&offering.requirements)).collect()
}
