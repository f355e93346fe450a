//! EC2's description of a type as the catalogue writes it: only what is needed, and nothing that says no, none or zero.

use serde_json::{Map, Value, json};

/// The fields of `TypeFacts` in the catalogue's crate.
pub(super) fn facts(name: &str, described: &Value) -> Value {
    let at = |path: &str| described.pointer(path).cloned().unwrap_or(Value::Null);
    let list = |path: &str, fields: fn(&Value) -> Value| -> Value {
        described.pointer(path).and_then(Value::as_array).into_iter().flatten().map(fields).collect()
    };
    let clock = at("/ProcessorInfo/SustainedClockSpeedInGhz").as_f64();
    compact(json!({
        "name": name,
        "vcpus": at("/VCpuInfo/DefaultVCpus"),
        "cores": at("/VCpuInfo/DefaultCores"),
        "threads_per_core": at("/VCpuInfo/DefaultThreadsPerCore"),
        "memory_mib": at("/MemoryInfo/SizeInMiB"),
        "architectures": at("/ProcessorInfo/SupportedArchitectures"),
        "cpu_manufacturer": at("/ProcessorInfo/Manufacturer"),
        "clock_mhz": clock.map(thousandths),
        "processor_features": at("/ProcessorInfo/SupportedFeatures"),
        "usage_classes": at("/SupportedUsageClasses"),
        "virtualization_types": at("/SupportedVirtualizationTypes"),
        "hypervisor": at("/Hypervisor"),
        "bare_metal": at("/BareMetal"),
        "current_generation": at("/CurrentGeneration"),
        "burstable": at("/BurstablePerformanceSupported"),
        "nitro_enclaves": at("/NitroEnclavesSupport") == "supported",
        "placement_strategies": at("/PlacementGroupInfo/SupportedStrategies"),
        "ebs": {
            "optimized_support": at("/EbsInfo/EbsOptimizedSupport"),
            "max_bandwidth_mbps": at("/EbsInfo/EbsOptimizedInfo/MaximumBandwidthInMbps"),
            "max_attachments": at("/EbsInfo/MaximumEbsAttachments"),
            "attachment_limit_type": at("/EbsInfo/AttachmentLimitType"),
        },
        "instance_store": {
            "total_gb": at("/InstanceStorageInfo/TotalSizeInGB"),
            "nvme_support": at("/InstanceStorageInfo/NvmeSupport"),
        },
        "network": {
            "performance": at("/NetworkInfo/NetworkPerformance"),
            "max_interfaces": at("/NetworkInfo/MaximumNetworkInterfaces"),
            "ipv4_per_interface": at("/NetworkInfo/Ipv4AddressesPerInterface"),
            "ipv6_per_interface": at("/NetworkInfo/Ipv6AddressesPerInterface"),
            "ipv6": at("/NetworkInfo/Ipv6Supported"),
            "default_card": at("/NetworkInfo/DefaultNetworkCardIndex"),
            "cards": list("/NetworkInfo/NetworkCards", card),
            "ena_support": at("/NetworkInfo/EnaSupport"),
            "max_efa_interfaces": at("/NetworkInfo/EfaInfo/MaximumEfaInterfaces"),
            "encryption_in_transit": at("/NetworkInfo/EncryptionInTransitSupported"),
        },
        "gpus": list("/GpuInfo/Gpus", gpu),
        "inference_accelerators": list("/InferenceAcceleratorInfo/Accelerators", accelerator),
        "neuron_devices": list("/NeuronInfo/NeuronDevices", neuron),
    }))
}

fn card(described: &Value) -> Value {
    let mbps = |key: &str| described[key].as_f64().map(thousandths);
    json!({
        "index": described["NetworkCardIndex"],
        "max_interfaces": described["MaximumNetworkInterfaces"],
        "baseline_mbps": mbps("BaselineBandwidthInGbps"),
        "peak_mbps": mbps("PeakBandwidthInGbps"),
    })
}

fn gpu(described: &Value) -> Value {
    json!({
        "name": described["Name"],
        "manufacturer": described["Manufacturer"],
        "count": described["Count"],
        "memory_mib": described["MemoryInfo"]["SizeInMiB"],
    })
}

fn accelerator(described: &Value) -> Value {
    json!({ "name": described["Name"], "manufacturer": described["Manufacturer"], "count": described["Count"] })
}

fn neuron(described: &Value) -> Value {
    json!({
        "name": described["Name"],
        "count": described["Count"],
        "cores_per_device": described["CoreInfo"]["Count"],
        "memory_mib": described["MemoryInfo"]["SizeInMiB"],
    })
}

/// Thousandths of a number, as a whole one.
fn thousandths(number: f64) -> u64 {
    (number * 1000.0).round() as u64
}

/// Without what a reader assumes anyway.
fn compact(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(key, value)| (key, compact(value)));
            Value::Object(fields.filter(|(_, value)| !is_assumed(value)).collect::<Map<_, _>>())
        }
        Value::Array(items) => items.into_iter().map(compact).collect(),
        other => other,
    }
}

fn is_assumed(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_u64() == Some(0),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(true) | Value::String(_) => false,
    }
}
