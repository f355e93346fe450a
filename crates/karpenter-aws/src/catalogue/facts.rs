//! What EC2 says about its types, in the words of the catalogue.

use std::sync::Arc;

use karpenter_aws_catalogue::{
    Ebs, Gpu, InferenceAccelerator, InstanceStore, Network, NetworkCard, NeuronDevice, TypeFacts,
};
use karpenter_aws_client::ec2::{
    DescribeInstanceTypeOfferings, DescribeInstanceTypes, Filter, GpuDevice, InferenceDevice,
    InstanceTypeInfo, NetworkInfo,
};

/// The question for all types that can be nodes.
pub(crate) fn types_question() -> DescribeInstanceTypes {
    DescribeInstanceTypes {
        filters: vec![
            Filter::new("supported-virtualization-type", ["hvm"]),
            Filter::new("processor-info.supported-architecture", ["x86_64", "arm64"]),
        ],
        max_results: Some(100),
        dry_run: None,
    }
}

/// The question for the zones that have them.
pub(crate) fn offerings_question() -> DescribeInstanceTypeOfferings {
    DescribeInstanceTypeOfferings {
        location_type: Some("availability-zone".to_owned()),
        filters: Vec::new(),
        max_results: Some(1000),
    }
}

fn words(texts: Vec<String>) -> Vec<Arc<str>> {
    texts.into_iter().map(Into::into).collect()
}

fn word(text: Option<String>) -> Arc<str> {
    text.unwrap_or_default().into()
}

/// Reads what EC2 says about a type. What it was asked for is what it answers: `hvm` only.
pub(crate) fn facts(info: InstanceTypeInfo) -> TypeFacts {
    let gpus = info.gpu_info.map(|gpus| gpus.gpus).unwrap_or_default();
    let inference = info.inference_accelerator_info.map(|found| found.accelerators).unwrap_or_default();
    let neuron = info.neuron_info.map(|found| found.neuron_devices).unwrap_or_default();
    TypeFacts {
        name: info.instance_type.into(),
        vcpus: info.v_cpu_info.default_v_cpus,
        memory_mib: info.memory_info.size_in_mib,
        architectures: words(info.processor_info.supported_architectures),
        cpu_manufacturer: info.processor_info.manufacturer.map(Into::into),
        clock_mhz: info.processor_info.sustained_clock_speed_in_ghz.map(|ghz| (ghz * 1000.0).round() as u32),
        processor_features: words(info.processor_info.supported_features),
        usage_classes: words(info.supported_usage_classes),
        virtualization_types: vec!["hvm".into()],
        hypervisor: info.hypervisor.filter(|name| !name.is_empty()).map(Into::into),
        bare_metal: info.bare_metal,
        nitro_enclaves: info.nitro_enclaves_support.as_deref() == Some("supported"),
        placement_strategies: words(info.placement_group_info.supported_strategies),
        ebs: Ebs {
            optimized_support: word(info.ebs_info.ebs_optimized_support),
            max_bandwidth_mbps: info.ebs_info.ebs_optimized_info.map(|info| info.maximum_bandwidth_in_mbps),
            ..Ebs::default()
        },
        instance_store: info.instance_storage_info.map(|storage| InstanceStore {
            total_gb: storage.total_size_in_gb,
            nvme_support: word(storage.nvme_support),
        }),
        network: network(info.network_info),
        gpus: gpus.into_iter().map(gpu).collect(),
        inference_accelerators: inference.into_iter().map(accelerator).collect(),
        neuron_devices: neuron
            .into_iter()
            .map(|device| NeuronDevice {
                name: device.name.into(),
                count: device.count,
                cores_per_device: device.core_info.count,
                ..NeuronDevice::default()
            })
            .collect(),
        ..TypeFacts::default()
    }
}

fn network(info: NetworkInfo) -> Network {
    Network {
        max_interfaces: info.maximum_network_interfaces,
        ipv4_per_interface: info.ipv4_addresses_per_interface,
        default_card: info.default_network_card_index,
        cards: info
            .network_cards
            .into_iter()
            .map(|card| NetworkCard {
                index: card.network_card_index,
                max_interfaces: card.maximum_network_interfaces,
                ..NetworkCard::default()
            })
            .collect(),
        ena_support: word(info.ena_support),
        max_efa_interfaces: info.efa_info.map(|info| info.maximum_efa_interfaces),
        encryption_in_transit: info.encryption_in_transit_supported,
        ..Network::default()
    }
}

fn gpu(device: GpuDevice) -> Gpu {
    Gpu {
        name: device.name.into(),
        manufacturer: device.manufacturer.into(),
        count: device.count,
        memory_mib: device.memory_info.size_in_mib,
    }
}

fn accelerator(device: InferenceDevice) -> InferenceAccelerator {
    InferenceAccelerator {
        name: device.name.into(),
        manufacturer: device.manufacturer.into(),
        count: device.count,
    }
}
