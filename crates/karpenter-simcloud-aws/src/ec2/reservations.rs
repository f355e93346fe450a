//! Capacity reservations and placement groups.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::dry_run;
use super::filters::{Described, Filters};
use super::templates::tags_for;
use crate::answer::Outcome;
use crate::wire::page::page;
use crate::wire::refusal::Refusal;
use crate::wire::xml::Xml;
use crate::world::{Call, World};

/// Capacity that is kept for the account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapacityReservation {
    /// Its id.
    pub id: String,
    /// Of which type.
    pub instance_type: String,
    /// In which zone.
    pub zone: String,
    /// How many instances.
    pub total: u32,
    /// `open` to any matching launch, or `targeted`.
    pub match_criteria: String,
    /// `default` or `capacity-block`.
    pub kind: String,
    /// Whether its instances can be taken back.
    pub interruptible: bool,
    /// When it ends.
    pub end: Option<Timestamp>,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
}

impl CapacityReservation {
    /// A reservation without an end that launches must ask for.
    pub fn targeted(id: &str, instance_type: &str, zone: &str, total: u32) -> Self {
        Self {
            id: id.to_owned(),
            instance_type: instance_type.to_owned(),
            zone: zone.to_owned(),
            total,
            match_criteria: "targeted".to_owned(),
            kind: "default".to_owned(),
            interruptible: false,
            end: None,
            tags: BTreeMap::new(),
        }
    }

    pub(super) fn state(&self, now: Timestamp) -> &'static str {
        if self.end.is_some_and(|end| end <= now) { "expired" } else { "active" }
    }
}

/// Machines that are placed near or far from each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacementGroup {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// `cluster`, `partition` or `spread`.
    pub strategy: String,
    /// How many partitions it has.
    pub partitions: Option<u32>,
    /// `rack` or `host`, of groups that spread.
    pub spread_level: Option<String>,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
}

/// A reservation as filters see it, at a time.
struct View<'a> {
    reservation: &'a CapacityReservation,
    owner: &'a str,
    state: &'static str,
}

impl Described for View<'_> {
    fn values(&self, filter: &str) -> Option<Vec<String>> {
        let reservation = self.reservation;
        Some(vec![match filter {
            "state" => self.state.to_owned(),
            "instance-type" => reservation.instance_type.clone(),
            "availability-zone" => reservation.zone.clone(),
            "owner-id" => self.owner.to_owned(),
            "instance-match-criteria" => reservation.match_criteria.clone(),
            "tenancy" => "default".to_owned(),
            _ => return None,
        }])
    }

    fn tags(&self) -> &BTreeMap<String, String> {
        &self.reservation.tags
    }
}

impl Described for PlacementGroup {
    fn values(&self, filter: &str) -> Option<Vec<String>> {
        Some(vec![match filter {
            "group-name" => self.name.clone(),
            "group-id" => self.id.clone(),
            "state" => "available".to_owned(),
            "strategy" => self.strategy.clone(),
            "spread-level" => self.spread_level.clone().unwrap_or_default(),
            _ => return None,
        }])
    }

    fn tags(&self) -> &BTreeMap<String, String> {
        &self.tags
    }
}

impl World {
    /// How many instances of a reservation can still be had.
    pub(crate) fn reserved_left(&self, reservation: &CapacityReservation) -> u32 {
        let used = |instance: &&crate::instances::Instance| {
            instance.is_alive() && instance.capacity_reservation.as_ref() == Some(&reservation.id)
        };
        reservation.total.saturating_sub(self.instances.values().filter(used).count() as u32)
    }
}

pub(super) fn describe(world: &World, call: &Call<'_>) -> Outcome {
    let ids = call.form.texts("CapacityReservationId");
    if let Some(id) = ids.iter().find(|id| !world.reservations.contains_key(*id)) {
        let message = format!("The specified Capacity Reservation '{id}' does not exist.");
        return Err(Refusal::new("InvalidCapacityReservationId.NotFound", message));
    }
    let views: Vec<View<'_>> = world
        .reservations
        .values()
        .filter(|reservation| ids.is_empty() || ids.contains(&reservation.id))
        .map(|reservation| View {
            reservation,
            owner: &world.description.account,
            state: reservation.state(call.now),
        })
        .collect();
    let found = Filters::read(call).select(&views)?;
    dry_run(call)?;
    let key = |view: &&View<'_>| view.reservation.id.clone();
    let page = page(found, key, call.form.number("MaxResults"), call.form.text("NextToken"))?;
    let mut xml = Xml::new();
    xml.items("capacityReservationSet", page.items, |xml, view| {
        write(xml, world, view.reservation, call.now);
    });
    xml.maybe("nextToken", page.next);
    Ok(xml.into())
}

