//! Tags of machines and security groups, and security groups themselves.

use serde_json::{Value, json};

use crate::call::Call;
use crate::paging::TokenPage;
use crate::vpc::{given_tags, tagged};
use crate::wire::{Body, Params, Refusal, Reply};
use crate::world::{SecurityGroup, Tags, World};

/// How many tags a resource has at most.
const MOST_TAGS: usize = 20;
/// How many characters a key or a value has at most.
const LONGEST: usize = 128;

/// As ECS writes tags.
pub(super) fn tag_list(tags: &Tags) -> Value {
    let tag = |(key, value): (&String, &String)| json!({"TagKey": key, "TagValue": value});
    json!({"Tag": tags.iter().map(tag).collect::<Vec<_>>()})
}

/// Whether tags can be given to a resource.
pub(super) fn check_tags(tags: &Tags) -> Result<(), Refusal> {
    if tags.len() > MOST_TAGS {
        return Err(Refusal::new(
            400,
            "InvalidTagCount",
            format!("A resource has at most {MOST_TAGS} tags."),
        ));
    }
    for (key, value) in tags {
        let reserved = key.starts_with("aliyun") || key.starts_with("acs:");
        let address = [key, value].iter().any(|text| text.contains("http://") || text.contains("https://"));
        if key.is_empty() || reserved || address || key.chars().count() > LONGEST {
            return Err(Refusal::new(
                400,
                "InvalidTagKey.Malformed",
                format!("The tag key {key} is not valid."),
            ));
        }
        if value.chars().count() > LONGEST {
            return Err(Refusal::new(
                400,
                "InvalidTagValue.Malformed",
                format!("The value of tag {key} is too long."),
            ));
        }
    }
    Ok(())
}

/// The tags of a machine, a disk's machine, a security group or an image.
fn tags_of<'w>(world: &'w mut World, id: &str) -> Option<&'w mut Tags> {
    if let Some(instance) = world.instances.get_mut(id) {
        return Some(&mut instance.tags);
    }
    if let Some(group) = world.security_groups.get_mut(id) {
        return Some(&mut group.tags);
    }
    world.images.get_mut(id).map(|image| &mut image.tags)
}

fn resource_ids(params: &Params) -> Result<Vec<String>, Refusal> {
    let mut ids = params.list("ResourceId");
    ids.extend(params.text("ResourceId"));
    match ids.len() {
        0 => Err(Refusal::missing("ResourceId")),
        1..=50 => Ok(ids),
        _ => Err(Refusal::new(400, "NumberExceed.ResourceIds", "One call is about at most 50 resources.")),
    }
}

pub(super) fn tag_resources(world: &mut World, params: &Params) -> Reply {
    let (ids, given) = (resource_ids(params)?, given_tags(params));
    if given.is_empty() {
        return Err(Refusal::missing("Tag"));
    }
    if given.len() > MOST_TAGS {
        return Err(Refusal::new(400, "NumberExceed.Tags", "One call gives at most 20 tags."));
    }
    for id in &ids {
        let missing = || Refusal::not_found("InvalidResourceId.NotFound", &format!("resource {id}"));
        let tags = tags_of(world, id).ok_or_else(missing)?;
        let mut together = tags.clone();
        together.extend(given.clone());
        check_tags(&together)?;
    }
    for id in &ids {
        tags_of(world, id).into_iter().for_each(|tags| tags.extend(given.clone()));
    }
    Ok(Body::Json(json!({})))
}

pub(super) fn untag_resources(world: &mut World, params: &Params) -> Reply {
    let (keys, all) = (params.list("TagKey"), params.flag("All"));
    for id in resource_ids(params)? {
        let missing = || Refusal::not_found("InvalidResourceId.NotFound", &format!("resource {id}"));
        let tags = tags_of(world, &id).ok_or_else(missing)?;
        tags.retain(|key, _| !(keys.contains(key) || (all && keys.is_empty())));
    }
    Ok(Body::Json(json!({})))
}

