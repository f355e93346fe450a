//! Launching machines: what is asked for, whether it fits together, and whether there is one.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::discovery::{market_of, offering, price_now};
use super::reservations;
use super::tags::check_tags;
use crate::call::Call;
use crate::life;
use crate::service::check_permission;
use crate::types::InstanceType;
use crate::vpc::given_tags;
use crate::wire::{Body, Params, Refusal, Reply};
use crate::world::{Disk, Instance, Market, Remembered, Status, Stock, Tags, World};

/// How many bytes user data has at most before it is encoded.
const MOST_USER_DATA: usize = 32 * 1024;

/// A machine to be, without its type and place.
pub(super) struct Wish {
    pub(super) image: String,
    pub(super) security_groups: Vec<String>,
    pub(super) market: Market,
    pub(super) strategy: String,
    pub(super) price_limit: Option<f64>,
    pub(super) tags: Tags,
    pub(super) name: String,
    pub(super) role: String,
    pub(super) key_pair: String,
    pub(super) resource_group: String,
    pub(super) user_data: String,
    pub(super) http_tokens: String,
    pub(super) system_disk: DiskWish,
    pub(super) data_disks: Vec<DiskWish>,
    pub(super) deletion_protection: bool,
    pub(super) group: Option<String>,
}

/// A disk to be; of its categories the first that the type can have is taken.
#[derive(Clone, Default)]
pub(super) struct DiskWish {
    pub(super) categories: Vec<String>,
    pub(super) size_gib: Option<u32>,
    pub(super) performance_level: Option<String>,
    pub(super) encrypted: bool,
    pub(super) kms_key: String,
    pub(super) device: String,
    pub(super) keep: bool,
}

impl DiskWish {
    pub(super) fn read(params: &Params) -> Result<Self, Refusal> {
        Ok(Self {
            categories: params.text("Category").into_iter().collect(),
            size_gib: params.number("Size")?,
            performance_level: params.text("PerformanceLevel"),
            encrypted: params.flag("Encrypted"),
            kms_key: params.get("KMSKeyId").or(params.get("KmsKeyId")).unwrap_or_default().to_owned(),
            device: params.text("Device").unwrap_or_default(),
            keep: params.get("DeleteWithInstance").is_some_and(|value| value.eq_ignore_ascii_case("false")),
        })
    }
}

pub(super) fn run_instances(world: &mut World, call: &Call<'_>) -> Reply {
    once(world, call, "RunInstances", |world| {
        let params = &call.params;
        let wish = read(params)?;
        check(world, call, &wish)?;
        check_template(world, params)?;
        let name = params.required("InstanceType")?;
        let vswitch = params.required("VSwitchId")?;
        let amount: usize = params.number("Amount")?.unwrap_or(1);
        let least: usize = params.number("MinAmount")?.unwrap_or(amount);
        if !(1..=100).contains(&amount) || least > amount {
            return Err(Refusal::invalid("Amount", "it must be from 1 to 100 and not below MinAmount"));
        }
        if params.flag("DryRun") {
            return Err(Refusal::new(400, "DryRunOperation", "The request would have been accepted."));
        }
        let mut ids = Vec::new();
        for _ in 0..amount {
            match launch(world, call, &wish, name, vswitch) {
                Ok(id) => ids.push(id),
                Err(_) if ids.len() >= least => break,
                Err(refusal) => {
                    ids.iter().for_each(|id| life::forget(world, call.market, id, call.now));
                    return Err(refusal);
                }
            }
        }
        let price = world.types.get(name).map_or(0.0, |found| found.price) * ids.len() as f64;
        Ok(json!({"InstanceIdSets": {"InstanceIdSet": ids}, "TradePrice": price, "OrderId": ""}))
    })
}

/// Answers a repeated request with the same client token as the first time.
pub(super) fn once(
    world: &mut World,
    call: &Call<'_>,
    action: &str,
    launch: impl FnOnce(&mut World) -> Result<Value, Refusal>,
) -> Reply {
    let Some(token) = call.params.text("ClientToken") else { return launch(world).map(Body::Json) };
    if token.len() > 64 || !token.is_ascii() {
        return Err(Refusal::invalid("ClientToken", "it has at most 64 ASCII characters"));
    }
    let key = (action.to_owned(), token);
    if let Some(found) = world.remembered.get(&key) {
        if found.params == *call.params.all() {
            return Ok(Body::Json(found.answer.clone()));
        }
        let message = "The client token was used before with other parameters.";
        return Err(Refusal::new(400, "IdempotentParameterMismatch", message));
    }
    let answer = launch(world)?;
    let remembered = Remembered { params: call.params.all().clone(), answer: answer.clone() };
    world.remembered.insert(key, remembered);
    Ok(Body::Json(answer))
}

