//! Instances: finding, tagging, restarting and ending them, and asking whether they could be started.
#![expect(missing_docs, reason = "fields have AWS's names and meaning")]

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Done, Filter, Tag, TagDescription, TagSpecification, operation};
use crate::query::PagedOperation;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct DescribeInstances {
    #[serde(rename = "InstanceId")]
    pub instance_ids: Vec<String>,
    #[serde(rename = "Filter")]
    pub filters: Vec<Filter>,
    pub max_results: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DescribeInstancesAnswer {
    #[serde(rename = "reservationSet")]
    pub reservations: Vec<Reservation>,
    pub next_token: Option<String>,
}

/// Instances that were started together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Reservation {
    #[serde(rename = "instancesSet")]
    pub instances: Vec<Instance>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Instance {
    pub instance_id: String,
    pub image_id: Option<String>,
    pub instance_type: Option<String>,
    #[serde(rename = "instanceState")]
    pub state: Option<InstanceState>,
    pub launch_time: Option<Timestamp>,
    pub placement: Option<Placement>,
    pub subnet_id: Option<String>,
    pub private_dns_name: Option<String>,
    pub spot_instance_request_id: Option<String>,
    pub instance_lifecycle: Option<String>,
    pub capacity_reservation_id: Option<String>,
    pub capacity_reservation_specification: Option<CapacityReservationChoice>,
    #[serde(rename = "groupSet")]
    pub security_groups: Vec<GroupIdentifier>,
    #[serde(rename = "networkInterfaceSet")]
    pub network_interfaces: Vec<InstanceNetworkInterface>,
    #[serde(rename = "tagSet")]
    pub tags: Vec<TagDescription>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct InstanceState {
    pub name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Placement {
    pub availability_zone: Option<String>,
    pub availability_zone_id: Option<String>,
    pub tenancy: Option<String>,
    pub group_id: Option<String>,
    pub partition_number: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CapacityReservationChoice {
    pub capacity_reservation_preference: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupIdentifier {
    pub group_id: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InstanceNetworkInterface {
    pub interface_type: Option<String>,
}

operation!(DescribeInstances -> DescribeInstancesAnswer);

impl PagedOperation for DescribeInstances {
    type Item = Instance;
    fn page(answer: DescribeInstancesAnswer) -> (Vec<Instance>, Option<String>) {
        let instances = answer.reservations.into_iter().flat_map(|reservation| reservation.instances);
        (instances.collect(), answer.next_token)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct TerminateInstances {
    #[serde(rename = "InstanceId")]
    pub instance_ids: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct TerminateInstancesAnswer {
    #[serde(rename = "instancesSet")]
    pub instances: Vec<StateChange>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StateChange {
    pub instance_id: String,
    pub current_state: InstanceState,
    pub previous_state: InstanceState,
}

operation!(TerminateInstances -> TerminateInstancesAnswer);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct RebootInstances {
    #[serde(rename = "InstanceId")]
    pub instance_ids: Vec<String>,
}

operation!(RebootInstances -> Done);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct CreateTags {
    #[serde(rename = "ResourceId")]
    pub resources: Vec<String>,
    #[serde(rename = "Tag")]
    pub tags: Vec<Tag>,
}

operation!(CreateTags -> Done);

/// Only ever sent as a dry run, to learn whether a launch would be allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct RunInstances {
    pub dry_run: Option<bool>,
    pub image_id: Option<String>,
    pub instance_type: Option<String>,
    pub subnet_id: Option<String>,
    pub min_count: u32,
    pub max_count: u32,
    pub launch_template: Option<LaunchTemplateChoice>,
    #[serde(rename = "TagSpecification")]
    pub tag_specifications: Vec<TagSpecification>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct LaunchTemplateChoice {
    pub launch_template_name: Option<String>,
    pub version: Option<String>,
}

operation!(RunInstances -> Done);
