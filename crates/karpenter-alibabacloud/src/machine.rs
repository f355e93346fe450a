//! A machine as Karpenter knows it, read from the cloud's description or from the launch that started it.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use karpenter_alibabacloud_client::ecs::Instance;
use karpenter_api::NodeClaim;
use karpenter_api::labels::{
    CAPACITY_TYPE, CAPACITY_TYPE_ON_DEMAND, CAPACITY_TYPE_RESERVED, CAPACITY_TYPE_SPOT, INSTANCE_TYPE,
    NODEPOOL, REGION, ZONE,
};
use karpenter_api::resource::ResourceList;
use karpenter_core::catalog::InstanceType;
use karpenter_core::requirements::RequirementSet;
use karpenter_provider::Machine;

use crate::launch::candidates::Candidate;
use crate::node_class::{Class, HASH_VERSION};
use crate::ownership::{self, CLAIM_TAG};

/// ECS writes down the minute a machine was started in, not the second.
const PRECISION: SignedDuration = SignedDuration::from_mins(1);

/// Whether a machine is on its way out. A stopped one does not come back by itself: nobody but Karpenter starts its machines.
pub fn is_terminating(instance: &Instance) -> bool {
    matches!(instance.status.as_deref(), Some("Stopping" | "Stopped" | "Released" | "Deleting"))
}

/// The capacity type a machine was bought as.
pub fn capacity_type(instance: &Instance) -> &'static str {
    if instance.is_spot() {
        CAPACITY_TYPE_SPOT
    } else if instance.tag(CAPACITY_TYPE) == Some(CAPACITY_TYPE_RESERVED) {
        CAPACITY_TYPE_RESERVED
    } else {
        CAPACITY_TYPE_ON_DEMAND
    }
}

/// The machine behind a description; `known` is its type. What is left out there is left out here.
pub fn of_instance(
    instance: &Instance,
    region: &str,
    known: Option<&InstanceType>,
    class: Option<&Class>,
) -> Machine {
    let mut labels = known.map(|known| settled(&known.requirements).collect()).unwrap_or_default();
    let mut label = |key: &str, value: Option<&str>| {
        if let Some(value) = value {
            BTreeMap::insert(&mut labels, key.to_owned(), value.to_owned());
        }
    };
    label(INSTANCE_TYPE, instance.instance_type.as_deref());
    label(ZONE, instance.zone_id.as_deref());
    label(REGION, Some(instance.region_id.as_deref().unwrap_or(region)));
    label(CAPACITY_TYPE, Some(capacity_type(instance)));
    label(NODEPOOL, instance.tag(NODEPOOL));
    Machine {
        provider_id: ownership::provider_id(region, &instance.instance_id),
        image_id: instance.image_id.clone(),
        claim: instance.tag(CLAIM_TAG).map(str::to_owned),
        labels,
        annotations: class.map(annotations).unwrap_or_default(),
        capacity: known.map(|known| written(&known.capacity)).unwrap_or_default(),
        allocatable: known.map(|known| written(&known.allocatable())).unwrap_or_default(),
        // The last moment it can have been started: a machine must not look older than it is.
        created: instance.creation_time.map(|time| time.saturating_add(PRECISION).unwrap_or(Timestamp::MAX)),
        terminating: is_terminating(instance),
    }
}

/// The machine that was just started for a claim.
pub fn of_candidate(
    claim: &NodeClaim,
    candidate: &Candidate,
    class: &Class,
    region: &str,
    id: &str,
    now: Timestamp,
) -> Machine {
    let mut labels: BTreeMap<String, String> = settled(&candidate.instance_type.requirements).collect();
    labels.extend(settled(&candidate.offering));
    labels.insert(INSTANCE_TYPE.to_owned(), candidate.key.instance_type.to_string());
    labels.insert(ZONE.to_owned(), candidate.key.zone.to_string());
    labels.insert(CAPACITY_TYPE.to_owned(), candidate.key.capacity_type.to_string());
    labels.insert(REGION.to_owned(), region.to_owned());
    Machine {
        provider_id: ownership::provider_id(region, id),
        image_id: Some(candidate.image.to_string()),
        claim: claim.metadata.name.clone(),
        labels,
        annotations: annotations(class),
        capacity: written(&candidate.instance_type.capacity),
        allocatable: written(&candidate.instance_type.allocatable()),
        created: Some(now),
        terminating: false,
    }
}

/// The labels a node joins with: those of the claim, and those its requirements leave no choice about.
pub fn node_labels(claim: &NodeClaim, capacity_type: &str) -> BTreeMap<String, String> {
    let mut labels = claim.metadata.labels.clone().unwrap_or_default();
    for requirement in &claim.spec.requirements {
        if let ("In", [value]) = (requirement.operator.as_str(), requirement.values()) {
            labels.insert(requirement.key.clone(), value.clone());
        }
    }
    labels.insert(CAPACITY_TYPE.to_owned(), capacity_type.to_owned());
    labels
}

/// By these drift is found.
fn annotations(class: &Class) -> BTreeMap<String, String> {
    let dialect = class.key.dialect;
    BTreeMap::from([
        (dialect.hash_annotation(), class.hash.clone()),
        (dialect.hash_version_annotation(), HASH_VERSION.to_owned()),
    ])
}

/// Labels that can have only one value.
fn settled(requirements: &RequirementSet) -> impl Iterator<Item = (String, String)> {
    requirements.iter().filter_map(|(key, set)| Some((key.to_string(), set.single()?.to_string())))
}

fn written(resources: &karpenter_quantity::ResourceList) -> ResourceList {
    resources.iter().map(|(name, quantity)| (name.to_owned(), Text(quantity.to_string()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_with_hardly_a_field_is_still_a_machine() {
        let instance = Instance { instance_id: "i-1".into(), ..Default::default() };
        let machine = of_instance(&instance, "cn-hangzhou", None, None);
        assert_eq!((machine.provider_id.as_str(), machine.created), ("cn-hangzhou.i-1", None));
        assert_eq!(machine.labels[CAPACITY_TYPE], "on-demand");
    }

    #[test]
    fn spot_is_known_by_its_strategy_and_not_by_how_it_is_paid() {
        let strategy = |strategy: &str| Instance {
            instance_charge_type: Some("PostPaid".into()),
            spot_strategy: Some(strategy.into()),
            ..Default::default()
        };
        assert_eq!(capacity_type(&strategy("SpotAsPriceGo")), "spot");
        assert_eq!(capacity_type(&strategy("SpotWithPriceLimit")), "spot");
        assert_eq!(capacity_type(&strategy("NoSpot")), "on-demand");
        assert_eq!(capacity_type(&strategy("")), "on-demand");
    }

    #[test]
    fn a_machine_never_looks_older_than_it_is() {
        let created = karpenter_alibabacloud_client::ecs::parse_time("2026-11-17T06:00Z");
        let instance = Instance { instance_id: "i-1".into(), creation_time: created, ..Default::default() };
        let machine = of_instance(&instance, "cn-hangzhou", None, None);
        assert_eq!(machine.created, Some("2026-11-17T06:01:00Z".parse().unwrap()));
    }
}
