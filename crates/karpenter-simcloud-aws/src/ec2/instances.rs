//! Describing, tagging, checking and ending instances, and starting them one kind at a time.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::discovery::date;
use super::filters::{Described, Filters};
use super::launch::Launch;
use super::{dry_run, templates};
use crate::answer::Outcome;
use crate::instances::{CapacityType, Instance, Interface, state_code};
use crate::wire::form::Form;
use crate::wire::page::page;
use crate::wire::refusal::Refusal;
use crate::wire::xml::Xml;
use crate::world::{Call, World};

/// An instance at a time.
struct View<'a> {
    instance: &'a Instance,
    state: &'static str,
}

impl Described for View<'_> {
    fn values(&self, filter: &str) -> Option<Vec<String>> {
        let instance = self.instance;
        Some(match filter {
            "instance-id" => vec![instance.id.clone()],
            "instance-state-name" => vec![self.state.to_owned()],
            "instance-state-code" => vec![state_code(self.state).to_string()],
            "instance-type" => vec![instance.facts.name.to_string()],
            "instance-lifecycle" => instance.lifecycle.iter().cloned().collect(),
            "availability-zone" => vec![instance.zone.name.clone()],
            "availability-zone-id" => vec![instance.zone.id.clone()],
            "image-id" => vec![instance.image.id.clone()],
            "subnet-id" => vec![instance.subnet.clone()],
            "private-dns-name" => vec![instance.dns_name.clone()],
            "private-ip-address" => vec![instance.address.clone()],
            "spot-instance-request-id" => instance.spot_request.iter().cloned().collect(),
            "capacity-reservation-id" => instance.capacity_reservation.iter().cloned().collect(),
            "reservation-id" => vec![instance.reservation.clone()],
            "client-token" => instance.client_token.iter().cloned().collect(),
            "architecture" => vec![instance.image.architecture.clone()],
            "tenancy" => vec![instance.setting("Placement.Tenancy").unwrap_or("default").to_owned()],
            "instance.group-id" => instance.security_groups().to_vec(),
            "event.code" => instance.events.iter().map(|event| event.code.clone()).collect(),
            "instance-status.status" => vec![status(instance.impairment.instance, self.state).to_owned()],
            "system-status.status" => vec![status(instance.impairment.system, self.state).to_owned()],
            _ => return None,
        })
    }

    fn tags(&self) -> &BTreeMap<String, String> {
        &self.instance.tags
    }
}

fn status(impaired: Option<Timestamp>, state: &str) -> &'static str {
    match impaired {
        Some(_) => "impaired",
        None if state == "running" => "ok",
        None => "not-applicable",
    }
}

fn unknown_ids(ids: &[String]) -> Refusal {
    let message = match ids {
        [id] => format!("The instance ID '{id}' does not exist"),
        ids => format!("The instance IDs '{}' do not exist", ids.join(", ")),
    };
    Refusal::new("InvalidInstanceID.NotFound", message)
}

/// The instances a request names, as they were at a time; all must be there.
fn named<'a>(world: &'a World, ids: &[String], at: Timestamp) -> Result<Vec<View<'a>>, Refusal> {
    let view = |instance: &'a Instance| instance.state(at).map(|state| View { instance, state });
    if ids.is_empty() {
        return Ok(world.instances.values().filter_map(view).collect());
    }
    if let Some(malformed) = ids.iter().find(|id| !id.starts_with("i-")) {
        let message = format!("Invalid id: \"{malformed}\"");
        return Err(Refusal::new("InvalidInstanceID.Malformed", message));
    }
    let (found, missing): (Vec<_>, Vec<_>) = ids
        .iter()
        .map(|id| world.instances.get(id).and_then(view).ok_or_else(|| id.clone()))
        .partition(Result::is_ok);
    if missing.is_empty() {
        Ok(found.into_iter().flatten().collect())
    } else {
        Err(unknown_ids(&missing.into_iter().filter_map(Result::err).collect::<Vec<_>>()))
    }
}

