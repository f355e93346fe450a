//! CMS, Cloud Monitor: what happened to instances, as events.
#![expect(missing_docs, reason = "fields have the cloud's names and meaning")]

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::operation::{Page, PagedOperation, Pages, operation};
use crate::wrapped;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct DescribeSystemEventAttribute {
    pub product: Option<String>,
    pub event_type: Option<String>,
    pub name: Option<String>,
    /// In milliseconds since 1970.
    pub start_time: Option<i64>,
    /// In milliseconds since 1970.
    pub end_time: Option<i64>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct DescribeSystemEventAttributeAnswer {
    #[serde(deserialize_with = "wrapped::list")]
    pub system_events: Vec<SystemEvent>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct SystemEvent {
    pub id: Option<String>,
    pub name: String,
    pub level: Option<String>,
    pub status: Option<String>,
    /// In milliseconds since 1970.
    pub time: i64,
    pub region_id: Option<String>,
    /// Say `acs:ecs:cn-hangzhou:1234:instance/i-bp1`, or the instance's id alone.
    pub resource_id: Option<String>,
    pub instance_name: Option<String>,
    /// JSON as text.
    pub content: Option<String>,
}

impl SystemEvent {
    /// When it happened.
    pub fn at(&self) -> Option<Timestamp> {
        Timestamp::from_millisecond(self.time).ok()
    }
}

operation!(DescribeSystemEventAttribute -> DescribeSystemEventAttributeAnswer, Cms, "cms:DescribeSystemEventAttribute");

impl PagedOperation for DescribeSystemEventAttribute {
    type Item = SystemEvent;
    const PAGES: Pages = Pages::Numbers(100);
    fn page(answer: DescribeSystemEventAttributeAnswer) -> Page<SystemEvent> {
        Page { items: answer.system_events, next: None, total: None }
    }
}
