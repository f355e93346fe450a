//! Launch templates: everything about an instance but its type and its subnet.
#![expect(missing_docs, reason = "fields have AWS's names and meaning")]

use serde::{Deserialize, Serialize};

use super::{Filter, TagDescription, TagSpecification, operation};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct DescribeLaunchTemplates {
    #[serde(rename = "LaunchTemplateName")]
    pub launch_template_names: Vec<String>,
    #[serde(rename = "Filter")]
    pub filters: Vec<Filter>,
    pub max_results: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DescribeLaunchTemplatesAnswer {
    pub launch_templates: Vec<LaunchTemplate>,
    pub next_token: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LaunchTemplate {
    pub launch_template_id: String,
    pub launch_template_name: String,
    #[serde(rename = "tagSet")]
    pub tags: Vec<TagDescription>,
}

operation!(DescribeLaunchTemplates -> DescribeLaunchTemplatesAnswer, pages of LaunchTemplate in launch_templates);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct DeleteLaunchTemplate {
    pub launch_template_id: Option<String>,
    pub launch_template_name: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LaunchTemplateAnswer {
    pub launch_template: LaunchTemplate,
}

operation!(DeleteLaunchTemplate -> LaunchTemplateAnswer);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct CreateLaunchTemplate {
    pub client_token: Option<String>,
    pub dry_run: Option<bool>,
    pub launch_template_name: String,
    pub launch_template_data: LaunchTemplateData,
    #[serde(rename = "TagSpecification")]
    pub tag_specifications: Vec<TagSpecification>,
}

operation!(CreateLaunchTemplate -> LaunchTemplateAnswer);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct LaunchTemplateData {
    pub image_id: Option<String>,
    pub user_data: Option<String>,
    pub iam_instance_profile: Option<InstanceProfileChoice>,
    pub monitoring: Option<Monitoring>,
    pub metadata_options: Option<MetadataOptions>,
    pub cpu_options: Option<CpuOptions>,
    pub enclave_options: Option<EnclaveOptions>,
    pub placement: Option<LaunchTemplatePlacement>,
    #[serde(rename = "BlockDeviceMapping")]
    pub block_device_mappings: Vec<BlockDeviceMapping>,
    #[serde(rename = "NetworkInterface")]
    pub network_interfaces: Vec<NetworkInterface>,
    #[serde(rename = "SecurityGroupId")]
    pub security_group_ids: Vec<String>,
    #[serde(rename = "TagSpecification")]
    pub tag_specifications: Vec<TagSpecification>,
    pub capacity_reservation_specification: Option<CapacityReservationSpecification>,
    pub instance_market_options: Option<InstanceMarketOptions>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct InstanceProfileChoice {
    pub name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Monitoring {
    pub enabled: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct MetadataOptions {
    pub http_endpoint: Option<String>,
    pub http_protocol_ipv6: Option<String>,
    pub http_put_response_hop_limit: Option<i64>,
    pub http_tokens: Option<String>,
    pub instance_metadata_tags: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct CpuOptions {
    pub nested_virtualization: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct EnclaveOptions {
    pub enabled: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct LaunchTemplatePlacement {
    pub tenancy: Option<String>,
    pub group_id: Option<String>,
    pub partition_number: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct BlockDeviceMapping {
    pub device_name: Option<String>,
    pub ebs: Option<EbsBlockDevice>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct EbsBlockDevice {
    pub delete_on_termination: Option<bool>,
    pub encrypted: Option<bool>,
    pub iops: Option<i64>,
    pub kms_key_id: Option<String>,
    pub snapshot_id: Option<String>,
    pub throughput: Option<i64>,
    pub volume_initialization_rate: Option<i32>,
    pub volume_size: Option<i64>,
    pub volume_type: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct NetworkInterface {
    pub associate_public_ip_address: Option<bool>,
    pub connection_tracking_specification: Option<ConnectionTracking>,
    pub device_index: Option<u32>,
    #[serde(rename = "SecurityGroupId")]
    pub groups: Vec<String>,
    pub interface_type: Option<String>,
    pub ipv4_prefix_count: Option<i32>,
    pub ipv6_address_count: Option<i32>,
    pub ipv6_prefix_count: Option<i32>,
    pub network_card_index: Option<u32>,
    pub primary_ipv6: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct ConnectionTracking {
    pub tcp_established_timeout: Option<i32>,
    pub udp_stream_timeout: Option<i32>,
    pub udp_timeout: Option<i32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct CapacityReservationSpecification {
    pub capacity_reservation_preference: Option<String>,
    pub capacity_reservation_target: Option<CapacityReservationTarget>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct CapacityReservationTarget {
    pub capacity_reservation_id: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct InstanceMarketOptions {
    pub market_type: Option<String>,
}
