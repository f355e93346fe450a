//! What EC2 says about one instance type, as far as anybody here needs it.
//!
//! Words are EC2's own (`x86_64`, `on-demand`, `nitro`, `required`), so that what EC2 invents next passes through. The provider fills
//! [`TypeFacts`] from `DescribeInstanceTypes`, the simulated EC2 answers `DescribeInstanceTypes` from it, and
//! [`Embedded`](crate::Embedded) holds those of a recent day.

use std::sync::Arc;

use serde::Deserialize;

/// One instance type.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a field of EC2's answer")]
pub struct TypeFacts {
    /// Its name: `m5.large`.
    pub name: Arc<str>,
    /// `VCpuInfo.DefaultVCpus`.
    pub vcpus: u32,
    /// `VCpuInfo.DefaultCores`.
    pub cores: Option<u32>,
    /// `VCpuInfo.DefaultThreadsPerCore`.
    pub threads_per_core: Option<u32>,
    /// `MemoryInfo.SizeInMiB`.
    pub memory_mib: u64,
    /// `ProcessorInfo.SupportedArchitectures`: `x86_64`, `arm64`, `i386`, …
    pub architectures: Vec<Arc<str>>,
    /// `ProcessorInfo.Manufacturer`: `Intel`, `AMD`, `AWS`, …
    pub cpu_manufacturer: Option<Arc<str>>,
    /// `ProcessorInfo.SustainedClockSpeedInGhz`, in MHz.
    pub clock_mhz: Option<u32>,
    /// `ProcessorInfo.SupportedFeatures`: `nested-virtualization`, `amd-sev-snp`, …
    pub processor_features: Vec<Arc<str>>,
    /// `SupportedUsageClasses`: `on-demand`, `spot`, `capacity-block`.
    pub usage_classes: Vec<Arc<str>>,
    /// `SupportedVirtualizationTypes`: `hvm`, `paravirtual`.
    pub virtualization_types: Vec<Arc<str>>,
    /// `Hypervisor`: `nitro`, `xen`; bare metal has none.
    pub hypervisor: Option<Arc<str>>,
    /// `BareMetal`.
    pub bare_metal: bool,
    /// `CurrentGeneration`.
    pub current_generation: bool,
    /// `BurstablePerformanceSupported`.
    pub burstable: bool,
    /// `NitroEnclavesSupport` is `supported`.
    pub nitro_enclaves: bool,
    /// `PlacementGroupInfo.SupportedStrategies`: `cluster`, `partition`, `spread`.
    pub placement_strategies: Vec<Arc<str>>,
    /// `EbsInfo`.
    pub ebs: Ebs,
    /// `InstanceStorageInfo`.
    pub instance_store: Option<InstanceStore>,
    /// `NetworkInfo`.
    pub network: Network,
    /// `GpuInfo.Gpus`.
    pub gpus: Vec<Gpu>,
    /// `InferenceAcceleratorInfo.Accelerators`.
    pub inference_accelerators: Vec<InferenceAccelerator>,
    /// `NeuronInfo.NeuronDevices`.
    pub neuron_devices: Vec<NeuronDevice>,
}

/// What a type can do with EBS volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ebs {
    /// `EbsOptimizedSupport`: `default`, `supported`, `unsupported`.
    pub optimized_support: Arc<str>,
    /// `EbsOptimizedInfo.MaximumBandwidthInMbps`.
    pub max_bandwidth_mbps: Option<u32>,
    /// `MaximumEbsAttachments`.
    pub max_attachments: Option<u32>,
    /// `AttachmentLimitType`: `shared` with network interfaces, or `dedicated`.
    pub attachment_limit_type: Option<Arc<str>>,
}

/// Disks inside the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct InstanceStore {
    /// `TotalSizeInGB`.
    pub total_gb: u64,
    /// `NvmeSupport`: `required`, `supported`, `unsupported`.
    pub nvme_support: Arc<str>,
}

