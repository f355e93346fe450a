//! What the cloud has in store for instances: scheduled maintenance and failures.
#![expect(missing_docs, reason = "fields have the cloud's names and meaning")]

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::instances::time;
use crate::operation::{operation, pages};
use crate::wrapped;

/// At most 100 ids.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct DescribeInstancesFullStatus {
    #[serde(rename = "InstanceId")]
    pub instance_ids: Vec<String>,
    #[serde(rename = "InstanceEventType")]
    pub instance_event_types: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct DescribeInstancesFullStatusAnswer {
    #[serde(rename = "InstanceFullStatusSet", deserialize_with = "wrapped::list")]
    pub instances: Vec<InstanceFullStatus>,
    pub total_count: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct InstanceFullStatus {
    pub instance_id: String,
    pub status: Named,
    pub health_status: Named,
    #[serde(rename = "ScheduledSystemEventSet", deserialize_with = "wrapped::list")]
    pub scheduled_events: Vec<ScheduledSystemEvent>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Named {
    pub name: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ScheduledSystemEvent {
    pub event_id: String,
    /// Say `SystemMaintenance.Reboot`.
    pub event_type: Named,
    /// Say `Scheduled` or `Executing`.
    pub event_cycle_status: Named,
    #[serde(deserialize_with = "time")]
    pub not_before: Option<Timestamp>,
    pub reason: Option<String>,
    pub impact_level: Option<String>,
}

operation!(DescribeInstancesFullStatus -> DescribeInstancesFullStatusAnswer, Ecs, "ecs:DescribeInstancesFullStatus");
pages!(DescribeInstancesFullStatus of InstanceFullStatus in instances, by number of 100);