pub(super) fn describe(world: &World, call: &Call<'_>) -> Outcome {
    let ids = call.form.texts("InstanceId");
    let views = named(world, &ids, call.seen)?;
    let found = Filters::read(call).select(&views)?;
    dry_run(call)?;
    let limit = call.form.number("MaxResults");
    if limit.is_some() && !ids.is_empty() {
        let message = "The parameter instancesSet cannot be used with the parameter maxResults";
        return Err(Refusal::new("InvalidParameterCombination", message));
    }
    let page = page(found, |view| view.instance.id.clone(), limit, call.form.text("NextToken"))?;
    // Instances of one launch stand together, in the order in which the first of each comes.
    let mut reservations: Vec<(&str, Vec<&View<'_>>)> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for view in page.items {
        let place = *places.entry(&view.instance.reservation).or_insert_with(|| {
            reservations.push((&view.instance.reservation, Vec::new()));
            reservations.len() - 1
        });
        reservations[place].1.push(view);
    }
    let mut xml = Xml::new();
    xml.items("reservationSet", reservations, |xml, (reservation, views)| {
        xml.leaf("reservationId", reservation)
            .leaf("ownerId", &world.description.account)
            .texts("groupSet", [""; 0])
            .items("instancesSet", views, |xml, view| write(xml, world, view));
    });
    xml.maybe("nextToken", page.next);
    Ok(xml.into())
}

fn write(xml: &mut Xml, world: &World, view: &View<'_>) {
    let instance = view.instance;
    xml.leaf("instanceId", &instance.id)
        .leaf("imageId", &instance.image.id)
        .node("instanceState", |xml| write_state(xml, view.state))
        .leaf("privateDnsName", &instance.dns_name)
        .leaf("dnsName", "")
        .leaf("amiLaunchIndex", 0)
        .leaf("instanceType", &instance.facts.name)
        .leaf("launchTime", date(instance.launched));
    if let Some(end) = instance.end.as_ref().filter(|_| view.state != "running") {
        xml.leaf("reason", end.reason).node("stateReason", |xml| {
            xml.leaf("code", end.reason).leaf("message", end.reason);
        });
    }
    write_placement(xml, world, instance);
    xml.node("monitoring", |xml| {
        let enabled = instance.setting("Monitoring.Enabled") == Some("true");
        xml.leaf("state", if enabled { "enabled" } else { "disabled" });
    });
    // A machine that is gone has no place in the network any more.
    if view.state != "terminated" {
        xml.leaf("subnetId", &instance.subnet)
            .leaf("vpcId", &world.network.vpc)
            .leaf("privateIpAddress", &instance.address);
        write_network(xml, world, instance);
    }
    xml.leaf("sourceDestCheck", true)
        .leaf("architecture", &instance.image.architecture)
        .leaf("rootDeviceType", "ebs")
        .leaf("rootDeviceName", &instance.image.root_device)
        .items("blockDeviceMapping", &instance.volumes, |xml, volume| {
            xml.leaf("deviceName", &volume.device).node("ebs", |xml| {
                xml.leaf("volumeId", &volume.id)
                    .leaf("status", "attached")
                    .leaf("attachTime", date(instance.launched))
                    .leaf("deleteOnTermination", volume.delete_on_termination);
            });
        })
        .leaf("virtualizationType", "hvm")
        .maybe("instanceLifecycle", instance.lifecycle.as_ref())
        .maybe("spotInstanceRequestId", instance.spot_request.as_ref())
        .maybe("clientToken", instance.client_token.as_ref())
        .tags(&instance.tags)
        .leaf("hypervisor", "xen")
        .leaf("ebsOptimized", &*instance.facts.ebs.optimized_support == "default")
        .leaf("enaSupport", true);
    write_options(xml, world, instance);
}