/// What a type has for the network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Network {
    /// `NetworkPerformance`, in words: `Up to 10 Gigabit`.
    pub performance: Arc<str>,
    /// `MaximumNetworkInterfaces`, of all cards together.
    pub max_interfaces: u32,
    /// `Ipv4AddressesPerInterface`.
    pub ipv4_per_interface: u32,
    /// `Ipv6AddressesPerInterface`.
    pub ipv6_per_interface: u32,
    /// `Ipv6Supported`.
    pub ipv6: bool,
    /// `DefaultNetworkCardIndex`.
    pub default_card: u32,
    /// `NetworkCards`, by index.
    pub cards: Vec<NetworkCard>,
    /// `EnaSupport`: `required`, `supported`, `unsupported`.
    pub ena_support: Arc<str>,
    /// `EfaInfo.MaximumEfaInterfaces`, none where EFA is not supported.
    pub max_efa_interfaces: Option<u32>,
    /// `EncryptionInTransitSupported`.
    pub encryption_in_transit: bool,
}

/// A network card.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NetworkCard {
    /// `NetworkCardIndex`.
    pub index: u32,
    /// `MaximumNetworkInterfaces`.
    pub max_interfaces: u32,
    /// `BaselineBandwidthInGbps`, in Mbit/s.
    pub baseline_mbps: u32,
    /// `PeakBandwidthInGbps`, in Mbit/s.
    pub peak_mbps: u32,
}

/// A kind of GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Gpu {
    /// `Name`: `A10G`.
    pub name: Arc<str>,
    /// `Manufacturer`: `NVIDIA`, `AMD`, `Habana`.
    pub manufacturer: Arc<str>,
    /// `Count`; zero where the machine has a share of one.
    pub count: u32,
    /// `MemoryInfo.SizeInMiB`, of one.
    pub memory_mib: u64,
}

/// A kind of inference accelerator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct InferenceAccelerator {
    /// `Name`: `Inferentia2`.
    pub name: Arc<str>,
    /// `Manufacturer`: `AWS`.
    pub manufacturer: Arc<str>,
    /// `Count`.
    pub count: u32,
}

/// A kind of Neuron device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NeuronDevice {
    /// `Name`: `Trainium`.
    pub name: Arc<str>,
    /// `Count`.
    pub count: u32,
    /// `CoreInfo.Count`, of one device.
    pub cores_per_device: u32,
    /// `MemoryInfo.SizeInMiB`, of one device.
    pub memory_mib: u64,
}

impl TypeFacts {
    /// Whether Karpenter asks EC2 for such a type: it runs images for `hvm` on 64-bit Intel, AMD or Arm processors.
    pub fn is_wanted(&self) -> bool {
        let has = |list: &[Arc<str>], word: &str| list.iter().any(|found| &**found == word);
        has(&self.virtualization_types, "hvm")
            && (has(&self.architectures, "x86_64") || has(&self.architectures, "arm64"))
    }

    /// The text before the dot: `m5`.
    pub fn family(&self) -> &str {
        self.name.split_once('.').map_or(&self.name, |(family, _)| family)
    }

    /// The text after the dot: `large`.
    pub fn size(&self) -> &str {
        self.name.split_once('.').map_or("", |(_, size)| size)
    }

    /// Interfaces of the card that has the primary one.
    pub fn default_card_interfaces(&self) -> u32 {
        let card = self.network.cards.iter().find(|card| card.index == self.network.default_card);
        card.map_or(self.network.max_interfaces, |card| card.max_interfaces)
    }
}

/// What the VPC makes of a type; EC2 says it nowhere, so it is known from a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct VpcLimits {
    /// IPv4 addresses on each interface, the interface's own included.
    pub ipv4_per_interface: u32,
    /// Interfaces of single pods (`vpc.amazonaws.com/pod-eni`); zero where the type cannot have any.
    pub branch_interfaces: u32,
}
