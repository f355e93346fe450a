//! What an EC2NodeClass asks of instance types, in the words of the catalogue.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_aws_bootstrap::AmiFamily;
use karpenter_aws_bootstrap::kubelet as bootstrap;
use karpenter_aws_catalogue::{
    BlockDevice, CapacityReservation, ClassSettings, ClassZone, Expressions, Family, Kubelet, MaxPods,
    NetworkInterface, PlacementGroup, Variables,
};
use karpenter_quantity::Quantity;

use crate::launch::template::fnv1a;
use crate::node_class::ResolvedClass;

const GIB: i64 = 1 << 30;

/// What a class asks for.
pub(crate) fn settings(resolved: &ResolvedClass) -> ClassSettings {
    let spec = &resolved.class.spec;
    let index = |number: i32| u32::try_from(number).unwrap_or_default();
    ClassSettings {
        family: family(resolved.family),
        images: images(resolved),
        kubelet: spec
            .kubelet
            .as_ref()
            .map(|fields| kubelet(&bootstrap::Kubelet::read(fields)))
            .unwrap_or_default(),
        block_devices: spec
            .block_device_mappings
            .iter()
            .map(|mapping| BlockDevice {
                device_name: mapping.device_name.as_deref().map(Into::into),
                root_volume: mapping.root_volume.unwrap_or_default(),
                size: mapping.ebs.as_ref().and_then(|ebs| ebs.volume_size.as_ref()?.parse().ok()),
            })
            .collect(),
        raid0: spec.instance_store_policy.as_deref() == Some("RAID0"),
        network_interfaces: spec
            .network_interfaces
            .iter()
            .map(|interface| NetworkInterface {
                card: index(interface.network_card_index),
                device: index(interface.device_index),
                efa_only: interface.interface_type == "efa-only",
            })
            .collect(),
        nested_virtualization: spec
            .cpu_options
            .as_ref()
            .is_some_and(|options| options.nested_virtualization.as_deref() == Some("enabled")),
        connection_tracking: spec.connection_tracking.is_some(),
        placement_group: resolved.placement_group.as_ref().map(|group| PlacementGroup {
            id: group.id.as_str().into(),
            strategy: group.strategy.as_str().into(),
            partitions: group.partition_count.unwrap_or_default(),
        }),
        zones: zones(resolved),
        reservations: reservations(resolved),
    }
}

fn zones(resolved: &ResolvedClass) -> Vec<ClassZone> {
    let mut zones: BTreeMap<&str, ClassZone> = BTreeMap::new();
    for subnet in &resolved.subnets {
        let zone = zones.entry(subnet.zone.as_str()).or_insert_with(|| ClassZone {
            name: subnet.zone.as_str().into(),
            id: subnet.zone_id.as_deref().map(Into::into),
            subnets: Vec::new(),
        });
        zone.subnets.push(subnet.id.as_str().into());
    }
    // Subnets come by free addresses, which change all the time; a class does not change with them.
    zones.values_mut().for_each(|zone| zone.subnets.sort());
    zones.into_values().collect()
}

fn reservations(resolved: &ResolvedClass) -> Vec<CapacityReservation> {
    let reservations = resolved.reservations.iter();
    reservations
        .map(|reservation| CapacityReservation {
            id: reservation.id.as_str().into(),
            instance_type: reservation.instance_type.as_str().into(),
            zone: reservation.zone.as_str().into(),
            reservation_type: reservation.reservation_type.as_str().into(),
            interruptible: reservation.interruptible,
            expiring: reservation.expiring,
        })
        .collect()
}

/// Names the images of a class, whatever their order.
pub(crate) fn images(resolved: &ResolvedClass) -> Arc<str> {
    let mut ids: Vec<&str> = resolved.amis.iter().map(|ami| ami.id.as_str()).collect();
    ids.sort_unstable();
    fnv1a(ids.join(",").as_bytes()).to_string().into()
}

fn family(family: AmiFamily) -> Family {
    let storage = family
        .default_volumes()
        .iter()
        .find(|volume| Some(volume.device) == family.ephemeral_device())
        .map(|volume| i64::from(volume.gib) * GIB);
    let default = Family::default();
    Family {
        windows_build: family.windows_build().map(Into::into),
        eni_limited_memory_overhead: family.uses_eni_limited_memory_overhead(),
        eni_limited_pod_density: family.supports_eni_limited_pod_density(),
        pods_per_core: family.supports_pods_per_core(),
        ephemeral_device: family.ephemeral_device().map(Into::into),
        default_storage: storage.map_or(default.default_storage, |bytes| {
            Quantity::from_units(bytes).with_format(karpenter_quantity::Format::BinarySI)
        }),
        runs_a1: family != AmiFamily::Al2023,
    }
}

fn kubelet(read: &bootstrap::Kubelet) -> Kubelet {
    let words = |map: &BTreeMap<String, String>| {
        map.iter().map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect()
    };
    let small = |number: i64| u32::try_from(number).ok();
    Kubelet {
        max_pods: read.max_pods.as_ref().and_then(|pods| match pods {
            bootstrap::MaxPods::Number(number) => small(*number).map(MaxPods::Fixed),
            bootstrap::MaxPods::Expression(text) => Some(MaxPods::Expression(text.as_str().into())),
        }),
        pods_per_core: read.pods_per_core.and_then(small),
        kube_reserved: words(&read.kube_reserved),
        system_reserved: words(&read.system_reserved),
        eviction_hard: words(&read.eviction_hard),
    }
}

/// Evaluates the formulas of classes.
pub(crate) struct Formulas;

impl Expressions for Formulas {
    fn max_pods(&self, expression: &str, about: &Variables) -> Option<u32> {
        let formula = bootstrap::Expression::compile(expression).ok()?;
        u32::try_from(formula.max_pods(&variables(about)).ok()?).ok()
    }

    fn reserved(&self, expression: &str, resource: &str, about: &Variables) -> Option<Quantity> {
        let formula = bootstrap::Expression::compile(expression).ok()?;
        formula.reserved(resource, &variables(about)).ok()?.parse().ok()
    }
}

/// What formulas may ask, in the words of those who evaluate them.
pub(crate) fn variables(about: &Variables) -> bootstrap::TypeFacts {
    bootstrap::TypeFacts {
        vcpus: about.vcpus.into(),
        memory_mib: about.memory_mib.try_into().unwrap_or(i64::MAX),
        default_enis: about.default_enis.into(),
        ips_per_eni: about.ips_per_eni.into(),
        max_pods: about.max_pods.into(),
        instance_type: about.instance_type.to_string(),
    }
}