fn read(params: &Params) -> Result<Wish, Refusal> {
    let strategy = params.text("SpotStrategy").unwrap_or_else(|| "NoSpot".to_owned());
    let mut security_groups = params.list("SecurityGroupIds");
    if let Some(one) = params.text("SecurityGroupId") {
        if !security_groups.is_empty() {
            let message = "SecurityGroupId and SecurityGroupIds exclude each other.";
            return Err(Refusal::new(400, "InvalidParameter.Conflict", message));
        }
        security_groups.push(one);
    }
    let text = |name: &str| params.text(name).unwrap_or_default();
    Ok(Wish {
        image: params.required("ImageId")?.to_owned(),
        security_groups,
        market: market_of(Some(&strategy))?,
        strategy,
        price_limit: params.number("SpotPriceLimit")?,
        tags: given_tags(params),
        name: text("InstanceName"),
        role: text("RamRoleName"),
        key_pair: text("KeyPairName"),
        resource_group: text("ResourceGroupId"),
        user_data: text("UserData"),
        http_tokens: params.text("HttpTokens").unwrap_or_else(|| "optional".to_owned()),
        system_disk: DiskWish::read(&params.part("SystemDisk"))?,
        data_disks: params.structs("DataDisk").iter().map(DiskWish::read).collect::<Result<_, _>>()?,
        deletion_protection: params.flag("DeletionProtection"),
        group: None,
    })
}

/// What can be said without knowing type and place.
pub(super) fn check(world: &World, call: &Call<'_>, wish: &Wish) -> Result<(), Refusal> {
    check_tags(&wish.tags)?;
    check_user_data(&wish.user_data)?;
    let image = world.images.get(&wish.image);
    let image = image
        .ok_or_else(|| Refusal::not_found("InvalidImageId.NotFound", &format!("image {}", wish.image)))?;
    let least = image.size_gib.max(20);
    if wish.system_disk.size_gib.is_some_and(|size| !(least..=2048).contains(&size)) {
        let message = format!("The system disk must have from {least} to 2048 GiB.");
        return Err(Refusal::new(400, "InvalidSystemDiskSize.LessThanImageSize", message));
    }
    if wish.security_groups.is_empty() {
        return Err(Refusal::missing("SecurityGroupId"));
    }
    for group in &wish.security_groups {
        let missing =
            || Refusal::not_found("InvalidSecurityGroupId.NotFound", &format!("security group {group}"));
        world.security_groups.get(group).ok_or_else(missing)?;
    }
    if !wish.key_pair.is_empty() && !world.key_pairs.contains(&wish.key_pair) {
        return Err(Refusal::not_found(
            "InvalidKeyPairName.NotFound",
            &format!("key pair {}", wish.key_pair),
        ));
    }
    check_role(world, call, &wish.role)?;
    if wish.data_disks.len() > 16 {
        return Err(Refusal::new(400, "InvalidDataDisk.Count", "A machine has at most 16 data disks."));
    }
    if wish.data_disks.iter().any(|disk| !(20..=32_768).contains(&disk.size_gib.unwrap_or(0))) {
        return Err(Refusal::new(
            400,
            "InvalidDataDiskSize.ValueNotSupported",
            "A data disk has from 20 to 32768 GiB.",
        ));
    }
    Ok(())
}

fn check_template(world: &World, params: &Params) -> Result<(), Refusal> {
    match params.get("LaunchTemplateId") {
        Some(id) if !world.launch_templates.contains(id) => {
            Err(Refusal::not_found("InvalidLaunchTemplate.NotFound", &format!("launch template {id}")))
        }
        _ => Ok(()),
    }
}

fn check_user_data(user_data: &str) -> Result<(), Refusal> {
    let Ok(decoded) = STANDARD.decode(user_data) else {
        let message = "The user data must be encoded in Base64.";
        return Err(Refusal::new(400, "InvalidUserData.Base64FormatInvalid", message));
    };
    if decoded.len() > MOST_USER_DATA {
        return Err(Refusal::new(400, "InvalidUserData.SizeExceeded", "User data has at most 32 KiB."));
    }
    Ok(())
}

