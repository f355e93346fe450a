//! VPC: networks and vSwitches.

use serde_json::{Value, json};

use crate::call::Call;
use crate::service::unknown_action;
use crate::wire::{Body, NumberedPage, Params, Refusal, Reply};
use crate::world::{Tags, VSwitch, Vpc, World};

pub(crate) fn dispatch(action: &str, world: &mut World, call: &Call<'_>) -> Reply {
    match action {
        "DescribeVSwitches" => describe_vswitches(world, &call.params),
        "DescribeVpcs" => describe_vpcs(world, &call.params),
        "CreateVpc" => Ok(Body::Json(create_vpc(world, call))),
        "CreateVSwitch" => create_vswitch(world, call),
        "TagResources" => tag_resources(world, &call.params),
        _ => unknown_action(action),
    }
}

/// Whether a resource has all tags of a filter; a tag without value stands for any.
pub(crate) fn tagged(tags: &Tags, filter: &[(String, Option<String>)]) -> bool {
    filter.iter().all(|(key, value)| {
        tags.get(key).is_some_and(|found| value.as_ref().is_none_or(|value| value == found))
    })
}

fn tag_list(tags: &Tags) -> Value {
    let tag = |(key, value): (&String, &String)| json!({"Key": key, "Value": value});
    json!({"Tag": tags.iter().map(tag).collect::<Vec<_>>()})
}

fn describe_vswitches(world: &mut World, params: &Params) -> Reply {
    let page = NumberedPage::read(params, 10, 50)?;
    let filter = params.tags();
    let is = |name: &str, value: &str| {
        params.get(name).is_none_or(|wanted| wanted.split(',').any(|id| id == value))
    };
    let wanted = |vswitch: &&VSwitch| {
        is("VSwitchId", &vswitch.id)
            && is("VpcId", &vswitch.vpc)
            && is("ZoneId", &vswitch.zone)
            && is("VSwitchName", &vswitch.name)
            && tagged(&vswitch.tags, &filter)
    };
    let found: Vec<Value> = world.vswitches.values().filter(wanted).map(vswitch_json).collect();
    if found.len() > page.size && page.number == 1 {
        world.vanish();
    }
    Ok(Body::Json(json!({
        "TotalCount": found.len(),
        "PageNumber": page.number,
        "PageSize": page.size,
        "VSwitches": {"VSwitch": page.cut(&found)},
    })))
}

fn vswitch_json(vswitch: &VSwitch) -> Value {
    json!({
        "VSwitchId": vswitch.id,
        "VSwitchName": vswitch.name,
        "ZoneId": vswitch.zone,
        "VpcId": vswitch.vpc,
        "CidrBlock": vswitch.cidr,
        "AvailableIpAddressCount": vswitch.free(),
        "Status": "Available",
        "IsDefault": false,
        "Description": "",
        "Tags": tag_list(&vswitch.tags),
    })
}

fn describe_vpcs(world: &World, params: &Params) -> Reply {
    let page = NumberedPage::read(params, 10, 50)?;
    let filter = params.tags();
    let wanted = |vpc: &&Vpc| {
        params.get("VpcId").is_none_or(|ids| ids.split(',').any(|id| id == vpc.id))
            && tagged(&vpc.tags, &filter)
    };
    let vpc_json = |vpc: &Vpc| {
        json!({
            "VpcId": vpc.id,
            "VpcName": vpc.name,
            "CidrBlock": vpc.cidr,
            "RegionId": world.region,
            "Status": "Available",
            "Tags": tag_list(&vpc.tags),
        })
    };
    let found: Vec<Value> = world.vpcs.values().filter(wanted).map(vpc_json).collect();
    Ok(Body::Json(json!({
        "TotalCount": found.len(),
        "PageNumber": page.number,
        "PageSize": page.size,
        "Vpcs": {"Vpc": page.cut(&found)},
    })))
}

fn create_vpc(world: &mut World, call: &Call<'_>) -> Value {
    let vpc = Vpc {
        id: call.id("vpc-"),
        name: call.params.text("VpcName").unwrap_or_default(),
        cidr: call.params.text("CidrBlock").unwrap_or_else(|| "172.16.0.0/12".to_owned()),
        tags: given_tags(&call.params),
    };
    let id = vpc.id.clone();
    world.vpcs.insert(id.clone(), vpc);
    json!({"VpcId": id})
}

fn create_vswitch(world: &mut World, call: &Call<'_>) -> Reply {
    let params = &call.params;
    let vpc = params.required("VpcId")?.to_owned();
    let zone = params.required("ZoneId")?.to_owned();
    if !world.vpcs.contains_key(&vpc) {
        return Err(Refusal::not_found("InvalidVpcId.NotFound", &format!("VPC {vpc}")));
    }
    if !world.zones.contains(&zone) {
        return Err(Refusal::not_found("InvalidZoneId.NotFound", &format!("zone {zone}")));
    }
    let vswitch = VSwitch {
        id: call.id("vsw-"),
        name: params.text("VSwitchName").unwrap_or_default(),
        vpc,
        zone,
        cidr: params.required("CidrBlock")?.to_owned(),
        tags: given_tags(params),
        taken_by_others: 0,
        used: std::collections::BTreeSet::new(),
    };
    let id = vswitch.id.clone();
    world.vswitches.insert(id.clone(), vswitch);
    Ok(Body::Json(json!({"VSwitchId": id})))
}

/// The tags a request gives to something.
pub(crate) fn given_tags(params: &Params) -> Tags {
    params.tags().into_iter().map(|(key, value)| (key, value.unwrap_or_default())).collect()
}

fn tag_resources(world: &mut World, params: &Params) -> Reply {
    let tags = given_tags(params);
    for id in params.list("ResourceId") {
        let vswitch = world.vswitches.get_mut(&id).map(|vswitch| &mut vswitch.tags);
        let found = vswitch.or_else(|| world.vpcs.get_mut(&id).map(|vpc| &mut vpc.tags));
        let missing = || Refusal::not_found("InvalidResourceId.NotFound", &format!("resource {id}"));
        found.ok_or_else(missing)?.extend(tags.clone());
    }
    Ok(Body::Json(json!({})))
}