/// How it was launched, besides where.
fn write_options(xml: &mut Xml, world: &World, instance: &Instance) {
    let setting = |path: &str, default: &str| instance.setting(path).unwrap_or(default).to_owned();
    if let Some((name, profile)) =
        instance.instance_profile.as_ref().and_then(|name| world.identities.profiles.get_key_value(name))
    {
        xml.node("iamInstanceProfile", |xml| {
            let arn = world.description.arn("iam", &format!("instance-profile{}{name}", profile.path));
            xml.leaf("arn", arn).leaf("id", &profile.id);
        });
    }
    xml.maybe("capacityReservationId", instance.capacity_reservation.as_ref())
        .node("capacityReservationSpecification", |xml| {
            let wish = "CapacityReservationSpecification.CapacityReservationPreference";
            xml.leaf("capacityReservationPreference", setting(wish, "open"));
        })
        .node("metadataOptions", |xml| {
            xml.leaf("state", "applied")
                .leaf("httpTokens", setting("MetadataOptions.HttpTokens", "optional"))
                .leaf("httpPutResponseHopLimit", setting("MetadataOptions.HttpPutResponseHopLimit", "1"))
                .leaf("httpEndpoint", setting("MetadataOptions.HttpEndpoint", "enabled"))
                .leaf("httpProtocolIpv6", setting("MetadataOptions.HttpProtocolIpv6", "disabled"))
                .leaf("instanceMetadataTags", setting("MetadataOptions.InstanceMetadataTags", "disabled"));
        })
        .node("enclaveOptions", |xml| {
            xml.leaf("enabled", setting("EnclaveOptions.Enabled", "false"));
        })
        .node("cpuOptions", |xml| {
            let cores = instance.facts.cores.unwrap_or(instance.facts.vcpus);
            xml.leaf("coreCount", cores).leaf("threadsPerCore", instance.facts.threads_per_core.unwrap_or(1));
            xml.maybe("nestedVirtualization", instance.setting("CpuOptions.NestedVirtualization"));
        });
}

fn write_state(xml: &mut Xml, state: &str) {
    xml.leaf("code", state_code(state)).leaf("name", state);
}

fn write_placement(xml: &mut Xml, world: &World, instance: &Instance) {
    let group = instance.placement_group.as_ref().and_then(|id| world.placement_groups.get(id));
    xml.node("placement", |xml| {
        xml.leaf("availabilityZone", &instance.zone.name)
            .leaf("availabilityZoneId", &instance.zone.id)
            .leaf("groupName", group.map_or("", |group| &*group.name))
            .maybe("groupId", group.map(|group| &group.id))
            .maybe("partitionNumber", instance.partition)
            .leaf("tenancy", instance.setting("Placement.Tenancy").unwrap_or("default"));
    });
}

fn write_groups(xml: &mut Xml, world: &World, groups: &[String]) {
    xml.items("groupSet", groups, |xml, id| {
        let name = world.network.security_groups.get(id).map_or("", |group| &*group.name);
        xml.leaf("groupId", id).leaf("groupName", name);
    });
}

fn write_network(xml: &mut Xml, world: &World, instance: &Instance) {
    write_groups(xml, world, instance.security_groups());
    xml.items("networkInterfaceSet", &instance.interfaces, |xml, interface: &Interface| {
        xml.leaf("networkInterfaceId", &interface.id)
            .leaf("subnetId", &instance.subnet)
            .leaf("vpcId", &world.network.vpc)
            .leaf("status", "in-use")
            .leaf("interfaceType", &interface.kind);
        if interface.kind != "efa-only" {
            xml.leaf("privateIpAddress", &instance.address).leaf("privateDnsName", &instance.dns_name);
        }
        write_groups(xml, world, &interface.groups);
        xml.node("attachment", |xml| {
            xml.leaf("deviceIndex", interface.device)
                .leaf("networkCardIndex", interface.card)
                .leaf("status", "attached")
                .leaf("deleteOnTermination", true);
        });
    });
}