fn check_role(world: &World, call: &Call<'_>, name: &str) -> Result<(), Refusal> {
    if name.is_empty() {
        return Ok(());
    }
    check_permission(world, call, "ram:PassRole")?;
    let missing = || Refusal::not_found("InvalidRamRole.NotFound", &format!("RAM role {name}"));
    let role = world.roles.get(name).ok_or_else(missing)?;
    if role.services.iter().any(|service| service == "ecs.aliyuncs.com") {
        return Ok(());
    }
    let message = format!("The RAM role {name} does not trust ecs.aliyuncs.com.");
    Err(Refusal::new(403, "InvalidRamRole.NotEcsRole", message))
}

/// Launches one machine of a type in a vSwitch.
pub(super) fn launch(
    world: &mut World,
    call: &Call<'_>,
    wish: &Wish,
    name: &str,
    vswitch: &str,
) -> Result<String, Refusal> {
    let missing =
        || Refusal::new(400, "InvalidInstanceType.NotSupported", format!("There is no type {name}."));
    let found = world.types.get(name).cloned().ok_or_else(missing)?;
    let zone = check_place(world, wish, &found, vswitch)?;
    let disks = disks(world, call, wish, &found)?;
    let private_pool = reservations::used_by(world, &call.params, &found, &zone, wish.market)?;
    // What was paid for in advance is there.
    if private_pool.is_none() {
        check_stock(world, call, wish, &found, &zone)?;
    }
    let free = world.vswitches.get(vswitch).map_or(0, crate::world::VSwitch::free);
    if free == 0 {
        let message = format!("The vSwitch {vswitch} has no free addresses.");
        return Err(Refusal::new(403, "InvalidVSwitchId.IpNotEnough", message));
    }
    let id = call.id("i-");
    let sold = call.market.buy(&offering(&found, &zone, wish.market), &id, call.now);
    sold.map_err(|why| no_stock(&found.id, &zone, &why))?;
    let address = world.vswitches.get_mut(vswitch).and_then(crate::world::VSwitch::take);
    let instance = Instance {
        id: id.clone(),
        instance_type: found.id,
        image: wish.image.clone(),
        zone,
        vswitch: vswitch.to_owned(),
        address: address.expect("a free address was seen above"),
        security_groups: wish.security_groups.clone(),
        market: wish.market,
        spot_strategy: wish.strategy.clone(),
        spot_price_limit: wish.price_limit.unwrap_or(0.0),
        status: Status::Pending,
        created: call.now,
        tags: wish.tags.clone(),
        name: if wish.name.is_empty() { id.clone() } else { wish.name.clone() },
        role: wish.role.clone(),
        key_pair: wish.key_pair.clone(),
        resource_group: wish.resource_group.clone(),
        user_data: wish.user_data.clone(),
        http_tokens: wish.http_tokens.clone(),
        disks,
        deletion_protection: wish.deletion_protection,
        locks: std::collections::BTreeSet::new(),
        next_step: None,
        released_at: None,
        node_name: None,
        group: wish.group.clone(),
        private_pool,
    };
    life::begin(world, instance, call.now);
    Ok(id)
}

/// Whether the machine's parts fit together; returns its zone.
fn check_place(world: &World, wish: &Wish, found: &InstanceType, vswitch: &str) -> Result<String, Refusal> {
    let missing = || Refusal::not_found("InvalidVSwitchId.NotFound", &format!("vSwitch {vswitch}"));
    let vswitch = world.vswitches.get(vswitch).ok_or_else(missing)?;
    let elsewhere =
        |group: &&String| world.security_groups.get(*group).is_some_and(|group| group.vpc != vswitch.vpc);
    if let Some(group) = wish.security_groups.iter().find(elsewhere) {
        let message =
            format!("The security group {group} is in another VPC than the vSwitch {}.", vswitch.id);
        return Err(Refusal::new(403, "InvalidParameter.NotMatch", message));
    }
    let arm = world.images.get(&wish.image).is_some_and(|image| image.architecture == "arm64");
    if arm != (found.architecture == "ARM") {
        let message = format!("The image {} is of another architecture than {}.", wish.image, found.id);
        return Err(Refusal::new(403, "InvalidInstanceType.NotSupported", message));
    }
    Ok(vswitch.zone.clone())
}

