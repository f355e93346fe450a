//! Cloud Monitor: events of machines.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::call::Call;
use crate::service::unknown_action;
use crate::wire::{Body, NumberedPage, Params, Refusal, Reply};
use crate::world::{SystemEvent, World};

pub(crate) fn dispatch(action: &str, world: &mut World, call: &Call<'_>) -> Reply {
    match action {
        "DescribeSystemEventAttribute" => describe_events(world, call),
        _ => unknown_action(action),
    }
}

/// A time, which callers write in seconds, in milliseconds or as text.
fn time(params: &Params, name: &str) -> Result<Option<Timestamp>, Refusal> {
    let Some(text) = params.get(name) else { return Ok(None) };
    let number = text.parse::<i64>().ok();
    let parsed = match number {
        Some(millisecond) if millisecond > 100_000_000_000 => Timestamp::from_millisecond(millisecond).ok(),
        Some(second) => Timestamp::from_second(second).ok(),
        None => text.parse().ok(),
    };
    parsed.map(Some).ok_or_else(|| Refusal::invalid(name, "it is no time"))
}

fn describe_events(world: &World, call: &Call<'_>) -> Reply {
    let params = &call.params;
    let page = NumberedPage::read(params, 10, 100)?;
    let (start, end) = (time(params, "StartTime")?, time(params, "EndTime")?);
    let product = params.get("Product").is_none_or(|product| product.eq_ignore_ascii_case("ecs"));
    let is = |name: &str, value: &str| params.get(name).is_none_or(|wanted| wanted == value);
    let wanted = |event: &&SystemEvent| {
        product
            && event.visible <= call.now
            && is("Name", &event.name)
            && is("Level", &event.level)
            && is("EventType", "StatusNotification")
            && start.is_none_or(|start| event.time >= start)
            && end.is_none_or(|end| event.time <= end)
    };
    // The newest first.
    let found: Vec<Value> =
        world.events.iter().rev().filter(wanted).map(|event| event_json(world, event)).collect();
    Ok(Body::Json(json!({
        "Code": "200",
        "Success": "true",
        "Message": "",
        "SystemEvents": {"SystemEvent": page.cut(&found)},
    })))
}

fn event_json(world: &World, event: &SystemEvent) -> Value {
    json!({
        "Id": event.id,
        "Product": "ECS",
        "Name": event.name,
        "Level": event.level,
        "Status": event.status,
        "Time": event.time.as_millisecond(),
        "RegionId": world.region,
        "ResourceId": format!("acs:ecs:{}:{}:instance/{}", world.region, world.account, event.instance),
        "InstanceName": event.instance,
        "GroupId": "0",
        "Content": event.content,
    })
}
