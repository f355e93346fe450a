//! The instance types of a scenario, with the requirements that follow from their offerings.

use std::sync::Arc;

use karpenter_api::LabelRules;
use karpenter_core::catalog::{
    CAPACITY_TYPE, INSTANCE_TYPE, InstanceType, Offering, Overlaid, Reservation, ZONE,
};
use karpenter_core::requirements::{RequirementSet, ValueSet};

use super::format::{InstanceTypeLine, OfferingLine};
use super::unique;
use crate::invalid::{At, Invalid, each};
use crate::selector::api_requirement;

/// The catalog, in the order of the file.
pub(super) fn instance_types(
    lines: &[InstanceTypeLine],
    rules: &LabelRules,
) -> Result<Vec<Arc<InstanceType>>, Invalid> {
    unique(lines.iter().map(|line| line.name.as_str()))?;
    each(lines, |line| Ok(Arc::new(instance_type(line, rules)?)))
}

fn instance_type(line: &InstanceTypeLine, rules: &LabelRules) -> Result<InstanceType, Invalid> {
    let in_stock = || line.offerings.iter().filter(|offering| offering.available);
    let mut requirements = RequirementSet::default();
    requirements.add(INSTANCE_TYPE.into(), &ValueSet::only([line.name.as_str()]));
    requirements.add(ZONE.into(), &ValueSet::only(in_stock().map(|offering| offering.zone.as_str())));
    requirements.add(
        CAPACITY_TYPE.into(),
        &ValueSet::only(in_stock().map(|offering| offering.capacity_type.as_str())),
    );
    for requirement in each(&line.requirements, |line| api_requirement(line, rules)).at("requirements")? {
        requirements.require(&requirement);
    }
    Ok(InstanceType {
        name: line.name.as_str().into(),
        requirements,
        offerings: line.offerings.iter().map(offering).collect(),
        capacity: line.capacity.clone(),
        overhead: line.overhead.clone(),
        volume_limits: line
            .volume_limits
            .iter()
            .map(|(driver, count)| (driver.as_str().into(), *count))
            .collect(),
        overlaid: Overlaid::default(),
    })
}

fn offering(line: &OfferingLine) -> Offering {
    let mut requirements = RequirementSet::default();
    requirements.add(ZONE.into(), &ValueSet::only([line.zone.as_str()]));
    requirements.add(CAPACITY_TYPE.into(), &ValueSet::only([line.capacity_type.as_str()]));
    let reservation = line.reservation.as_ref();
    Offering {
        requirements: requirements.into(),
        price: line.price,
        available: line.available,
        reservation: reservation.map(|(id, left)| Reservation { id: id.as_str().into(), remaining: *left }),
        capacity_override: None,
        overhead_override: None,
    }
}
