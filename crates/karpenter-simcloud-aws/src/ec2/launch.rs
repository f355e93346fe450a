//! Launching one instance: everything EC2 checks, in the order in which it matters, and what then comes to life.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use karpenter_aws_catalogue::{Embedded, Region, TypeFacts};

use super::reservations::CapacityReservation;
use super::templates::{tags_for, user_data};
use crate::images::Image;
use crate::instances::{CapacityType, Impairment, Instance, Interface, Volume, offering};
use crate::life::Due;
use crate::network::Subnet;
use crate::wire::form::Form;
use crate::wire::refusal::Refusal;
use crate::world::World;

/// Instances that a rack-level spread group takes in one zone.
const SPREAD_LIMIT: usize = 7;

/// How long before a capacity block ends its instances are ended.
const BLOCK_CLOSES: SignedDuration = SignedDuration::from_mins(30);

/// What is to be launched.
#[derive(Clone, Debug)]
pub(super) struct Launch {
    /// In the names of launch templates.
    pub(super) data: Arc<Form>,
    pub(super) instance_type: String,
    pub(super) subnet: String,
    pub(super) image: String,
    pub(super) capacity_type: CapacityType,
    /// Further tags, by the kind of resource.
    pub(super) tags: Arc<Form>,
    pub(super) fleet: Option<String>,
    pub(super) reservation: String,
    pub(super) client_token: Option<String>,
}

/// What a launch needs, found and fit for each other.
struct Parts {
    facts: Arc<TypeFacts>,
    image: Image,
    subnet: Subnet,
    groups: Vec<String>,
    profile: Option<String>,
    user_data: Vec<u8>,
}

fn invalid(message: impl Into<String>) -> Refusal {
    Refusal::new("InvalidParameterValue", message)
}

