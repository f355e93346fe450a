//! Auto-provisioning groups: one call that tries several types and zones in the order of their prices.

use serde_json::{Value, json};

use super::discovery::price_now;
use super::launch::{DiskWish, Wish, check, launch, once};
use super::tags::tag_list;
use crate::call::{Call, minutes};
use crate::vpc::given_tags;
use crate::wire::{Body, NumberedPage, Params, Refusal, Reply};
use crate::world::{Market, ProvisioningGroup, World};

/// A type in a vSwitch that may be launched.
struct Config {
    instance_type: String,
    vswitch: String,
    zone: String,
    image: Option<String>,
    max_price: Option<f64>,
    price: f64,
    priority: u32,
}

/// What became of one configuration.
struct Outcome {
    instance_type: String,
    zone: String,
    market: Market,
    result: Result<Vec<String>, Refusal>,
}

pub(super) fn create(world: &mut World, call: &Call<'_>) -> Reply {
    once(world, call, "CreateAutoProvisioningGroup", |world| {
        let params = &call.params;
        if params.required("AutoProvisioningGroupType")? != "instant" {
            return Err(Refusal::invalid(
                "AutoProvisioningGroupType",
                "the simulated cloud has only instant groups",
            ));
        }
        let total: usize =
            whole(params, "TotalTargetCapacity")?.ok_or_else(|| Refusal::missing("TotalTargetCapacity"))?;
        let spot = whole(params, "SpotTargetCapacity")?.unwrap_or(0);
        let on_demand = whole(params, "PayAsYouGoTargetCapacity")?.unwrap_or(total.saturating_sub(spot));
        if spot + on_demand > total {
            return Err(Refusal::invalid("TotalTargetCapacity", "it is less than its parts"));
        }
        let id = call.id("apg-");
        let mut outcomes = Vec::new();
        for (market, wanted) in [(Market::Spot, spot), (Market::OnDemand, on_demand)] {
            if wanted > 0 {
                outcomes.extend(provision(world, call, market, wanted, &id)?);
            }
        }
        remember(world, call, &id, &outcomes);
        outcomes.sort_by_key(|outcome| outcome.result.is_ok() == world.switches.failures_first);
        let results: Vec<Value> = outcomes.iter().map(result_json).collect();
        Ok(json!({"AutoProvisioningGroupId": id, "LaunchResults": {"LaunchResult": results}}))
    })
}

/// A capacity, which some clients write as `1.0`.
fn whole(params: &Params, name: &str) -> Result<Option<usize>, Refusal> {
    Ok(params.number::<f64>(name)?.map(|value| value.max(0.0) as usize))
}

/// Tries the configurations one after another until there is enough.
fn provision(
    world: &mut World,
    call: &Call<'_>,
    market: Market,
    wanted: usize,
    group: &str,
) -> Result<Vec<Outcome>, Refusal> {
    let configs = configs(world, call, market)?;
    let mut wish = wish(&call.params, market, group)?;
    let default_image = wish.image.clone();
    let mut outcomes = Vec::new();
    let mut missing = wanted;
    for config in configs {
        wish.image = config.image.clone().unwrap_or_else(|| default_image.clone());
        check(world, call, &wish)?;
        let mut launched = Vec::new();
        let mut failure = config.max_price.filter(|limit| *limit < config.price).map(|_| {
            Refusal::new(403, "InvalidSpotPriceLimit.LowerThanPublicPrice", "The price is above its limit.")
        });
        while launched.len() < missing && failure.is_none() {
            match launch(world, call, &wish, &config.instance_type, &config.vswitch) {
                Ok(id) => launched.push(id),
                Err(refusal) => failure = Some(refusal),
            }
        }
        missing -= launched.len();
        let results = [(!launched.is_empty()).then_some(Ok(launched)), failure.map(Err)];
        outcomes.extend(results.into_iter().flatten().map(|result| Outcome {
            instance_type: config.instance_type.clone(),
            zone: config.zone.clone(),
            market,
            result,
        }));
        if missing == 0 {
            break;
        }
    }
    Ok(outcomes)
}

/// The configurations in the order in which they are tried.
fn configs(world: &World, call: &Call<'_>, market: Market) -> Result<Vec<Config>, Refusal> {
    let listed = call.params.structs("LaunchTemplateConfig");
    if listed.is_empty() {
        return Err(Refusal::missing("LaunchTemplateConfig"));
    }
    if listed.len() > world.switches.group_configs {
        let message = format!("A group has at most {} configurations.", world.switches.group_configs);
        return Err(Refusal::new(400, "InvalidParameter.LaunchTemplateConfig", message));
    }
    let overall: Option<f64> = call.params.number("MaxSpotPrice")?.filter(|_| market == Market::Spot);
    let mut configs = Vec::new();
    for one in &listed {
        let vswitch = one.required("VSwitchId")?;
        let missing = || Refusal::not_found("InvalidVSwitchId.NotFound", &format!("vSwitch {vswitch}"));
        let zone = world.vswitches.get(vswitch).ok_or_else(missing)?.zone.clone();
        let name = one.required("InstanceType")?;
        let missing =
            || Refusal::new(400, "InvalidInstanceType.NotSupported", format!("There is no type {name}."));
        let found = world.types.get(name).ok_or_else(missing)?;
        configs.push(Config {
            instance_type: name.to_owned(),
            vswitch: vswitch.to_owned(),
            price: price_now(call, found, &zone, market),
            zone,
            image: one.text("ImageId"),
            max_price: one.number("MaxPrice")?.or(overall),
            priority: one.number("Priority")?.unwrap_or(u32::MAX),
        });
    }
    let prioritized =
        market == Market::OnDemand && call.params.get("PayAsYouGoAllocationStrategy") == Some("prioritized");
    configs.sort_by(|one, other| {
        let by_priority =
            if prioritized { one.priority.cmp(&other.priority) } else { std::cmp::Ordering::Equal };
        by_priority.then(one.price.total_cmp(&other.price))
    });
    Ok(configs)
}

