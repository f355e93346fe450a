//! What can be bought, and in which zones.
#![expect(missing_docs, reason = "fields have AWS's names and meaning")]

use serde::{Deserialize, Serialize};

use super::{Filter, operation};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct DescribeInstanceTypes {
    #[serde(rename = "Filter")]
    pub filters: Vec<Filter>,
    pub max_results: Option<u32>,
    pub dry_run: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DescribeInstanceTypesAnswer {
    #[serde(rename = "instanceTypeSet")]
    pub instance_types: Vec<InstanceTypeInfo>,
    pub next_token: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InstanceTypeInfo {
    pub instance_type: String,
    pub supported_usage_classes: Vec<String>,
    pub bare_metal: bool,
    pub hypervisor: Option<String>,
    pub processor_info: ProcessorInfo,
    pub v_cpu_info: VCpuInfo,
    pub memory_info: MemoryInfo,
    pub instance_storage_info: Option<InstanceStorageInfo>,
    pub ebs_info: EbsInfo,
    pub network_info: NetworkInfo,
    pub gpu_info: Option<GpuInfo>,
    pub inference_accelerator_info: Option<InferenceAcceleratorInfo>,
    pub neuron_info: Option<NeuronInfo>,
    pub placement_group_info: PlacementGroupInfo,
    pub nitro_enclaves_support: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProcessorInfo {
    pub supported_architectures: Vec<String>,
    pub sustained_clock_speed_in_ghz: Option<f64>,
    pub supported_features: Vec<String>,
    pub manufacturer: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct VCpuInfo {
    #[serde(rename = "defaultVCpus")]
    pub default_v_cpus: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct MemoryInfo {
    #[serde(rename = "sizeInMiB")]
    pub size_in_mib: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InstanceStorageInfo {
    #[serde(rename = "totalSizeInGB")]
    pub total_size_in_gb: u64,
    pub nvme_support: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EbsInfo {
    pub ebs_optimized_support: Option<String>,
    pub ebs_optimized_info: Option<EbsOptimizedInfo>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EbsOptimizedInfo {
    pub maximum_bandwidth_in_mbps: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkInfo {
    pub maximum_network_interfaces: u32,
    pub ipv4_addresses_per_interface: u32,
    pub default_network_card_index: u32,
    pub network_cards: Vec<NetworkCard>,
    pub ena_support: Option<String>,
    pub efa_info: Option<EfaInfo>,
    pub encryption_in_transit_supported: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkCard {
    pub network_card_index: u32,
    pub maximum_network_interfaces: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EfaInfo {
    pub maximum_efa_interfaces: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct GpuInfo {
    pub gpus: Vec<GpuDevice>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GpuDevice {
    pub name: String,
    pub manufacturer: String,
    pub count: u32,
    pub memory_info: MemoryInfo,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct InferenceAcceleratorInfo {
    pub accelerators: Vec<InferenceDevice>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct InferenceDevice {
    pub name: String,
    pub manufacturer: String,
    pub count: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NeuronInfo {
    pub neuron_devices: Vec<NeuronDevice>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NeuronDevice {
    pub name: String,
    pub count: u32,
    pub core_info: NeuronCoreInfo,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NeuronCoreInfo {
    pub count: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PlacementGroupInfo {
    pub supported_strategies: Vec<String>,
}

operation!(DescribeInstanceTypes -> DescribeInstanceTypesAnswer, pages of InstanceTypeInfo in instance_types);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct DescribeInstanceTypeOfferings {
    pub location_type: Option<String>,
    #[serde(rename = "Filter")]
    pub filters: Vec<Filter>,
    pub max_results: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DescribeInstanceTypeOfferingsAnswer {
    #[serde(rename = "instanceTypeOfferingSet")]
    pub offerings: Vec<InstanceTypeOffering>,
    pub next_token: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InstanceTypeOffering {
    pub instance_type: String,
    pub location: String,
}

operation!(DescribeInstanceTypeOfferings -> DescribeInstanceTypeOfferingsAnswer, pages of InstanceTypeOffering in offerings);
