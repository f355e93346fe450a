//! Which machines a claim may become, cheapest first.

use std::sync::Arc;

use karpenter_core::catalog::{InstanceType, Offering};
use karpenter_core::requirements::RequirementSet;
use karpenter_quantity::ResourceList;

/// One machine a claim may become.
#[derive(Clone, Copy, Debug)]
pub struct Choice<'a> {
    /// The instance type.
    pub instance_type: &'a Arc<InstanceType>,
    /// The way to buy it.
    pub offering: &'a Offering,
}

/// Returns every launchable offering that meets `requirements` and has room for `requests`, by price, then by name and zone.
pub fn choices<'a>(
    types: &'a [Arc<InstanceType>],
    requirements: &RequirementSet,
    requests: &ResourceList,
) -> Vec<Choice<'a>> {
    let fitting = types.iter().filter(|instance_type| {
        compatible(requirements, &instance_type.requirements)
            && requests.fits_within(&instance_type.allocatable())
    });
    let mut choices: Vec<Choice<'a>> = fitting
        .flat_map(|instance_type| {
            instance_type.offerings.iter().map(move |offering| Choice { instance_type, offering })
        })
        .filter(|choice| {
            choice.offering.is_launchable() && compatible(requirements, &choice.offering.requirements)
        })
        .collect();
    choices.sort_by(|a, b| {
        let by_price = a.offering.price.total_cmp(&b.offering.price);
        let names = |choice: &Choice<'a>| {
            (
                choice.instance_type.name.clone(),
                choice.offering.zone().cloned(),
                choice.offering.capacity_type().cloned(),
            )
        };
        by_price.then_with(|| names(a).cmp(&names(b)))
    });
    choices
}

/// Whether a machine that offers `offered` can satisfy `wanted`, as far as it says anything about the labels.
fn compatible(wanted: &RequirementSet, offered: &RequirementSet) -> bool {
    offered.iter().all(|(key, set)| wanted.get(key).is_none_or(|other| set.meets(other)))
}
