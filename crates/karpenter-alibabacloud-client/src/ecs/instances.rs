//! Instances: finding, tagging, restarting and ending them.
#![expect(missing_docs, reason = "fields have the cloud's names and meaning")]

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};

use super::{Done, Tag, TagDescription};
use crate::operation::{Page, PagedOperation, Pages, operation, pages};
use crate::wrapped;

/// At most 100 ids; by tags at most 1,000 instances in all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct DescribeInstances {
    #[serde(serialize_with = "wrapped::json_text")]
    pub instance_ids: Vec<String>,
    pub lock_reason: Option<String>,
    pub status: Option<String>,
    pub vpc_id: Option<String>,
    #[serde(rename = "Tag")]
    pub tags: Vec<Tag>,
    pub max_results: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct DescribeInstancesAnswer {
    #[serde(deserialize_with = "wrapped::list")]
    pub instances: Vec<Instance>,
    pub next_token: Option<String>,
    pub total_count: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Instance {
    pub instance_id: String,
    pub instance_name: Option<String>,
    pub host_name: Option<String>,
    pub instance_type: Option<String>,
    pub image_id: Option<String>,
    pub region_id: Option<String>,
    pub zone_id: Option<String>,
    pub status: Option<String>,
    #[serde(deserialize_with = "time")]
    pub creation_time: Option<Timestamp>,
    pub instance_charge_type: Option<String>,
    pub spot_strategy: Option<String>,
    pub stopped_mode: Option<String>,
    pub deletion_protection: Option<bool>,
    #[serde(deserialize_with = "wrapped::list")]
    pub security_group_ids: Vec<String>,
    pub vpc_attributes: VpcAttributes,
    #[serde(deserialize_with = "wrapped::list")]
    pub tags: Vec<TagDescription>,
    #[serde(deserialize_with = "wrapped::list")]
    pub operation_locks: Vec<OperationLock>,
}

impl Instance {
    /// The value of a tag.
    pub fn tag(&self, key: &str) -> Option<&str> {
        self.tags.iter().find(|tag| tag.key == key).map(|tag| tag.value.as_str())
    }

    /// Whether it was bought on the spot market: such instances are `PostPaid` too, so only the strategy tells.
    pub fn is_spot(&self) -> bool {
        self.spot_strategy.as_deref().is_some_and(|strategy| !strategy.is_empty() && strategy != "NoSpot")
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct VpcAttributes {
    pub vpc_id: Option<String>,
    pub v_switch_id: Option<String>,
    #[serde(deserialize_with = "wrapped::list")]
    pub private_ip_address: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct OperationLock {
    pub lock_reason: Option<String>,
    pub lock_msg: Option<String>,
}

operation!(DescribeInstances -> DescribeInstancesAnswer, Ecs, "ecs:DescribeInstances");
pages!(DescribeInstances of Instance in instances, by token);

/// At most 100 ids.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct DeleteInstances {
    #[serde(rename = "InstanceId")]
    pub instance_ids: Vec<String>,
    pub force: Option<bool>,
    pub terminate_subscription: Option<bool>,
}

operation!(DeleteInstances -> Done, Ecs, "ecs:DeleteInstances", Terminate);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct RebootInstance {
    pub instance_id: String,
    pub force_stop: Option<bool>,
}

operation!(RebootInstance -> Done, Ecs, "ecs:RebootInstance", Launch);

/// At most 50 resources and 20 tags.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct TagResources {
    pub resource_type: String,
    #[serde(rename = "ResourceId")]
    pub resource_ids: Vec<String>,
    #[serde(rename = "Tag")]
    pub tags: Vec<Tag>,
}

operation!(TagResources -> Done, Ecs, "ecs:TagResources");

/// Which resources carry tags: more than 1,000 instances can be found only so.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct ListTagResources {
    pub resource_type: String,
    #[serde(rename = "Tag")]
    pub tags: Vec<Tag>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ListTagResourcesAnswer {
    #[serde(deserialize_with = "wrapped::list")]
    pub tag_resources: Vec<TagResource>,
    pub next_token: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct TagResource {
    pub resource_id: String,
    pub tag_key: String,
    pub tag_value: String,
}

operation!(ListTagResources -> ListTagResourcesAnswer, Ecs, "ecs:ListTagResources");

impl PagedOperation for ListTagResources {
    type Item = TagResource;
    const PAGES: Pages = Pages::Token("NextToken");
    fn page(answer: ListTagResourcesAnswer) -> Page<TagResource> {
        Page { items: answer.tag_resources, next: answer.next_token, total: None }
    }
}

/// Times come with minutes or with seconds; one that cannot be read is not known.
pub(crate) fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.as_deref().and_then(parse_time))
}

/// Reads `2017-12-10T04:04Z` and `2017-12-10T04:04:05Z`.
pub fn parse_time(text: &str) -> Option<Timestamp> {
    if let Ok(time) = text.parse() {
        return Some(time);
    }
    let minutes = text.strip_suffix('Z')?;
    format!("{minutes}:00Z").parse().ok()
}
