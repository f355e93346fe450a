//! The ways to buy a type under a class: one for each zone that has it and each capacity type, and one for each reservation.
//!
//! An offering says what a launch there would be, and whether there is reason to believe it would succeed.

use std::sync::Arc;

use karpenter_api::labels::{
    CAPACITY_TYPE, CAPACITY_TYPE_ON_DEMAND, CAPACITY_TYPE_RESERVED, CAPACITY_TYPE_SPOT, ZONE, aws,
};
use karpenter_core::catalog::{Offering, Reservation};
use karpenter_core::requirements::{RequirementSet, ValueSet};
use rustc_hash::FxHashMap;

use crate::class::{CapacityReservation, ClassSettings, ClassZone, PlacementGroup};
use crate::market::{Market, RefusedOffering, TypePrices};
use crate::types::RegionType;

/// A reserved machine is paid for already; what is left of the price only decides between reservations.
const RESERVED_SHARE: f64 = 1e-7;

/// Where and how a machine is bought.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Place {
    zone: Arc<str>,
    capacity_type: &'static str,
    partition: Option<Arc<str>>,
    /// Its id.
    reservation: Option<Arc<str>>,
}

/// The places of one class. Thousands of offerings have a handful of these, so each is made once.
#[derive(Default)]
pub(crate) struct Places {
    made: FxHashMap<Place, Arc<RequirementSet>>,
}

/// A type that is offered, with what the market says about it.
struct Ware<'a> {
    known: &'a RegionType,
    class: &'a ClassSettings,
    market: &'a Market,
    prices: Option<&'a TypePrices>,
    refused: Vec<&'a RefusedOffering>,
    compatible: bool,
}

impl Places {
    /// The offerings of a type. `compatible` says whether its machines can be nodes of the class.
    pub(crate) fn offerings(
        &mut self,
        known: &RegionType,
        class: &ClassSettings,
        market: &Market,
        compatible: bool,
    ) -> Vec<Offering> {
        let name = &known.facts.name;
        let (prices, refused) = (market.prices.of(name), market.refused.of(name));
        let ware = Ware { known, class, market, prices, refused, compatible };
        let partitions = partitions(class);
        let sold = |usage: &&str| known.facts.usage_classes.iter().any(|found| **found == **usage);
        let usages = [CAPACITY_TYPE_ON_DEMAND, CAPACITY_TYPE_SPOT];
        let mut offerings = Vec::with_capacity(known.zones.len() * usages.len() * partitions.len());
        for zone in &known.zones {
            let open = ware.is_open(zone);
            for capacity_type in usages.into_iter().filter(sold) {
                for partition in &partitions {
                    let zone = zone.clone();
                    let place =
                        Place { zone, capacity_type, partition: partition.clone(), reservation: None };
                    offerings.push(self.offering(place, &ware, open));
                }
            }
        }
        for reservation in class.reservations.iter().filter(|one| one.instance_type == *name) {
            for partition in &partitions {
                offerings.push(self.reserved(reservation, partition.clone(), &ware));
            }
        }
        offerings
    }

    fn offering(&mut self, place: Place, ware: &Ware<'_>, open: bool) -> Offering {
        let on_demand = ware.prices.and_then(TypePrices::on_demand);
        let price = match place.capacity_type {
            CAPACITY_TYPE_SPOT => {
                ware.prices.and_then(|prices| ware.market.prices.spot_of(prices, &place.zone))
            }
            _ => on_demand,
        };
        let available = open && price.is_some() && !ware.is_refused(&place);
        Offering {
            requirements: self.requirements(place, None, ware.class),
            // A machine that runs there costs something, even if a new one cannot be had.
            price: price.or(on_demand).unwrap_or(0.0),
            available,
            reservation: None,
            capacity_override: None,
            overhead_override: None,
        }
    }

