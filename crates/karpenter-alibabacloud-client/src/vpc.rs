//! VPC: the vSwitches instances are started in.
#![expect(missing_docs, reason = "fields have the cloud's names and meaning")]

use serde::{Deserialize, Serialize};

use crate::ecs::{Tag, TagDescription};
use crate::operation::{operation, pages};
use crate::wrapped;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct DescribeVSwitches {
    pub v_switch_id: Option<String>,
    pub vpc_id: Option<String>,
    pub zone_id: Option<String>,
    #[serde(rename = "Tag")]
    pub tags: Vec<Tag>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct DescribeVSwitchesAnswer {
    #[serde(deserialize_with = "wrapped::list")]
    pub v_switches: Vec<VSwitch>,
    pub total_count: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct VSwitch {
    pub v_switch_id: String,
    pub v_switch_name: Option<String>,
    pub zone_id: String,
    pub vpc_id: Option<String>,
    pub cidr_block: Option<String>,
    pub available_ip_address_count: i64,
    pub status: Option<String>,
    #[serde(deserialize_with = "wrapped::list")]
    pub tags: Vec<TagDescription>,
}

operation!(DescribeVSwitches -> DescribeVSwitchesAnswer, Vpc, "vpc:DescribeVSwitches");
pages!(DescribeVSwitches of VSwitch in v_switches, by number of 50);
