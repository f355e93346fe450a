//! What the account has: subnets, security groups, images, reservations, placement groups, spot prices, the health of instances.
#![expect(missing_docs, reason = "fields have AWS's names and meaning")]

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Filter, TagDescription, operation};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct DescribeSubnets {
    #[serde(rename = "Filter")]
    pub filters: Vec<Filter>,
    pub max_results: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DescribeSubnetsAnswer {
    #[serde(rename = "subnetSet")]
    pub subnets: Vec<Subnet>,
    pub next_token: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Subnet {
    pub subnet_id: String,
    pub vpc_id: Option<String>,
    pub availability_zone: String,
    pub availability_zone_id: Option<String>,
    pub available_ip_address_count: u32,
    #[serde(rename = "tagSet")]
    pub tags: Vec<TagDescription>,
}

operation!(DescribeSubnets -> DescribeSubnetsAnswer, pages of Subnet in subnets);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct DescribeSecurityGroups {
    #[serde(rename = "Filter")]
    pub filters: Vec<Filter>,
    pub max_results: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DescribeSecurityGroupsAnswer {
    #[serde(rename = "securityGroupInfo")]
    pub security_groups: Vec<SecurityGroup>,
    pub next_token: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SecurityGroup {
    pub group_id: String,
    pub group_name: Option<String>,
}

operation!(DescribeSecurityGroups -> DescribeSecurityGroupsAnswer, pages of SecurityGroup in security_groups);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct DescribeImages {
    #[serde(rename = "Filter")]
    pub filters: Vec<Filter>,
    #[serde(rename = "Owner")]
    pub owners: Vec<String>,
    pub include_deprecated: Option<bool>,
    pub max_results: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DescribeImagesAnswer {
    #[serde(rename = "imagesSet")]
    pub images: Vec<Image>,
    pub next_token: Option<String>,
}

/// An image; its dates are texts of one form, so they compare as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Image {
    pub image_id: String,
    pub name: Option<String>,
    pub architecture: Option<String>,
    pub root_device_name: Option<String>,
    pub creation_date: Option<String>,
    pub deprecation_time: Option<String>,
    #[serde(rename = "imageState")]
    pub state: Option<String>,
    #[serde(rename = "imageOwnerId")]
    pub owner_id: Option<String>,
    #[serde(rename = "tagSet")]
    pub tags: Vec<TagDescription>,
}

operation!(DescribeImages -> DescribeImagesAnswer, pages of Image in images);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct DescribeCapacityReservations {
    #[serde(rename = "CapacityReservationId")]
    pub capacity_reservation_ids: Vec<String>,
    #[serde(rename = "Filter")]
    pub filters: Vec<Filter>,
    pub max_results: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DescribeCapacityReservationsAnswer {
    #[serde(rename = "capacityReservationSet")]
    pub capacity_reservations: Vec<CapacityReservation>,
    pub next_token: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CapacityReservation {
    pub capacity_reservation_id: String,
    pub owner_id: Option<String>,
    pub availability_zone: Option<String>,
    pub instance_type: Option<String>,
    pub instance_match_criteria: Option<String>,
    pub reservation_type: Option<String>,
    pub interruptible: Option<bool>,
    pub state: Option<String>,
    pub available_instance_count: u32,
    pub total_instance_count: u32,
    pub end_date: Option<Timestamp>,
    #[serde(rename = "tagSet")]
    pub tags: Vec<TagDescription>,
}

operation!(DescribeCapacityReservations -> DescribeCapacityReservationsAnswer, pages of CapacityReservation in capacity_reservations);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct DescribePlacementGroups {
    #[serde(rename = "Filter")]
    pub filters: Vec<Filter>,
    #[serde(rename = "GroupId")]
    pub group_ids: Vec<String>,
    #[serde(rename = "GroupName")]
    pub group_names: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DescribePlacementGroupsAnswer {
    #[serde(rename = "placementGroupSet")]
    pub placement_groups: Vec<PlacementGroup>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PlacementGroup {
    pub group_id: String,
    pub group_name: Option<String>,
    pub state: Option<String>,
    pub strategy: Option<String>,
    pub partition_count: Option<u32>,
    pub spread_level: Option<String>,
}

operation!(DescribePlacementGroups -> DescribePlacementGroupsAnswer);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct DescribeSpotPriceHistory {
    #[serde(rename = "ProductDescription")]
    pub product_descriptions: Vec<String>,
    pub start_time: Option<Timestamp>,
    pub max_results: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DescribeSpotPriceHistoryAnswer {
    #[serde(rename = "spotPriceHistorySet")]
    pub spot_prices: Vec<SpotPrice>,
    pub next_token: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SpotPrice {
    pub instance_type: String,
    pub availability_zone: String,
    pub spot_price: String,
    pub product_description: Option<String>,
    pub timestamp: Option<Timestamp>,
}

operation!(DescribeSpotPriceHistory -> DescribeSpotPriceHistoryAnswer, pages of SpotPrice in spot_prices);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct DescribeInstanceStatus {
    #[serde(rename = "Filter")]
    pub filters: Vec<Filter>,
    pub max_results: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DescribeInstanceStatusAnswer {
    #[serde(rename = "instanceStatusSet")]
    pub instance_statuses: Vec<InstanceStatus>,
    pub next_token: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InstanceStatus {
    pub instance_id: String,
    pub instance_status: Option<StatusSummary>,
    pub system_status: Option<StatusSummary>,
    #[serde(rename = "eventsSet")]
    pub events: Vec<ScheduledEvent>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatusSummary {
    pub status: String,
    pub details: Vec<StatusDetail>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatusDetail {
    pub name: String,
    pub status: String,
    pub impaired_since: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ScheduledEvent {
    pub code: String,
    pub description: Option<String>,
    pub not_before: Option<Timestamp>,
    pub not_after: Option<Timestamp>,
}

operation!(DescribeInstanceStatus -> DescribeInstanceStatusAnswer, pages of InstanceStatus in instance_statuses);