    fn reserved(
        &mut self,
        reservation: &CapacityReservation,
        partition: Option<Arc<str>>,
        ware: &Ware<'_>,
    ) -> Offering {
        let remaining = ware.market.reserved.get(&reservation.id).copied().unwrap_or(0);
        let sold = ware.is_open(&reservation.zone) && ware.known.zones.contains(&reservation.zone);
        let place = Place {
            zone: reservation.zone.clone(),
            capacity_type: CAPACITY_TYPE_RESERVED,
            partition,
            reservation: Some(reservation.id.clone()),
        };
        Offering {
            requirements: self.requirements(place, Some(reservation), ware.class),
            price: ware.prices.and_then(TypePrices::on_demand).unwrap_or(0.0) * RESERVED_SHARE,
            available: sold && !reservation.expiring && remaining > 0,
            reservation: Some(Reservation { id: reservation.id.clone(), remaining }),
            capacity_override: None,
            overhead_override: None,
        }
    }

    fn requirements(
        &mut self,
        place: Place,
        reservation: Option<&CapacityReservation>,
        class: &ClassSettings,
    ) -> Arc<RequirementSet> {
        let make = |place: &Place| Arc::new(place_requirements(place, reservation, class));
        self.made.entry(place).or_insert_with_key(make).clone()
    }
}

impl Ware<'_> {
    /// Whether anything can be started in the zone: the class has a subnet there with addresses left, and traffic is not being moved out.
    fn is_open(&self, zone: &Arc<str>) -> bool {
        self.compatible
            && class_zone(zone, self.class)
                .is_some_and(|found| !self.market.refused.covers_all(&found.subnets))
            && !self.market.shifted_zones.contains(zone)
    }

    /// Whether it was refused itself, or in its whole group, or without any group.
    fn is_refused(&self, place: &Place) -> bool {
        let group = self.class.placement_group.as_ref().map(|group| &group.id);
        self.market.refused.capacity_types.contains(place.capacity_type)
            || self.refused.iter().any(|refused| {
                refused.zone == place.zone
                    && *refused.capacity_type == *place.capacity_type
                    && (refused.group.is_none() || refused.group.as_ref() == group)
                    && (refused.partition.is_none() || refused.partition == place.partition)
            })
    }
}

/// The partitions every offering is multiplied by, or one that is none.
fn partitions(class: &ClassSettings) -> Vec<Option<Arc<str>>> {
    let values = class.placement_group.iter().flat_map(PlacementGroup::partition_values);
    let values: Vec<_> = values.map(Some).collect();
    if values.is_empty() { vec![None] } else { values }
}

fn class_zone<'a>(zone: &str, class: &'a ClassSettings) -> Option<&'a ClassZone> {
    class.zones.iter().find(|found| &*found.name == zone)
}

fn place_requirements(
    place: &Place,
    reservation: Option<&CapacityReservation>,
    class: &ClassSettings,
) -> RequirementSet {
    let mut requirements = RequirementSet::default();
    let mut add = |key: &str, values: &ValueSet| requirements.add(key.into(), values);
    add(ZONE, &ValueSet::only([place.zone.clone()]));
    add(CAPACITY_TYPE, &ValueSet::only([place.capacity_type]));
    if let Some(id) = class_zone(&place.zone, class).and_then(|zone| zone.id.clone()) {
        add(aws::ZONE_ID, &ValueSet::only([id]));
    }
    if let Some(partition) = &place.partition {
        add(aws::PLACEMENT_GROUP_PARTITION, &ValueSet::only([partition.clone()]));
    }
    let value = |value: Option<Arc<str>>| {
        value.map_or_else(ValueSet::does_not_exist, |value| ValueSet::only([value]))
    };
    add(aws::CAPACITY_RESERVATION_ID, &value(reservation.map(|one| one.id.clone())));
    add(aws::CAPACITY_RESERVATION_TYPE, &value(reservation.map(|one| one.reservation_type.clone())));
    let interruptible = reservation.map(|one| one.interruptible.to_string().into());
    add(aws::CAPACITY_RESERVATION_INTERRUPTIBLE, &value(interruptible));
    requirements
}

/// Whether nothing changed. Places are made once, so the same place is the same object.
pub(crate) fn same(before: &[Offering], now: &[Offering]) -> bool {
    before.len() == now.len()
        && before.iter().zip(now).all(|(before, now)| {
            Arc::ptr_eq(&before.requirements, &now.requirements)
                && before.price.to_bits() == now.price.to_bits()
                && before.available == now.available
                && before.reservation == now.reservation
        })
}
