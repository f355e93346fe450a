//! What a launch template contains: everything about a machine but its type and its subnet.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use karpenter_aws_client::ec2::{
    BlockDeviceMapping, CapacityReservationSpecification, CapacityReservationTarget, ConnectionTracking,
    CpuOptions, CreateLaunchTemplate, EbsBlockDevice, EnclaveOptions, InstanceMarketOptions,
    InstanceProfileChoice, LaunchTemplateData, LaunchTemplatePlacement, MetadataOptions, Monitoring,
    NetworkInterface, Tag, TagSpecification,
};
use karpenter_quantity::Quantity;

use super::candidates::Purchase;
use crate::node_class::{BlockDevice, ResolvedClass};

const GIB: i64 = 1 << 30;
/// What names of launch templates begin with.
pub(crate) const PREFIX: &str = "karpenter.k8s.aws/";
const EFA_ONLY: &str = "efa-only";

/// What a launch adds to its class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Contents<'a> {
    pub(crate) image_id: &'a str,
    /// As the machine reads it, not yet in base64.
    pub(crate) user_data: &'a str,
    /// Interfaces for EFA that pods ask for.
    pub(crate) efa_interfaces: u32,
    pub(crate) tenancy: &'a str,
    pub(crate) partition: Option<u32>,
    /// Whether pods run in Nitro Enclaves.
    pub(crate) enclaves: bool,
    pub(crate) purchase: Purchase,
    /// The reservation that is used.
    pub(crate) reservation: Option<&'a str>,
    /// Whether the gate `ReservedCapacity` is on; without it open reservations are used as EC2 likes.
    pub(crate) reserves: bool,
    /// Whether the cluster's network is IPv6.
    pub(crate) ipv6: bool,
    pub(crate) tags: &'a BTreeMap<String, String>,
}

/// The request that creates the template. Equal contents have equal names.
pub(crate) fn request(class: &ResolvedClass, contents: &Contents<'_>) -> CreateLaunchTemplate {
    let data = data(class, contents);
    let tags = tags(contents.tags);
    let written = serde_json::to_string(&(&data, &tags)).expect("a request has a JSON form");
    CreateLaunchTemplate {
        client_token: None,
        dry_run: None,
        launch_template_name: format!("{PREFIX}{}", fnv1a(written.as_bytes())),
        launch_template_data: data,
        tag_specifications: vec![TagSpecification { resource_type: "launch-template".into(), tags }],
    }
}

fn data(class: &ResolvedClass, contents: &Contents<'_>) -> LaunchTemplateData {
    let spec = &class.class.spec;
    let metadata = spec.metadata_options.clone().unwrap_or_default();
    let default = |set: Option<String>, otherwise: &str| Some(set.unwrap_or_else(|| otherwise.to_owned()));
    LaunchTemplateData {
        image_id: Some(contents.image_id.to_owned()),
        user_data: Some(STANDARD.encode(contents.user_data)),
        iam_instance_profile: class.instance_profile.clone().map(|name| InstanceProfileChoice { name }),
        monitoring: Some(Monitoring { enabled: spec.detailed_monitoring.unwrap_or_default() }),
        metadata_options: Some(MetadataOptions {
            http_endpoint: default(metadata.http_endpoint, "enabled"),
            http_protocol_ipv6: default(metadata.http_protocol_ipv6, "disabled"),
            http_put_response_hop_limit: Some(metadata.http_put_response_hop_limit.unwrap_or(1)),
            http_tokens: default(metadata.http_tokens, "required"),
            instance_metadata_tags: Some("disabled".to_owned()),
        }),
        cpu_options: spec
            .cpu_options
            .as_ref()
            .map(|options| CpuOptions { nested_virtualization: options.nested_virtualization.clone() }),
        enclave_options: contents.enclaves.then_some(EnclaveOptions { enabled: true }),
        placement: Some(placement(class, contents)),
        block_device_mappings: block_devices(class),
        network_interfaces: network_interfaces(class, contents),
        security_group_ids: Vec::new(),
        tag_specifications: tag_specifications(contents),
        capacity_reservation_specification: contents.reserves.then(|| reservation(contents)),
        instance_market_options: market(contents.purchase),
    }
}

fn placement(class: &ResolvedClass, contents: &Contents<'_>) -> LaunchTemplatePlacement {
    LaunchTemplatePlacement {
        tenancy: Some(contents.tenancy.to_owned()),
        group_id: class.placement_group.as_ref().map(|group| group.id.clone()),
        partition_number: contents.partition,
    }
}

fn reservation(contents: &Contents<'_>) -> CapacityReservationSpecification {
    let target = contents.reservation.filter(|_| contents.purchase.is_reserved());
    let preference = if target.is_some() { "capacity-reservations-only" } else { "none" };
    CapacityReservationSpecification {
        capacity_reservation_preference: Some(preference.to_owned()),
        capacity_reservation_target: target
            .map(|id| CapacityReservationTarget { capacity_reservation_id: Some(id.to_owned()) }),
    }
}