pub(super) fn terminate(world: &mut World, call: &Call<'_>) -> Outcome {
    let ids = call.form.texts("InstanceId");
    if ids.is_empty() {
        return Err(Refusal::missing("InstanceId"));
    }
    // One that is unknown fails all of them.
    let before: Vec<(String, &'static str)> = named(world, &ids, call.now)?
        .into_iter()
        .map(|view| (view.instance.id.clone(), view.state))
        .collect();
    dry_run(call)?;
    for id in &ids {
        world.end(id, call.now, "Client.UserInitiatedShutdown");
    }
    let mut xml = Xml::new();
    xml.items("instancesSet", before, |xml, (id, previous)| {
        let current =
            world.instances.get(&id).and_then(|instance| instance.state(call.now)).unwrap_or("terminated");
        xml.leaf("instanceId", id)
            .node("currentState", |xml| write_state(xml, current))
            .node("previousState", |xml| write_state(xml, previous));
    });
    Ok(xml.into())
}

/// Rebooting changes nothing that anybody sees, besides that a failed check of the instance is gone.
pub(super) fn reboot(world: &mut World, call: &Call<'_>) -> Outcome {
    let ids = call.form.texts("InstanceId");
    named(world, &ids, call.now)?;
    dry_run(call)?;
    for id in &ids {
        if let Some(instance) = world.instances.get_mut(id) {
            instance.impairment.instance = None;
        }
    }
    let mut xml = Xml::new();
    xml.leaf("return", true);
    Ok(xml.into())
}

pub(super) fn create_tags(world: &mut World, call: &Call<'_>) -> Outcome {
    let resources = call.form.texts("ResourceId");
    let tags = call.form.tags("Tag");
    for id in &resources {
        if tags_of(world, id).is_none() {
            return Err(match id.split('-').next() {
                Some("i") => unknown_ids(std::slice::from_ref(id)),
                _ => Refusal::new("InvalidID", format!("The ID '{id}' is not valid")),
            });
        }
    }
    if let Some(key) = tags.keys().find(|key| key.starts_with("aws:")) {
        let message = format!("Tag keys starting with 'aws:' are reserved for internal use ({key})");
        return Err(Refusal::new("InvalidParameterValue", message));
    }
    dry_run(call)?;
    for id in &resources {
        if let Some(found) = tags_of(world, id) {
            found.extend(tags.clone());
        }
    }
    let mut xml = Xml::new();
    xml.leaf("return", true);
    Ok(xml.into())
}

fn tags_of<'a>(world: &'a mut World, id: &str) -> Option<&'a mut BTreeMap<String, String>> {
    match id.split('-').next()? {
        "i" => Some(&mut world.instances.get_mut(id)?.tags),
        "lt" => Some(&mut world.templates.get_mut(id)?.tags),
        "subnet" => Some(&mut world.network.subnets.get_mut(id)?.tags),
        "sg" => Some(&mut world.network.security_groups.get_mut(id)?.tags),
        "ami" => Some(&mut world.images.images.get_mut(id)?.tags),
        "cr" => Some(&mut world.reservations.get_mut(id)?.tags),
        "vol" => {
            let owns = |instance: &&mut Instance| instance.volumes.iter().any(|volume| volume.id == id);
            world.instances.values_mut().find(owns).map(|instance| &mut instance.volume_tags)
        }
        _ => None,
    }
}

pub(super) fn describe_status(world: &World, call: &Call<'_>) -> Outcome {
    let ids = call.form.texts("InstanceId");
    let views = named(world, &ids, call.seen)?;
    let all = call.form.flag("IncludeAllInstances");
    let shown: Vec<&View<'_>> = views.iter().filter(|view| all || view.state == "running").collect();
    let found = Filters::read(call).select(shown)?;
    dry_run(call)?;
    let page = page(
        found,
        |view| view.instance.id.clone(),
        call.form.number("MaxResults"),
        call.form.text("NextToken"),
    )?;
    let mut xml = Xml::new();
    xml.items("instanceStatusSet", page.items, |xml, view| {
        let instance = view.instance;
        xml.leaf("instanceId", &instance.id)
            .leaf("availabilityZone", &instance.zone.name)
            .leaf("availabilityZoneId", &instance.zone.id)
            .node("instanceState", |xml| write_state(xml, view.state));
        for (name, since) in
            [("instanceStatus", instance.impairment.instance), ("systemStatus", instance.impairment.system)]
        {
            xml.node(name, |xml| {
                xml.leaf("status", status(since, view.state));
                xml.items("details", [since], |xml, since| {
                    xml.leaf("name", "reachability")
                        .leaf("status", if since.is_some() { "failed" } else { "passed" })
                        .maybe("impairedSince", since.map(date));
                });
            });
        }
        xml.items("eventsSet", &instance.events, |xml, event| {
            xml.leaf("instanceEventId", format!("instance-event-{}", &instance.id[2..]))
                .leaf("code", &event.code)
                .leaf("description", "Simulated event.")
                .leaf("notBefore", date(event.not_before));
        });
    });
    xml.maybe("nextToken", page.next);
    Ok(xml.into())
}