fn wish(params: &Params, market: Market, group: &str) -> Result<Wish, Refusal> {
    let launch = params.part("LaunchConfiguration");
    let categories = |name: &str| -> Vec<String> {
        params.structs(name).iter().filter_map(|config| config.text("DiskCategory")).collect()
    };
    let mut system = DiskWish::read(&launch.part("SystemDisk"))?;
    system.size_gib = launch.number("SystemDiskSize")?.or(system.size_gib);
    system.performance_level = launch.text("SystemDiskPerformanceLevel").or(system.performance_level);
    system.categories = categories("SystemDiskConfig");
    system.categories.extend(launch.text("SystemDiskCategory").filter(|_| system.categories.is_empty()));
    let mut data = launch.structs("DataDisk").iter().map(DiskWish::read).collect::<Result<Vec<_>, _>>()?;
    for disk in data.iter_mut().filter(|disk| disk.categories.is_empty()) {
        disk.categories = categories("DataDiskConfig");
    }
    let mut security_groups = launch.list("SecurityGroupIds");
    security_groups.extend(launch.text("SecurityGroupId"));
    let text = |name: &str| launch.text(name).unwrap_or_default();
    Ok(Wish {
        image: text("ImageId"),
        security_groups,
        market,
        strategy: if market == Market::Spot { "SpotAsPriceGo" } else { "NoSpot" }.to_owned(),
        price_limit: None,
        tags: given_tags(&launch),
        name: text("InstanceName"),
        role: text("RamRoleName"),
        key_pair: text("KeyPairName"),
        resource_group: text("ResourceGroupId"),
        user_data: text("UserData"),
        http_tokens: "optional".to_owned(),
        system_disk: system,
        data_disks: data,
        deletion_protection: false,
        group: Some(group.to_owned()),
    })
}

fn remember(world: &mut World, call: &Call<'_>, id: &str, outcomes: &[Outcome]) {
    let instances = outcomes.iter().filter_map(|outcome| outcome.result.as_ref().ok()).flatten().cloned();
    let group = ProvisioningGroup {
        id: id.to_owned(),
        name: call.params.text("AutoProvisioningGroupName").unwrap_or_else(|| id.to_owned()),
        tags: given_tags(&call.params),
        instances: instances.collect(),
        created: call.now,
    };
    world.groups.insert(id.to_owned(), group);
}

fn result_json(outcome: &Outcome) -> Value {
    let strategy = if outcome.market == Market::Spot { "SpotAsPriceGo" } else { "NoSpot" };
    let mut json = json!({
        "InstanceType": outcome.instance_type,
        "ZoneId": outcome.zone,
        "SpotStrategy": strategy,
        "Amount": 0,
        "InstanceIds": {"InstanceId": []},
    });
    match &outcome.result {
        Ok(ids) => {
            json["Amount"] = json!(ids.len());
            json["InstanceIds"]["InstanceId"] = json!(ids);
        }
        Err(refusal) => {
            // Groups have a word of their own for this.
            let code =
                if refusal.code == "OperationDenied.NoStock" { "NoInstanceStock" } else { &refusal.code };
            json["ErrorCode"] = json!(code);
            json["ErrorMsg"] = json!(refusal.message);
        }
    }
    json
}

pub(super) fn describe(world: &World, params: &Params) -> Reply {
    let page = NumberedPage::read(params, 10, 100)?;
    let ids = params.list("AutoProvisioningGroupId");
    let group_json = |group: &ProvisioningGroup| {
        json!({
            "AutoProvisioningGroupId": group.id,
            "AutoProvisioningGroupName": group.name,
            "AutoProvisioningGroupType": "instant",
            "RegionId": world.region,
            "Status": "fulfilled",
            "State": "active",
            "CreationTime": minutes(group.created),
            "Tags": tag_list(&group.tags),
        })
    };
    let wanted = world.groups.values().filter(|group| ids.is_empty() || ids.contains(&group.id));
    let found: Vec<Value> = wanted.map(group_json).collect();
    Ok(Body::Json(json!({
        "TotalCount": found.len(),
        "PageNumber": page.number,
        "PageSize": page.size,
        "AutoProvisioningGroups": {"AutoProvisioningGroup": page.cut(&found)},
    })))
}

pub(super) fn delete(world: &mut World, params: &Params) -> Reply {
    let id = params.required("AutoProvisioningGroupId")?;
    let missing = || Refusal::not_found("InvalidAutoProvisioningGroupId.NotFound", &format!("group {id}"));
    world.groups.remove(id).ok_or_else(missing)?;
    Ok(Body::Json(json!({})))
}
