//! What the account has before anything is launched: zones, subnets, security groups, images.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::dry_run;
use super::filters::{Described, Filters};
use crate::answer::Outcome;
use crate::images::Image;
use crate::network::{SecurityGroup, Subnet};
use crate::wire::page::page;
use crate::wire::refusal::Refusal;
use crate::wire::xml::Xml;
use crate::world::{Call, World};

static NO_TAGS: BTreeMap<String, String> = BTreeMap::new();

fn one(value: impl Into<String>) -> Vec<String> {
    vec![value.into()]
}

impl Described for Subnet {
    fn values(&self, filter: &str) -> Option<Vec<String>> {
        Some(match filter {
            "subnet-id" => one(&self.id),
            "vpc-id" => one(&self.vpc),
            "availability-zone" | "availabilityZone" => one(&self.zone.name),
            "availability-zone-id" | "availabilityZoneId" => one(&self.zone.id),
            "state" => one("available"),
            "map-public-ip-on-launch" => one(self.public.to_string()),
            _ => return None,
        })
    }

    fn tags(&self) -> &BTreeMap<String, String> {
        &self.tags
    }
}

impl Described for SecurityGroup {
    fn values(&self, filter: &str) -> Option<Vec<String>> {
        Some(match filter {
            "group-id" => one(&self.id),
            "group-name" => one(&self.name),
            "vpc-id" => one(&self.vpc),
            _ => return None,
        })
    }

    fn tags(&self) -> &BTreeMap<String, String> {
        &self.tags
    }
}

impl Described for Image {
    fn values(&self, filter: &str) -> Option<Vec<String>> {
        Some(match filter {
            "image-id" => one(&self.id),
            "name" => one(&self.name),
            "architecture" => one(&self.architecture),
            "state" => one(&self.state),
            "owner-id" => one(&self.owner),
            "owner-alias" => self.owner_alias.iter().cloned().collect(),
            "root-device-type" => one("ebs"),
            "virtualization-type" => one("hvm"),
            "is-public" => one((self.owner_alias.is_some()).to_string()),
            "image-type" => one("machine"),
            _ => return None,
        })
    }

    fn tags(&self) -> &BTreeMap<String, String> {
        &self.tags
    }
}

/// A zone, as filters see it.
struct ZoneView<'a> {
    region: &'a str,
    zone: &'a crate::description::Zone,
}

impl Described for ZoneView<'_> {
    fn values(&self, filter: &str) -> Option<Vec<String>> {
        Some(match filter {
            "zone-name" => one(&self.zone.name),
            "zone-id" => one(&self.zone.id),
            "region-name" | "group-name" => one(self.region),
            "state" => one("available"),
            "zone-type" => one("availability-zone"),
            "opt-in-status" => one("opt-in-not-required"),
            _ => return None,
        })
    }

    fn tags(&self) -> &BTreeMap<String, String> {
        &NO_TAGS
    }
}

/// The ids a request asks for must all be there.
fn chosen<'a, T>(
    things: &'a BTreeMap<String, T>,
    ids: &[String],
    missing: impl Fn(&str) -> Refusal,
) -> Result<Vec<&'a T>, Refusal> {
    if ids.is_empty() {
        return Ok(things.values().collect());
    }
    ids.iter().map(|id| things.get(id).ok_or_else(|| missing(id))).collect()
}

pub(super) fn subnets(world: &World, call: &Call<'_>) -> Outcome {
    let found = chosen(&world.network.subnets, &call.form.texts("SubnetId"), |id| {
        Refusal::new("InvalidSubnetID.NotFound", format!("The subnet ID '{id}' does not exist"))
    })?;
    let found = Filters::read(call).select(found)?;
    dry_run(call)?;
    let page =
        page(found, |subnet| subnet.id.clone(), call.form.number("MaxResults"), call.form.text("NextToken"))?;
    let mut xml = Xml::new();
    xml.items("subnetSet", page.items, |xml, subnet| {
        xml.leaf("subnetId", &subnet.id)
            .leaf("subnetArn", world.description.arn("ec2", &format!("subnet/{}", subnet.id)))
            .leaf("state", "available")
            .leaf("ownerId", &world.description.account)
            .leaf("vpcId", &subnet.vpc)
            .leaf("cidrBlock", format!("10.0.{}.0/19", subnet.third))
            .leaf("availableIpAddressCount", subnet.free())
            .leaf("availabilityZone", &subnet.zone.name)
            .leaf("availabilityZoneId", &subnet.zone.id)
            .leaf("defaultForAz", false)
            .leaf("mapPublicIpOnLaunch", subnet.public)
            .leaf("assignIpv6AddressOnCreation", false)
            .tags(&subnet.tags);
    });
    xml.maybe("nextToken", page.next);
    Ok(xml.into())
}

