//! What can be bought: instance types, and the stock of each zone.
#![expect(missing_docs, reason = "fields have the cloud's names and meaning")]

use serde::{Deserialize, Serialize};

use crate::operation::{operation, pages};
use crate::wrapped;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct DescribeInstanceTypes {
    pub instance_types: Vec<String>,
    pub max_results: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct DescribeInstanceTypesAnswer {
    #[serde(deserialize_with = "wrapped::list")]
    pub instance_types: Vec<InstanceType>,
    pub next_token: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct InstanceType {
    pub instance_type_id: String,
    pub instance_type_family: Option<String>,
    pub instance_family_level: Option<String>,
    pub instance_category: Option<String>,
    /// `X86` or `ARM`.
    pub cpu_architecture: Option<String>,
    pub cpu_core_count: u32,
    /// In GiB.
    pub memory_size: f64,
    pub physical_processor_model: Option<String>,
    pub cpu_speed_frequency: Option<f64>,
    #[serde(rename = "GPUAmount")]
    pub gpu_amount: Option<u32>,
    #[serde(rename = "GPUSpec")]
    pub gpu_spec: Option<String>,
    /// In GiB.
    #[serde(rename = "GPUMemorySize")]
    pub gpu_memory_size: Option<f64>,
    pub eni_quantity: Option<u32>,
    pub eni_private_ip_address_quantity: Option<u32>,
    pub eni_ipv6_address_quantity: Option<u32>,
    pub eni_total_quantity: Option<u32>,
    pub eni_trunk_supported: Option<bool>,
    pub eri_quantity: Option<u32>,
    /// In kbit/s.
    pub instance_bandwidth_rx: Option<u64>,
    /// In kbit/s.
    pub instance_bandwidth_tx: Option<u64>,
    pub local_storage_amount: Option<u32>,
    /// Of one disk, in GiB.
    pub local_storage_capacity: Option<u64>,
    pub local_storage_category: Option<String>,
    pub nvme_support: Option<String>,
    pub baseline_credit: Option<u32>,
    pub initial_credit: Option<u32>,
    pub disk_quantity: Option<u32>,
}

operation!(DescribeInstanceTypes -> DescribeInstanceTypesAnswer, Ecs, "ecs:DescribeInstanceTypes");
pages!(DescribeInstanceTypes of InstanceType in instance_types, by token);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct DescribeAvailableResource {
    /// `InstanceType`, or `SystemDisk` with an instance type.
    pub destination_resource: String,
    pub instance_charge_type: Option<String>,
    pub spot_strategy: Option<String>,
    pub instance_type: Option<String>,
    pub zone_id: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct DescribeAvailableResourceAnswer {
    #[serde(deserialize_with = "wrapped::list")]
    pub available_zones: Vec<AvailableZone>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct AvailableZone {
    pub zone_id: String,
    pub status: Option<String>,
    pub status_category: Option<String>,
    #[serde(deserialize_with = "wrapped::list")]
    pub available_resources: Vec<AvailableResource>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct AvailableResource {
    #[serde(rename = "Type")]
    pub kind: Option<String>,
    #[serde(deserialize_with = "wrapped::list")]
    pub supported_resources: Vec<SupportedResource>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct SupportedResource {
    pub value: String,
    pub status: Option<String>,
    /// `WithStock`, `ClosedWithStock`, `WithoutStock` or `ClosedWithoutStock`.
    pub status_category: Option<String>,
    pub min: Option<i64>,
    pub max: Option<i64>,
    pub unit: Option<String>,
}

impl SupportedResource {
    /// Whether it can be had now.
    pub fn in_stock(&self) -> bool {
        match self.status_category.as_deref() {
            Some(category) => matches!(category, "WithStock" | "ClosedWithStock"),
            None => self.status.as_deref() != Some("SoldOut"),
        }
    }
}

operation!(DescribeAvailableResource -> DescribeAvailableResourceAnswer, Ecs, "ecs:DescribeAvailableResource");

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct DescribeZones {}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct DescribeZonesAnswer {
    #[serde(deserialize_with = "wrapped::list")]
    pub zones: Vec<Zone>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Zone {
    pub zone_id: String,
}

operation!(DescribeZones -> DescribeZonesAnswer, Ecs, "ecs:DescribeZones");
