//! EC2: finds who answers an operation.

mod discovery;
mod filters;
mod fleet;
mod instances;
mod launch;
mod reservations;
mod templates;
mod types;

use crate::answer::Outcome;
use crate::service::unknown;
use crate::wire::refusal::Refusal;
use crate::world::{Call, World};

pub(crate) use fleet::Fleets;
pub use reservations::{CapacityReservation, PlacementGroup};
pub use templates::LaunchTemplate;

pub(crate) fn answer(world: &mut World, call: &Call<'_>) -> Outcome {
    // Whatever is asked for, a dry run changes nothing: each operation says itself what else it checks before.
    match call.operation {
        "DescribeSubnets" => discovery::subnets(world, call),
        "DescribeSecurityGroups" => discovery::security_groups(world, call),
        "DescribeImages" => discovery::images(world, call),
        "DescribeAvailabilityZones" => discovery::zones(world, call),
        "DescribeVpcs" => discovery::networks(world, call),
        "DescribeInstanceTypes" => types::describe(world, call),
        "DescribeInstanceTypeOfferings" => types::offerings(world, call),
        "DescribeSpotPriceHistory" => types::spot_prices(world, call),
        "DescribeCapacityReservations" => reservations::describe(world, call),
        "CreateCapacityReservation" => reservations::create(world, call),
        "DescribePlacementGroups" => reservations::describe_groups(world, call),
        "CreatePlacementGroup" => reservations::create_group(world, call),
        "CreateLaunchTemplate" => templates::create(world, call),
        "DescribeLaunchTemplates" => templates::describe(world, call),
        "DeleteLaunchTemplate" => templates::delete(world, call),
        "CreateFleet" => fleet::create(world, call),
        "RunInstances" => instances::run(world, call),
        "DescribeInstances" => instances::describe(world, call),
        "DescribeInstanceStatus" => instances::describe_status(world, call),
        "DescribeVolumes" => instances::describe_volumes(world, call),
        "TerminateInstances" => instances::terminate(world, call),
        "RebootInstances" => instances::reboot(world, call),
        "CreateTags" => instances::create_tags(world, call),
        other => Err(unknown(other)),
    }
}

/// A dry run that got here is allowed.
fn dry_run(call: &Call<'_>) -> Result<(), Refusal> {
    if call.form.flag("DryRun") { Err(Refusal::dry_run()) } else { Ok(()) }
}