fn market(purchase: Purchase) -> Option<InstanceMarketOptions> {
    let market_type = match purchase {
        Purchase::CapacityBlock => "capacity-block",
        Purchase::Interruptible => "interruptible-capacity-reservation",
        _ => return None,
    };
    Some(InstanceMarketOptions { market_type: Some(market_type.to_owned()) })
}

fn tag_specifications(contents: &Contents<'_>) -> Vec<TagSpecification> {
    let spot = (contents.purchase == Purchase::Spot).then_some("spot-instances-request");
    let kinds = ["network-interface"].into_iter().chain(spot);
    kinds.map(|kind| TagSpecification { resource_type: kind.to_owned(), tags: tags(contents.tags) }).collect()
}

/// Tags as requests have them.
pub(crate) fn tags(tags: &BTreeMap<String, String>) -> Vec<Tag> {
    tags.iter().map(|(key, value)| Tag { key: key.clone(), value: value.clone() }).collect()
}

/// The volumes of the class, or those of its image family.
fn block_devices(class: &ResolvedClass) -> Vec<BlockDeviceMapping> {
    let chosen = &class.class.spec.block_device_mappings;
    if !chosen.is_empty() {
        return chosen
            .iter()
            .map(|mapping| BlockDeviceMapping {
                device_name: mapping.device_name.clone(),
                ebs: mapping.ebs.as_ref().map(volume),
            })
            .collect();
    }
    let default = class.family.default_volumes().iter();
    default
        .map(|volume| BlockDeviceMapping {
            device_name: Some(volume.device.to_owned()),
            ebs: Some(EbsBlockDevice {
                encrypted: Some(true),
                volume_type: Some("gp3".to_owned()),
                volume_size: Some(volume.gib.into()),
                ..EbsBlockDevice::default()
            }),
        })
        .collect()
}

fn volume(device: &BlockDevice) -> EbsBlockDevice {
    EbsBlockDevice {
        delete_on_termination: device.delete_on_termination,
        encrypted: device.encrypted,
        iops: device.iops,
        kms_key_id: device.kms_key_id.clone(),
        snapshot_id: device.snapshot_id.clone(),
        throughput: device.throughput,
        volume_initialization_rate: device.volume_initialization_rate,
        volume_size: device.volume_size.as_deref().and_then(gibibytes),
        volume_type: device.volume_type.clone(),
    }
}

/// A size in whole GiB, rounded up.
fn gibibytes(size: &str) -> Option<i64> {
    let bytes = size.parse::<Quantity>().ok()?.ceil_units();
    Some(bytes / GIB + i64::from(bytes % GIB > 0))
}

/// The interfaces the class lists, or one for each card if pods ask for EFA, or one.
fn network_interfaces(class: &ResolvedClass, contents: &Contents<'_>) -> Vec<NetworkInterface> {
    let listed = &class.class.spec.network_interfaces;
    let index = |number: i32| u32::try_from(number).unwrap_or_default();
    if !listed.is_empty() {
        let entries = listed.iter();
        return entries
            .map(|entry| {
                let place = (index(entry.network_card_index), index(entry.device_index));
                interface(class, contents, place, Some(&entry.interface_type))
            })
            .collect();
    }
    if contents.efa_interfaces > 0 {
        let cards = 0..contents.efa_interfaces;
        return cards
            .map(|card| interface(class, contents, (card, u32::from(card > 0)), Some("efa")))
            .collect();
    }
    vec![interface(class, contents, (0, 0), None)]
}

fn interface(
    class: &ResolvedClass,
    contents: &Contents<'_>,
    (card, device): (u32, u32),
    kind: Option<&str>,
) -> NetworkInterface {
    let spec = &class.class.spec;
    let bare = NetworkInterface {
        device_index: Some(device),
        network_card_index: kind.map(|_| card),
        interface_type: kind.map(str::to_owned),
        groups: class.security_groups.iter().map(|group| group.id.clone()).collect(),
        ..NetworkInterface::default()
    };
    if kind == Some(EFA_ONLY) {
        return bare;
    }
    let primary = card == 0 && device == 0;
    let prefixes = spec.ip_prefix_count.filter(|_| primary);
    NetworkInterface {
        // EC2 refuses the flag beside several interfaces unless it says no.
        associate_public_ip_address: spec.associate_public_ip_address.filter(|_| primary),
        connection_tracking_specification: spec.connection_tracking.as_ref().map(|tracking| {
            ConnectionTracking {
                tcp_established_timeout: tracking.tcp_established_timeout,
                udp_stream_timeout: tracking.udp_stream_timeout,
                udp_timeout: tracking.udp_timeout,
            }
        }),
        ipv4_prefix_count: prefixes.filter(|_| !contents.ipv6),
        ipv6_prefix_count: prefixes.filter(|_| contents.ipv6),
        primary_ipv6: (contents.ipv6 && primary).then_some(true),
        ipv6_address_count: (contents.ipv6 && primary).then_some(1),
        ..bare
    }
}

/// A short name for bytes.
pub(crate) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
#[path = "template_tests.rs"]
mod tests;
