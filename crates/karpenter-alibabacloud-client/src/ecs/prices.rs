//! What things cost: on demand, one kind at a time; on the spot market, as it was lately.
#![expect(missing_docs, reason = "fields have the cloud's names and meaning")]

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::instances::time;
use super::launch::SystemDisk;
use crate::operation::{Page, PagedOperation, Pages, operation};
use crate::wrapped;

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct DescribePrice {
    pub resource_type: String,
    pub instance_type: Option<String>,
    pub zone_id: Option<String>,
    pub spot_strategy: Option<String>,
    pub price_unit: Option<String>,
    pub period: Option<u32>,
    pub system_disk: SystemDisk,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct DescribePriceAnswer {
    pub price_info: PriceInfo,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct PriceInfo {
    pub price: Price,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Price {
    pub currency: Option<String>,
    pub original_price: Option<f64>,
    pub discount_price: Option<f64>,
    pub trade_price: Option<f64>,
    #[serde(deserialize_with = "wrapped::list")]
    pub detail_infos: Vec<PriceDetail>,
}

impl Price {
    /// What the instance itself costs: the disk is on the same bill.
    pub fn of_instance(&self) -> Option<f64> {
        let part = self.detail_infos.iter().find(|detail| {
            detail.resource.as_deref().is_some_and(|resource| resource.eq_ignore_ascii_case("instanceType"))
        });
        part.and_then(|detail| detail.trade_price.or(detail.original_price))
            .or(self.trade_price)
            .or(self.original_price)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct PriceDetail {
    pub resource: Option<String>,
    pub original_price: Option<f64>,
    pub trade_price: Option<f64>,
}

operation!(DescribePrice -> DescribePriceAnswer, Ecs, "ecs:DescribePrice");

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct DescribeSpotPriceHistory {
    pub network_type: String,
    pub instance_type: String,
    pub zone_id: Option<String>,
    #[serde(rename = "OSType")]
    pub os_type: Option<String>,
    pub spot_duration: Option<u32>,
    pub start_time: Option<String>,
    pub end_time: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct DescribeSpotPriceHistoryAnswer {
    pub currency: Option<String>,
    #[serde(deserialize_with = "wrapped::list")]
    pub spot_prices: Vec<SpotPrice>,
    pub next_offset: Option<i64>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct SpotPrice {
    pub zone_id: String,
    pub instance_type: String,
    pub spot_price: f64,
    pub origin_price: Option<f64>,
    #[serde(deserialize_with = "time")]
    pub timestamp: Option<Timestamp>,
}

operation!(DescribeSpotPriceHistory -> DescribeSpotPriceHistoryAnswer, Ecs, "ecs:DescribeSpotPriceHistory");

impl PagedOperation for DescribeSpotPriceHistory {
    type Item = SpotPrice;
    const PAGES: Pages = Pages::Token("Offset");
    fn page(answer: DescribeSpotPriceHistoryAnswer) -> Page<SpotPrice> {
        let next = answer.next_offset.filter(|offset| *offset > 0 && !answer.spot_prices.is_empty());
        Page { items: answer.spot_prices, next: next.map(|offset| offset.to_string()), total: None }
    }
}
