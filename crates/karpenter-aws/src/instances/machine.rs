//! A machine as the contract knows it, from what EC2 says about an instance.

use std::collections::BTreeMap;

use karpenter_api::labels::aws::{
    CAPACITY_RESERVATION_ID, CAPACITY_RESERVATION_INTERRUPTIBLE, CAPACITY_RESERVATION_TYPE,
    PLACEMENT_GROUP_ID, PLACEMENT_GROUP_PARTITION, ZONE_ID,
};
use karpenter_api::labels::{CAPACITY_TYPE, INSTANCE_TYPE, NODEPOOL, ZONE};
use karpenter_aws_client::ec2::Instance;
use karpenter_core::catalog::{ON_DEMAND, RESERVED, SPOT};
use karpenter_provider::Machine;

use crate::names::{NODE_CLAIM, provider_id};

/// States of instances that still are, or may come back.
pub(crate) const STATES: [&str; 5] = ["pending", "running", "stopping", "stopped", "shutting-down"];

/// Reads an instance.
pub(crate) fn machine(instance: &Instance, reserves: bool) -> Machine {
    let zone = zone(instance);
    Machine {
        provider_id: provider_id(zone, &instance.instance_id),
        image_id: instance.image_id.clone(),
        claim: tag(instance, NODE_CLAIM).map(str::to_owned),
        labels: labels(instance, reserves),
        created: instance.launch_time,
        terminating: is_ending(instance),
        ..Machine::default()
    }
}

/// Its zone.
pub(crate) fn zone(instance: &Instance) -> &str {
    let placement = instance.placement.as_ref();
    placement.and_then(|placement| placement.availability_zone.as_deref()).unwrap_or_default()
}

/// Whether it is on its way out, or gone.
pub(crate) fn is_ending(instance: &Instance) -> bool {
    matches!(state(instance), "shutting-down" | "terminated")
}

pub(crate) fn state(instance: &Instance) -> &str {
    instance.state.as_ref().map_or("", |state| state.name.as_str())
}

/// The value of a tag.
pub(crate) fn tag<'i>(instance: &'i Instance, key: &str) -> Option<&'i str> {
    instance.tags.iter().find(|tag| tag.key == key).map(|tag| tag.value.as_str())
}

/// How it was bought, as the label says it.
pub(crate) fn capacity_type(instance: &Instance, reserves: bool) -> &'static str {
    if instance.spot_instance_request_id.as_deref().is_some_and(|id| !id.is_empty()) {
        return SPOT;
    }
    let choice = instance.capacity_reservation_specification.as_ref();
    let only = choice
        .and_then(|choice| choice.capacity_reservation_preference.as_deref())
        .is_some_and(|preference| preference == "capacity-reservations-only");
    if reserves && only && instance.capacity_reservation_id.is_some() { RESERVED } else { ON_DEMAND }
}

fn labels(instance: &Instance, reserves: bool) -> BTreeMap<String, String> {
    let bought = capacity_type(instance, reserves);
    let reservation = instance.capacity_reservation_id.clone().filter(|_| bought == RESERVED);
    let lifecycle = instance.instance_lifecycle.as_deref();
    let placement = instance.placement.clone().unwrap_or_default();
    let group = placement.group_id.filter(|id| !id.is_empty());
    let partition = placement.partition_number.filter(|number| *number > 0).filter(|_| group.is_some());
    let if_reserved = |value: &str| reservation.is_some().then(|| value.to_owned());
    let block = lifecycle == Some("capacity-block");
    let interruptible = lifecycle == Some("interruptible-capacity-reservation");
    let known = [
        (INSTANCE_TYPE, instance.instance_type.clone()),
        (ZONE, placement.availability_zone),
        (ZONE_ID, placement.availability_zone_id.filter(|id| !id.is_empty())),
        (CAPACITY_TYPE, Some(bought.to_owned())),
        (CAPACITY_RESERVATION_TYPE, if_reserved(if block { "capacity-block" } else { "default" })),
        (CAPACITY_RESERVATION_INTERRUPTIBLE, if_reserved(if interruptible { "true" } else { "false" })),
        (CAPACITY_RESERVATION_ID, reservation.clone()),
        (PLACEMENT_GROUP_ID, group),
        (PLACEMENT_GROUP_PARTITION, partition.map(|number| number.to_string())),
        (NODEPOOL, tag(instance, NODEPOOL).map(str::to_owned)),
    ];
    known.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
}

#[cfg(test)]
mod tests {
    use karpenter_aws_client::ec2::{CapacityReservationChoice, InstanceState, Placement, TagDescription};

    use super::*;

    fn instance() -> Instance {
        Instance {
            instance_id: "i-1".into(),
            instance_type: Some("m5.large".into()),
            image_id: Some("ami-1".into()),
            state: Some(InstanceState { name: "running".into() }),
            placement: Some(Placement {
                availability_zone: Some("us-west-2a".into()),
                availability_zone_id: Some("usw2-az1".into()),
                ..Placement::default()
            }),
            tags: vec![
                TagDescription { key: "karpenter.sh/nodeclaim".into(), value: "claim".into() },
                TagDescription { key: "karpenter.sh/nodepool".into(), value: "pool".into() },
            ],
            ..Instance::default()
        }
    }

    #[test]
    fn an_instance_tells_its_machine() {
        let machine = machine(&instance(), true);
        assert_eq!(machine.provider_id, "aws:///us-west-2a/i-1");
        assert_eq!(machine.claim.as_deref(), Some("claim"));
        assert!(!machine.terminating);
        assert_eq!(machine.labels[INSTANCE_TYPE], "m5.large");
        assert_eq!(machine.labels[ZONE_ID], "usw2-az1");
        assert_eq!(machine.labels[CAPACITY_TYPE], "on-demand");
    }

    #[test]
    fn how_an_instance_was_bought_is_told_from_three_fields() {
        let spot = Instance { spot_instance_request_id: Some("sir-1".into()), ..instance() };
        let preference = |preference: &str| {
            Some(CapacityReservationChoice { capacity_reservation_preference: Some(preference.into()) })
        };
        let reserved = Instance {
            capacity_reservation_id: Some("cr-1".into()),
            capacity_reservation_specification: preference("capacity-reservations-only"),
            ..instance()
        };
        let open = Instance { capacity_reservation_specification: preference("open"), ..reserved.clone() };
        let cases = [
            (&spot, true, "spot"),
            (&reserved, true, "reserved"),
            (&reserved, false, "on-demand"),
            (&open, true, "on-demand"),
        ];
        for (instance, reserves, expected) in cases {
            assert_eq!(capacity_type(instance, reserves), expected);
        }
        let block = Instance { instance_lifecycle: Some("capacity-block".into()), ..reserved };
        let labels = machine(&block, true).labels;
        assert_eq!(labels[CAPACITY_RESERVATION_TYPE], "capacity-block");
        assert_eq!(labels[CAPACITY_RESERVATION_ID], "cr-1");
        assert_eq!(labels[CAPACITY_RESERVATION_INTERRUPTIBLE], "false");
    }
}
