//! Machines: listed, read and deleted.

use serde_json::{Value, json};

use super::tags::tag_list;
use crate::call::{Call, after, minutes};
use crate::life;
use crate::paging::TokenPage;
use crate::vpc::tagged;
use crate::wire::{Body, NumberedPage, Params, Refusal, Reply};
use crate::world::{Instance, Market, Status, World};

pub(super) fn describe_instances(world: &mut World, call: &Call<'_>) -> Reply {
    let params = &call.params;
    let filter = params.tags();
    let ids = params.json_list("InstanceIds")?;
    if ids.as_ref().is_some_and(|ids| ids.len() > 100) {
        return Err(Refusal::new(
            400,
            "InvalidInstanceIds.Malformed",
            "One call is about at most 100 machines.",
        ));
    }
    let visible_from = jiff::SignedDuration::from_secs(world.switches.stale_reads_seconds);
    let is = |name: &str, value: &str| params.get(name).is_none_or(|wanted| wanted == value);
    let wanted = |found: &&Instance| {
        after(found.created, visible_from) <= call.now
            && ids.as_ref().is_none_or(|ids| ids.contains(&found.id))
            && is("Status", found.status.text())
            && is("ZoneId", &found.zone)
            && is("VSwitchId", &found.vswitch)
            && is("InstanceType", &found.instance_type)
            && params.get("LockReason").is_none_or(|lock| found.locks.contains(lock))
            && tagged(&found.tags, &filter)
    };
    let mut all: Vec<(&str, &Instance)> =
        world.instances.values().filter(wanted).map(|found| (found.id.as_str(), found)).collect();
    if let Some(cap) = world.switches.tag_filter_cap.filter(|_| !filter.is_empty()) {
        all.truncate(cap);
    }
    let total = all.len();
    let by_number = params.get("PageNumber").is_some() || params.get("PageSize").is_some();
    let (page, next, first) =
        if by_number && params.get("NextToken").is_none() && params.get("MaxResults").is_none() {
            let page = NumberedPage::read(params, 10, 100)?;
            let found: Vec<&Instance> = all.iter().map(|(_, found)| *found).collect();
            (page.cut(&found), String::new(), page.number == 1)
        } else {
            let page = TokenPage::read(params, "instances", 10, 10, 100)?;
            let (found, next) = page.cut(&all);
            (found, next, page.first())
        };
    let instances: Vec<Value> = page.into_iter().map(|found| instance_json(world, found)).collect();
    if first && !next.is_empty() {
        world.vanish();
    }
    Ok(Body::Json(json!({
        "TotalCount": total,
        "PageNumber": 1,
        "PageSize": instances.len(),
        "NextToken": next,
        "Instances": {"Instance": instances},
    })))
}

fn instance_json(world: &World, found: &Instance) -> Value {
    let kind = world.types.get(&found.instance_type);
    let vpc = world.vswitches.get(&found.vswitch).map(|vswitch| vswitch.vpc.clone()).unwrap_or_default();
    let locks: Vec<Value> =
        found.locks.iter().map(|lock| json!({"LockReason": lock, "LockMsg": ""})).collect();
    let strategy = if found.market == Market::Spot { found.spot_strategy.as_str() } else { "NoSpot" };
    json!({
        "InstanceId": found.id,
        "InstanceName": found.name,
        "InstanceType": found.instance_type,
        "InstanceTypeFamily": kind.map(|kind| kind.family.clone()),
        "ImageId": found.image,
        "RegionId": world.region,
        "ZoneId": found.zone,
        "Status": found.status.text(),
        "CreationTime": minutes(found.created),
        "StartTime": if found.status == Status::Pending { String::new() } else { minutes(found.created) },
        "ExpiredTime": "2099-12-31T15:59Z",
        "AutoReleaseTime": "",
        "InstanceChargeType": "PostPaid",
        "InternetChargeType": "PayByTraffic",
        "InstanceNetworkType": "vpc",
        "SpotStrategy": strategy,
        "SpotPriceLimit": found.spot_price_limit,
        "SpotDuration": 1,
        "SecurityGroupIds": {"SecurityGroupId": found.security_groups},
        "VpcAttributes": {
            "VpcId": vpc,
            "VSwitchId": found.vswitch,
            "NatIpAddress": "",
            "PrivateIpAddress": {"IpAddress": [found.address.to_string()]},
        },
        "Tags": tag_list(&found.tags),
        "Cpu": kind.map_or(0, |kind| kind.cpus),
        "Memory": kind.map_or(0, |kind| (kind.memory_gib * 1024.0) as u64),
        "GPUAmount": kind.map_or(0, |kind| kind.gpus),
        "GPUSpec": kind.map(|kind| kind.gpu.clone()).unwrap_or_default(),
        "Recyclable": found.locks.contains("Recycling"),
        "OperationLocks": {"LockReason": locks},
        "EcsCapacityReservationAttr": {
            "CapacityReservationId": found.private_pool.clone().unwrap_or_default(),
            "CapacityReservationPreference": "",
        },
        "HostName": found.name,
        "SerialNumber": found.id.trim_start_matches("i-"),
        "StoppedMode": "Not-applicable",
        "OSType": "linux",
        "DeletionProtection": found.deletion_protection,
        "KeyPairName": found.key_pair,
        "ResourceGroupId": found.resource_group,
        "MetadataOptions": {"HttpTokens": found.http_tokens, "HttpEndpoint": "enabled"},
    })
}

