//! Starting instances: a fleet that is fulfilled at once from any of many offerings.
#![expect(missing_docs, reason = "fields have AWS's names and meaning")]

use serde::{Deserialize, Serialize};

use super::{TagSpecification, operation};

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct CreateFleet {
    pub client_token: Option<String>,
    pub dry_run: Option<bool>,
    #[serde(rename = "Type")]
    pub fleet_type: Option<String>,
    pub context: Option<String>,
    pub launch_template_configs: Vec<FleetLaunchTemplateConfig>,
    pub target_capacity_specification: TargetCapacitySpecification,
    pub spot_options: Option<SpotOptions>,
    pub on_demand_options: Option<OnDemandOptions>,
    pub reserved_capacity_options: Option<ReservedCapacityOptions>,
    #[serde(rename = "TagSpecification")]
    pub tag_specifications: Vec<TagSpecification>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct FleetLaunchTemplateConfig {
    pub launch_template_specification: FleetLaunchTemplate,
    pub overrides: Vec<FleetOverride>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct FleetLaunchTemplate {
    pub launch_template_id: Option<String>,
    pub launch_template_name: Option<String>,
    pub version: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct FleetOverride {
    pub instance_type: Option<String>,
    pub subnet_id: Option<String>,
    pub availability_zone: Option<String>,
    pub image_id: Option<String>,
    pub priority: Option<f64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct TargetCapacitySpecification {
    pub total_target_capacity: u32,
    pub default_target_capacity_type: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct SpotOptions {
    pub allocation_strategy: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct OnDemandOptions {
    pub allocation_strategy: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct ReservedCapacityOptions {
    #[serde(rename = "ReservationType")]
    pub reservation_types: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CreateFleetAnswer {
    pub fleet_id: Option<String>,
    #[serde(rename = "fleetInstanceSet")]
    pub instances: Vec<FleetInstances>,
    #[serde(rename = "errorSet")]
    pub errors: Vec<FleetError>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FleetInstances {
    pub instance_ids: Vec<String>,
    pub instance_type: Option<String>,
    pub lifecycle: Option<String>,
    pub launch_template_and_overrides: Option<LaunchTemplateAndOverrides>,
}

/// Why an override could not be used; [`crate::classify`] says what its code means.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FleetError {
    pub error_code: String,
    pub error_message: String,
    pub lifecycle: Option<String>,
    pub launch_template_and_overrides: Option<LaunchTemplateAndOverrides>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LaunchTemplateAndOverrides {
    pub launch_template_specification: Option<LaunchTemplateUsed>,
    pub overrides: Option<OverrideUsed>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LaunchTemplateUsed {
    pub launch_template_id: Option<String>,
    pub launch_template_name: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OverrideUsed {
    pub instance_type: Option<String>,
    pub subnet_id: Option<String>,
    pub availability_zone: Option<String>,
    pub image_id: Option<String>,
}

operation!(CreateFleet -> CreateFleetAnswer);
