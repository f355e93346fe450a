//! What ECS sells: regions, zones, types, stock and prices.

use karpenter_provider::OfferingKey;
use serde_json::{Value, json};

use crate::call::{Call, seconds};
use crate::paging::TokenPage;
use crate::types::InstanceType;
use crate::wire::{Body, Params, Refusal, Reply};
use crate::world::{Market, Stock, World};

pub(super) fn describe_regions(world: &World) -> Value {
    let endpoint = format!("ecs.{}.aliyuncs.com", world.region);
    let region = json!({"RegionId": world.region, "LocalName": world.region, "RegionEndpoint": endpoint, "Status": "available"});
    json!({"Regions": {"Region": [region]}})
}

pub(super) fn describe_zones(world: &World) -> Value {
    let zone = |zone: &String| json!({"ZoneId": zone, "LocalName": zone, "ZoneType": "AvailabilityZone"});
    json!({"Zones": {"Zone": world.zones.iter().map(zone).collect::<Vec<_>>()}})
}

pub(super) fn describe_instance_types(world: &World, params: &Params) -> Reply {
    let named = params.list("InstanceTypes");
    let family = params.get("InstanceTypeFamily");
    let wanted = |found: &&InstanceType| {
        (named.is_empty() || named.contains(&found.id)) && family.is_none_or(|family| family == found.family)
    };
    let all: Vec<(&str, &InstanceType)> =
        world.types.values().filter(wanted).map(|found| (found.id.as_str(), found)).collect();
    let cap = world.switches.instance_types_page;
    let page = TokenPage::read(params, "types", 1, cap, cap)?;
    let (page, next) = page.cut(&all);
    let types: Vec<Value> = page.into_iter().map(type_json).collect();
    Ok(Body::Json(json!({"InstanceTypes": {"InstanceType": types}, "NextToken": next})))
}

fn type_json(found: &InstanceType) -> Value {
    let mut json = json!({
        "InstanceTypeId": found.id,
        "InstanceTypeFamily": found.family,
        "InstanceFamilyLevel": found.level,
        "InstanceCategory": found.category,
        "CpuArchitecture": found.architecture,
        "CpuCoreCount": found.cpus,
        "MemorySize": found.memory_gib,
        "PhysicalProcessorModel": found.processor,
        "CpuSpeedFrequency": found.clock,
        "CpuTurboFrequency": found.clock + 0.5,
        "GPUAmount": found.gpus,
        "GPUSpec": found.gpu,
        "GPUMemorySize": found.gpu_memory_gib,
        "EniQuantity": found.enis,
        "EniPrivateIpAddressQuantity": found.eni_addresses,
        "EniIpv6AddressQuantity": found.eni_addresses,
        "EniTotalQuantity": found.enis_total,
        "EniTrunkSupported": found.trunk,
        "EriQuantity": 0,
        "InstanceBandwidthRx": found.bandwidth,
        "InstanceBandwidthTx": found.bandwidth,
        "DiskQuantity": 17,
        "NvmeSupport": if found.disk_categories.iter().any(|kind| kind == "cloud_auto") { "required" } else { "unsupported" },
        "LocalStorageCategory": if found.local_disks > 0 { "local_ssd_pro" } else { "" },
    });
    if found.local_disks > 0 {
        json["LocalStorageAmount"] = json!(found.local_disks);
        json["LocalStorageCapacity"] = json!(found.local_disk_gib);
    }
    if found.level == "CreditEntryLevel" {
        json["BaselineCredit"] = json!(6 * found.cpus);
        json["InitialCredit"] = json!(30 * found.cpus);
    }
    json
}

/// Which market a request is about: spot unless its strategy says otherwise.
pub(super) fn market_of(strategy: Option<&str>) -> Result<Market, Refusal> {
    match strategy {
        None | Some("NoSpot") => Ok(Market::OnDemand),
        Some("SpotAsPriceGo" | "SpotWithPriceLimit") => Ok(Market::Spot),
        Some(_) => Err(Refusal::new(400, "InvalidSpotStrategy", "The spot strategy is not valid.")),
    }
}

pub(super) fn describe_available_resource(world: &World, params: &Params) -> Reply {
    let market = market_of(params.get("SpotStrategy"))?;
    let destination = params.required("DestinationResource")?;
    let named = params.get("InstanceType");
    let zones = world.zones.iter().filter(|zone| params.get("ZoneId").is_none_or(|wanted| wanted == *zone));
    let found: Vec<Value> = match destination {
        "InstanceType" => zones.filter_map(|zone| types_of_zone(world, zone, market, named)).collect(),
        "SystemDisk" | "DataDisk" => {
            let name = params.required("InstanceType")?;
            let missing =
                || Refusal::not_found("InvalidInstanceType.NotFound", &format!("instance type {name}"));
            let found = world.types.get(name).ok_or_else(missing)?;
            zones.filter_map(|zone| disks_of_zone(world, zone, market, destination, found)).collect()
        }
        "Zone" => zones.map(|zone| zone_json(world, zone, true, "Zone", &[])).collect(),
        _ => return Err(Refusal::invalid("DestinationResource", "it is not one the simulated cloud knows")),
    };
    Ok(Body::Json(json!({"AvailableZones": {"AvailableZone": found}})))
}