/// All of them or none.
pub(super) fn delete_instances(world: &mut World, call: &Call<'_>) -> Reply {
    let params = &call.params;
    let mut ids = params.list("InstanceId");
    ids.extend(params.text("InstanceId"));
    if ids.is_empty() {
        return Err(Refusal::missing("InstanceId"));
    }
    if ids.len() > 100 {
        return Err(Refusal::new(
            400,
            "InvalidInstanceIds.Malformed",
            "One call deletes at most 100 machines.",
        ));
    }
    let force = params.flag("Force");
    for id in &ids {
        let missing = || Refusal::not_found("InvalidInstanceId.NotFound", &format!("machine {id}"));
        check_deletion(world.instances.get(id).ok_or_else(missing)?, force)?;
    }
    ids.iter().for_each(|id| life::stop(world, id, call.now));
    Ok(Body::Json(json!({})))
}

fn check_deletion(found: &Instance, force: bool) -> Result<(), Refusal> {
    if found.deletion_protection {
        let message = format!("The machine {} is protected against deletion.", found.id);
        return Err(Refusal::new(403, "OperationDenied.DeletionProtection", message));
    }
    match found.status {
        Status::Pending | Status::Starting => {
            let message = format!("The machine {} is being initialized; try again later.", found.id);
            Err(Refusal::new(403, "IncorrectInstanceStatus.Initializing", message))
        }
        Status::Running if !force => {
            let message = format!("The machine {} runs; stop it first or use Force.", found.id);
            Err(Refusal::new(403, "IncorrectInstanceStatus", message))
        }
        Status::Running | Status::Stopping => Ok(()),
    }
}

fn named<'w>(world: &'w mut World, params: &Params) -> Result<&'w mut Instance, Refusal> {
    let id = params.required("InstanceId")?;
    let missing = || Refusal::not_found("InvalidInstanceId.NotFound", &format!("machine {id}"));
    world.instances.get_mut(id).ok_or_else(missing)
}

pub(super) fn reboot_instance(world: &World, params: &Params) -> Reply {
    let id = params.required("InstanceId")?;
    let missing = || Refusal::not_found("InvalidInstanceId.NotFound", &format!("instance {id}"));
    match world.instances.get(id).ok_or_else(missing)?.status {
        Status::Running => Ok(Body::Json(json!({}))),
        other => {
            let message = format!("The instance {id} is {} and cannot be restarted.", other.text());
            Err(Refusal::new(403, "IncorrectInstanceStatus", message))
        }
    }
}

pub(super) fn modify_instance_attribute(world: &mut World, params: &Params) -> Reply {
    let found = named(world, params)?;
    if params.get("DeletionProtection").is_some() {
        found.deletion_protection = params.flag("DeletionProtection");
    }
    if let Some(name) = params.text("InstanceName") {
        found.name = name;
    }
    Ok(Body::Json(json!({})))
}

pub(super) fn describe_user_data(world: &mut World, params: &Params) -> Reply {
    let region = world.region.clone();
    let found = named(world, params)?;
    Ok(Body::Json(json!({"InstanceId": found.id, "RegionId": region, "UserData": found.user_data})))
}

/// The roles of machines, which the list of machines does not show.
pub(super) fn describe_ram_role(world: &World, params: &Params) -> Reply {
    let ids = params.json_list("InstanceIds")?.ok_or_else(|| Refusal::missing("InstanceIds"))?;
    let wanted = world.instances.values().filter(|found| ids.contains(&found.id));
    let roles: Vec<Value> =
        wanted.map(|found| json!({"InstanceId": found.id, "RamRoleName": found.role})).collect();
    Ok(Body::Json(json!({
        "RegionId": world.region,
        "TotalCount": roles.len(),
        "InstanceRamRoleSets": {"InstanceRamRoleSet": roles},
    })))
}