impl World {
    /// The region's offerings and prices.
    pub(crate) fn sales(&self) -> &'static Arc<Region> {
        Embedded::get().region_or_fallback(&self.description.region)
    }

    /// Whether a type is sold in a zone.
    fn sells(&self, instance_type: &str, zone: &str) -> bool {
        let local = self.description.local_zones.iter().filter(|local| local.zone.name == zone);
        self.sales().sells(instance_type, zone)
            || local.flat_map(|local| &local.instance_types).any(|sold| sold == instance_type)
    }

    /// What an offering costs now; `None` where it has no price.
    pub(crate) fn price(
        &self,
        instance_type: &str,
        zone: &str,
        kind: CapacityType,
        now: Timestamp,
    ) -> Option<f64> {
        let list = match kind {
            CapacityType::Spot => self.sales().spot(instance_type, zone),
            CapacityType::OnDemand | CapacityType::Reserved => self.sales().on_demand(instance_type),
        }?;
        Some(self.market.price(&offering(instance_type, zone, kind), list, now))
    }

    /// Says what is wrong with a launch, without buying anything.
    pub(super) fn check_launch(&self, launch: &Launch, now: Timestamp) -> Result<(), Refusal> {
        self.parts(launch, now).map(drop)
    }

    fn parts(&self, launch: &Launch, now: Timestamp) -> Result<Parts, Refusal> {
        let name = &launch.instance_type;
        let facts = Embedded::get().facts(name);
        let facts = facts.ok_or_else(|| invalid(format!("Invalid value '{name}' for InstanceType.")))?;
        let subnet = self.network.subnets.get(&launch.subnet).ok_or_else(|| {
            let message = format!("The subnet ID '{}' does not exist", launch.subnet);
            Refusal::new("InvalidSubnetID.NotFound", message)
        })?;
        self.check_offering(launch, facts, subnet)?;
        let image = self.image(launch, facts, now)?;
        let groups = self.groups(launch, subnet)?;
        let profile = self.profile(launch)?;
        check_interfaces(launch, facts)?;
        let user_data = user_data(&launch.data)?;
        Ok(Parts {
            facts: Arc::clone(facts),
            image: image.clone(),
            subnet: subnet.clone(),
            groups,
            profile,
            user_data,
        })
    }

    fn check_offering(&self, launch: &Launch, facts: &TypeFacts, subnet: &Subnet) -> Result<(), Refusal> {
        let (name, zone) = (&facts.name, &subnet.zone.name);
        if !self.sells(name, zone) {
            let sold = self.network.zones.iter().filter(|zone| self.sells(name, &zone.name));
            let sold: Vec<&str> = sold.map(|zone| &*zone.name).collect();
            let message = format!(
                "Your requested instance type ({name}) is not supported in your requested Availability Zone ({zone}). \
                 Please retry your request by not specifying an Availability Zone or choosing {}.",
                sold.join(", ")
            );
            return Err(Refusal::new("Unsupported", message));
        }
        let class = if launch.capacity_type == CapacityType::Spot { "spot" } else { "on-demand" };
        let sold_so = facts.usage_classes.iter().any(|sold| &**sold == class);
        if !sold_so && launch.capacity_type != CapacityType::Reserved {
            let message = format!(
                "The requested configuration is currently not supported: {name} cannot be had as {class}."
            );
            return Err(Refusal::new("Unsupported", message));
        }
        Ok(())
    }

    fn image(&self, launch: &Launch, facts: &TypeFacts, now: Timestamp) -> Result<&Image, Refusal> {
        let id = &launch.image;
        if !id.starts_with("ami-") {
            return Err(Refusal::new(
                "InvalidAMIID.Malformed",
                format!("Invalid id: \"{id}\" (expecting \"ami-...\")"),
            ));
        }
        let there = |image: &&Image| image.created <= now && image.state == "available";
        let image = self.images.images.get(id).filter(there).ok_or_else(|| {
            Refusal::new("InvalidAMIID.NotFound", format!("The image id '[{id}]' does not exist"))
        })?;
        if !facts.architectures.iter().any(|architecture| **architecture == *image.architecture) {
            let own = facts.architectures.first().map_or("", |architecture| architecture);
            return Err(invalid(format!(
                "The architecture '{own}' of the specified instance type does not match the architecture '{}' of the \
                 specified AMI. Specify an instance type and an AMI that have matching architectures, and try again.",
                image.architecture
            )));
        }
        Ok(image)
    }

    /// The groups of the first interface, which must be in the subnet's network.
    fn groups(&self, launch: &Launch, subnet: &Subnet) -> Result<Vec<String>, Refusal> {
        let interfaces = launch.data.list("NetworkInterface");
        let mut groups =
            interfaces.first().map_or_else(Vec::new, |interface| interface.texts("SecurityGroupId"));
        if groups.is_empty() {
            groups = launch.data.texts("SecurityGroupId");
        } else if !launch.data.texts("SecurityGroupId").is_empty() {
            let message = "Network interfaces and an instance-level security groups may not be specified on the same request";
            return Err(Refusal::new("InvalidParameterCombination", message));
        }
        for id in &groups {
            let group = self.network.security_groups.get(id).ok_or_else(|| {
                Refusal::new("InvalidGroup.NotFound", format!("The security group '{id}' does not exist"))
            })?;
            if group.vpc != subnet.vpc {
                let message =
                    format!("Security group {id} and subnet {} belong to different networks.", subnet.id);
                return Err(Refusal::new("InvalidParameter", message));
            }
        }
        if groups.is_empty() {
            let own =
                |group: &&crate::network::SecurityGroup| group.name == "default" && group.vpc == subnet.vpc;
            groups.extend(self.network.security_groups.values().find(own).map(|group| group.id.clone()));
        }
        Ok(groups)
    }

    fn profile(&self, launch: &Launch) -> Result<Option<String>, Refusal> {
        let Some(chosen) = launch.data.field("IamInstanceProfile") else { return Ok(None) };
        let name = chosen.text("Name").or_else(|| chosen.text("Arn")?.rsplit('/').next()).unwrap_or("");
        if !self.identities.profiles.contains_key(name) {
            return Err(invalid(format!(
                "Value ({name}) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name"
            )));
        }
        Ok(Some(name.to_owned()))
    }

    /// Launches one instance and returns its id.
    pub(super) fn launch(&mut self, launch: &Launch, now: Timestamp) -> Result<String, Refusal> {
        let parts = self.parts(launch, now)?;
        if parts.subnet.free() == 0 {
            let message = format!(
                "There are not enough free addresses in subnet '{}' to satisfy the requested number of instances.",
                parts.subnet.id
            );
            return Err(Refusal::new("InsufficientFreeAddressesInSubnet", message));
        }
        self.check_quotas(launch, &parts.facts)?;
        let (group, partition) = self.placement(launch, &parts)?;
        let key = offering(&parts.facts.name, &parts.subnet.zone.name, launch.capacity_type);
        let environment = Arc::clone(&self.environment);
        if let Some(code) = self.faults.draw_capacity(&key, &*environment) {
            return Err(no_capacity(&code, &key.instance_type, &key.zone));
        }
        let id = self.id("i");
        let reserved = self.reserve(launch, &parts, now)?;
        if reserved.is_none() {
            self.market.buy(&key, &id, now).map_err(|why| {
                let mut refusal = no_capacity("InsufficientInstanceCapacity", &key.instance_type, &key.zone);
                refusal.message = format!("{} ({why})", refusal.message);
                refusal
            })?;
        }
        let mut instance = self.instance(id.clone(), launch, parts, now);
        instance.placement_group = group;
        instance.partition = partition;
        instance.lifecycle = lifecycle(launch, reserved.as_ref());
        if let Some(reservation) = reserved {
            instance.capacity_type = CapacityType::Reserved;
            if let Some(end) = reservation.end.filter(|_| reservation.kind == "capacity-block") {
                let end = end.saturating_sub(BLOCK_CLOSES).unwrap_or(end);
                self.agenda.add(end, Due::TakenBack, &id);
            }
            instance.capacity_reservation = Some(reservation.id);
        }
        self.begin(instance);
        Ok(id)
    }

    fn check_quotas(&self, launch: &Launch, facts: &TypeFacts) -> Result<(), Refusal> {
        let alive = || {
            let alive = self.instances.values().filter(|instance| instance.is_alive());
            alive.filter(|instance| instance.capacity_type == launch.capacity_type)
        };
        let limits = &self.description;
        match launch.capacity_type {
            CapacityType::Spot
                if limits.spot_instances.is_some_and(|most| alive().count() >= most as usize) =>
            {
                Err(Refusal::new("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded"))
            }
            CapacityType::OnDemand => {
                let Some(most) = limits.on_demand_vcpus else { return Ok(()) };
                let used: u32 = alive().map(|instance| instance.facts.vcpus).sum();
                if used + facts.vcpus <= most {
                    return Ok(());
                }
                let message = format!(
                    "You have requested more vCPU capacity than your current vCPU limit of {most} allows for the \
                     instance bucket that the specified instance type belongs to."
                );
                Err(Refusal::new("VcpuLimitExceeded", message))
            }
            _ => Ok(()),
        }
    }

    /// The placement group and the partition in it.
    fn placement(&self, launch: &Launch, parts: &Parts) -> Result<(Option<String>, Option<u32>), Refusal> {
        let placement = launch.data.field("Placement");
        let named = |field: &str| placement.and_then(|placement| placement.text(field));
        let (id, name) = (named("GroupId"), named("GroupName"));
        if id.is_none() && name.is_none() {
            return Ok((None, None));
        }
        let group = self
            .placement_groups
            .values()
            .find(|group| id == Some(&*group.id) || name == Some(&*group.name))
            .ok_or_else(|| {
                let wanted = id.or(name).unwrap_or("");
                Refusal::new(
                    "InvalidPlacementGroup.Unknown",
                    format!("The placement group '{wanted}' is unknown."),
                )
            })?;
        if !parts.facts.placement_strategies.iter().any(|strategy| **strategy == *group.strategy) {
            let message = format!(
                "{} placement groups are not supported by the '{}' instance type.",
                group.strategy, parts.facts.name
            );
            return Err(Refusal::new("InvalidParameterCombination", message));
        }
        let here = || {
            let inside = self.instances.values().filter(|instance| instance.is_alive());
            inside.filter(|instance| {
                instance.placement_group.as_ref() == Some(&group.id) && instance.zone == parts.subnet.zone
            })
        };
        if group.strategy == "spread" && here().count() >= SPREAD_LIMIT {
            let message = format!(
                "You have reached the limit of {SPREAD_LIMIT} instances in a spread placement group in an Availability \
                 Zone. Reduce the number of instances in this Availability Zone."
            );
            return Err(Refusal::new("InsufficientInstanceCapacity", message));
        }
        // Without a wish the emptiest partition is taken.
        let partition = group.partitions.map(|count| {
            let wished = named("PartitionNumber").and_then(|number| number.parse().ok());
            let filled = |number: &u32| here().filter(|instance| instance.partition == Some(*number)).count();
            wished.unwrap_or_else(|| (1..=count).min_by_key(filled).unwrap_or(1))
        });
        Ok((Some(group.id.clone()), partition))
    }

    /// The reservation the launch counts against: the one it names, or an open one that matches.
    fn reserve(
        &self,
        launch: &Launch,
        parts: &Parts,
        now: Timestamp,
    ) -> Result<Option<CapacityReservation>, Refusal> {
        let wish = launch.data.field("CapacityReservationSpecification");
        let target = wish.and_then(|wish| wish.text("CapacityReservationTarget.CapacityReservationId"));
        let preference = wish.and_then(|wish| wish.text("CapacityReservationPreference"));
        let fits = |reservation: &CapacityReservation| {
            *reservation.instance_type == *parts.facts.name
                && reservation.zone == parts.subnet.zone.name
                && reservation.state(now) == "active"
        };
        if let Some(id) = target {
            let reservation = self.reservations.get(id).ok_or_else(|| {
                let message = format!("The specified Capacity Reservation '{id}' does not exist.");
                Refusal::new("InvalidCapacityReservationId.NotFound", message)
            })?;
            if !fits(reservation) || self.reserved_left(reservation) == 0 {
                let message = format!("The requested capacity exceeds what is available in {id}.");
                return Err(Refusal::new("ReservationCapacityExceeded", message));
            }
            return Ok(Some(reservation.clone()));
        }
        if preference == Some("none") || launch.capacity_type == CapacityType::Spot {
            return Ok(None);
        }
        let open = self.reservations.values().find(|reservation| {
            reservation.match_criteria == "open" && fits(reservation) && self.reserved_left(reservation) > 0
        });
        match open {
            None if preference == Some("capacity-reservations-only") => {
                let message = "No capacity reservation matches the launch.";
                Err(Refusal::new("ReservationCapacityExceeded", message))
            }
            found => Ok(found.cloned()),
        }
    }

    fn instance(&mut self, id: String, launch: &Launch, parts: Parts, now: Timestamp) -> Instance {
        let Parts { facts, image, subnet, groups, profile, user_data } = parts;
        self.launched += 1;
        let address = subnet.address(self.launched);
        let domain = if self.description.region == "us-east-1" {
            "ec2.internal".to_owned()
        } else {
            format!("{}.compute.internal", self.description.region)
        };
        let tags = |resource: &str| -> BTreeMap<String, String> {
            // What a launch says itself is added to what its template says.
            let mut tags = tags_for(&launch.data, resource);
            tags.extend(tags_for(&launch.tags, resource));
            tags
        };
        Instance {
            dns_name: format!("ip-{}.{domain}", address.replace('.', "-")),
            address,
            reservation: launch.reservation.clone(),
            fleet: launch.fleet.clone(),
            price: self.price(&facts.name, &subnet.zone.name, launch.capacity_type, now),
            interfaces: self.interfaces(launch, &subnet, &groups),
            volumes: self.volumes(launch, &image),
            spot_request: (launch.capacity_type == CapacityType::Spot)
                .then(|| self.id("sir").replacen("sir-0", "sir-", 1)),
            lifecycle: None,
            capacity_reservation: None,
            instance_profile: profile,
            placement_group: None,
            partition: None,
            tags: tags("instance"),
            volume_tags: tags("volume"),
            interface_tags: tags("network-interface"),
            spot_request_tags: tags("spot-instances-request"),
            launched: now,
            running: now.saturating_add(self.description.start_time).unwrap_or(Timestamp::MAX),
            impairment: Impairment::default(),
            events: Vec::new(),
            data: Arc::clone(&launch.data),
            client_token: launch.client_token.clone(),
            stopped: None,
            end: None,
            joined: false,
            capacity_type: launch.capacity_type,
            subnet: subnet.id,
            zone: subnet.zone,
            id,
            facts,
            image,
            user_data,
        }
    }

    fn interfaces(&self, launch: &Launch, subnet: &Subnet, groups: &[String]) -> Vec<Interface> {
        let wished = launch.data.list("NetworkInterface");
        let empty = Form::default();
        let wished = if wished.is_empty() { vec![&empty] } else { wished };
        let interface = |(index, form): (usize, &Form)| {
            let own = form.texts("SecurityGroupId");
            Interface {
                id: self.id("eni"),
                kind: form.text("InterfaceType").unwrap_or("interface").to_owned(),
                card: form.number("NetworkCardIndex").unwrap_or(0),
                device: form.number("DeviceIndex").unwrap_or(index as u32),
                groups: if own.is_empty() { groups.to_vec() } else { own },
                public: form.text("AssociatePublicIpAddress").map_or(subnet.public, |flag| flag == "true"),
                ipv4_prefixes: form.number("Ipv4PrefixCount").unwrap_or(0),
            }
        };
        wished.into_iter().enumerate().map(interface).collect()
    }

    /// The mapped devices, and the image's root device if it is not among them.
    fn volumes(&self, launch: &Launch, image: &Image) -> Vec<Volume> {
        let mapped = launch.data.list("BlockDeviceMapping");
        let volume = |device: &str, ebs: &Form| Volume {
            id: self.id("vol"),
            device: device.to_owned(),
            gib: ebs.number("VolumeSize").unwrap_or(20),
            kind: ebs.text("VolumeType").unwrap_or("gp3").to_owned(),
            encrypted: ebs.flag("Encrypted"),
            kms_key: ebs.owned("KmsKeyId"),
            iops: ebs.number("Iops"),
            throughput: ebs.number("Throughput"),
            delete_on_termination: ebs.text("DeleteOnTermination").is_none_or(|flag| flag == "true"),
        };
        let empty = Form::default();
        let mut volumes: Vec<Volume> = mapped
            .iter()
            .map(|mapping| {
                volume(mapping.text("DeviceName").unwrap_or(""), mapping.field("Ebs").unwrap_or(&empty))
            })
            .collect();
        if !volumes.iter().any(|volume| volume.device == image.root_device) {
            volumes.insert(0, volume(&image.root_device, &empty));
        }
        volumes
    }
}