/// Volumes of instances, as far as anybody looks at them.
pub(super) fn describe_volumes(world: &World, call: &Call<'_>) -> Outcome {
    let wanted = call.form.texts("VolumeId");
    let volumes = world
        .instances
        .values()
        .filter(|instance| instance.is_alive())
        .flat_map(|instance| instance.volumes.iter().map(move |volume| (instance, volume)))
        .filter(|(_, volume)| wanted.is_empty() || wanted.contains(&volume.id));
    dry_run(call)?;
    let mut xml = Xml::new();
    xml.items("volumeSet", volumes, |xml, (instance, volume)| {
        xml.leaf("volumeId", &volume.id)
            .leaf("size", volume.gib)
            .leaf("availabilityZone", &instance.zone.name)
            .leaf("status", "in-use")
            .leaf("volumeType", &volume.kind)
            .leaf("encrypted", volume.encrypted)
            .maybe("kmsKeyId", volume.kms_key.as_ref())
            .maybe("iops", volume.iops)
            .maybe("throughput", volume.throughput)
            .items("attachmentSet", [()], |xml, ()| {
                xml.leaf("volumeId", &volume.id)
                    .leaf("instanceId", &instance.id)
                    .leaf("device", &volume.device)
                    .leaf("status", "attached")
                    .leaf("deleteOnTermination", volume.delete_on_termination);
            })
            .tags(&instance.volume_tags);
    });
    Ok(xml.into())
}

/// `RunInstances`: the template's data with what the request says itself over it.
pub(super) fn run(world: &mut World, call: &Call<'_>) -> Outcome {
    // Tags of the template and of the request add up; of everything else the request's own counts.
    let (data, tags) = match call.form.field("LaunchTemplate") {
        Some(chosen) => {
            let template = templates::find(&world.templates, chosen, call.seen)?;
            let own = call.form.without("TagSpecification");
            (template.data.merged(&own), call.form.only("TagSpecification"))
        }
        None => (call.form.clone(), Form::default()),
    };
    let text = |name: &str| data.text(name).unwrap_or("").to_owned();
    let capacity_type = match data.text("InstanceMarketOptions.MarketType") {
        Some("spot") => CapacityType::Spot,
        _ => CapacityType::OnDemand,
    };
    let subnet = data.text("SubnetId").or_else(|| data.text("NetworkInterface.1.SubnetId"));
    let default = world.network.subnets.keys().next().cloned().unwrap_or_default();
    let launch = Launch {
        instance_type: data.text("InstanceType").unwrap_or("m1.small").to_owned(),
        subnet: subnet.map_or(default, str::to_owned),
        image: text("ImageId"),
        capacity_type,
        tags: Arc::new(tags),
        fleet: None,
        reservation: world.id("r"),
        client_token: call.form.owned("ClientToken"),
        data: Arc::new(data),
    };
    let most: u32 = call.form.number("MaxCount").ok_or_else(|| Refusal::missing("MaxCount"))?;
    let least: u32 = call.form.number("MinCount").ok_or_else(|| Refusal::missing("MinCount"))?;
    world.check_launch(&launch, call.now)?;
    dry_run(call)?;
    let mut ids = Vec::new();
    while (ids.len() as u32) < most {
        match world.launch(&launch, call.now) {
            Ok(id) => ids.push(id),
            Err(_) if ids.len() as u32 >= least => break,
            Err(refusal) => {
                // All or nothing.
                for id in &ids {
                    world.end(id, call.now, "Server.InsufficientInstanceCapacity");
                }
                return Err(refusal.status(500));
            }
        }
    }
    let views: Vec<View<'_>> = ids
        .iter()
        .filter_map(|id| Some(View { instance: world.instances.get(id)?, state: "pending" }))
        .collect();
    let mut xml = Xml::new();
    xml.leaf("reservationId", &launch.reservation).leaf("ownerId", &world.description.account).items(
        "instancesSet",
        &views,
        |xml, view| write(xml, world, view),
    );
    Ok(xml.into())
}