fn types_of_zone(world: &World, zone: &str, market: Market, named: Option<&str>) -> Option<Value> {
    let sold: Vec<(&InstanceType, Stock)> = world
        .types
        .values()
        .filter(|found| named.is_none_or(|named| named == found.id))
        .map(|found| (found, world.stock_of(found, zone, market)))
        .filter(|(_, stock)| *stock != Stock::NotSold)
        .collect();
    let any = sold.iter().any(|(_, stock)| stock.has_any());
    let resources: Vec<Value> = sold.iter().map(|(found, stock)| resource(&found.id, *stock)).collect();
    (!resources.is_empty()).then(|| zone_json(world, zone, any, "InstanceType", &resources))
}

fn disks_of_zone(
    world: &World,
    zone: &str,
    market: Market,
    kind: &str,
    found: &InstanceType,
) -> Option<Value> {
    let stock = world.stock_of(found, zone, market);
    if stock == Stock::NotSold {
        return None;
    }
    let disk = |category: &String| {
        let mut resource = resource(category, Stock::WithStock);
        resource["Min"] = json!(20);
        resource["Max"] = json!(if kind == "SystemDisk" { 2048 } else { 32_768 });
        resource["Unit"] = json!("GiB");
        resource
    };
    let disks: Vec<Value> = found.disk_categories.iter().map(disk).collect();
    Some(zone_json(world, zone, stock.has_any(), kind, &disks))
}

fn zone_json(world: &World, zone: &str, any: bool, kind: &str, resources: &[Value]) -> Value {
    json!({
        "RegionId": world.region,
        "ZoneId": zone,
        "Status": if any { "Available" } else { "SoldOut" },
        "StatusCategory": if any { "WithStock" } else { "WithoutStock" },
        "AvailableResources": {"AvailableResource": [
            {"Type": kind, "SupportedResources": {"SupportedResource": resources}},
        ]},
    })
}

fn resource(value: &str, stock: Stock) -> Value {
    let category = match stock {
        Stock::WithStock => "WithStock",
        Stock::ClosedWithStock => "ClosedWithStock",
        Stock::WithoutStock | Stock::NotSold => "WithoutStock",
    };
    json!({"Value": value, "Status": if stock.has_any() { "Available" } else { "SoldOut" }, "StatusCategory": category})
}

/// What an offering costs per hour now, given its list price.
pub(super) fn price_now(call: &Call<'_>, found: &InstanceType, zone: &str, market: Market) -> f64 {
    let list = match market {
        Market::OnDemand => found.price,
        Market::Spot => World::spot_list_price(found, zone),
    };
    call.market.price(&offering(found, zone, market), list, call.now)
}

/// How the market knows an offering.
pub(super) fn offering(found: &InstanceType, zone: &str, market: Market) -> OfferingKey {
    OfferingKey {
        instance_type: found.id.as_str().into(),
        zone: zone.into(),
        capacity_type: market.capacity_type().into(),
    }
}

fn named_type<'w>(world: &'w World, params: &Params) -> Result<&'w InstanceType, Refusal> {
    let name = params.required("InstanceType")?;
    let missing = || Refusal::not_found("InvalidInstanceType.NotFound", &format!("instance type {name}"));
    world.types.get(name).ok_or_else(missing)
}

pub(super) fn describe_price(world: &World, call: &Call<'_>) -> Reply {
    let found = named_type(world, &call.params)?;
    let market = market_of(call.params.get("SpotStrategy"))?;
    let zone = call.params.get("ZoneId").or(world.zones.first().map(String::as_str)).unwrap_or_default();
    if world.stock_of(found, zone, market) == Stock::NotSold && call.params.get("ZoneId").is_some() {
        let message = format!("There is no price: {} is not sold in {zone}.", found.id);
        return Err(Refusal::new(403, "PriceNotFound", message));
    }
    let price = price_now(call, found, zone, market);
    let detail = json!({"Resource": "instanceType", "OriginalPrice": found.price, "DiscountPrice": 0.0, "TradePrice": price});
    let price = json!({
        "Currency": "CNY",
        "OriginalPrice": found.price,
        "DiscountPrice": (found.price - price).max(0.0),
        "TradePrice": price,
        "DetailInfos": {"DetailInfo": [detail]},
    });
    Ok(Body::Json(json!({"PriceInfo": {"Price": price, "Rules": {"Rule": []}}})))
}

pub(super) fn describe_spot_price_history(world: &World, call: &Call<'_>) -> Reply {
    call.params.required("NetworkType")?;
    let found = named_type(world, &call.params)?;
    let asked = call.params.get("ZoneId");
    let sold = |zone: &&String| {
        asked.is_none_or(|asked| asked == *zone)
            && world.stock_of(found, zone, Market::Spot) != Stock::NotSold
    };
    let mut prices = Vec::new();
    for zone in world.zones.iter().filter(sold) {
        for hours in [2, 1, 0] {
            let time = call.now - jiff::SignedDuration::from_hours(hours);
            let list = World::spot_list_price(found, zone);
            let price = call.market.price(&offering(found, zone, Market::Spot), list, time);
            prices.push(json!({
                "ZoneId": zone,
                "InstanceType": found.id,
                "NetworkType": "vpc",
                "IoOptimized": "optimized",
                "SpotPrice": price,
                "OriginPrice": found.price,
                "Timestamp": seconds(time),
            }));
        }
    }
    Ok(Body::Json(json!({"Currency": "CNY", "NextOffset": 0, "SpotPrices": {"SpotPriceType": prices}})))
}
