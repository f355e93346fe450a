//! Capacity that was paid for in advance: who has it, and who may use it.

use serde_json::{Value, json};

use super::tags::tag_list;
use crate::paging::TokenPage;
use crate::types::InstanceType;
use crate::vpc::tagged;
use crate::wire::{Body, Params, Refusal, Reply};
use crate::world::{CapacityReservation, Market, World};

pub(super) fn describe(world: &World, params: &Params) -> Reply {
    let filter = params.tags();
    let ids = params.part("PrivatePoolOptions").json_list("Ids")?;
    let is = |name: &str, value: &str| params.get(name).is_none_or(|wanted| wanted == value);
    let wanted = |found: &&CapacityReservation| {
        ids.as_ref().is_none_or(|ids| ids.contains(&found.id))
            && is("InstanceType", &found.instance_type)
            && is("ZoneId", &found.zone)
            && tagged(&found.tags, &filter)
    };
    let all: Vec<(&str, &CapacityReservation)> =
        world.reservations.values().filter(wanted).map(|found| (found.id.as_str(), found)).collect();
    let (page, next) = TokenPage::read(params, "reservations", 1, 10, 100)?.cut(&all);
    let page: Vec<Value> = page.into_iter().map(|found| reservation_json(world, found)).collect();
    Ok(Body::Json(json!({
        "TotalCount": all.len(),
        "CapacityReservationSet": {"CapacityReservationItem": page},
        "NextToken": next,
    })))
}

fn reservation_json(world: &World, found: &CapacityReservation) -> Value {
    let used = world.used_of(&found.id);
    json!({
        "PrivatePoolOptionsId": found.id,
        "PrivatePoolOptionsName": found.id,
        "PrivatePoolOptionsMatchCriteria": if found.open { "Open" } else { "Target" },
        "RegionId": world.region,
        "Status": "Active",
        "InstanceChargeType": "PostPaid",
        "Platform": "Linux",
        "AllocatedResources": {"AllocatedResource": [{
            "zoneId": found.zone,
            "InstanceType": found.instance_type,
            "TotalAmount": found.total,
            "UsedAmount": used,
            "AvailableAmount": found.total.saturating_sub(used),
        }]},
        "Tags": tag_list(&found.tags),
    })
}

/// The reservation a machine of a type uses in a zone: the one that was named, or an open one that fits. One that was named and cannot be
/// used is a refusal.
pub(super) fn used_by(
    world: &World,
    params: &Params,
    found: &InstanceType,
    zone: &str,
    market: Market,
) -> Result<Option<String>, Refusal> {
    let fits = |one: &&CapacityReservation| {
        one.instance_type == found.id && one.zone == zone && world.used_of(&one.id) < one.total
    };
    let options = params.part("PrivatePoolOptions");
    match options.get("MatchCriteria") {
        Some("Target") => {
            let id = options.required("Id")?;
            let missing =
                || Refusal::not_found("InvalidPrivatePoolOptionsId.NotFound", &format!("private pool {id}"));
            let named = world.reservations.get(id).ok_or_else(missing)?;
            if market == Market::Spot || !fits(&named) {
                let message = format!("The private pool {id} has no {} left in {zone}.", found.id);
                return Err(Refusal::new(403, "InvalidPrivatePoolOptions.NoStock", message));
            }
            Ok(Some(id.to_owned()))
        }
        Some("Open") if market == Market::OnDemand => {
            Ok(world.reservations.values().filter(|one| one.open).find(fits).map(|one| one.id.clone()))
        }
        _ => Ok(None),
    }
}