fn write(xml: &mut Xml, world: &World, reservation: &CapacityReservation, now: Timestamp) {
    let arn = world.description.arn("ec2", &format!("capacity-reservation/{}", reservation.id));
    let zone = world.network.zones.iter().find(|zone| zone.name == reservation.zone);
    xml.leaf("capacityReservationId", &reservation.id)
        .leaf("ownerId", &world.description.account)
        .leaf("capacityReservationArn", arn)
        .leaf("instanceType", &reservation.instance_type)
        .leaf("instancePlatform", "Linux/UNIX")
        .leaf("availabilityZone", &reservation.zone)
        .maybe("availabilityZoneId", zone.map(|zone| &zone.id))
        .leaf("tenancy", "default")
        .leaf("totalInstanceCount", reservation.total)
        .leaf("availableInstanceCount", world.reserved_left(reservation))
        .leaf("ebsOptimized", true)
        .leaf("ephemeralStorage", false)
        .leaf("state", reservation.state(now))
        .maybe("endDate", reservation.end.map(super::discovery::date))
        .leaf("endDateType", if reservation.end.is_some() { "limited" } else { "unlimited" })
        .leaf("instanceMatchCriteria", &reservation.match_criteria)
        .leaf("reservationType", &reservation.kind)
        .leaf("interruptible", reservation.interruptible)
        .tags(&reservation.tags);
}

pub(super) fn create(world: &mut World, call: &Call<'_>) -> Outcome {
    let text = |name: &str| call.form.owned(name).ok_or_else(|| Refusal::missing(name));
    let reservation = CapacityReservation {
        id: world.id("cr"),
        instance_type: text("InstanceType")?,
        zone: text("AvailabilityZone")?,
        total: call.form.number("InstanceCount").ok_or_else(|| Refusal::missing("InstanceCount"))?,
        match_criteria: call.form.text("InstanceMatchCriteria").unwrap_or("open").to_owned(),
        kind: "default".to_owned(),
        interruptible: false,
        end: call.form.text("EndDate").and_then(|end| end.parse().ok()),
        tags: call
            .form
            .list("TagSpecifications")
            .into_iter()
            .flat_map(|specification| specification.tags("Tag"))
            .collect(),
    };
    dry_run(call)?;
    let mut xml = Xml::new();
    xml.node("capacityReservation", |xml| write(xml, world, &reservation, call.now));
    world.reservations.insert(reservation.id.clone(), reservation);
    Ok(xml.into())
}

pub(super) fn describe_groups(world: &World, call: &Call<'_>) -> Outcome {
    let names = call.form.texts("GroupName");
    let ids = call.form.texts("GroupId");
    let groups = || world.placement_groups.values();
    let missing = names.iter().find(|name| !groups().any(|group| group.name == **name));
    if let Some(name) = missing.or_else(|| ids.iter().find(|id| !groups().any(|group| group.id == **id))) {
        let message = format!("The Placement Group '{name}' is unknown.");
        return Err(Refusal::new("InvalidPlacementGroup.Unknown", message));
    }
    let wanted = |group: &&PlacementGroup| {
        (names.is_empty() || names.contains(&group.name)) && (ids.is_empty() || ids.contains(&group.id))
    };
    let found = Filters::read(call).select(groups().filter(wanted))?;
    dry_run(call)?;
    let mut xml = Xml::new();
    xml.items("placementGroupSet", found, |xml, group| write_group(xml, world, group));
    Ok(xml.into())
}

fn write_group(xml: &mut Xml, world: &World, group: &PlacementGroup) {
    xml.leaf("groupName", &group.name)
        .leaf("strategy", &group.strategy)
        .leaf("state", "available")
        .maybe("partitionCount", group.partitions)
        .leaf("groupId", &group.id)
        .leaf("groupArn", world.description.arn("ec2", &format!("placement-group/{}", group.name)))
        .maybe("spreadLevel", group.spread_level.as_ref())
        .tags(&group.tags);
}

pub(super) fn create_group(world: &mut World, call: &Call<'_>) -> Outcome {
    let name = call.form.owned("GroupName").ok_or_else(|| Refusal::missing("GroupName"))?;
    if world.placement_groups.values().any(|group| group.name == name) {
        let message = format!("The placement group '{name}' already exists.");
        return Err(Refusal::new("InvalidPlacementGroup.Duplicate", message));
    }
    let strategy = call.form.text("Strategy").unwrap_or("cluster").to_owned();
    let group = PlacementGroup {
        id: world.id("pg"),
        name,
        partitions: (strategy == "partition").then(|| call.form.number("PartitionCount").unwrap_or(2)),
        spread_level: (strategy == "spread")
            .then(|| call.form.text("SpreadLevel").unwrap_or("rack").to_owned()),
        strategy,
        tags: tags_for(&call.form, "placement-group"),
    };
    dry_run(call)?;
    let mut xml = Xml::new();
    xml.node("placementGroup", |xml| write_group(xml, world, &group));
    world.placement_groups.insert(group.id.clone(), group);
    Ok(xml.into())
}