fn lifecycle(launch: &Launch, reserved: Option<&CapacityReservation>) -> Option<String> {
    let word = match reserved {
        _ if launch.capacity_type == CapacityType::Spot => "spot",
        Some(reservation) if reservation.kind == "capacity-block" => "capacity-block",
        Some(reservation) if reservation.interruptible => "interruptible-capacity-reservation",
        _ => return None,
    };
    Some(word.to_owned())
}

fn check_interfaces(launch: &Launch, facts: &TypeFacts) -> Result<(), Refusal> {
    let interfaces = launch.data.list("NetworkInterface");
    let efa = interfaces
        .iter()
        .filter(|form| form.text("InterfaceType").is_some_and(|kind| kind.starts_with("efa")));
    let efa = efa.count() as u32;
    if efa > facts.network.max_efa_interfaces.unwrap_or(0) {
        return Err(Refusal::new(
            "InvalidParameterCombination",
            format!("The instance type {} does not support {efa} EFA interfaces.", facts.name),
        ));
    }
    let cards = facts.network.cards.len().max(1) as u32;
    let beyond = interfaces
        .iter()
        .filter_map(|form| form.number::<u32>("NetworkCardIndex"))
        .find(|card| *card >= cards);
    match beyond {
        Some(card) => Err(invalid(format!(
            "networkCardIndex {card} is not valid for the instance type {}.",
            facts.name
        ))),
        None => Ok(()),
    }
}

fn no_capacity(code: &str, instance_type: &str, zone: &str) -> Refusal {
    let message = match code {
        "UnfulfillableCapacity" => "Unable to fulfill capacity due to your request configuration. Please adjust your request and try again.".to_owned(),
        "InsufficientInstanceCapacity" => format!(
            "We currently do not have sufficient {instance_type} capacity in the Availability Zone you requested ({zone}). \
             Our system will be working on provisioning additional capacity."
        ),
        other => format!("{other} for {instance_type} in {zone}."),
    };
    Refusal::new(code, message)
}
