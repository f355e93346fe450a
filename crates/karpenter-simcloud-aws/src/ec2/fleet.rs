//! `CreateFleet` of type instant: which of many offerings are taken, and which errors the others gave.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::dry_run;
use super::launch::Launch;
use super::templates;
use crate::answer::Outcome;
use crate::instances::CapacityType;
use crate::wire::form::Form;
use crate::wire::refusal::Refusal;
use crate::wire::signature::sha256;
use crate::wire::xml::Xml;
use crate::world::{Call, World};

/// What a client token has already answered.
#[derive(Clone, Debug)]
pub(crate) struct Answered {
    request: String,
    xml: Xml,
}

/// One offering of the request.
struct Pool {
    launch: Launch,
    template_id: String,
    template_name: String,
    zone: String,
    priority: Option<f64>,
    price: f64,
    /// How much room it has; known once, because a fleet compares hundreds of pools.
    depth: f64,
    launched: Vec<String>,
    error: Option<Refusal>,
}

/// How pools are chosen.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Strategy {
    LowestPrice,
    PriceCapacity,
    Capacity,
    Prioritized,
    CapacityPrioritized,
    Diversified,
}

/// Pools of nearly the same worth share a fleet.
const NEAR: f64 = 1.05;

pub(super) fn create(world: &mut World, call: &Call<'_>) -> Outcome {
    if call.form.text("Type").is_some_and(|kind| kind != "instant") {
        return Err(Refusal::new("InvalidParameterValue", "Only fleets of type instant are simulated."));
    }
    let total: u32 = call
        .form
        .number("TargetCapacitySpecification.TotalTargetCapacity")
        .ok_or_else(|| Refusal::missing("TargetCapacitySpecification.TotalTargetCapacity"))?;
    let request = sha256(call.request.body());
    let token = call.form.owned("ClientToken");
    if let Some(answered) = token.as_ref().and_then(|token| world.fleets.get(token)) {
        if answered.request != request {
            let message = "The request uses the same client token as a previous, but non-identical request.";
            return Err(Refusal::new("IdempotentParameterMismatch", message));
        }
        return Ok(answered.xml.clone().into());
    }
    let capacity_type = capacity_type(&call.form);
    let fleet = format!("fleet-{}", world.environment.uid());
    let mut pools = pools(world, call, capacity_type, &fleet)?;
    if pools.is_empty() {
        return Err(Refusal::missing("LaunchTemplateConfigs"));
    }
    if call.form.flag("DryRun") {
        // EC2 checks what can be checked without buying.
        let first = &pools[0].launch;
        world.check_launch(first, call.now)?;
        dry_run(call)?;
    }
    let strategy = strategy(&call.form, capacity_type);
    order(&mut pools, strategy);
    fill(world, &mut pools, total, strategy, call.now);
    let xml = written(&fleet, &pools, capacity_type);
    if let Some(token) = token {
        world.fleets.insert(token, Answered { request, xml: xml.clone() });
    }
    Ok(xml.into())
}

fn capacity_type(form: &Form) -> CapacityType {
    match form.text("TargetCapacitySpecification.DefaultTargetCapacityType") {
        Some("spot") => CapacityType::Spot,
        Some("capacity-block" | "reserved-capacity") => CapacityType::Reserved,
        _ => CapacityType::OnDemand,
    }
}

fn strategy(form: &Form, capacity_type: CapacityType) -> Strategy {
    let options = if capacity_type == CapacityType::Spot { "SpotOptions" } else { "OnDemandOptions" };
    match form.text(&format!("{options}.AllocationStrategy")) {
        Some("price-capacity-optimized") => Strategy::PriceCapacity,
        Some("capacity-optimized") => Strategy::Capacity,
        Some("capacity-optimized-prioritized") => Strategy::CapacityPrioritized,
        Some("prioritized") => Strategy::Prioritized,
        Some("diversified") => Strategy::Diversified,
        _ => Strategy::LowestPrice,
    }
}

fn pools(
    world: &World,
    call: &Call<'_>,
    capacity_type: CapacityType,
    fleet: &str,
) -> Result<Vec<Pool>, Refusal> {
    let mut pools = Vec::new();
    let tags = Arc::new(call.form.only("TagSpecification"));
    for config in call.form.list("LaunchTemplateConfigs") {
        let chosen = config
            .field("LaunchTemplateSpecification")
            .ok_or_else(|| Refusal::missing("LaunchTemplateSpecification"))?;
        let template = templates::find(&world.templates, chosen, call.seen)?;
        let overrides = config.list("Overrides");
        let none = Form::default();
        for asked in if overrides.is_empty() { vec![&none] } else { overrides } {
            let text =
                |name: &str| asked.text(name).or_else(|| template.data.text(name)).unwrap_or("").to_owned();
            let subnet = subnet(world, asked, &template.data);
            let zone = world.network.subnets.get(&subnet).map(|subnet| subnet.zone.name.clone());
            let zone = zone.or_else(|| asked.owned("AvailabilityZone")).unwrap_or_default();
            let instance_type = text("InstanceType");
            let price = world.price(&instance_type, &zone, capacity_type, call.now).unwrap_or(f64::MAX);
            let launch = Launch {
                data: Arc::clone(&template.data),
                image: text("ImageId"),
                instance_type,
                subnet,
                capacity_type,
                tags: Arc::clone(&tags),
                fleet: Some(fleet.to_owned()),
                reservation: world.id("r"),
                client_token: call.form.owned("ClientToken"),
            };
            pools.push(Pool {
                depth: depth(&launch.instance_type, &zone),
                launch,
                template_id: template.id.clone(),
                template_name: template.name.clone(),
                zone,
                priority: asked.number("Priority"),
                price,
                launched: Vec::new(),
                error: None,
            });
        }
    }
    Ok(pools)
}

