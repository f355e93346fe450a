//! SSM: the public parameters that name images, and the account's own.

use serde_json::json;

use crate::answer::Outcome;
use crate::service::unknown;
use crate::wire::refusal::Refusal;
use crate::world::{Call, World};

pub(crate) fn answer(world: &mut World, call: &Call<'_>) -> Outcome {
    match call.operation {
        "GetParameter" => get(world, call),
        "PutParameter" => put(world, call),
        other => Err(unknown(other)),
    }
}

fn get(world: &World, call: &Call<'_>) -> Outcome {
    let name = call.json["Name"].as_str().unwrap_or("");
    // An ARN names a parameter too.
    let bare = name.split_once(":parameter").map_or(name, |(_, name)| name);
    let value = world.images.parameters.get(bare).ok_or_else(|| Refusal::new("ParameterNotFound", ""))?;
    Ok(json!({"Parameter": {
        "Name": bare,
        "Type": "String",
        "Value": value,
        "Version": 1,
        "LastModifiedDate": call.now.as_second(),
        "ARN": world.description.arn("ssm", &format!("parameter{bare}")),
        "DataType": if bare.starts_with("/aws/service") { "aws:ec2:image" } else { "text" },
    }})
    .into())
}

fn put(world: &mut World, call: &Call<'_>) -> Outcome {
    let (Some(name), Some(value)) = (call.json["Name"].as_str(), call.json["Value"].as_str()) else {
        return Err(Refusal::new("ValidationException", "Name and Value must be given."));
    };
    if name.starts_with("/aws/service") {
        return Err(Refusal::new("AccessDeniedException", "No access to reserved parameter name."));
    }
    world.images.parameters.insert(name.to_owned(), value.to_owned());
    Ok(json!({"Version": 1, "Tier": "Standard"}).into())
}
