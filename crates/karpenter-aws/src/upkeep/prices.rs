//! Prices: on demand from Pricing, spot from EC2. What cannot be asked keeps its old price.

use std::sync::Arc;

use jiff::Timestamp;
use karpenter_aws_client::ec2::{DescribeSpotPriceHistory, SpotPrice};
use karpenter_aws_client::{Error, OnDemandPrice};

use crate::account::Account;
use crate::catalogue::Catalogue;

const PAGE: u32 = 2000;

/// Asks for all prices; on-demand prices stay as built in where `on_demand` is false.
pub(crate) async fn refresh(
    account: &Account,
    catalogue: &Catalogue,
    on_demand: bool,
    now: Timestamp,
) -> Result<(), String> {
    let listed = async {
        // GovCloud has no Pricing.
        if on_demand && !account.region().starts_with("us-gov") {
            list_prices(account).await.map(Some)
        } else {
            Ok(None)
        }
    };
    let (listed, spot) = futures::future::join(listed, spot_prices(account, now)).await;
    let mut problems = Vec::new();
    match listed {
        Ok(Some(prices)) => catalogue.learn_prices(|known| {
            known.learn_on_demand(prices.into_iter().map(|found| (found.instance_type.into(), found.price)));
        }),
        Ok(None) => {}
        Err(error) => {
            problems.push(format!("on-demand prices cannot be refreshed and stay as they are: {error}"));
        }
    }
    match spot {
        Ok(prices) => catalogue.learn_prices(|known| known.learn_spot(read(prices))),
        Err(error) => problems.push(format!("spot prices cannot be refreshed and stay as they are: {error}")),
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("; ")) }
}

/// What a product must be, beside its tenancy and family.
fn attributes<'a>(region: &'a str, tenancy: &'a str, family: &'a str) -> Vec<(&'a str, &'a str)> {
    vec![
        ("regionCode", region),
        ("serviceCode", "AmazonEC2"),
        ("preInstalledSw", "NA"),
        ("operatingSystem", "Linux"),
        ("capacitystatus", "Used"),
        ("marketoption", "OnDemand"),
        ("tenancy", tenancy),
        ("productFamily", family),
    ]
}

async fn list_prices(account: &Account) -> Result<Vec<OnDemandPrice>, String> {
    let region = account.region();
    let currency = if region.starts_with("cn-") { "CNY" } else { "USD" };
    let (shared, metal) = (
        attributes(region, "Shared", "Compute Instance"),
        attributes(region, "Dedicated", "Compute Instance (bare metal)"),
    );
    let pricing = account.client().pricing();
    let (shared, metal) =
        futures::future::join(pricing.on_demand(&shared, currency), pricing.on_demand(&metal, currency))
            .await;
    let told = |error: Error| error.to_string();
    let (mut shared, metal) = (shared.map_err(told)?, metal.map_err(told)?);
    if shared.is_empty() || metal.is_empty() {
        return Err(format!("Pricing lists no machines for {region}"));
    }
    shared.extend(metal);
    Ok(shared)
}

async fn spot_prices(account: &Account, now: Timestamp) -> Result<Vec<SpotPrice>, Error> {
    let request = DescribeSpotPriceHistory {
        product_descriptions: vec!["Linux/UNIX".to_owned(), "Linux/UNIX (Amazon VPC)".to_owned()],
        start_time: Some(now),
        max_results: Some(PAGE),
    };
    account.list(&request).await
}

/// The price of each type in each zone, the latest last.
pub fn read(mut prices: Vec<SpotPrice>) -> Vec<(Arc<str>, Arc<str>, f64)> {
    prices.sort_by_key(|found| found.timestamp);
    let known = prices.into_iter().filter_map(|found| {
        let price = found.spot_price.parse::<f64>().ok().filter(|price| price.is_finite())?;
        Some((found.instance_type.into(), found.availability_zone.into(), price))
    });
    known.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_spot_price_is_the_last_word_and_nonsense_is_none() {
        let price = |at: &str, price: &str| SpotPrice {
            instance_type: "m5.large".into(),
            availability_zone: "a".into(),
            spot_price: price.into(),
            product_description: None,
            timestamp: at.parse().ok(),
        };
        let found = read(vec![
            price("2026-11-17T06:00:00Z", "0.2"),
            price("2026-11-17T05:00:00Z", "0.1"),
            price("2026-11-17T07:00:00Z", "free"),
            price("2026-11-17T08:00:00Z", "inf"),
        ]);
        assert_eq!(found.last(), Some(&("m5.large".into(), "a".into(), 0.2)));
        assert_eq!(found.len(), 2);
    }
}
