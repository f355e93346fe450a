//! What a NodeClass selects: images and security groups; and capacity reservations.
#![expect(missing_docs, reason = "fields have the cloud's names and meaning")]

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::instances::time;
use super::{Tag, TagDescription};
use crate::operation::{operation, pages};
use crate::wrapped;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct DescribeImages {
    /// One id, or several with commas between them.
    pub image_id: Option<String>,
    pub image_family: Option<String>,
    pub image_name: Option<String>,
    pub image_owner_alias: Option<String>,
    pub image_owner_id: Option<String>,
    pub status: Option<String>,
    pub show_expired: Option<bool>,
    pub architecture: Option<String>,
    #[serde(rename = "Tag")]
    pub tags: Vec<Tag>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct DescribeImagesAnswer {
    #[serde(deserialize_with = "wrapped::list")]
    pub images: Vec<Image>,
    pub total_count: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Image {
    pub image_id: String,
    pub image_name: Option<String>,
    pub image_family: Option<String>,
    /// `x86_64`, `arm64` or `i386`.
    pub architecture: Option<String>,
    pub image_owner_alias: Option<String>,
    pub image_owner_id: Option<u64>,
    #[serde(deserialize_with = "time")]
    pub creation_time: Option<Timestamp>,
    pub status: Option<String>,
    #[serde(rename = "OSType")]
    pub os_type: Option<String>,
    pub platform: Option<String>,
    /// In GiB.
    pub size: Option<u32>,
    #[serde(deserialize_with = "wrapped::list")]
    pub tags: Vec<TagDescription>,
}

operation!(DescribeImages -> DescribeImagesAnswer, Ecs, "ecs:DescribeImages");
pages!(DescribeImages of Image in images, by number of 100);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct DescribeImageFromFamily {
    pub image_family: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct DescribeImageFromFamilyAnswer {
    pub image: Option<Image>,
}

operation!(DescribeImageFromFamily -> DescribeImageFromFamilyAnswer, Ecs, "ecs:DescribeImageFromFamily");

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct DescribeSecurityGroups {
    #[serde(serialize_with = "wrapped::json_text")]
    pub security_group_ids: Vec<String>,
    pub security_group_name: Option<String>,
    pub vpc_id: Option<String>,
    #[serde(rename = "Tag")]
    pub tags: Vec<Tag>,
    pub max_results: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct DescribeSecurityGroupsAnswer {
    #[serde(deserialize_with = "wrapped::list")]
    pub security_groups: Vec<SecurityGroup>,
    pub next_token: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct SecurityGroup {
    pub security_group_id: String,
    pub security_group_name: Option<String>,
    pub vpc_id: Option<String>,
    pub security_group_type: Option<String>,
    pub available_instance_amount: Option<i64>,
    #[serde(deserialize_with = "wrapped::list")]
    pub tags: Vec<TagDescription>,
}

operation!(DescribeSecurityGroups -> DescribeSecurityGroupsAnswer, Ecs, "ecs:DescribeSecurityGroups");
pages!(DescribeSecurityGroups of SecurityGroup in security_groups, by token);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct DescribeCapacityReservations {
    pub private_pool_options: PrivatePools,
    pub status: Option<String>,
    pub instance_type: Option<String>,
    pub zone_id: Option<String>,
    #[serde(rename = "Tag")]
    pub tags: Vec<Tag>,
    pub max_results: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct PrivatePools {
    #[serde(serialize_with = "wrapped::json_text")]
    pub ids: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct DescribeCapacityReservationsAnswer {
    #[serde(deserialize_with = "wrapped::list")]
    pub capacity_reservation_set: Vec<CapacityReservation>,
    pub next_token: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct CapacityReservation {
    pub private_pool_options_id: String,
    pub private_pool_options_name: Option<String>,
    pub status: Option<String>,
    #[serde(deserialize_with = "wrapped::list")]
    pub allocated_resources: Vec<AllocatedResource>,
    #[serde(deserialize_with = "wrapped::list")]
    pub tags: Vec<TagDescription>,
}

/// What a reservation holds of one type in one zone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct AllocatedResource {
    pub instance_type: Option<String>,
    #[serde(rename = "zoneId", alias = "ZoneId")]
    pub zone_id: Option<String>,
    pub total_amount: Option<u32>,
    pub used_amount: Option<u32>,
}

operation!(
    DescribeCapacityReservations -> DescribeCapacityReservationsAnswer, Ecs, "ecs:DescribeCapacityReservations"
);
pages!(DescribeCapacityReservations of CapacityReservation in capacity_reservation_set, by token);
