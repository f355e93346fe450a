//! Images.

use serde_json::{Value, json};

use crate::call::{Call, seconds};
use crate::vpc::tagged;
use crate::wire::{Body, NumberedPage, Params, Refusal, Reply};
use crate::world::{Image, Tags, World};

pub(super) fn describe_images(world: &World, params: &Params) -> Reply {
    let page = NumberedPage::read(params, 10, 100)?;
    let filter = params.tags();
    let status = params.get("Status").unwrap_or("Available");
    let expired = params.flag("ShowExpired");
    let is = |name: &str, value: &str| params.get(name).is_none_or(|wanted| wanted == value);
    let wanted = |image: &&Image| {
        params.get("ImageId").is_none_or(|ids| ids.split(',').any(|id| id == image.id))
            && is("ImageFamily", &image.family)
            && is("Architecture", &image.architecture)
            && is("ImageOwnerAlias", &image.owner)
            && params.get("ImageName").is_none_or(|part| image.name.contains(part))
            && (expired || status.split(',').any(|status| status == image.status))
            && tagged(&image.tags, &filter)
    };
    let found: Vec<Value> = world.images.values().filter(wanted).map(image_json).collect();
    Ok(Body::Json(json!({
        "TotalCount": found.len(),
        "PageNumber": page.number,
        "PageSize": page.size,
        "RegionId": world.region,
        "Images": {"Image": page.cut(&found)},
    })))
}

fn image_json(image: &Image) -> Value {
    let tag = |(key, value): (&String, &String)| json!({"TagKey": key, "TagValue": value});
    json!({
        "ImageId": image.id,
        "ImageName": image.name,
        "Architecture": image.architecture,
        "ImageFamily": image.family,
        "Platform": image.platform,
        "OSType": "linux",
        "OSName": image.name,
        "ImageOwnerAlias": image.owner,
        "Size": image.size_gib,
        "CreationTime": seconds(image.created),
        "Status": image.status,
        "Usage": "none",
        "Tags": {"Tag": image.tags.iter().map(tag).collect::<Vec<_>>()},
    })
}

/// The newest image of a family that can be used.
pub(super) fn describe_image_from_family(world: &World, params: &Params) -> Reply {
    let family = params.required("ImageFamily")?;
    let of_family =
        world.images.values().filter(|image| image.family == family && image.status == "Available");
    let newest = of_family.max_by_key(|image| image.created);
    let missing = || Refusal::not_found("InvalidImageFamily.NotFound", &format!("image of family {family}"));
    Ok(Body::Json(json!({"Image": image_json(newest.ok_or_else(missing)?)})))
}

/// An image of somebody's own, so that tests can bring out a newer one.
pub(super) fn create_image(world: &mut World, call: &Call<'_>) -> Value {
    let params = &call.params;
    let image = Image {
        id: call.id("m-"),
        name: params.text("ImageName").unwrap_or_default(),
        architecture: params.text("Architecture").unwrap_or_else(|| "x86_64".to_owned()),
        family: params.text("ImageFamily").unwrap_or_default(),
        platform: params.text("Platform").unwrap_or_else(|| "Aliyun".to_owned()),
        owner: "self".to_owned(),
        size_gib: 40,
        created: call.now,
        status: "Available".to_owned(),
        ack_type: String::new(),
        tags: params
            .tags()
            .into_iter()
            .map(|(key, value)| (key, value.unwrap_or_default()))
            .collect::<Tags>(),
    };
    let id = image.id.clone();
    world.images.insert(id.clone(), image);
    json!({"ImageId": id})
}