fn no_stock(name: &str, zone: &str, why: &str) -> Refusal {
    let message = format!("The requested resource is sold out: {name} in {zone} ({why}).");
    Refusal::new(403, "OperationDenied.NoStock", message)
}

fn check_stock(
    world: &World,
    call: &Call<'_>,
    wish: &Wish,
    found: &InstanceType,
    zone: &str,
) -> Result<(), Refusal> {
    if world.switches.instance_quota.is_some_and(|quota| world.instances.len() >= quota) {
        let message = "The quota of machines of this account in the region is used up.";
        return Err(Refusal::new(403, "QuotaExceed.ElasticQuota", message));
    }
    match world.stock_of(found, zone, wish.market) {
        Stock::NotSold => {
            let message = format!("The type {} is not sold in {zone}.", found.id);
            return Err(Refusal::new(403, "InvalidInstanceType.ZoneNotSupported", message));
        }
        Stock::WithoutStock => return Err(no_stock(&found.id, zone, "none is left")),
        Stock::WithStock | Stock::ClosedWithStock => {}
    }
    if call.environment.below(1000) < world.switches.no_stock_per_mille {
        return Err(no_stock(&found.id, zone, "none by chance"));
    }
    let price = price_now(call, found, zone, wish.market);
    if wish.strategy == "SpotWithPriceLimit" && wish.price_limit.is_none_or(|limit| limit < price) {
        let message = format!("The price limit is below the present price of {price}.");
        return Err(Refusal::new(403, "InvalidSpotPriceLimit.LowerThanPublicPrice", message));
    }
    Ok(())
}

fn disks(world: &World, call: &Call<'_>, wish: &Wish, found: &InstanceType) -> Result<Vec<Disk>, Refusal> {
    let image_size = world.images.get(&wish.image).map_or(20, |image| image.size_gib);
    let mut system = wish.system_disk.clone();
    system.size_gib.get_or_insert(image_size.max(40));
    let mut disks = vec![disk(call, &system, found, "system", "/dev/xvda")?];
    for (number, data) in wish.data_disks.iter().enumerate() {
        let letter = char::from(b'b' + (number % 16) as u8);
        disks.push(disk(call, data, found, "data", &format!("/dev/xvd{letter}"))?);
    }
    Ok(disks)
}

fn disk(
    call: &Call<'_>,
    wish: &DiskWish,
    found: &InstanceType,
    kind: &'static str,
    device: &str,
) -> Result<Disk, Refusal> {
    let fits = |category: &&String| found.disk_categories.contains(category);
    let category = match wish.categories.as_slice() {
        [] => found.disk_categories.first(),
        wanted => wanted.iter().find(fits),
    };
    let Some(category) = category.cloned() else {
        let message = format!("{} cannot have a disk of {}.", found.id, wish.categories.join(" or "));
        return Err(Refusal::new(403, "InvalidDiskCategory.NotSupported", message));
    };
    let essd = category.starts_with("cloud_essd") || category == "cloud_auto";
    if wish.encrypted && !essd {
        let message = format!("A disk of category {category} cannot be encrypted.");
        return Err(Refusal::new(403, "InvalidParameter.EncryptedNotSupported", message));
    }
    let performance_level = match (&wish.performance_level, category.as_str()) {
        (Some(level), "cloud_essd") if ["PL0", "PL1", "PL2", "PL3"].contains(&level.as_str()) => {
            level.clone()
        }
        // Of a list of categories another than the one the level is meant for may have been taken.
        (Some(_), other) if other != "cloud_essd" && wish.categories.len() > 1 => String::new(),
        (Some(_), _) => {
            let message = "Performance levels PL0 to PL3 are for disks of category cloud_essd.";
            return Err(Refusal::new(400, "InvalidPerformanceLevel.Malformed", message));
        }
        (None, "cloud_essd") => "PL1".to_owned(),
        (None, _) => String::new(),
    };
    Ok(Disk {
        id: call.id("d-"),
        kind,
        category,
        size_gib: wish.size_gib.unwrap_or(40),
        performance_level,
        encrypted: wish.encrypted,
        kms_key: wish.kms_key.clone(),
        device: if wish.device.is_empty() { device.to_owned() } else { wish.device.clone() },
        delete_with_instance: !wish.keep,
    })
}
