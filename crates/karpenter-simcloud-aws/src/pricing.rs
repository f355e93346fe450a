//! Pricing: what instance types cost on demand, as documents inside a document.

use karpenter_aws_catalogue::Embedded;
use serde_json::{Value, json};

use crate::answer::Outcome;
use crate::service::unknown;
use crate::wire::page::page;
use crate::wire::refusal::Refusal;
use crate::world::{Call, World};

const PAGE: usize = 100;

pub(crate) fn answer(world: &World, call: &Call<'_>) -> Outcome {
    if call.operation != "GetProducts" {
        return Err(unknown(call.operation));
    }
    if call.json["ServiceCode"] != "AmazonEC2" {
        return Err(Refusal::new("NotFoundException", "Only AmazonEC2 has simulated prices."));
    }
    let filters: Vec<(&str, &str)> = call.json["Filters"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|filter| Some((filter["Field"].as_str()?, filter["Value"].as_str()?)))
        .collect();
    let products: Vec<Value> = world
        .sales()
        .on_demand_prices()
        .map(|(instance_type, price)| product(world, instance_type, price))
        .filter(|product| filters.iter().all(|(field, value)| fits(product, field, value)))
        .collect();
    let key =
        |product: &Value| product["product"]["attributes"]["instanceType"].as_str().unwrap_or("").to_owned();
    let limit = call.json["MaxResults"].as_u64().map_or(PAGE, |most| most as usize);
    let page = page(products, key, Some(limit), call.json["NextToken"].as_str())?;
    let list: Vec<String> = page.items.iter().map(ToString::to_string).collect();
    let mut answer = json!({"FormatVersion": "aws_v1", "PriceList": list});
    if let Some(next) = page.next {
        answer["NextToken"] = next.into();
    }
    Ok(answer.into())
}

fn fits(product: &Value, field: &str, value: &str) -> bool {
    let found = match field {
        "productFamily" => &product["product"]["productFamily"],
        "serviceCode" | "ServiceCode" => &product["serviceCode"],
        other => &product["product"]["attributes"][other],
    };
    found.as_str().is_some_and(|found| found.eq_ignore_ascii_case(value))
}

fn product(world: &World, instance_type: &str, price: f64) -> Value {
    let metal = Embedded::get().facts(instance_type).is_some_and(|facts| facts.bare_metal);
    let facts = Embedded::get().facts(instance_type);
    let currency = if world.description.region.starts_with("cn-") { "CNY" } else { "USD" };
    // Codes follow from the type, as they do on the real list.
    let sku = crate::wire::signature::sha256(instance_type.as_bytes())[..16].to_uppercase();
    let term = format!("{sku}.JRTCKXETXF");
    let rate = format!("{term}.6YS6EN2CT7");
    let dimensions = json!({(rate.clone()): {
        "unit": "Hrs",
        "endRange": "Inf",
        "beginRange": "0",
        "appliesTo": [],
        "rateCode": rate,
        "description": format!("{price} {currency} per On Demand Linux {instance_type} Instance Hour"),
        "pricePerUnit": {(currency): format!("{price:.10}")},
    }});
    json!({
        "serviceCode": "AmazonEC2",
        "version": "20261101000000",
        "publicationDate": "2026-11-01T00:00:00Z",
        "product": {
            "sku": sku,
            "productFamily": if metal { "Compute Instance (bare metal)" } else { "Compute Instance" },
            "attributes": {
                "instanceType": instance_type,
                "regionCode": world.description.region,
                "servicecode": "AmazonEC2",
                "serviceCode": "AmazonEC2",
                "operatingSystem": "Linux",
                "preInstalledSw": "NA",
                "capacitystatus": "Used",
                "marketoption": "OnDemand",
                "tenancy": if metal { "Dedicated" } else { "Shared" },
                "vcpu": facts.map_or(0, |facts| facts.vcpus).to_string(),
                "locationType": "AWS Region",
            },
        },
        "terms": {"OnDemand": {(term): {
            "sku": sku,
            "offerTermCode": "JRTCKXETXF",
            "effectiveDate": "2026-11-01T00:00:00Z",
            "termAttributes": {},
            "priceDimensions": dimensions,
        }}},
    })
}