pub(super) fn security_groups(world: &World, call: &Call<'_>) -> Outcome {
    let found = chosen(&world.network.security_groups, &call.form.texts("GroupId"), |id| {
        Refusal::new("InvalidGroup.NotFound", format!("The security group '{id}' does not exist"))
    })?;
    let names = call.form.texts("GroupName");
    let found = found.into_iter().filter(|group| names.is_empty() || names.contains(&group.name));
    let found = Filters::read(call).select(found)?;
    dry_run(call)?;
    let page =
        page(found, |group| group.id.clone(), call.form.number("MaxResults"), call.form.text("NextToken"))?;
    let mut xml = Xml::new();
    xml.items("securityGroupInfo", page.items, |xml, group| {
        xml.leaf("ownerId", &world.description.account)
            .leaf("groupId", &group.id)
            .leaf("groupName", &group.name)
            .leaf("groupDescription", &group.name)
            .leaf("vpcId", &group.vpc)
            .texts("ipPermissions", [""; 0])
            .texts("ipPermissionsEgress", [""; 0])
            .tags(&group.tags);
    });
    xml.maybe("nextToken", page.next);
    Ok(xml.into())
}

pub(super) fn images(world: &World, call: &Call<'_>) -> Outcome {
    let found = chosen(&world.images.images, &call.form.texts("ImageId"), |id| {
        Refusal::new("InvalidAMIID.NotFound", format!("The image id '[{id}]' does not exist"))
    })?;
    let owners = call.form.texts("Owner");
    let owned = |image: &&Image| {
        owners.is_empty()
            || owners.iter().any(|owner| {
                *owner == image.owner
                    || (owner == "self" && image.owner == world.description.account)
                    || image.owner_alias.as_ref() == Some(owner)
            })
    };
    // Deprecated images are seen by their owner, by those who ask for them, and by their ids.
    let named = !call.form.texts("ImageId").is_empty();
    let shown = |image: &&Image| {
        call.form.flag("IncludeDeprecated")
            || named
            || image.owner == world.description.account
            || image.deprecated.is_none_or(|time| time > call.now)
    };
    let found = found.into_iter().filter(|image| image.created <= call.now).filter(owned).filter(shown);
    let found = Filters::read(call).select(found)?;
    dry_run(call)?;
    let page =
        page(found, |image| image.id.clone(), call.form.number("MaxResults"), call.form.text("NextToken"))?;
    let mut xml = Xml::new();
    xml.items("imagesSet", page.items, write_image);
    xml.maybe("nextToken", page.next);
    Ok(xml.into())
}

fn write_image(xml: &mut Xml, image: &Image) {
    let location = format!("{}/{}", image.owner_alias.as_deref().unwrap_or(&image.owner), image.name);
    xml.leaf("imageId", &image.id)
        .leaf("imageLocation", location)
        .leaf("imageState", &image.state)
        .leaf("imageOwnerId", &image.owner)
        .maybe("imageOwnerAlias", image.owner_alias.as_ref())
        .leaf("isPublic", image.owner_alias.is_some())
        .leaf("architecture", &image.architecture)
        .leaf("imageType", "machine")
        .leaf("name", &image.name)
        .leaf("rootDeviceType", "ebs")
        .leaf("rootDeviceName", &image.root_device)
        .leaf("virtualizationType", "hvm")
        .leaf("hypervisor", "xen")
        .leaf("enaSupport", true)
        .leaf("creationDate", date(image.created))
        .maybe("deprecationTime", image.deprecated.map(date));
    if image.family == crate::images::Family::Windows {
        xml.leaf("platform", "windows");
    }
    xml.items("blockDeviceMapping", [&image.root_device], |xml, device| {
        xml.leaf("deviceName", device).node("ebs", |xml| {
            xml.leaf("volumeSize", 20)
                .leaf("volumeType", "gp3")
                .leaf("encrypted", false)
                .leaf("deleteOnTermination", true);
        });
    });
    xml.tags(&image.tags);
}

/// Times as EC2 writes them.
pub(super) fn date(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.000Z").to_string()
}

pub(super) fn zones(world: &World, call: &Call<'_>) -> Outcome {
    let region = &*world.description.region;
    let views: Vec<ZoneView<'_>> = world.network.zones.iter().map(|zone| ZoneView { region, zone }).collect();
    let names = call.form.texts("ZoneName");
    let ids = call.form.texts("ZoneId");
    let wanted = |view: &&ZoneView<'_>| {
        (names.is_empty() || names.contains(&view.zone.name))
            && (ids.is_empty() || ids.contains(&view.zone.id))
    };
    let found = Filters::read(call).select(views.iter().filter(wanted))?;
    dry_run(call)?;
    let mut xml = Xml::new();
    xml.items("availabilityZoneInfo", found, |xml, view| {
        xml.leaf("optInStatus", "opt-in-not-required")
            .leaf("groupName", region)
            .leaf("networkBorderGroup", region)
            .leaf("zoneType", "availability-zone")
            .leaf("zoneState", "available")
            .leaf("regionName", region)
            .leaf("zoneName", &view.zone.name)
            .leaf("zoneId", &view.zone.id)
            .texts("messageSet", [""; 0]);
    });
    Ok(xml.into())
}

pub(super) fn networks(world: &World, call: &Call<'_>) -> Outcome {
    dry_run(call)?;
    let mut xml = Xml::new();
    xml.items("vpcSet", [&world.network.vpc], |xml, vpc| {
        xml.leaf("vpcId", vpc)
            .leaf("state", "available")
            .leaf("cidrBlock", "10.0.0.0/16")
            .leaf("ownerId", &world.description.account)
            .leaf("isDefault", false);
    });
    Ok(xml.into())
}
