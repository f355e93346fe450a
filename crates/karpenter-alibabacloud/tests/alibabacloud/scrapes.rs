//! What scrapes show of the provider, and what it makes of operators' prices.

use std::sync::Arc;
use std::time::Duration;

use karpenter_core::catalog::{NodeOverlay, OverlayPrice};
use karpenter_core::cluster::NodePool;
use karpenter_core::requirements::{Operator, Requirement};
use karpenter_provider::{Overlays, Provider as _};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use serde_json::json;

use crate::cloud::{CAPACITY, Rig, TYPE, wants};

fn scrape(rig: &Rig) -> String {
    let mut registry = Registry::default();
    rig.provider.register_metrics(&mut registry);
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    text
}

#[tokio::test(start_paused = true)]
async fn a_scrape_shows_what_is_sold_and_what_the_cloud_said() {
    let rig = Rig::new(&json!({})).await;
    let before = scrape(&rig);
    let has = |text: &str, series: &str| text.lines().any(|line| line.starts_with(series));
    let kind = r#"{instance_type="ecs.g7.large""#;
    let gauges = ["cpu_cores", "memory_bytes", "offering_available", "offering_price_estimate"];
    for gauge in gauges {
        assert!(has(&before, &format!("karpenter_cloudprovider_instance_type_{gauge}{kind}")), "{gauge}");
    }
    let claim = rig.claim("a", &wants(&[(TYPE, &["ecs.g7.large"]), (CAPACITY, &["spot"])]));
    rig.launch(&claim).await.unwrap();
    tokio::time::advance(Duration::from_mins(2)).await;
    assert!(rig.service.interrupt(&rig.only().id));
    rig.provider.warnings().await.unwrap();
    let heard = r#"karpenter_interruption_received_messages_total{message_type="spot_interrupted"} "#;
    assert!(has(&scrape(&rig), heard));
}

#[tokio::test(start_paused = true)]
async fn operators_prices_decide_what_is_launched() {
    let rig = Rig::new(&json!({})).await;
    let overlay = NodeOverlay {
        name: "gift".into(),
        weight: 0,
        requirements: vec![Requirement::new(TYPE, Operator::In, ["ecs.g7.2xlarge"])],
        price: Some(OverlayPrice::Absolute(0.001)),
        capacity: karpenter_quantity::ResourceList::default(),
    };
    let pool = NodePool { name: "default".into(), ..NodePool::default() };
    rig.provider.heed_overlays(Overlays::new(vec![overlay], [Arc::new(pool)]));
    let types = ["ecs.g7.large", "ecs.g7.xlarge", "ecs.g7.2xlarge"];
    let claim = rig.claim("a", &wants(&[(TYPE, &types), (CAPACITY, &["on-demand"])]));
    rig.launch(&claim).await.unwrap();
    assert_eq!(rig.only().instance_type, "ecs.g7.2xlarge");
}
