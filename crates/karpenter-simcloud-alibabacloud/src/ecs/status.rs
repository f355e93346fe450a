//! Disks, and what is planned for machines.

use serde_json::{Value, json};

use super::tags::tag_list;
use crate::call::{minutes, seconds};
use crate::wire::{Body, NumberedPage, Params, Refusal, Reply};
use crate::world::{Disk, Instance, Maintenance, World};

pub(super) fn describe_disks(world: &World, params: &Params) -> Reply {
    let page = NumberedPage::read(params, 10, 100)?;
    let ids = params.json_list("DiskIds")?;
    let instance = params.get("InstanceId");
    let disks = world
        .instances
        .values()
        .filter(|found| instance.is_none_or(|wanted| wanted == found.id))
        .flat_map(|found| found.disks.iter().map(move |disk| (found, disk)))
        .filter(|(_, disk)| ids.as_ref().is_none_or(|ids| ids.contains(&disk.id)));
    let found: Vec<Value> = disks.map(|(found, disk)| disk_json(world, found, disk)).collect();
    Ok(Body::Json(json!({
        "TotalCount": found.len(),
        "PageNumber": page.number,
        "PageSize": page.size,
        "Disks": {"Disk": page.cut(&found)},
    })))
}

fn disk_json(world: &World, found: &Instance, disk: &Disk) -> Value {
    json!({
        "DiskId": disk.id,
        "InstanceId": found.id,
        "RegionId": world.region,
        "ZoneId": found.zone,
        "Type": disk.kind,
        "Category": disk.category,
        "Size": disk.size_gib,
        "PerformanceLevel": disk.performance_level,
        "Encrypted": disk.encrypted,
        "KMSKeyId": disk.kms_key,
        "Device": disk.device,
        "DeleteWithInstance": disk.delete_with_instance,
        "Status": "In_use",
        "CreationTime": minutes(found.created),
        "Tags": tag_list(&found.tags),
    })
}

pub(super) fn modify_disk_attribute(world: &mut World, params: &Params) -> Reply {
    let id = params.required("DiskId")?;
    let found = world.instances.values_mut().flat_map(|found| &mut found.disks).find(|disk| disk.id == id);
    let disk = found.ok_or_else(|| Refusal::not_found("InvalidDiskId.NotFound", &format!("disk {id}")))?;
    if params.get("DeleteWithInstance").is_some() {
        disk.delete_with_instance = params.flag("DeleteWithInstance");
    }
    Ok(Body::Json(json!({})))
}

pub(super) fn describe_instances_full_status(world: &World, params: &Params) -> Reply {
    let page = NumberedPage::read(params, 10, 100)?;
    let ids = params.list("InstanceId");
    let kinds: Vec<String> =
        params.list("InstanceEventType").into_iter().chain(params.text("EventType")).collect();
    let planned = |id: &str| -> Vec<&Maintenance> {
        let of = world.maintenance.iter().filter(|plan| plan.instance == id);
        of.filter(|plan| kinds.is_empty() || kinds.contains(&plan.event_type)).collect()
    };
    let wanted = world.instances.values().filter(|found| ids.is_empty() || ids.contains(&found.id));
    let found: Vec<Value> = wanted
        .map(|found| (found, planned(&found.id)))
        .filter(|(_, plans)| kinds.is_empty() || !plans.is_empty())
        .map(|(found, plans)| status_json(found, &plans))
        .collect();
    Ok(Body::Json(json!({
        "TotalCount": found.len(),
        "PageNumber": page.number,
        "PageSize": page.size,
        "InstanceFullStatusSet": {"InstanceFullStatusType": page.cut(&found)},
    })))
}

fn status_json(found: &Instance, plans: &[&Maintenance]) -> Value {
    let event = |plan: &&Maintenance| {
        json!({
            "EventId": format!("e-{}", plan.instance),
            "EventType": {"Name": plan.event_type, "Code": 0},
            "EventCycleStatus": {"Name": "Scheduled", "Code": 24},
            "NotBefore": seconds(plan.not_before),
            "EventPublishTime": seconds(found.created),
            "Reason": plan.reason,
            "ImpactLevel": "100",
        })
    };
    json!({
        "InstanceId": found.id,
        "Status": {"Name": found.status.text(), "Code": 1},
        "HealthStatus": {"Name": "Ok", "Code": 0},
        "ScheduledSystemEventSet": {"ScheduledSystemEventType": plans.iter().map(event).collect::<Vec<_>>()},
    })
}