/// The subnet that is named, or any of the zone that is named.
fn subnet(world: &World, asked: &Form, data: &Form) -> String {
    let named = asked.text("SubnetId").or_else(|| data.text("NetworkInterface.1.SubnetId"));
    if let Some(id) = named {
        return id.to_owned();
    }
    let zone = asked.text("AvailabilityZone").or_else(|| asked.text("Placement.AvailabilityZone"));
    let mut subnets = world.network.subnets.values();
    let found = subnets.find(|subnet| zone.is_none_or(|zone| subnet.zone.name == zone));
    found.map(|subnet| subnet.id.clone()).unwrap_or_default()
}

/// How much room a pool has, from 0 to 1: nobody knows, but it stays the same.
fn depth(instance_type: &str, zone: &str) -> f64 {
    let hash = sha256(format!("{instance_type}/{zone}").as_bytes());
    u32::from_str_radix(&hash[..8], 16).map_or(0.0, |number| f64::from(number) / f64::from(u32::MAX))
}

/// The lower, the sooner a pool is taken.
fn worth(pool: &Pool, strategy: Strategy) -> (f64, f64) {
    let priority = pool.priority.unwrap_or(f64::MAX);
    match strategy {
        Strategy::LowestPrice | Strategy::Diversified => (pool.price, 0.0),
        // Between pools of like prices, room decides.
        Strategy::PriceCapacity => (pool.price * (1.1 - 0.1 * pool.depth), 0.0),
        Strategy::Capacity => (1.0 - pool.depth, 0.0),
        Strategy::Prioritized => (priority, pool.price),
        Strategy::CapacityPrioritized => ((4.0 * (1.0 - pool.depth)).floor(), priority),
    }
}

/// Brings the best pools to the front; the order of the request decides between equals.
fn order(pools: &mut [Pool], strategy: Strategy) {
    pools.sort_by(|a, b| {
        let ((a, a_then), (b, b_then)) = (worth(a, strategy), worth(b, strategy));
        a.total_cmp(&b).then(a_then.total_cmp(&b_then))
    });
}

/// Launches `total` instances from the best pools that still give any.
fn fill(world: &mut World, pools: &mut [Pool], total: u32, strategy: Strategy, now: Timestamp) {
    let mut turn = 0;
    let mut left = total;
    while left > 0 {
        let open: Vec<usize> = (0..pools.len()).filter(|index| pools[*index].error.is_none()).collect();
        let Some(&best) = open.first() else { return };
        let limit = worth(&pools[best], strategy).0 * NEAR;
        let shared: Vec<usize> = match strategy {
            Strategy::Diversified => open,
            Strategy::PriceCapacity | Strategy::Capacity => {
                open.into_iter().filter(|index| worth(&pools[*index], strategy).0 <= limit).collect()
            }
            _ => vec![best],
        };
        let pool = &mut pools[shared[turn % shared.len()]];
        match world.launch(&pool.launch, now) {
            Ok(id) => {
                pool.launched.push(id);
                left -= 1;
                turn += 1;
            }
            Err(refusal) => pool.error = Some(refusal),
        }
    }
}

fn written(fleet: &str, pools: &[Pool], capacity_type: CapacityType) -> Xml {
    let lifecycle = if capacity_type == CapacityType::Spot { "spot" } else { "on-demand" };
    let mut xml = Xml::new();
    xml.leaf("fleetId", fleet);
    let refused = pools.iter().filter_map(|pool| Some((pool, pool.error.as_ref()?)));
    xml.items("errorSet", refused, |xml, (pool, refusal)| {
        write_pool(xml, pool);
        xml.leaf("lifecycle", lifecycle)
            .leaf("errorCode", &refusal.code)
            .leaf("errorMessage", &refusal.message);
    });
    let launched = pools.iter().filter(|pool| !pool.launched.is_empty());
    xml.items("fleetInstanceSet", launched, |xml, pool| {
        write_pool(xml, pool);
        xml.leaf("lifecycle", lifecycle)
            .texts("instanceIds", &pool.launched)
            .leaf("instanceType", &pool.launch.instance_type);
    });
    xml
}

fn write_pool(xml: &mut Xml, pool: &Pool) {
    xml.node("launchTemplateAndOverrides", |xml| {
        xml.node("launchTemplateSpecification", |xml| {
            xml.leaf("launchTemplateId", &pool.template_id)
                .leaf("launchTemplateName", &pool.template_name)
                .leaf("version", 1);
        });
        xml.node("overrides", |xml| {
            xml.leaf("instanceType", &pool.launch.instance_type)
                .leaf("subnetId", &pool.launch.subnet)
                .leaf("availabilityZone", &pool.zone)
                .leaf("imageId", &pool.launch.image)
                .maybe("priority", pool.priority);
        });
    });
}

/// The answers that client tokens have already had.
pub(crate) type Fleets = BTreeMap<String, Answered>;
