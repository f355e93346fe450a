//! Pricing: what instance types cost on demand.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::client::Client;
use crate::endpoint::{Service, pricing_region};
use crate::error::{Error, ErrorKind};
use crate::json::{JsonCall, Protocol};

const PRICING: Protocol = Protocol {
    service: Service::Pricing,
    prefix: "AWSPriceListService",
    content_type: "application/x-amz-json-1.1",
};
const OPERATION: &str = "GetProducts";
const PAGE: u32 = 100;

/// Pricing.
pub struct Pricing<'a> {
    client: &'a Client,
}

/// What a type costs for an hour.
#[derive(Clone, Debug, PartialEq)]
pub struct OnDemandPrice {
    /// The type.
    pub instance_type: String,
    /// In the currency asked for.
    pub price: f64,
}

/// The attributes a product must have, each with one value.
pub type Attributes<'a> = &'a [(&'a str, &'a str)];

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct GetProducts<'a> {
    service_code: &'a str,
    filters: Vec<TermFilter<'a>>,
    max_results: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_token: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct TermFilter<'a> {
    r#type: &'a str,
    field: &'a str,
    value: &'a str,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Products {
    /// Each a JSON document in a text.
    price_list: Vec<String>,
    next_token: Option<String>,
}

impl Client {
    /// Pricing.
    pub fn pricing(&self) -> Pricing<'_> {
        Pricing { client: self }
    }
}

impl Pricing<'_> {
    /// The prices of EC2's products with these attributes, in `currency`; products that cost nothing are left out.
    ///
    /// # Errors
    /// What AWS says, or what happened on the way.
    pub async fn on_demand(
        &self,
        attributes: Attributes<'_>,
        currency: &str,
    ) -> Result<Vec<OnDemandPrice>, Error> {
        let filters =
            || attributes.iter().map(|&(field, value)| TermFilter { r#type: "TERM_MATCH", field, value });
        let mut prices = Vec::new();
        let mut next_token: Option<String> = None;
        loop {
            let request = GetProducts {
                service_code: "AmazonEC2",
                filters: filters().collect(),
                max_results: PAGE,
                next_token: next_token.clone(),
            };
            let region = pricing_region(self.client.region());
            let call = JsonCall { operation: OPERATION, region, request: &request, patience: Duration::ZERO };
            let page: Products = self.client.json(&PRICING, &call).await?;
            for product in &page.price_list {
                prices.extend(price_of(product, currency)?);
            }
            match page.next_token.filter(|next| !next.is_empty()) {
                Some(next) if next_token.as_ref() != Some(&next) => next_token = Some(next),
                _ => return Ok(prices),
            }
        }
    }
}

/// The price a product's document states; `None` when it states none or zero.
fn price_of(document: &str, currency: &str) -> Result<Option<OnDemandPrice>, Error> {
    let product: Value = serde_json::from_str(document).map_err(|error| {
        Error::local(OPERATION, ErrorKind::Invalid, format!("a product is not understood: {error}"))
    })?;
    let Some(instance_type) = product["product"]["attributes"]["instanceType"].as_str() else {
        return Ok(None);
    };
    let terms = product["terms"]["OnDemand"].as_object();
    let price = terms
        .into_iter()
        .flat_map(Map::values)
        .filter_map(|term| term["priceDimensions"].as_object())
        .flat_map(Map::values)
        .filter_map(|dimension| dimension["pricePerUnit"][currency].as_str()?.parse::<f64>().ok())
        .find(|price| *price > 0.0);
    Ok(price.map(|price| OnDemandPrice { instance_type: instance_type.to_owned(), price }))
}
