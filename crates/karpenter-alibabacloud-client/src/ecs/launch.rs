//! Starting instances: one kind at one place, or the cheapest of several by an auto-provisioning group.
#![expect(missing_docs, reason = "fields have the cloud's names and meaning")]

use serde::{Deserialize, Serialize};

use super::Tag;
use crate::operation::operation;
use crate::wrapped;

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct RunInstances {
    pub client_token: Option<String>,
    pub launch_template_id: Option<String>,
    pub dry_run: Option<bool>,
    pub amount: Option<u32>,
    pub instance_type: String,
    pub image_id: String,
    pub v_switch_id: String,
    pub zone_id: Option<String>,
    pub security_group_ids: Vec<String>,
    pub instance_name: Option<String>,
    pub host_name: Option<String>,
    pub resource_group_id: Option<String>,
    pub ram_role_name: Option<String>,
    pub key_pair_name: Option<String>,
    pub password: Option<String>,
    pub password_inherit: Option<bool>,
    pub instance_charge_type: Option<String>,
    pub spot_strategy: Option<String>,
    pub spot_price_limit: Option<f64>,
    pub spot_duration: Option<u32>,
    pub spot_interruption_behavior: Option<String>,
    pub ipv6_address_count: Option<u32>,
    pub system_disk: SystemDisk,
    #[serde(rename = "DataDisk")]
    pub data_disks: Vec<DataDisk>,
    pub http_endpoint: Option<String>,
    pub http_tokens: Option<String>,
    pub http_put_response_hop_limit: Option<u32>,
    pub private_pool_options: Option<PrivatePoolOptions>,
    pub user_data: Option<String>,
    #[serde(rename = "Tag")]
    pub tags: Vec<Tag>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct SystemDisk {
    pub category: Option<String>,
    pub size: Option<u32>,
    pub performance_level: Option<String>,
    pub encrypted: Option<bool>,
    #[serde(rename = "KMSKeyId")]
    pub kms_key_id: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct DataDisk {
    pub category: Option<String>,
    pub size: Option<u32>,
    pub device: Option<String>,
    pub performance_level: Option<String>,
    pub encrypted: Option<bool>,
    #[serde(rename = "KMSKeyId")]
    pub kms_key_id: Option<String>,
    pub snapshot_id: Option<String>,
    pub delete_with_instance: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct PrivatePoolOptions {
    pub id: Option<String>,
    pub match_criteria: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct RunInstancesAnswer {
    #[serde(rename = "InstanceIdSets", deserialize_with = "wrapped::list")]
    pub instance_ids: Vec<String>,
    pub request_id: String,
}

operation!(RunInstances -> RunInstancesAnswer, Ecs, "ecs:RunInstances", Launch);

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct CreateAutoProvisioningGroup {
    pub client_token: Option<String>,
    pub auto_provisioning_group_type: String,
    pub total_target_capacity: String,
    pub spot_target_capacity: Option<String>,
    pub pay_as_you_go_target_capacity: Option<String>,
    pub default_target_capacity_type: Option<String>,
    pub spot_allocation_strategy: Option<String>,
    pub pay_as_you_go_allocation_strategy: Option<String>,
    pub excess_capacity_termination_policy: Option<String>,
    pub max_spot_price: Option<f64>,
    pub resource_group_id: Option<String>,
    #[serde(rename = "LaunchTemplateConfig")]
    pub configurations: Vec<LaunchTemplateConfig>,
    pub launch_configuration: LaunchConfiguration,
    #[serde(rename = "SystemDiskConfig")]
    pub system_disk_categories: Vec<DiskConfig>,
    #[serde(rename = "DataDiskConfig")]
    pub data_disk_categories: Vec<DiskConfig>,
    #[serde(rename = "Tag")]
    pub tags: Vec<Tag>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct LaunchTemplateConfig {
    pub instance_type: String,
    pub v_switch_id: String,
    pub weighted_capacity: f64,
    pub max_price: Option<f64>,
    pub priority: Option<u32>,
    pub image_id: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct LaunchConfiguration {
    pub image_id: Option<String>,
    pub user_data: Option<String>,
    pub instance_name: Option<String>,
    pub resource_group_id: Option<String>,
    pub ram_role_name: Option<String>,
    pub key_pair_name: Option<String>,
    pub password: Option<String>,
    pub password_inherit: Option<bool>,
    pub security_group_ids: Vec<String>,
    pub spot_duration: Option<u32>,
    pub system_disk_category: Option<String>,
    pub system_disk_size: Option<u32>,
    pub system_disk_performance_level: Option<String>,
    pub system_disk: Option<EncryptedSystemDisk>,
    #[serde(rename = "DataDisk")]
    pub data_disks: Vec<LaunchDataDisk>,
    #[serde(rename = "Tag")]
    pub tags: Vec<Tag>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct EncryptedSystemDisk {
    pub encrypted: Option<bool>,
    #[serde(rename = "KMSKeyId")]
    pub kms_key_id: Option<String>,
}

/// A data disk of a group: it spells the key's name its own way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct LaunchDataDisk {
    pub category: Option<String>,
    pub size: Option<u32>,
    pub device: Option<String>,
    pub performance_level: Option<String>,
    pub encrypted: Option<bool>,
    pub kms_key_id: Option<String>,
    pub snapshot_id: Option<String>,
    pub delete_with_instance: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct DiskConfig {
    pub disk_category: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct CreateAutoProvisioningGroupAnswer {
    pub auto_provisioning_group_id: Option<String>,
    #[serde(deserialize_with = "wrapped::list")]
    pub launch_results: Vec<LaunchResult>,
    pub request_id: String,
}

/// What became of one kind of instance a group tried.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct LaunchResult {
    #[serde(deserialize_with = "wrapped::list")]
    pub instance_ids: Vec<String>,
    pub instance_type: Option<String>,
    pub zone_id: Option<String>,
    pub spot_strategy: Option<String>,
    pub amount: Option<u32>,
    pub error_code: Option<String>,
    pub error_msg: Option<String>,
}

operation!(
    CreateAutoProvisioningGroup -> CreateAutoProvisioningGroupAnswer, Ecs, "ecs:CreateAutoProvisioningGroup", Launch
);
