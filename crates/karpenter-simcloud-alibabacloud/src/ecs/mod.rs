//! ECS: what can be had, and machines.

mod discovery;
mod groups;
mod images;
mod instances;
mod launch;
mod reservations;
mod status;
mod tags;

use crate::call::Call;
use crate::service::unknown_action;
use crate::wire::{Body, Refusal, Reply};
use crate::world::World;

pub(crate) fn dispatch(action: &str, world: &mut World, call: &Call<'_>) -> Reply {
    if let Some(region) = call.params.get("RegionId")
        && region != world.region
    {
        let message = format!("There is no region {region} in the simulated cloud.");
        return Err(Refusal::new(404, "InvalidRegionId.NotFound", message));
    }
    match action {
        "DescribeRegions" => Ok(Body::Json(discovery::describe_regions(world))),
        "DescribeZones" => Ok(Body::Json(discovery::describe_zones(world))),
        "DescribeInstanceTypes" => discovery::describe_instance_types(world, &call.params),
        "DescribeAvailableResource" => discovery::describe_available_resource(world, &call.params),
        "DescribePrice" => discovery::describe_price(world, call),
        "DescribeSpotPriceHistory" => discovery::describe_spot_price_history(world, call),
        "DescribeImages" => images::describe_images(world, &call.params),
        "DescribeImageFromFamily" => images::describe_image_from_family(world, &call.params),
        "CreateImage" => Ok(Body::Json(images::create_image(world, call))),
        "DescribeSecurityGroups" => tags::describe_security_groups(world, &call.params),
        "CreateSecurityGroup" => tags::create_security_group(world, call),
        "DescribeCapacityReservations" => reservations::describe(world, &call.params),
        "RunInstances" => launch::run_instances(world, call),
        "CreateAutoProvisioningGroup" => groups::create(world, call),
        "DescribeAutoProvisioningGroups" => groups::describe(world, &call.params),
        "DeleteAutoProvisioningGroup" => groups::delete(world, &call.params),
        "DescribeInstances" => instances::describe_instances(world, call),
        "DeleteInstance" | "DeleteInstances" => instances::delete_instances(world, call),
        "RebootInstance" => instances::reboot_instance(world, &call.params),
        "ModifyInstanceAttribute" => instances::modify_instance_attribute(world, &call.params),
        "DescribeInstanceRamRole" => instances::describe_ram_role(world, &call.params),
        "DescribeUserData" => instances::describe_user_data(world, &call.params),
        "DescribeDisks" => status::describe_disks(world, &call.params),
        "ModifyDiskAttribute" => status::modify_disk_attribute(world, &call.params),
        "DescribeInstancesFullStatus" => status::describe_instances_full_status(world, &call.params),
        "TagResources" | "AddTags" => tags::tag_resources(world, &call.params),
        "UntagResources" => tags::untag_resources(world, &call.params),
        "ListTagResources" => tags::list_tag_resources(world, &call.params),
        _ => unknown_action(action),
    }
}