/// One entry for each tag of each machine that has the tags asked for.
pub(super) fn list_tag_resources(world: &World, params: &Params) -> Reply {
    let filter: Vec<(String, Option<String>)> =
        params
            .tags()
            .into_iter()
            .chain(params.structs("TagFilter").iter().filter_map(|filter| {
                Some((filter.text("TagKey")?, filter.list("TagValues").into_iter().next()))
            }))
            .collect();
    let ids = params.list("ResourceId");
    let wanted: Vec<(&str, &Tags)> = world
        .instances
        .values()
        .filter(|found| (ids.is_empty() || ids.contains(&found.id)) && tagged(&found.tags, &filter))
        .map(|found| (found.id.as_str(), &found.tags))
        .collect();
    let entries: Vec<(String, Value)> = wanted
        .iter()
        .flat_map(|(id, tags)| {
            tags.iter().map(move |(key, value)| {
                let entry =
                    json!({"ResourceId": id, "ResourceType": "instance", "TagKey": key, "TagValue": value});
                (format!("{id}\t{key}"), entry)
            })
        })
        .collect();
    let all: Vec<(&str, &Value)> = entries.iter().map(|(key, entry)| (key.as_str(), entry)).collect();
    let (page, next) = TokenPage::read(params, "tags", 1, 50, 1000)?.cut(&all);
    Ok(Body::Json(json!({"TagResources": {"TagResource": page}, "NextToken": next})))
}

pub(super) fn describe_security_groups(world: &World, params: &Params) -> Reply {
    let filter = params.tags();
    let ids = params.json_list("SecurityGroupIds")?;
    let is = |name: &str, value: &str| params.get(name).is_none_or(|wanted| wanted == value);
    let wanted = |group: &&SecurityGroup| {
        is("SecurityGroupId", &group.id)
            && ids.as_ref().is_none_or(|ids| ids.contains(&group.id))
            && is("SecurityGroupName", &group.name)
            && is("VpcId", &group.vpc)
            && tagged(&group.tags, &filter)
    };
    let all: Vec<(&str, &SecurityGroup)> =
        world.security_groups.values().filter(wanted).map(|group| (group.id.as_str(), group)).collect();
    let (page, next) = TokenPage::read(params, "groups", 1, 10, 100)?.cut(&all);
    let groups: Vec<Value> = page.into_iter().map(|group| group_json(world, group)).collect();
    Ok(Body::Json(json!({
        "TotalCount": all.len(),
        "RegionId": world.region,
        "SecurityGroups": {"SecurityGroup": groups},
        "NextToken": next,
    })))
}

fn group_json(world: &World, group: &SecurityGroup) -> Value {
    let members = world.instances.values().filter(|found| found.security_groups.contains(&group.id)).count();
    json!({
        "SecurityGroupId": group.id,
        "SecurityGroupName": group.name,
        "VpcId": group.vpc,
        "SecurityGroupType": group.kind,
        "AvailableInstanceAmount": 2000_usize.saturating_sub(members),
        "EcsCount": members,
        "Description": "",
        "Tags": tag_list(&group.tags),
    })
}

pub(super) fn create_security_group(world: &mut World, call: &Call<'_>) -> Reply {
    let vpc = call.params.required("VpcId")?.to_owned();
    if !world.vpcs.contains_key(&vpc) {
        return Err(Refusal::not_found("InvalidVpcId.NotFound", &format!("VPC {vpc}")));
    }
    let group = SecurityGroup {
        id: call.id("sg-"),
        name: call.params.text("SecurityGroupName").unwrap_or_default(),
        vpc,
        kind: call.params.text("SecurityGroupType").unwrap_or_else(|| "normal".to_owned()),
        tags: given_tags(&call.params),
    };
    check_tags(&group.tags)?;
    let id = group.id.clone();
    world.security_groups.insert(id.clone(), group);
    Ok(Body::Json(json!({"SecurityGroupId": id})))
}
